"""What a subscriber notes of the events it is handed: how many, how late, and how far each source has come.

>>> taken = Taken(source="sensor", stamp="time")
>>> events = [{"sensor": "a", "time": 1_000_000}, {"sensor": "b", "time": 1_001_000}]
>>> taken.take(events, events, now=1_004_000)
>>> taken.events, taken.last, quantile(taken.latencies, 0.5)
(2, {'a': 1000000, 'b': 1001000}, 3.0)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

LONGEST = 20_000
"""milliseconds; whatever takes longer counts as this"""
_FOLD = 16_384

Counts = NDArray[np.int64]


class Taken:
    """One subscriber's notes. They cost the same for every stack: a look-up an event, and what is left in one go.

    source: the property that tells sources apart
    stamp: the property that holds the instant the event was meant to be sent at, in microseconds
    timed: whether latencies are noted
    """

    def __init__(self, source: str, stamp: str, timed: bool = True) -> None:
        self.source = source
        self.stamp = stamp
        self.timed = timed
        self.events = 0
        self.last: dict[Any, Any] = {}
        self._noted, self._stamp = itemgetter(source, stamp), itemgetter(stamp)
        self._stamps: list[int] = []
        self._came: list[tuple[int, int]] = []
        self._counts = np.zeros(LONGEST + 1, dtype=np.int64)

    def take(self, events: Sequence[Mapping[str, Any]], sent: Sequence[Mapping[str, Any]], now: int) -> None:
        """Note events that came together; the latencies are those of the ones that travelled."""
        self.events += len(events)
        self.last.update(map(self._noted, events))
        if self.timed:
            self._stamps += map(self._stamp, sent)
            self._came.append((now, len(sent)))
            if len(self._stamps) >= _FOLD:
                self._fold()

    def begin(self) -> None:
        """Count from here."""
        self.events = 0
        self.last.clear()
        self.forget()

    def forget(self) -> None:
        """Latencies so far were of the warm-up."""
        self._stamps.clear()
        self._came.clear()
        self._counts[:] = 0

    @property
    def latencies(self) -> Counts:
        """Events by whole milliseconds of latency."""
        self._fold()
        return self._counts

    def _fold(self) -> None:
        instants, numbers = zip(*self._came, strict=True) if self._came else ((), ())
        late = (np.repeat(np.array(instants, dtype=np.int64), numbers) - np.array(self._stamps, dtype=np.int64)) // 1000
        self._counts += np.bincount(np.clip(late, 0, LONGEST), minlength=LONGEST + 1)
        self._stamps.clear()
        self._came.clear()


def sparse(counts: Counts) -> list[list[int]]:
    """Counts as pairs of millisecond and number, for a document.

    >>> sparse(np.array([0, 2, 0, 1]))
    [[1, 2], [3, 1]]
    """
    filled = np.flatnonzero(counts)
    return [[int(at), int(counts[at])] for at in filled]


def dense(pairs: Sequence[Sequence[int]]) -> Counts:
    """The way back."""
    counts = np.zeros(LONGEST + 1, dtype=np.int64)
    for at, number in pairs:
        counts[at] += number
    return counts


def quantile(counts: Counts, share: float) -> float | None:
    """The milliseconds that this share of the events does not exceed; None where there are none.

    >>> quantile(np.array([0, 98, 0, 1, 1]), 0.99), quantile(np.array([0]), 0.5)
    (3.0, None)
    """
    total = int(counts.sum())
    if not total:
        return None
    return float(np.searchsorted(np.cumsum(counts), share * total))
