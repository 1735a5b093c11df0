"""What of an event decides who must look at it: the ticks of its measurements, and everything else that may change.

One channel of changes among many: what it holds of each source, and how it catches up with what it did not see.

The channels that tell of one source, side by side, and which of them must look at an event of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from thinwire.codec import StreamEncoder
from thinwire.codec.code_generation import picker
from thinwire.codec.kernels.rule_table import plan_of
from thinwire.codec.kernels.slot_updates import pass_all, pass_one
from thinwire.codec.rules import Rule
from thinwire.codec.source_table import DUE, ORDINAL, TOLD
from thinwire.codec.ticks import ABSENT, TICK_LIMIT
from thinwire.codec.value_conversion import converter
from thinwire.errors import EventRejected
from thinwire.filters.interval_table import ANYWHERE, NOWHERE, Desk, IntervalLine
from thinwire.schema import Event, Property, Role, Schema
from thinwire.services.translator.channel import Channel
from thinwire.topics.demand_class import Source
from thinwire.wire.control_frames import MAX_SKIP
from thinwire.wire.partial_event import EncodingKind, lane_of


class TickReading(NamedTuple):
    """ticks: of each measurement; None where one is absent, off its grid or beyond all limits
    others: what must not change, if nobody is to be told
    """

    ticks: list[int] | None
    others: list[Any]


class TickReader:
    """Reads events of one schema.

    watched: names of the properties that somebody is told of
    names: those that have ticks, by their places
    """

    def __init__(self, schema: Schema, watched: Collection[str] = ()) -> None:
        self.schema = schema
        self.watched = frozenset(watched)
        read = [p for p in schema.wire if p.role is not Role.HEADER and p.name in self.watched]
        ticks = [p for p in read if lane_of(p.kind) is EncodingKind.TICK]
        self.names = {p.name: place for place, p in enumerate(ticks)}
        self._pick = picker(schema)
        self._ticks = [(p.name, converter(p)) for p in ticks]
        self._others = [(p.name, _kept(p)) for p in read if p.name not in self.names]

    def read(self, event: Event) -> TickReading:
        """What an event brings."""
        values = self._pick(event)
        others = [kept(values.get(name)) for name, kept in self._others]
        try:
            ticks = [convert(values.get(name)) for name, convert in self._ticks]
        except EventRejected:
            return TickReading(None, others)
        ordinary = all(-TICK_LIMIT < each < TICK_LIMIT for each in ticks)
        return TickReading(ticks if ordinary else None, others)


def _kept(p: Property) -> Callable[[Any], Any]:
    """A value such that others are equal to it only if no link could tell them apart: the two zeros are two, and so
    are the number one and what is true."""
    lane = lane_of(p.kind)
    if lane is EncodingKind.OPAQUE:
        return repr
    if lane is EncodingKind.FLOAT:
        return lambda value: value if value else repr(value)
    return lambda value: value


Places = npt.NDArray[np.int64]
Interval = tuple[int, int]


class HeldProperty(NamedTuple):
    """A measurement that is held: its place among those that are looked at, and its rule."""

    place: int
    rule: Rule


class HoldMember:
    """A channel that is only shown the events which it must look at.

    names: the measurements that are looked at, by their places
    gone: it is not in step any more
    """

    __slots__ = ("_columns", "_held", "_plan", "_reducer", "channel", "gone", "joined", "link")

    def __init__(self, channel: Channel, names: dict[str, int], joined: int) -> None:
        assert channel.link is not None
        self.channel = channel
        self.link: StreamEncoder = channel.link
        self.joined = joined
        self.gone = False
        encoder = self.link.encoder
        self._reducer = encoder.reducer
        self._columns = self._reducer.columns
        self._plan = encoder.fast.plan if encoder.fast is not None else plan_of(self._columns)
        rules = self._reducer.rules
        self._held = [
            HeldProperty(names[rule.property.name], rule)
            for rule in rules.rules
            if rule.lane is EncodingKind.TICK and rules.fires(rule)
        ]

    @property
    def order(self) -> tuple[int, ...]:
        """Where it stands among others: those who are told about as often stand together."""
        return tuple(held.rule.tolerance for held in self._held)

    @property
    def sources(self) -> list[Source]:
        """All it tells of, by row."""
        return self._reducer.keys

    def row_of(self, source: Source) -> int | None:
        return self._reducer.row_of(source)

    def ordinal(self, row: int) -> int:
        return self._columns.ordinal(row)

    def last_sent(self, row: int) -> int:
        """The number of the last event of a source that its readers have been told of."""
        return self._columns.table[row * self._columns.width + TOLD]

    def pass_to(self, row: int, seen: int) -> None:
        """All events of a source up to this one were passed over."""
        columns = self._columns
        if columns.table[row * columns.width + ORDINAL] != seen:
            self._count(pass_one(self._plan, columns.view(), columns.width, row, seen))

    def pass_all(self, places: Places, seen: Places) -> None:
        """The same for all sources; `seen` has the number of the last event of each, `places` says where."""
        columns = self._columns
        if columns.rows:
            self._count(pass_all(self._plan, columns.view(), columns.width, places, seen))

    def _count(self, passed: int) -> None:
        self._reducer.suppressed += passed
        self.link.counts.events += passed
        self.channel.counts.events += passed

    def intervals(self, row: int) -> dict[int, Interval]:
        """By place, within which ticks a measurement of this source lets the next event pass."""
        columns = self._columns
        start = row * columns.width
        found = {held.place: _quiet(held.rule, columns.last(row, held.rule.first_slot)) for held in self._held}
        if columns.table[start + DUE] == columns.table[start + ORDINAL] + 1:
            found[0] = NOWHERE  # whatever it brings
        return found if 0 in found else {0: ANYWHERE, **found}


def _quiet(rule: Rule, last: int) -> Interval:
    """The ticks that are within the tolerance of the last value told, in their range, and on its side of idling."""
    if last == ABSENT:
        return NOWHERE
    low, high = last - rule.tolerance, last + rule.tolerance
    if rule.band and low > 0:
        low = max(low, rule.band + 1)
    elif rule.band and high < 0:
        high = min(high, -rule.band - 1)
    return max(low, rule.lowest), min(high, rule.highest)


WORTH = 4
"""looks of newcomers that cost as much as to place one holder: after so many for every holder all are placed anew"""


class SourceHolders:
    """Holders of one source: those that have a place are asked only where a value leaves their interval, newcomers
    are always asked.

    met: how many of those that joined, one after the other, it has taken in
    """

    __slots__ = ("_alarm", "_intervals", "_newcomers", "_others", "_placed", "_wasted", "met", "source")

    def __init__(self, source: Source) -> None:
        self.source = source
        self.met = 0
        self._others: list[Any] | None = None
        self._placed: list[HoldMember] = []
        self._newcomers: list[HoldMember] = []
        self._intervals: list[IntervalLine] = []
        self._wasted = 0
        self._alarm = 0

    def add_members(self, newcomers: Sequence[HoldMember]) -> None:
        """These tell of the source too."""
        self._newcomers += newcomers

    def find_affected(self, reading: TickReading, flagged: bool, seen: int) -> list[tuple[int, HoldMember]]:
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

    def moved(self, place: int, holder: HoldMember) -> None:
        """A holder has looked: what it holds may be something else now. One that is gone is asked no more."""
        row = None if holder.gone else holder.row_of(self.source)
        found = {} if row is None else holder.intervals(row)
        for at, line in enumerate(self._intervals):
            interval = found.get(at, ANYWHERE)
            if line.interval(place) != interval:
                line.put(place, *interval)

    def place_newcomers(self, desk: Desk, measurements: int) -> None:
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
            told = holder.last_sent(row)
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

    def _intervals_of(self, holder: HoldMember) -> dict[int, tuple[int, int]]:
        row = holder.row_of(self.source)
        return holder.intervals(row) if row is not None else {}
