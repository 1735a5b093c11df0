"""Who told whom: multicasts between the hosts of a source, and what they cost on the ring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from thinwire.codec.kernels.jit import compiled
from thinwire_lab.overlay_sim.chord.ring import Numbers
from thinwire_lab.overlay_sim.chord.ring_routes import Routes


class Contacts(NamedTuple):
    """Multicasts, one after the other: sender, receivers, and how often it was sent.

    Senders are 0 for the publisher and j + 1 for processor j, receivers processors. The receivers of multicast i are
    receivers[starts[i] : starts[i + 1]].
    """

    senders: Numbers
    starts: Numbers
    receivers: Numbers
    times: Numbers


NONE = Contacts(*(np.zeros(n, dtype=np.int64) for n in (0, 1, 0, 0)))


def repeated(groups: Sequence[tuple[int, Numbers, int]]) -> Contacts:
    """Multicasts that are always the same: sender, receivers, times.

    >>> repeated([(0, np.array([1, 2]), 10)]).times
    array([10])
    """
    every = [np.unique(receivers) for _, receivers, _ in groups]
    starts = np.cumsum([0, *map(len, every)])
    receivers = np.concatenate(every) if every else np.empty(0)
    senders, times = ([group[k] for group in groups] for k in (0, 2))
    return Contacts(*(np.asarray(column, dtype=np.int64) for column in (senders, starts, receivers, times)))


def grouped(multicasts: Numbers, senders: Numbers, receivers: Numbers) -> Contacts:
    """Messages that belong to the same multicast stand side by side, its receivers in any order, also twice.

    >>> grouped(np.array([0, 0, 7]), np.array([0, 0, 3]), np.array([5, 5, 6])).receivers
    array([5, 6])
    """
    if not len(multicasts):
        return NONE
    order = np.lexsort((receivers, multicasts))
    multicasts, senders, receivers = multicasts[order], senders[order], receivers[order]
    new = np.concatenate([[True], multicasts[1:] != multicasts[:-1]])
    kept = new | np.concatenate([[True], receivers[1:] != receivers[:-1]])
    starts = np.concatenate([np.flatnonzero(new[kept]), [np.count_nonzero(kept)]])
    return Contacts(senders[new], starts, receivers[kept], np.ones(np.count_nonzero(new), dtype=np.int64))


def joined(parts: Sequence[Contacts]) -> Contacts:
    """All of them as one."""
    offsets = np.cumsum([0, *(len(part.receivers) for part in parts)])
    starts = [part.starts[:-1] + offset for part, offset in zip(parts, offsets, strict=False)]
    return Contacts(
        np.concatenate([part.senders for part in parts]),
        np.concatenate([*starts, offsets[-1:]]),
        np.concatenate([part.receivers for part in parts]),
        np.concatenate([part.times for part in parts]),
    )


def spread(routes: Routes, contacts: Contacts, loads: Numbers) -> int:
    """The messages all of it takes; adds what each node receives to the loads."""
    stamps = np.full(len(loads), -1, dtype=np.int64)
    return int(_spread(*routes, *contacts, stamps, loads))


@compiled
def _spread(
    places: Numbers,
    nodes: Numbers,
    width: int,
    senders: Numbers,
    starts: Numbers,
    receivers: Numbers,
    times: Numbers,
    stamps: Numbers,
    loads: Numbers,
) -> int:
    messages = 0
    for i in range(len(senders)):
        for k in range(starts[i], starts[i + 1]):
            way = senders[i] * width + receivers[k]
            for at in range(places[way], places[way + 1]):
                node = nodes[at]
                if stamps[node] != i:
                    stamps[node] = i
                    loads[node] += times[i]
                    messages += times[i]
    return messages
