"""The parts of a hold group: reading the ticks of an event, the members, and the interval table of one source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from thinwire.codec.code_generation import picker
from thinwire.codec.rules import Rule
from thinwire.codec.ticks import TICK_LIMIT
from thinwire.codec.value_conversion import converter
from thinwire.errors import EventRejected
from thinwire.filters.interval_table import EMPTY, UNBOUNDED, IntervalTable, Workspace
from thinwire.schema import Event, Property, Role, Schema
from thinwire.services.translator.channel import Channel
from thinwire.services.translator.channel_group import GroupMember
from thinwire.topics.demand_class import Source
from thinwire.wire.control_frames import MAX_SKIP
from thinwire.wire.partial_event import EncodingKind, encoding_kind_of

Rows = npt.NDArray[np.int64]
Interval = tuple[int, int]

EVALUATION_COST = 4
"""cost of an event for a member that is not indexed, as a multiple of the cost of indexing one member"""


class TickReading(NamedTuple):
    """The values of an event.

    ticks: of each tick property; None if one is absent, not a multiple of its step, or out of range
    others: the other values; every member processes an event in which one of them changed
    """

    ticks: list[int] | None
    others: list[Any]


class TickReader:
    """Reads the values of events of one schema.

    names: the properties that members send
    tick_indexes: index of each tick property
    """

    def __init__(self, schema: Schema, names: Set[str]) -> None:
        self.names = names
        read = [p for p in schema.wire if p.role is not Role.HEADER and p.name in self.names]
        ticks = [p for p in read if encoding_kind_of(p.kind) is EncodingKind.TICK]
        self.tick_indexes = {p.name: index for index, p in enumerate(ticks)}
        self._pick = picker(schema)
        self._ticks = [(p.name, converter(p)) for p in ticks]
        self._others = [(p.name, _comparison_key_of(p)) for p in read if p.name not in self.tick_indexes]

    def read(self, event: Event) -> TickReading:
        """Return the values of an event."""
        values = self._pick(event)
        others = [identity(values.get(name)) for name, identity in self._others]
        try:
            ticks = [convert(values.get(name)) for name, convert in self._ticks]
        except EventRejected:
            return TickReading(None, others)
        in_range = all(-TICK_LIMIT < each < TICK_LIMIT for each in ticks)
        return TickReading(ticks if in_range else None, others)


def _comparison_key_of(p: Property) -> Callable[[Any], Any]:
    """Return a function from values to comparison keys. Values with equal keys are sent identically.

    It separates 0.0 from -0.0, and 1 from True.
    """
    kind = encoding_kind_of(p.kind)
    if kind is EncodingKind.OPAQUE:
        return repr
    if kind is EncodingKind.FLOAT:
        return lambda value: value if value else repr(value)
    return lambda value: value


class HoldMember(GroupMember):
    """A channel of a hold group: its subscribers predict that a value stays as last sent."""

    __slots__ = ("_held_rules", "reducer")

    def __init__(self, channel: Channel, tick_indexes: dict[str, int], joined_after: int) -> None:
        super().__init__(channel, joined_after)
        self.reducer = self.stream.reducer
        rules = self.reducer.rules
        self._held_rules: list[tuple[int, Rule]] = [
            (tick_indexes[rule.property.name], rule)
            for rule in rules.rules
            if rule.encoding is EncodingKind.TICK and rules.triggers(rule)
        ]

    @property
    def tolerances(self) -> tuple[int, ...]:
        """Sort key: members that send about equally often are neighbours in the interval table."""
        return tuple(rule.tolerance for _, rule in self._held_rules)

    def advance_to(self, row: int, ordinal: int) -> None:
        """Suppress all events of a source up to `ordinal`."""
        self._count(self.reducer.advance_to(row, ordinal))

    def advance_all(self, rows: Rows, ordinals: Rows) -> None:
        """Suppress all events of every source up to `ordinals[rows[row]]`."""
        self._count(self.reducer.advance_all(rows, ordinals))

    def _count(self, suppressed: int) -> None:
        self.stream.count_suppressed(suppressed)
        self.channel.counts.events += suppressed

    def intervals(self, source: Source) -> dict[int, Interval]:
        """Return, by tick index, the interval of ticks of a source that need no frame; all others are unbounded."""
        row = None if self.is_closed else self.reducer.row_of(source)
        if row is None:
            return {}
        found = {index: self.reducer.quiet_interval(row, rule) or EMPTY for index, rule in self._held_rules}
        if self.reducer.must_send_next(row):
            found[0] = EMPTY  # any tick of the first property is outside
        return found


class SourceMembers:
    """The members that cover one source, and their intervals.

    Indexed members process an event only if a tick is outside of their interval. New members process every event until
    they are indexed.

    joined_count: number of members of the group that have been added or skipped here
    """

    __slots__ = (
        "_indexed",
        "_new",
        "_new_evaluations",
        "_next_skip_check",
        "_others",
        "_tables",
        "joined_count",
        "source",
    )

    def __init__(self, source: Source) -> None:
        self.source = source
        self.joined_count = 0
        self._others: list[Any] | None = None
        self._indexed: list[HoldMember] = []
        self._new: list[HoldMember] = []
        self._tables: list[IntervalTable] = []
        self._new_evaluations = 0
        self._next_skip_check = 0

    def add(self, members: Sequence[HoldMember]) -> None:
        self._new += members

    def find_affected(self, reading: TickReading, flagged: bool, ordinal: int) -> list[tuple[int, HoldMember]]:
        """Return the members that must process the next event, with their index; -1 for new members.

        flagged: a value is outside of its declared range
        ordinal: of the previous event
        """
        ticks, others = reading
        changed = others != self._others
        self._others = others
        new = [(-1, member) for member in self._new]
        if ticks is None or flagged or changed:
            return [*enumerate(self._indexed), *new]
        indexes = self._find_outside(ticks)
        if ordinal >= self._next_skip_check and self._indexed:
            indexes = sorted({*indexes, *self._find_at_skip_limit(ordinal)})
        return [*((index, self._indexed[index]) for index in indexes), *new]

    def update_intervals(self, index: int, member: HoldMember) -> None:
        """Update the intervals of a member after it processed an event. A closed member gets unbounded intervals."""
        intervals = member.intervals(self.source)
        for tick_index, table in enumerate(self._tables):
            interval = intervals.get(tick_index, UNBOUNDED)
            if table.interval(index) != interval:
                table.put(index, *interval)

    def index_new_members(self, workspace: Workspace, tick_count: int) -> None:
        """Index the new members once the events that they processed have cost as much as building the tables."""
        self._new_evaluations += len(self._new)
        if self._new and self._new_evaluations * EVALUATION_COST >= len(self._indexed):
            self._build_tables(workspace, tick_count)

    def _find_outside(self, ticks: list[int]) -> list[int]:
        found = [table.outside(tick).tolist() for table, tick in zip(self._tables, ticks, strict=False)]
        nonempty = [indexes for indexes in found if indexes]
        return nonempty[0] if len(nonempty) == 1 else sorted({index for indexes in nonempty for index in indexes})

    def _find_at_skip_limit(self, ordinal: int) -> Iterator[int]:
        """Yield the members that have suppressed as many events of the source as one frame can skip."""
        limit, earliest = MAX_SKIP - 1, ordinal
        for index, member in enumerate(self._indexed):
            row = None if member.is_closed else member.reducer.row_of(self.source)
            if row is None:
                continue
            sent = member.reducer.last_sent(row)
            if ordinal - sent >= limit:
                yield index
            else:
                earliest = min(earliest, sent)
        self._next_skip_check = earliest + limit

    def _build_tables(self, workspace: Workspace, tick_count: int) -> None:
        members = [member for member in (*self._indexed, *self._new) if not member.is_closed]
        self._indexed = sorted(members, key=lambda member: member.tolerances)
        self._new, self._new_evaluations = [], 0
        intervals = [member.intervals(self.source) for member in self._indexed]
        columns = ([one.get(index, UNBOUNDED) for one in intervals] for index in range(tick_count))
        bounds = (np.array(column, dtype=np.int64).reshape(len(intervals), 2) for column in columns)
        self._tables = [IntervalTable(each[:, 0], each[:, 1], workspace) for each in bounds]
        self._next_skip_check = 0
