"""Rows taken over from other columns: where a link goes on with what another one knows.

State in columns: one row a source, the same cells for the per-event code and the compiled kernels.

A row begins with what belongs to the source; then each slot has its fields; then the seasons of the slots that have a
period. A slot's mode decides which fields are read, and only those are ever told. Both ends of a link keep a replica:
what one does to a row the other does too, in the same order.

Events that are nothing but bytes: both ends count them, and neither keeps them.

Which row a source has: for one reducer, or for several that meet the same sources in the same order.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from thinwire.codec.predictors import predictor as steps
from thinwire.codec.rules import Rule, RuleSet
from thinwire.codec.ticks import ABSENT, TICK_LIMIT, UNSET
from thinwire.errors import CorruptFrame
from thinwire.wire.control_frames import PredictorChange
from thinwire.wire.partial_event import EncodingKind

ORDINAL, TOLD, DUE, TRIAL, FILLED, LATEST, TRAVELLED, HEAD = range(8)
"""cells of a source: its last event, the last one told, when its predictors are on trial (under `changes`, when
nothing is predicted, the event that must be told), the trial and how far it is, the latest time seen, the time of the
last event that was not held back"""

X1, X2, OFFSET, TREND, COEFFICIENTS, MODE, FIELDS = range(7)
"""cells of a slot"""

MAX_COEFFICIENTS = 1 << 27
MAX_TREND = 1 << 46


class SourceTable:
    """The state of all sources of one link, as one of its ends knows it."""

    def __init__(self, rules: RuleSet) -> None:
        self.rules = rules
        self.slots = rules.slots
        self.rows = 0
        self.table = array("q")
        self.objects: list[list[Any]] = [[] for _ in rules.rules]
        self.moving: list[int] = []
        """per row, the properties whose expectation changes although nothing is said of them"""
        self.near: dict[int, int] = {}
        """per row, the number of its last event that the state is only near to, within no bound"""
        self._view: npt.NDArray[np.int64] | None = None
        self._lay_out(rules)

    def _lay_out(self, rules: RuleSet) -> None:
        self.period = [0] * self.slots
        self.ring_start = [0] * self.slots
        self.ring_width = 0
        blank: list[int] = [0] * HEAD
        for rule in rules.rules:
            blank += [ABSENT, ABSENT, 0, UNSET, rule.coefficients, rule.mode] * rule.slots
            if rule.lane is EncodingKind.TICK and rule.property.period:
                self.period[rule.first_slot] = rule.property.period
                self.ring_start[rule.first_slot] = HEAD + FIELDS * self.slots + self.ring_width
                self.ring_width += rule.property.period
        self.blank = array("q", blank + [ABSENT] * self.ring_width)
        self.width = len(self.blank)
        self._object_indexes = [i for i, rule in enumerate(rules.rules) if not rule.slots]
        self._predicted = [
            (i, rule) for i, rule in enumerate(rules.rules) if rule.lane in (EncodingKind.TICK, EncodingKind.GEO)
        ]

    def view(self) -> npt.NDArray[np.int64]:
        """The table for kernels; it is shared, not copied."""
        if self._view is None:
            self._view = np.frombuffer(self.table, dtype=np.int64)
        return self._view

    def by_row(self) -> npt.NDArray[np.int64]:
        """The same, one line a source. Whoever holds on to it keeps the table from growing."""
        return self.view().reshape(self.rows, self.width)

    def begin(self, rows: int) -> None:
        """So many rows at once, in place of none; none of them has a value yet."""
        self._view = None
        self.table = self.blank * rows
        self.rows = rows
        for index in self._object_indexes:
            self.objects[index] += [None] * rows
        if rows:
            self.moving.append(0)
            self.note_moving(0)
            self.moving *= rows

    def add(self) -> int:
        """A new row, without any value yet."""
        row = self.rows
        self._view = None  # an array that is looked at cannot grow
        try:
            self.table.extend(self.blank)
        except BufferError:  # compiling a kernel leaves views behind that only the garbage collector finds
            self.table = self.table + self.blank
        for index in self._object_indexes:
            self.objects[index].append(None)
        self.rows = row + 1
        self.moving.append(0)
        self.note_moving(row)
        return row

    def place(self, row: int, slot: int) -> int:
        """Where the fields of a slot begin."""
        return row * self.width + HEAD + slot * FIELDS

    def last(self, row: int, slot: int) -> int:
        """The value both ends have."""
        return self.table[row * self.width + HEAD + slot * FIELDS]

    def ordinal(self, row: int) -> int:
        """The number of the source's last event."""
        return self.table[row * self.width]

    def mark_near(self, row: int, rule: Rule) -> None:
        """The event being taken in has a value of this rule that the state cannot hold.

        Who sees changes only goes on seeing that value, whatever the state expects: the next event must be told.
        """
        start = row * self.width
        self.near[row] = self.table[start] + 1
        if self.rules.changes and self.rules.fires(rule):
            self.table[start + DUE] = self.table[start] + 2

    def is_near(self, row: int) -> bool:
        """Is the state only near to the source's last event?"""
        return self.near.get(row) == self.table[row * self.width]

    def note_moving(self, row: int) -> None:
        """Find out again which properties of a row move by themselves."""
        moving = 0
        for index, rule in self._predicted:
            slot = rule.first_slot
            if self.table[self.place(row, slot) + MODE] & 15 or self.period[slot]:
                moving |= 1 << index
        self.moving[row] = moving

    def expected(self, row: int, slot: int) -> int:
        """What both ends expect of this slot in the source's next event; ABSENT where it has no value."""
        table = self.table
        i = row * self.width + HEAD + slot * FIELDS
        mode = table[i + MODE]
        x1 = table[i]
        if x1 == ABSENT or not mode & 15:
            return x1
        x2 = table[self._ring_place(row, slot)] if mode & 15 == steps.SEASONAL else table[i + X2]
        return steps.predict(mode, x1, x2, table[i + OFFSET], table[i + TREND], table[i + COEFFICIENTS])

    def set_value(self, row: int, slot: int, x: int) -> None:
        """Both ends now have this value for the source's next event."""
        table = self.table
        i = row * self.width + HEAD + slot * FIELDS
        x1 = table[i]
        if x1 == ABSENT:
            table[i + X2], table[i + OFFSET], table[i + TREND] = x, 0, UNSET
        else:
            if table[i + MODE] & 15 == steps.TREND:
                table[i + OFFSET], table[i + TREND] = steps.observe_trend(
                    x, x1, table[i + OFFSET], table[i + TREND], table[i + COEFFICIENTS]
                )
            table[i + X2] = x1
        table[i] = x
        if self.period[slot]:
            table[self._ring_place(row, slot)] = x

    def put(self, row: int, slot: int, x: int) -> None:
        """Set a slot that is not predicted: a flag, a bit pattern, or ABSENT anywhere."""
        self.table[row * self.width + HEAD + slot * FIELDS] = x

    def switch(self, row: int, change: PredictorChange) -> None:
        """Another predictor from the next event on; it starts from the last value and the trend it is given."""
        self._check(change)
        table = self.table
        i = self.place(row, change.slot)
        x1 = table[i]
        table[i + MODE] = change.mode
        table[i + COEFFICIENTS] = change.coefficients
        table[i + X2] = x1 if x1 == ABSENT else steps.clamp(x1 - (change.trend >> 8), TICK_LIMIT)
        table[i + OFFSET] = 0
        table[i + TREND] = change.trend
        self.note_moving(row)

    def advance(self, row: int, told: int = 0) -> None:
        """The source's next event is complete: every property not among those `told` was as expected."""
        moving = self.moving[row] & ~told
        while moving:
            low = moving & -moving
            moving ^= low
            rule = self.rules.rules[low.bit_length() - 1]
            for slot in range(rule.first_slot, rule.first_slot + rule.slots):
                expected = self.expected(row, slot)
                if expected != ABSENT:
                    self.set_value(row, slot, expected)
        self.table[row * self.width] += 1

    def _check(self, change: PredictorChange) -> None:
        kind = change.mode & 15
        if change.slot >= self.slots or kind >= steps.MODES or change.mode >> 5:
            raise CorruptFrame("switch to a predictor that does not exist", slot=change.slot, mode=change.mode)
        if kind == steps.SEASONAL and not self.period[change.slot]:
            raise CorruptFrame("seasonal predictor without a period", slot=change.slot)
        if change.coefficients >= MAX_COEFFICIENTS or abs(change.trend) > MAX_TREND:
            raise CorruptFrame("coefficients outside their limits", coefficients=change.coefficients)

    def _ring_place(self, row: int, slot: int) -> int:
        start = row * self.width
        return start + self.ring_start[slot] + (self.table[start] + 1) % self.period[slot]


