"""Multicast to a list of nodes, each exactly once: every message is sent, as a reference for the counted costs.

The algorithm of L. Chen's dissertation (2011) does not terminate: closed intervals send to a finger's neighbour twice,
and equal fingers (the usual case) send to the complete ring. Here fingers are distinct, intervals are half open, and a
node removes itself from its list of destinations before it forwards the list.

>>> ring = Ring([10, 40, 90, 200], bits=8)
>>> [(m.sender, m.receiver) for m in multicast(ring, 0, {1, 3}) if m.processes]
[(0, 1), (0, 3)]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from thinwire_lab.overlay_sim.chord.ring import Ring


class MulticastMessage(NamedTuple):
    """A message between nodes. The first message of a multicast has no sender: it is the start of the multicast.

    hops: number of messages on the path from the start to the receiver
    processes: whether the receiver is a destination; otherwise it only forwards
    """

    sender: int | None
    receiver: int
    hops: int
    processes: bool


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


def _assign_to_fingers(ring: Ring, node: int, receivers: set[int]) -> Iterator[tuple[int, set[int]]]:
    """Yield fingers with the receivers from the finger itself up to, and without, the next finger."""
    if not receivers:
        return
    own = int(ring.ids[node])
    ends = [*(_distance(ring, own, int(ring.ids[finger])) for finger in ring.fingers(node)), ring.keys]
    distances = {k: _distance(ring, own, int(ring.ids[k])) for k in receivers}
    for finger, (low, high) in zip(ring.fingers(node), pairwise(ends), strict=True):
        if part := {k for k in receivers if low <= distances[k] < high}:
            yield finger, part


def _distance(ring: Ring, start: int, end: int) -> int:
    """Return the clockwise distance from one key to another."""
    return (end - start) % ring.keys
