"""State of all sources of a stream, in rows of integer cells.

A row starts with the cells of the source, followed by the cells of each slot and the seasons of slots with a period.
The mode of a slot decides which of its cells are used, and only those are sent. Both ends of a stream apply the same
updates in the same order. Scalar code and compiled kernels use the same cells.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from thinwire.codec.predictors import arithmetic
from thinwire.codec.predictors.custom import CustomPredictor
from thinwire.codec.rules import Rule, RuleSet
from thinwire.codec.ticks import ABSENT, TICK_LIMIT, UNSET
from thinwire.errors import CorruptFrame
from thinwire.wire.control_frames import PredictorChange
from thinwire.wire.partial_event import EncodingKind

ORDINAL, LAST_SENT, DUE, TRIAL, FILLED, LATEST, INTERVAL_START, HEADER_CELLS = range(8)
"""cells of a source: ordinal of the last event; ordinal of the last event that a frame reported; ordinal of the next
predictor trial, or with `changes` of the event that must be sent; index of its trial and number of events in it; latest
event time; time of the last event that `min_interval` did not suppress"""

X1, X2, OFFSET, TREND, COEFFICIENTS, MODE, SLOT_CELLS = range(7)
"""cells of a slot: the last two values, offset and trend, coefficients and mode of its predictor"""

MAX_COEFFICIENTS = 1 << 27
MAX_TREND = 1 << 46


class SourceTable:
    """State of all sources of one stream, at one of its ends. It owns the cells, the texts and arrays of each row."""

    def __init__(self, rules: RuleSet) -> None:
        self.rules = rules
        self.slots = rules.slots
        self.rows = 0
        self.cells = array("q")
        self.objects: list[list[Any]] = [[] for _ in rules.rules]
        self.moving: list[int] = []
        """per row, a bit mask of the properties whose prediction changes without new values"""
        self.approximate: dict[int, int] = {}
        """per row, the ordinal of the last event whose values the state only approximates, without a bound"""
        self._view: npt.NDArray[np.int64] | None = None
        self._lay_out(rules)

    def _lay_out(self, rules: RuleSet) -> None:
        self.period = [0] * self.slots
        self.ring_start = [0] * self.slots
        self.ring_width = 0
        blank: list[int] = [0] * HEADER_CELLS
        for rule in rules.rules:
            blank += [ABSENT, ABSENT, 0, UNSET, rule.coefficients, rule.mode] * rule.slots
            if rule.encoding is EncodingKind.TICK and rule.property.period:
                self.period[rule.first_slot] = rule.property.period
                self.ring_start[rule.first_slot] = HEADER_CELLS + SLOT_CELLS * self.slots + self.ring_width
                self.ring_width += rule.property.period
        self.blank = array("q", blank + [ABSENT] * self.ring_width)
        self.width = len(self.blank)
        self._object_indexes = [i for i, rule in enumerate(rules.rules) if not rule.slots]
        self._predicted = [
            (i, rule) for i, rule in enumerate(rules.rules) if rule.encoding in (EncodingKind.TICK, EncodingKind.GEO)
        ]

    def view(self) -> npt.NDArray[np.int64]:
        """Return the cells as an array for kernels. It shares the memory."""
        if self._view is None:
            self._view = np.frombuffer(self.cells, dtype=np.int64)
        return self._view

    def by_row(self) -> npt.NDArray[np.int64]:
        """Return the cells as a matrix with one row per source. The table cannot grow while it is referenced."""
        return self.view().reshape(self.rows, self.width)

    def allocate(self, rows: int) -> None:
        """Allocate rows without values in an empty table."""
        self._view = None
        self.cells = self.blank * rows
        self.rows = rows
        for index in self._object_indexes:
            self.objects[index] += [None] * rows
        if rows:
            self.moving.append(0)
            self.update_moving(0)
            self.moving *= rows

    def add(self) -> int:
        """Add a row without values. Return its number."""
        row = self.rows
        self._view = None  # an array with an exported buffer cannot grow
        try:
            self.cells.extend(self.blank)
        except BufferError:  # numba keeps buffers exported until the next garbage collection
            self.cells = self.cells + self.blank
        for index in self._object_indexes:
            self.objects[index].append(None)
        self.rows = row + 1
        self.moving.append(0)
        self.update_moving(row)
        return row

    def slot_start(self, row: int, slot: int) -> int:
        """Return the index of the first cell of a slot."""
        return row * self.width + HEADER_CELLS + slot * SLOT_CELLS

    def last(self, row: int, slot: int) -> int:
        return self.cells[row * self.width + HEADER_CELLS + slot * SLOT_CELLS]

    def ordinal(self, row: int) -> int:
        """Return the ordinal of the last event of a source."""
        return self.cells[row * self.width]

    def mark_approximate(self, row: int, rule: Rule) -> None:
        """Mark that the state cannot represent a value of the current event.

        With `changes`, a receiver keeps showing that value, not the prediction, so the next event must be sent.
        """
        start = row * self.width
        self.approximate[row] = self.cells[start] + 1
        if self.rules.changes and self.rules.triggers(rule):
            self.cells[start + DUE] = self.cells[start] + 2

    def is_approximate(self, row: int) -> bool:
        """Check whether the state only approximates the last event of a source."""
        return self.approximate.get(row) == self.cells[row * self.width]

    def update_moving(self, row: int) -> None:
        """Recompute which properties of a row change without new values."""
        moving = 0
        for index, rule in self._predicted:
            slot = rule.first_slot
            if self.cells[self.slot_start(row, slot) + MODE] & 15 or self.period[slot]:
                moving |= 1 << index
        self.moving[row] = moving

    def predicted(self, row: int, slot: int) -> int:
        """Return the predicted next value of a slot; ABSENT if it has no value."""
        cells = self.cells
        i = row * self.width + HEADER_CELLS + slot * SLOT_CELLS
        mode = cells[i + MODE]
        x1 = cells[i]
        if x1 == ABSENT or not mode & 15:
            return x1
        if mode & 15 >= arithmetic.MODES:
            return self._custom(mode).step(x1, cells[i + X2], cells[i + OFFSET], cells[i + TREND])
        x2 = cells[self._ring_index(row, slot)] if mode & 15 == arithmetic.SEASONAL else cells[i + X2]
        return arithmetic.predict(mode, x1, x2, cells[i + OFFSET], cells[i + TREND], cells[i + COEFFICIENTS])

    def set_value(self, row: int, slot: int, x: int) -> None:
        """Store the next value of a slot and update its predictor."""
        cells = self.cells
        i = row * self.width + HEADER_CELLS + slot * SLOT_CELLS
        x1 = cells[i]
        if x1 == ABSENT:
            cells[i + X2], cells[i + OFFSET], cells[i + TREND] = x, 0, UNSET
        else:
            if cells[i + MODE] & 15 == arithmetic.TREND:
                cells[i + OFFSET], cells[i + TREND] = arithmetic.observe_trend(
                    x, x1, cells[i + OFFSET], cells[i + TREND], cells[i + COEFFICIENTS]
                )
            elif cells[i + MODE] & 15 >= arithmetic.MODES:
                cells[i + OFFSET], cells[i + TREND] = self._custom(cells[i + MODE]).update(
                    x, x1, cells[i + X2], cells[i + OFFSET], cells[i + TREND]
                )
            cells[i + X2] = x1
        cells[i] = x
        if self.period[slot]:
            cells[self._ring_index(row, slot)] = x

    def set_raw(self, row: int, slot: int, x: int) -> None:
        """Store a value in a slot without a predictor: a flag, a bit pattern, or ABSENT in any slot."""
        self.cells[row * self.width + HEADER_CELLS + slot * SLOT_CELLS] = x

    def switch(self, row: int, change: PredictorChange) -> None:
        """Change the predictor of a slot from the next event on. It starts with the last value and the given trend."""
        self._check(change)
        cells = self.cells
        i = self.slot_start(row, change.slot)
        x1 = cells[i]
        cells[i + MODE] = change.mode
        cells[i + COEFFICIENTS] = change.coefficients
        cells[i + X2] = x1 if x1 == ABSENT else arithmetic.clamp(x1 - (change.trend >> 8), TICK_LIMIT)
        cells[i + OFFSET] = 0
        cells[i + TREND] = change.trend
        self.update_moving(row)

    def advance(self, row: int, sent: int = 0) -> None:
        """Complete the next event of a source. Properties that are not in the mask `sent` get their predicted value."""
        moving = self.moving[row] & ~sent
        while moving:
            low = moving & -moving
            moving ^= low
            rule = self.rules.rules[low.bit_length() - 1]
            for slot in range(rule.first_slot, rule.first_slot + rule.slots):
                predicted = self.predicted(row, slot)
                if predicted != ABSENT:
                    self.set_value(row, slot, predicted)
        self.cells[row * self.width] += 1

    def _check(self, change: PredictorChange) -> None:
        kind = change.mode & 15
        if change.slot >= self.slots or kind >= arithmetic.MODES or change.mode >> 5:
            raise CorruptFrame("switch to a predictor that does not exist", slot=change.slot, mode=change.mode)
        if kind == arithmetic.SEASONAL and not self.period[change.slot]:
            raise CorruptFrame("seasonal predictor without a period", slot=change.slot)
        if change.coefficients >= MAX_COEFFICIENTS or abs(change.trend) > MAX_TREND:
            raise CorruptFrame("coefficients outside their limits", coefficients=change.coefficients)

    def _custom(self, mode: int) -> type[CustomPredictor]:
        return self.rules.custom[(mode & 15) - arithmetic.MODES]

    def _ring_index(self, row: int, slot: int) -> int:
        start = row * self.width
        return start + self.ring_start[slot] + (self.cells[start] + 1) % self.period[slot]


def copy_rows(table: SourceTable, old: SourceTable, rows: Sequence[int]) -> None:
    """Fill an empty table with rows of another one, in this order: ordinals, and values of properties with the same
    name.

    All events count as sent. Predictors start without a trend, and their trials are due. With `changes` the next event
    of each source must be sent, because its receivers may have another value. Rows of a table that also has `changes`
    keep their due event.
    """
    table.allocate(len(rows))
    if not rows:
        return
    cells, before = table.by_row(), old.by_row()
    selected: Any = slice(None) if len(rows) == old.rows else np.fromiter(rows, dtype=np.int64, count=len(rows))
    for cell in (ORDINAL, LATEST, INTERVAL_START):
        cells[:, cell] = before[selected, cell]
    cells[:, LAST_SENT] = cells[:, ORDINAL]
    same = table.rules.changes and old.rules.changes
    cells[:, DUE] = before[selected, DUE] if same else cells[:, ORDINAL] + 1
    old_rules = {rule.property.name: (index, rule) for index, rule in enumerate(old.rules.rules)}
    for index, rule in enumerate(table.rules.rules):
        if rule.property.name not in old_rules:
            continue
        old_index, old_rule = old_rules[rule.property.name]
        for k in range(rule.slots):
            i = table.slot_start(0, rule.first_slot + k)
            cells[:, i] = cells[:, i + X2] = before[selected, old.slot_start(0, old_rule.first_slot + k)]
        if not rule.slots:
            table.objects[index][:] = map(old.objects[old_index].__getitem__, rows)
    if old.approximate:
        table.approximate.update(
            (row, old.approximate[former]) for row, former in enumerate(rows) if old.is_approximate(former)
        )


PAYLOAD_STATE = b"\x00\x01"
"""snapshot of a source whose last event was a payload: no value, approximated"""


def count_payload(table: SourceTable) -> None:
    """Count one more payload event of the only source. Payloads are not stored."""
    ordinal = table.cells[ORDINAL] + 1
    table.cells[ORDINAL] = table.cells[LAST_SENT] = table.approximate[0] = ordinal
    table.objects[0][0] = None