def take_over(columns: SourceTable, old: SourceTable, rows: Sequence[int]) -> None:
    """Begin empty columns with these rows of others, in this order: numbers of events, and values by their names.

    All events count as told. Predictors start afresh, and their trials are due. Under `changes` the next event of each
    source is: what its readers saw last may be another value than the one that is taken over, unless the others were
    under `changes` too and know what is due.
    """
    columns.begin(len(rows))
    if not rows:
        return
    table, before = columns.by_row(), old.by_row()
    taken: Any = slice(None) if len(rows) == old.rows else np.fromiter(rows, dtype=np.int64, count=len(rows))
    for cell in (ORDINAL, LATEST, TRAVELLED):
        table[:, cell] = before[taken, cell]
    table[:, TOLD] = table[:, ORDINAL]
    same = columns.rules.changes and old.rules.changes
    table[:, DUE] = before[taken, DUE] if same else table[:, ORDINAL] + 1
    known = {rule.property.name: (index, rule) for index, rule in enumerate(old.rules.rules)}
    for index, rule in enumerate(columns.rules.rules):
        if rule.property.name not in known:
            continue
        old_index, old_rule = known[rule.property.name]
        for k in range(rule.slots):
            i = columns.place(0, rule.first_slot + k)
            table[:, i] = table[:, i + X2] = before[taken, old.place(0, old_rule.first_slot + k)]
        if not rule.slots:
            columns.objects[index][:] = map(old.objects[old_index].__getitem__, rows)
    if old.near:
        columns.near.update((row, old.near[former]) for row, former in enumerate(rows) if old.is_near(former))


