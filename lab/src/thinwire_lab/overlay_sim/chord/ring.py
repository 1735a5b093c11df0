"""The ring: nodes on a circle of keys, each with fingers at doubling distances.

A key belongs to its successor: the first node at or after it, clockwise. Nodes are named by their place in the order of
ids, so tables are arrays. Finger i of a node is the successor of its id + 2^i; most of these are the same few nodes,
and a node that finds only itself needs none, so only the distinct ones are kept, clockwise, the node itself left out.

>>> ring = Ring([10, 40, 200], bits=8)
>>> [ring.successor(key) for key in (10, 11, 201)]
[0, 1, 0]
>>> ring.fingers(0), ring.fingers(2)
([1, 2], [0])

Ways over the ring: each node hands on to the furthest finger that is not past the key.

From one start the ways to all nodes are one tree: the same places a multicast goes through. So the number of messages
of a multicast is the number of nodes on its ways, the start left out.

>>> ring = Ring([0, 32, 64, 128, 160], bits=8)
>>> route(ring, 0, 160), hops(ring, 0, [0, 1, 4]).tolist()
([0, 3, 4], [0, 1, 2])
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from hashlib import sha1
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinwire.codec.kernels.jit import compiled
from thinwire.errors import ConfigError

BITS = 32
MAX_BITS = 62
"""distances are 64-bit integers, and a sum of two must fit"""
MAX_NODES = 1_000_000

Numbers = NDArray[np.int64]


def key_of(name: str, bits: int = BITS) -> int:
    """Where a name stands on the circle.

    >>> key_of("market/AAPL") == key_of("market/AAPL") != key_of("market/MSFT")
    True
    """
    return int.from_bytes(sha1(name.encode(), usedforsecurity=False).digest()[:8], "big") >> (64 - bits)


class Ring:
    """Some nodes on a circle of 2^bits keys; the tables are made once and never change."""

    def __init__(self, ids: Iterable[int], bits: int = BITS) -> None:
        if not 1 <= bits <= MAX_BITS:
            raise ConfigError("outside its limits", field="bits", value=bits, lowest=1, highest=MAX_BITS)
        self.bits = bits
        self.size = 1 << bits
        self.ids = _checked(np.unique(np.fromiter(ids, dtype=np.int64)), self.size)

    @classmethod
    def random(cls, nodes: int, seed: int, bits: int = BITS) -> Ring:
        """So many nodes at random places."""
        if not 1 <= nodes <= min(MAX_NODES, (1 << bits) // 2):
            highest = min(MAX_NODES, (1 << bits) // 2)
            raise ConfigError("outside its limits", field="nodes", value=nodes, lowest=1, highest=highest)
        return cls(free_ids(np.random.default_rng(seed), nodes, np.empty(0, dtype=np.int64), bits), bits)

    def __len__(self) -> int:
        return len(self.ids)

    def successor(self, key: int) -> int:
        """The node a key belongs to."""
        return int(np.searchsorted(self.ids, key % self.size)) % len(self)

    def successors(self, keys: Numbers) -> Numbers:
        """The nodes of many keys."""
        return np.searchsorted(self.ids, keys % self.size) % len(self)

    def distance(self, start: int, end: int) -> int:
        """How far it is from one key to another, clockwise."""
        return int(end - start) % self.size

    def after(self, node: int) -> int:
        """The next node, clockwise."""
        return (node + 1) % len(self)

    def fingers(self, node: int) -> list[int]:
        """The distinct fingers of a node, clockwise; a node alone has none."""
        starts, fingers = self.table
        return [int(finger) for finger in fingers[starts[node] : starts[node + 1]]]

    @cached_property
    def table(self) -> tuple[Numbers, Numbers]:
        """All fingers of all nodes, one after the other, and where those of each node start."""
        nodes = np.arange(len(self))
        before, kept = nodes, []
        for i in range(self._first_finger(), self.bits):
            finger = self.successors(self.ids + (1 << i))
            # Fingers go clockwise, so equal ones stand side by side; those that come round to the node are the last.
            kept.append(np.where((finger != before) & (finger != nodes), finger, -1))
            before = finger
        table = np.stack(kept, axis=1)
        starts = np.concatenate([[0], np.cumsum((table >= 0).sum(axis=1))]).astype(np.int64)
        return starts, table[table >= 0].astype(np.int64)

    def _first_finger(self) -> int:
        """The first that may differ from the next node: those before it reach no further than the narrowest gap."""
        narrowest = int(np.diff(self.ids, append=self.ids[0] + self.size).min())
        return min(narrowest.bit_length(), self.bits) - 1


def free_ids(rng: np.random.Generator, count: int, taken: Numbers, bits: int = BITS) -> Numbers:
    """So many ids at random, each different from the others and from those taken."""
    found = np.empty(0, dtype=np.int64)
    while len(found) < count:
        more = np.setdiff1d(rng.integers(0, 1 << bits, count - len(found)), taken)
        found = np.union1d(found, more)
    return found


def _checked(ids: Numbers, size: int) -> Numbers:
    if not len(ids):
        raise ConfigError("a ring needs at least one node", field="ids", value=0, lowest=1)
    if len(ids) > MAX_NODES:
        raise ConfigError("too many nodes", field="ids", value=len(ids), highest=MAX_NODES)
    if ids[0] < 0 or ids[-1] >= size:
        raise ConfigError("an id is outside the circle", field="ids", lowest=0, highest=size - 1)
    return ids


class Routes(NamedTuple):
    """Ways from several senders to several receivers, one after the other: nodes without the sender.

    The way from sender i to receiver j is nodes[starts[i * receivers + j] : starts[i * receivers + j + 1]].
    """

    starts: Numbers
    nodes: Numbers
    receivers: int

    @property
    def lengths(self) -> Numbers:
        """Hops: a row a sender, a column a receiver."""
        return np.diff(self.starts).reshape(-1, self.receivers)


def route(ring: Ring, start: int, key: int) -> list[int]:
    """The nodes from a start to the owner of a key, both included."""
    way = routes(ring, [start], [ring.successor(int(key))])
    return [start, *way.nodes.tolist()]


def routes(ring: Ring, senders: Iterable[int], receivers: Iterable[int]) -> Routes:
    """The ways from each sender to each receiver; all are nodes."""
    starts, ends = (_checked_routes(ring, np.fromiter(nodes, dtype=np.int64)) for nodes in (senders, receivers))
    many, to = np.repeat(starts, len(ends)), np.tile(ends, len(starts))
    lengths = _lengths(ring.ids, ring.size, *ring.table, many, to)
    places = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Routes(places, _ways(ring.ids, ring.size, *ring.table, many, to, places), len(ends))


def hops(ring: Ring, starts: int | Numbers | list[int], ends: int | Numbers | list[int]) -> Numbers:
    """How many messages it takes from each start to its end, all nodes; shapes are matched as NumPy does."""
    both = np.broadcast_arrays(np.atleast_1d(starts), np.atleast_1d(ends))
    # Copies: what is matched to a shape cannot be written to, and a kernel would be compiled once more for that.
    many, to = (_checked_routes(ring, np.array(nodes, dtype=np.int64).ravel()) for nodes in both)
    return _lengths(ring.ids, ring.size, *ring.table, many, to).reshape(both[0].shape)


def _checked_routes(ring: Ring, nodes: Numbers) -> Numbers:
    """Compiled loops look at no bounds: a node that is not there would send them anywhere."""
    if len(nodes) and not 0 <= nodes.min() <= nodes.max() < len(ring):
        raise ConfigError("no such node", lowest=int(nodes.min()), highest=int(nodes.max()), nodes=len(ring))
    return nodes


@compiled
def _next(ids: Numbers, size: int, first: Numbers, fingers: Numbers, node: int, end: int) -> int:
    """The furthest finger that is not past the end; its distances ascend, so it is found by halving."""
    span = (ids[end] - ids[node]) % size
    low, high = first[node], first[node + 1] - 1
    while low < high:
        middle = (low + high + 1) // 2
        if (ids[fingers[middle]] - ids[node]) % size <= span:
            low = middle
        else:
            high = middle - 1
    return int(fingers[low])


@compiled
def _lengths(ids: Numbers, size: int, first: Numbers, fingers: Numbers, starts: Numbers, ends: Numbers) -> Numbers:
    found = np.zeros(len(starts), dtype=np.int64)
    for i in range(len(starts)):
        node = starts[i]
        while node != ends[i]:
            node = _next(ids, size, first, fingers, node, ends[i])
            found[i] += 1
    return found


@compiled
def _ways(
    ids: Numbers, size: int, first: Numbers, fingers: Numbers, starts: Numbers, ends: Numbers, places: Numbers
) -> Numbers:
    found = np.empty(places[-1], dtype=np.int64)
    for i in range(len(starts)):
        node, at = starts[i], places[i]
        while node != ends[i]:
            node = _next(ids, size, first, fingers, node, ends[i])
            found[at] = node
            at += 1
    return found
