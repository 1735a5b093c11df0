"""The channels that tell of one source, side by side, and which of them must look at an event of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from thinwire.filters.interval_table import ANYWHERE, Desk, IntervalLine
from thinwire.services.translator.hold_member import Reading
from thinwire.services.translator.hold_member_holder import Holder
from thinwire.topics.demand_class import Source
from thinwire.wire.control_frames import MAX_SKIP

WORTH = 4
"""looks of newcomers that cost as much as to place one holder: after so many for every holder all are placed anew"""


class Line:
    """Holders of one source: those that have a place are asked only where a value leaves their interval, newcomers
    are always asked.

    met: how many of those that joined, one after the other, it has taken in
    """

    __slots__ = ("_alarm", "_intervals", "_newcomers", "_others", "_placed", "_wasted", "met", "source")

    def __init__(self, source: Source) -> None:
        self.source = source
        self.met = 0
        self._others: list[Any] | None = None
        self._placed: list[Holder] = []
        self._newcomers: list[Holder] = []
        self._intervals: list[IntervalLine] = []
        self._wasted = 0
        self._alarm = 0

    def meet(self, newcomers: Sequence[Holder]) -> None:
        """These tell of the source too."""
        self._newcomers += newcomers

    def who(self, reading: Reading, flagged: bool, seen: int) -> list[tuple[int, Holder]]:
        """Those who must look at the next event, with their places, newcomers with -1.

        flagged: something is outside its range; seen: the number of the event before
        """
        ticks, others = reading
        changed = others != self._others
        self._others = others
        newcomers = [(-1, holder) for holder in self._newcomers]
        if ticks is None or flagged or changed:
            return [*enumerate(self._placed), *newcomers]
        places = self._left(ticks)
        if seen >= self._alarm and self._placed:
            places = sorted({*places, *self._overdue(seen)})
        return [*((place, self._placed[place]) for place in places), *newcomers]

    def moved(self, place: int, holder: Holder) -> None:
        """A holder has looked: what it holds may be something else now. One that is gone is asked no more."""
        row = None if holder.gone else holder.row_of(self.source)
        found = {} if row is None else holder.intervals(row)
        for at, line in enumerate(self._intervals):
            interval = found.get(at, ANYWHERE)
            if line.interval(place) != interval:
                line.put(place, *interval)

    def settle(self, desk: Desk, measurements: int) -> None:
        """An event is over: give newcomers a place, once they have cost as much."""
        self._wasted += len(self._newcomers)
        if self._newcomers and self._wasted * WORTH >= len(self._placed):
            self._arrange(desk, measurements)

    def _left(self, ticks: list[int]) -> list[int]:
        found = [line.outside(tick).tolist() for line, tick in zip(self._intervals, ticks, strict=False)]
        several = [places for places in found if places]
        return several[0] if len(several) == 1 else sorted({place for places in several for place in places})

    def _overdue(self, seen: int) -> Iterator[int]:
        """The places of those whose readers have not been told of any event for as long as a link may be silent."""
        limit, earliest = MAX_SKIP - 1, seen
        for place, holder in enumerate(self._placed):
            row = None if holder.gone else holder.row_of(self.source)
            if row is None:
                continue
            told = holder.told(row)
            if seen - told >= limit:
                yield place
            else:
                earliest = min(earliest, told)
        self._alarm = earliest + limit

    def _arrange(self, desk: Desk, measurements: int) -> None:
        holders = [holder for holder in (*self._placed, *self._newcomers) if not holder.gone]
        self._placed = sorted(holders, key=lambda holder: holder.order)
        self._newcomers, self._wasted = [], 0
        found = [self._intervals_of(holder) for holder in self._placed]
        ends = ((one.get(at, ANYWHERE) for one in found) for at in range(measurements))
        columns = (np.array(list(each), dtype=np.int64).reshape(len(found), 2) for each in ends)
        self._intervals = [IntervalLine(each[:, 0], each[:, 1], desk) for each in columns]
        self._alarm = 0

    def _intervals_of(self, holder: Holder) -> dict[int, tuple[int, int]]:
        row = holder.row_of(self.source)
        return holder.intervals(row) if row is not None else {}