UNKEPT = b"\x00\x01"
"""the columns of a source whose last event was such bytes: absent, and only near to what it was"""


def note(columns: SourceTable) -> None:
    """The only source has one more event."""
    ordinal = columns.table[ORDINAL] + 1
    columns.table[ORDINAL] = columns.table[TOLD] = columns.near[0] = ordinal
    columns.objects[0][0] = None


Key = tuple[Any, ...]


class Roster:
    """Sources in the order in which they were met; each has the row of its place.

    Reducers that share one know as many of its sources as they have rows. The first to meet a source writes it down;
    to whom the next source is another one, a roster of its own is due.

    >>> roster = Roster([("a",)])
    >>> roster.put(("b",), 1), roster.put(("b",), 1), roster.put(("c",), 1)
    (True, True, False)
    >>> roster.keys, roster.rows
    ([('a',), ('b',)], {('a',): 0, ('b',): 1})
    """

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self.keys = list(keys)
        self.rows = dict(zip(self.keys, range(len(self.keys)), strict=True))

    def begins_with(self, keys: list[Key]) -> bool:
        """Have these sources the first rows, in this order?"""
        return self.keys[: len(keys)] == keys

    def put(self, key: Key, row: int) -> bool:
        """Has the source this row? A row that nobody has, the one after the last, is given to it."""
        if row == len(self.keys) and key not in self.rows:
            self.keys.append(key)
            self.rows[key] = row
            return True
        return self.rows.get(key) == row
