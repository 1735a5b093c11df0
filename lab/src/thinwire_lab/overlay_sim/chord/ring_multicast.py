"""Multicast to many nodes, each exactly once: to a list of nodes, or to the owners of a range of keys.

The algorithms of L. Chen's dissertation (2011) do not terminate: closed intervals send to a finger's neighbour twice,
equal fingers (the usual case) send to the whole ring, and the last finger has no successor. Here fingers are distinct,
intervals are half open, and a node removes itself from its list of destinations before it forwards the list.

>>> ring = Ring([10, 40, 90, 200], bits=8)
>>> [(m.sender, m.receiver) for m in multicast(ring, 0, {1, 3}) if m.processes]
[(0, 1), (0, 3)]
>>> owners(ring, 50, 100), sorted(m.receiver for m in range_multicast(ring, 0, 50, 100) if m.processes)
([2, 3], [2, 3])
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import pairwise, zip_longest
from typing import NamedTuple

from thinwire_lab.overlay_sim.chord.ring import Ring, route


class MulticastMessage(NamedTuple):
    """A message between nodes. The first message of a multicast has no sender: it is the start of the multicast.

    hops: number of messages on the path from the start to the receiver
    processes: whether the receiver is a destination; otherwise it only forwards
    """

    sender: int | None
    receiver: int
    hops: int
    processes: bool


class _Span(NamedTuple):
    """A part of a range of keys, which `node` forwards.

    end: last key of the part
    has_range_end: whether `end` is the last key of the complete range, whose owner may follow it
    hops: hops of the message to `node`
    """

    sender: int | None
    node: int
    end: int
    has_range_end: bool
    hops: int


def multicast(ring: Ring, start: int, destinations: Iterable[int]) -> list[MulticastMessage]:
    """Return the messages from a start to these nodes, in a possible order of sending."""
    sent: list[MulticastMessage] = []
    queue: deque[tuple[int | None, int, set[int], int]] = deque([(None, start, set(destinations), 0)])
    while queue:
        sender, node, receivers, hops = queue.popleft()
        sent.append(MulticastMessage(sender, node, hops, node in receivers))
        parts = _assign_to_fingers(ring, node, receivers - {node})
        queue += [(node, finger, part, hops + 1) for finger, part in parts]
    return sent


def range_multicast(ring: Ring, start: int, low: int, high: int) -> list[MulticastMessage]:
    """Return the messages to the owners of all keys from low to high, clockwise, both included.

    The start does not know the owners. It sends to the owner of `low`, which forwards the message.
    """
    path = route(ring, start, low)
    sent = [MulticastMessage(a, b, n + 1, False) for n, (a, b) in enumerate(pairwise(path))]
    first, hops = path[-1], len(path) - 1
    sender = sent.pop().sender if sent else None
    if ring.distance(low, int(ring.ids[first])) >= ring.distance(low, high):
        return [*sent, MulticastMessage(sender, first, hops, True)]
    return [*sent, *_forward(ring, _Span(sender, first, high % ring.keys, True, hops))]


def owners(ring: Ring, low: int, high: int) -> list[int]:
    """Return the owners of the keys from low to high, clockwise: the nodes from low to high, and the next one."""
    node, found = ring.successor(low), list[int]()
    while ring.distance(low, int(ring.ids[node])) < ring.distance(low, high) and node not in found[:1]:
        found.append(node)
        node = ring.next_node(node)
    return found if node in found[:1] else [*found, node]


def _assign_to_fingers(ring: Ring, node: int, receivers: set[int]) -> Iterator[tuple[int, set[int]]]:
    """Yield fingers with the receivers from the finger itself up to, and without, the next finger."""
    if not receivers:
        return
    own = int(ring.ids[node])
    ends = [*(ring.distance(own, int(ring.ids[finger])) for finger in ring.fingers(node)), ring.keys]
    distances = {k: ring.distance(own, int(ring.ids[k])) for k in receivers}
    for finger, (low, high) in zip(ring.fingers(node), pairwise(ends), strict=True):
        if part := {k for k in receivers if low <= distances[k] < high}:
            yield finger, part


def _forward(ring: Ring, complete: _Span) -> Iterator[MulticastMessage]:
    """Yield the messages of a range multicast from the owner of its first key on."""
    first, queue = complete.node, deque([complete])
    while queue:
        span = queue.popleft()
        yield MulticastMessage(span.sender, span.node, span.hops, True)
        parts = list(_parts(ring, span))
        queue += parts
        last = ring.next_node(span.node)
        # If a range covers nearly the whole ring, its end belongs to the first node, which already has the message.
        if not parts and span.has_range_end and int(ring.ids[span.node]) != span.end and last != first:
            yield MulticastMessage(span.node, last, span.hops + 1, True)


def _parts(ring: Ring, span: _Span) -> Iterator[_Span]:
    """Yield the parts of a span that the fingers of its node forward."""
    own = int(ring.ids[span.node])
    length = ring.distance(own, span.end)
    inside = [f for f in ring.fingers(span.node) if ring.distance(own, int(ring.ids[f])) <= length]
    for finger, following in zip_longest(inside, inside[1:]):
        end = span.end if following is None else (int(ring.ids[following]) - 1) % ring.keys
        yield _Span(span.node, finger, end, span.has_range_end and following is None, span.hops + 1)
