"""Multicast to many nodes, each exactly once: to a list of nodes, or to the owners of a range of keys.

The published algorithms do not terminate: closed intervals send to a finger's neighbour twice, equal fingers (the usual
case) send to the whole ring, and the last finger has no successor. Here fingers are distinct, intervals are half open,
and destinations are removed from the list before they are forwarded.

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
    """A message between nodes; the first one has no sender.

    hops: number of messages before it on its path
    processes: whether the receiver is a destination; otherwise it only forwards
    """

    sender: int | None
    receiver: int
    hops: int
    processes: bool


class _Span(NamedTuple):
    """A part of a range: `node` covers all keys up to `end`; with `tail` also the owner of the range's end."""

    sender: int | None
    node: int
    end: int
    tail: bool
    hops: int


def multicast(ring: Ring, start: int, destinations: Iterable[int]) -> list[MulticastMessage]:
    """Return the messages from a start to these nodes, in a possible order of sending."""
    sent: list[MulticastMessage] = []
    work: deque[tuple[int | None, int, set[int], int]] = deque([(None, start, set(destinations), 0)])
    while work:
        sender, node, left, hops = work.popleft()
        sent.append(MulticastMessage(sender, node, hops, node in left))
        parts = _shared(ring, node, left - {node})
        work += [(node, finger, part, hops + 1) for finger, part in parts]
    return sent


def range_multicast(ring: Ring, start: int, low: int, high: int) -> list[MulticastMessage]:
    """Return the messages to the owners of all keys from low to high, clockwise. The sender knows none of them."""
    path = route(ring, start, low)
    sent = [MulticastMessage(a, b, n + 1, False) for n, (a, b) in enumerate(pairwise(path))]
    first, hops = path[-1], len(path) - 1
    before = sent.pop().sender if sent else None
    if ring.distance(low, int(ring.ids[first])) >= ring.distance(low, high):
        return [*sent, MulticastMessage(before, first, hops, True)]
    return [*sent, *_spread(ring, _Span(before, first, high % ring.size, True, hops), first)]


def owners(ring: Ring, low: int, high: int) -> list[int]:
    """Return the owners of the keys from low to high, clockwise: the nodes between, and the next one."""
    node, found = ring.successor(low), list[int]()
    while ring.distance(low, int(ring.ids[node])) < ring.distance(low, high) and node not in found[:1]:
        found.append(node)
        node = ring.after(node)
    return found if node in found[:1] else [*found, node]


def _shared(ring: Ring, node: int, left: set[int]) -> Iterator[tuple[int, set[int]]]:
    """Assign destinations to fingers: each covers those from itself up to the next finger."""
    if not left:
        return
    at = int(ring.ids[node])
    ends = [*(ring.distance(at, int(ring.ids[finger])) for finger in ring.fingers(node)), ring.size]
    far = {k: ring.distance(at, int(ring.ids[k])) for k in left}
    for finger, (low, high) in zip(ring.fingers(node), pairwise(ends), strict=True):
        if part := {k for k in left if low <= far[k] < high}:
            yield finger, part


def _spread(ring: Ring, complete: _Span, first: int) -> Iterator[MulticastMessage]:
    work = deque([complete])
    while work:
        span = work.popleft()
        yield MulticastMessage(span.sender, span.node, span.hops, True)
        parts = list(_parts(ring, span))
        work += parts
        last = ring.after(span.node)
        # If a range covers nearly the whole ring, its end belongs to the first node, which already has the message.
        if not parts and span.tail and int(ring.ids[span.node]) != span.end and last != first:
            yield MulticastMessage(span.node, last, span.hops + 1, True)


def _parts(ring: Ring, span: _Span) -> Iterator[_Span]:
    at = int(ring.ids[span.node])
    reach = ring.distance(at, span.end)
    inside = [f for f in ring.fingers(span.node) if ring.distance(at, int(ring.ids[f])) <= reach]
    for finger, following in zip_longest(inside, inside[1:]):
        end = span.end if following is None else (int(ring.ids[following]) - 1) % ring.size
        yield _Span(span.node, finger, end, span.tail and following is None, span.hops + 1)
