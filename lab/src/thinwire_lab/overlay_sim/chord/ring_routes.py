"""Ways over the ring: each node hands on to the furthest finger that is not past the key.

From one start the ways to all nodes are one tree: the same places a multicast goes through. So the number of messages
of a multicast is the number of nodes on its ways, the start left out.

>>> ring = Ring([0, 32, 64, 128, 160], bits=8)
>>> route(ring, 0, 160), hops(ring, 0, [0, 1, 4]).tolist()
([0, 3, 4], [0, 1, 2])
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from thinwire.codec.kernels.jit import compiled
from thinwire.errors import ConfigError
from thinwire_lab.overlay_sim.chord.ring import Numbers, Ring


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
    starts, ends = (_checked(ring, np.fromiter(nodes, dtype=np.int64)) for nodes in (senders, receivers))
    many, to = np.repeat(starts, len(ends)), np.tile(ends, len(starts))
    lengths = _lengths(ring.ids, ring.size, *ring.table, many, to)
    places = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Routes(places, _ways(ring.ids, ring.size, *ring.table, many, to, places), len(ends))


def hops(ring: Ring, starts: int | Numbers | list[int], ends: int | Numbers | list[int]) -> Numbers:
    """How many messages it takes from each start to its end, all nodes; shapes are matched as NumPy does."""
    both = np.broadcast_arrays(np.atleast_1d(starts), np.atleast_1d(ends))
    # Copies: what is matched to a shape cannot be written to, and a kernel would be compiled once more for that.
    many, to = (_checked(ring, np.array(nodes, dtype=np.int64).ravel()) for nodes in both)
    return _lengths(ring.ids, ring.size, *ring.table, many, to).reshape(both[0].shape)


def _checked(ring: Ring, nodes: Numbers) -> Numbers:
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
