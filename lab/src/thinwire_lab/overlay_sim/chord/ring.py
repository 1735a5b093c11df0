"""Chord ring and its routes.

Ids and keys are integers on a circle; clockwise is ascending. A key belongs to its successor: the first node whose id
is equal to the key or follows it. Functions take and return node numbers, which are the indexes of nodes in the order
of their ids. Finger i of a node is the successor of its id + 2^i. Many fingers are equal, so only the distinct ones are
stored, clockwise, without the node itself.

>>> ring = Ring([10, 40, 200], bits=8)
>>> [ring.successor(key) for key in (10, 11, 201)]
[0, 1, 0]
>>> ring.fingers(0), ring.fingers(2)
([1, 2], [0])

Routing: each node forwards to the farthest finger that is not past the key.

The routes from one node to all others form a tree. A multicast follows these routes, so its number of messages is the
number of distinct nodes on the routes to its receivers, without the start.

>>> ring = Ring([0, 32, 64, 128, 160], bits=8)
>>> routes(ring, [0], [4]).nodes.tolist(), hops(ring, 0, [0, 1, 4]).tolist()
([3, 4], [0, 1, 2])
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
"""default bits of ids and keys"""
MAX_BITS = 62
"""distances are 64-bit integers, and a sum of two must fit"""
MAX_NODES = 1_000_000

Numbers = NDArray[np.int64]


def key_of(name: str, bits: int = BITS) -> int:
    """Return the key of a name.

    >>> key_of("market/AAPL") == key_of("market/AAPL") != key_of("market/MSFT")
    True
    """
    return int.from_bytes(sha1(name.encode(), usedforsecurity=False).digest()[:8], "big") >> (64 - bits)


class Ring:
    """Nodes on a circle of 2^bits keys. Immutable.

    ids: ids of the nodes; the attribute has them in ascending order
    """

    def __init__(self, ids: Iterable[int], bits: int = BITS) -> None:
        if not 1 <= bits <= MAX_BITS:
            raise ConfigError("outside its limits", field="bits", value=bits, lowest=1, highest=MAX_BITS)
        self.bits = bits
        self.keys = 1 << bits
        self.ids = _checked_ids(np.unique(np.fromiter(ids, dtype=np.int64)), self.keys)

    @classmethod
    def random(cls, nodes: int, seed: int, bits: int = BITS) -> Ring:
        """Return a ring of nodes with random ids."""
        if not 1 <= nodes <= min(MAX_NODES, (1 << bits) // 2):
            highest = min(MAX_NODES, (1 << bits) // 2)
            raise ConfigError("outside its limits", field="nodes", value=nodes, lowest=1, highest=highest)
        return cls(free_ids(np.random.default_rng(seed), nodes, np.empty(0, dtype=np.int64), bits), bits)

    def __len__(self) -> int:
        return len(self.ids)

    def successor(self, key: int) -> int:
        """Return the node to which a key belongs."""
        return int(np.searchsorted(self.ids, key % self.keys)) % len(self)

    def successors(self, keys: Numbers) -> Numbers:
        """Return the node to which each key belongs."""
        return np.searchsorted(self.ids, keys % self.keys) % len(self)

    def fingers(self, node: int) -> list[int]:
        """Return the distinct fingers of a node, clockwise; a single node has none."""
        starts, fingers = self.table
        return [int(finger) for finger in fingers[starts[node] : starts[node + 1]]]

    @cached_property
    def table(self) -> tuple[Numbers, Numbers]:
        """The index of the first finger of each node, and the fingers of all nodes in one array."""
        nodes = np.arange(len(self))
        previous, columns = nodes, []
        for i in range(self._first_exponent(), self.bits):
            finger = self.successors(self.ids + (1 << i))
            # Fingers are in clockwise order, so equal ones are adjacent; those equal to the node itself are last.
            columns.append(np.where((finger != previous) & (finger != nodes), finger, -1))
            previous = finger
        table = np.stack(columns, axis=1)
        starts = np.concatenate([[0], np.cumsum((table >= 0).sum(axis=1))]).astype(np.int64)
        return starts, table[table >= 0].astype(np.int64)

    def _first_exponent(self) -> int:
        """Return the largest i with 2^i at most the narrowest gap: finger i and all smaller ones are the next node."""
        narrowest = int(np.diff(self.ids, append=self.ids[0] + self.keys).min())
        return min(narrowest.bit_length(), self.bits) - 1


def free_ids(rng: np.random.Generator, count: int, taken: Numbers, bits: int = BITS) -> Numbers:
    """Return random ids, ascending, distinct from each other and from those in `taken`."""
    ids = np.empty(0, dtype=np.int64)
    while len(ids) < count:
        new = np.setdiff1d(rng.integers(0, 1 << bits, count - len(ids)), taken)
        ids = np.union1d(ids, new)
    return ids


def _checked_ids(ids: Numbers, keys: int) -> Numbers:
    if not len(ids):
        raise ConfigError("a ring needs at least one node", field="ids", value=0, lowest=1)
    if len(ids) > MAX_NODES:
        raise ConfigError("too many nodes", field="ids", value=len(ids), highest=MAX_NODES)
    if ids[0] < 0 or ids[-1] >= keys:
        raise ConfigError("an id is outside the circle", field="ids", lowest=0, highest=keys - 1)
    return ids


class Routes(NamedTuple):
    """Routes from several senders to several receivers; a route is its nodes in order, without the sender.

    The route from sender i to receiver j is nodes[starts[i * receivers + j] : starts[i * receivers + j + 1]].
    """

    starts: Numbers
    nodes: Numbers
    receivers: int

    @property
    def lengths(self) -> Numbers:
        """Hops, one row per sender and one column per receiver."""
        return np.diff(self.starts).reshape(-1, self.receivers)


def routes(ring: Ring, senders: Iterable[int], receivers: Iterable[int]) -> Routes:
    """Return the routes from each sending node to each receiving node."""
    starts, ends = (_checked_nodes(ring, np.fromiter(nodes, dtype=np.int64)) for nodes in (senders, receivers))
    pairs = np.repeat(starts, len(ends)), np.tile(ends, len(starts))
    lengths = _lengths(ring.ids, ring.keys, *ring.table, *pairs)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Routes(offsets, _paths(ring.ids, ring.keys, *ring.table, *pairs, offsets), len(ends))


def hops(ring: Ring, starts: int | Numbers | list[int], ends: int | Numbers | list[int]) -> Numbers:
    """Return the number of hops from each start node to its end node; shapes are broadcast."""
    pairs = np.broadcast_arrays(np.atleast_1d(starts), np.atleast_1d(ends))
    # Copies: broadcast arrays are read-only, and the kernel would be compiled again for them.
    flat = (_checked_nodes(ring, np.array(nodes, dtype=np.int64).ravel()) for nodes in pairs)
    return _lengths(ring.ids, ring.keys, *ring.table, *flat).reshape(pairs[0].shape)


def _checked_nodes(ring: Ring, nodes: Numbers) -> Numbers:
    """Reject unknown nodes; compiled loops do not check bounds."""
    if len(nodes) and not 0 <= nodes.min() <= nodes.max() < len(ring):
        raise ConfigError(
            "unknown node: nodes are numbered from 0",
            lowest=int(nodes.min()),
            highest=int(nodes.max()),
            nodes=len(ring),
        )
    return nodes


@compiled
def _next_hop(ids: Numbers, keys: int, starts: Numbers, fingers: Numbers, node: int, end: int) -> int:
    """Return the farthest finger that is not past the end, by bisection over ascending distances."""
    span = (ids[end] - ids[node]) % keys
    low, high = starts[node], starts[node + 1] - 1
    while low < high:
        middle = (low + high + 1) // 2
        if (ids[fingers[middle]] - ids[node]) % keys <= span:
            low = middle
        else:
            high = middle - 1
    return int(fingers[low])


@compiled
def _lengths(ids: Numbers, keys: int, first: Numbers, fingers: Numbers, starts: Numbers, ends: Numbers) -> Numbers:
    """Return the hops from each start to its end. first: index of the first finger of each node."""
    found = np.zeros(len(starts), dtype=np.int64)
    for i in range(len(starts)):
        node = starts[i]
        while node != ends[i]:
            node = _next_hop(ids, keys, first, fingers, node, ends[i])
            found[i] += 1
    return found


@compiled
def _paths(
    ids: Numbers, keys: int, first: Numbers, fingers: Numbers, starts: Numbers, ends: Numbers, offsets: Numbers
) -> Numbers:
    """Return the nodes of all routes; route i begins at offsets[i]."""
    found = np.empty(offsets[-1], dtype=np.int64)
    for i in range(len(starts)):
        node, at = starts[i], offsets[i]
        while node != ends[i]:
            node = _next_hop(ids, keys, first, fingers, node, ends[i])
            found[at] = node
            at += 1
    return found
