"""One channel of changes among many: what it holds of each source, and how it catches up with what it did not see."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from thinwire.codec import Publisher
from thinwire.codec.kernels.rule_table import plan_of
from thinwire.codec.kernels.slot_updates import pass_all, pass_one
from thinwire.codec.rules import Rule
from thinwire.codec.source_table_columns import DUE, ORDINAL, TOLD
from thinwire.codec.ticks import ABSENT
from thinwire.filters.interval_table import ANYWHERE, NOWHERE
from thinwire.services.translator.channel import Channel
from thinwire.topics.demand_class import Source
from thinwire.wire.partial_event import Lane

Places = npt.NDArray[np.int64]
Interval = tuple[int, int]


class Held(NamedTuple):
    """A measurement that is held: its place among those that are looked at, and its rule."""

    place: int
    rule: Rule


class Holder:
    """A channel that is only shown the events which it must look at.

    names: the measurements that are looked at, by their places
    gone: it is not in step any more
    """

    __slots__ = ("_columns", "_held", "_plan", "_reducer", "channel", "gone", "joined", "link")

    def __init__(self, channel: Channel, names: dict[str, int], joined: int) -> None:
        assert channel.link is not None
        self.channel = channel
        self.link: Publisher = channel.link
        self.joined = joined
        self.gone = False
        encoder = self.link.encoder
        self._reducer = encoder.reducer
        self._columns = self._reducer.columns
        self._plan = encoder.fast.plan if encoder.fast is not None else plan_of(self._columns)
        rules = self._reducer.rules
        self._held = [
            Held(names[rule.property.name], rule)
            for rule in rules.rules
            if rule.lane is Lane.TICK and rules.fires(rule)
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

    def told(self, row: int) -> int:
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
