"""Snapshot of the rows of all sources, checked on restoring. Columns are stored one after the other."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import numpy.typing as npt

from thinwire.codec.predictors import arithmetic
from thinwire.codec.row_snapshot import FIXED_LIMIT, checked_object
from thinwire.codec.rules import Rule
from thinwire.codec.source_table import (
    COEFFICIENTS,
    HEADER_CELLS,
    MAX_COEFFICIENTS,
    MODE,
    OFFSET,
    ORDINAL,
    SLOT_CELLS,
    TREND,
    X1,
    X2,
    SourceTable,
)
from thinwire.codec.ticks import ABSENT, TICK_LIMIT
from thinwire.errors import CorruptFrame
from thinwire.wire import exact_value
from thinwire.wire.partial_event import EncodingKind

Cells = npt.NDArray[np.int64]

_FIELD_LIMITS = (
    (OFFSET, -FIXED_LIMIT, FIXED_LIMIT, False),
    (TREND, -FIXED_LIMIT, FIXED_LIMIT, True),
    (COEFFICIENTS, 0, MAX_COEFFICIENTS - 1, False),
    (MODE, 0, 2 * arithmetic.FINE - 1, False),
)
"""cells of a slot that are not ticks: lowest and highest value, and whether ABSENT is allowed"""

_INDEX_BYTES = 4


def snapshot_rows(table: SourceTable) -> bytes:
    """Return the cells of all rows, without those that only a publisher uses.

    First the cells that are equal in all rows, once; then the others, one column after the other; then a byte per cell
    that distinguishes them.
    """
    if not table.rows:
        return b""
    cells = np.empty((table.width, table.rows), dtype=np.int64)
    cells[:] = table.by_row().T
    cells[ORDINAL + 1 : HEADER_CELLS] = 0
    varies = (cells != cells[:, :1]).any(axis=1)
    return b"".join((cells[~varies, 0].tobytes(), cells[varies].tobytes(), varies.tobytes()))


def max_size(table: SourceTable, rows: int) -> int:
    """Return the maximum size of the cells of `rows` rows."""
    return table.width * (1 + rows * table.cells.itemsize)


def restore_rows(table: SourceTable, rows: int, data: memoryview) -> None:
    """Fill an empty table with `rows` rows. Raises CorruptFrame for cells that no row can have."""
    if not rows:
        return
    cells = _read_cells(table, rows, data)
    _check_ranges(table, cells)
    for rule in table.rules.rules:
        for slot in range(rule.first_slot, rule.first_slot + rule.slots):
            first = HEADER_CELLS + slot * SLOT_CELLS
            _check_slot(table, rule, slot, cells[first : first + SLOT_CELLS])
    table.allocate(rows)
    table.by_row()[:] = cells.T
    table.moving[:] = _moving(table, cells)


def snapshot_objects(table: SourceTable) -> bytes:
    """Return the texts, arrays and opaque values of all rows: each distinct value once, and its index for each row."""
    parts: list[bytes] = []
    for rule, column in zip(table.rules.rules, table.objects, strict=True):
        if not rule.slots:
            indexes: dict[Any, int] = {}
            stored = [indexes.setdefault(value, len(indexes)) for value in column]
            parts += (exact_value.encode(list(indexes)), array("I", stored).tobytes())
    return b"".join(parts)


def restore_objects(table: SourceTable, data: bytes) -> None:
    """Restore texts, arrays and opaque values into a table with rows."""
    at = 0
    for rule, column in zip(table.rules.rules, table.objects, strict=True):
        if not rule.slots:
            objects, at = exact_value.decode(data, at)
            if not isinstance(objects, list):
                raise CorruptFrame("objects must be a list", property=rule.property.name)
            end = at + _INDEX_BYTES * table.rows
            stored = _read_indexes(data[at:end], len(objects))
            if len(stored) != table.rows:
                raise CorruptFrame("objects do not fit the rows", property=rule.property.name, rows=table.rows)
            checked = [checked_object(rule, value) for value in objects]
            column[:] = [checked[index] for index in stored]
            at = end
    if at != len(data):
        raise CorruptFrame("objects do not fit the schema", length=len(data), read=at)


def snapshot_approximate(table: SourceTable) -> bytes:
    """Return the rows whose state only approximates their last event."""
    return array("I", [row for row in table.approximate if table.is_approximate(row)]).tobytes()


def restore_approximate(table: SourceTable, data: bytes) -> None:
    """Restore the approximated rows into a table with rows."""
    table.approximate.update((row, table.ordinal(row)) for row in _read_indexes(data, table.rows))


def _read_indexes(data: bytes, count: int) -> array[int]:
    """Return indexes below `count`."""
    if len(data) % _INDEX_BYTES:
        raise CorruptFrame("list of indexes cut off", length=len(data))
    indexes = array("I", data)
    if indexes and max(indexes) >= count:
        raise CorruptFrame("index out of range", index=max(indexes), count=count)
    return indexes


def _read_cells(table: SourceTable, rows: int, data: memoryview) -> Cells:
    """Return the cells as a matrix with one line per cell."""
    width, size = table.width, table.cells.itemsize
    varies = np.frombuffer(data[-width:], dtype=np.uint8) if len(data) > width else np.zeros(0, dtype=np.uint8)
    other = int(varies.sum())
    if len(varies) != width or varies.max() > 1 or len(data) != width + size * (width - other + other * rows):
        raise CorruptFrame("rows do not fit the schema", length=len(data), rows=rows, width=width)
    numbers: Cells = np.frombuffer(data[:-width], dtype=np.int64)
    cells = np.empty((width, rows), dtype=np.int64)
    cells[varies == 0] = numbers[: width - other, np.newaxis]
    cells[varies == 1] = numbers[width - other :].reshape(other, rows)
    return cells


def _check_ranges(table: SourceTable, cells: Cells) -> None:
    """Check the range of every cell. Floats are checked as bit patterns in `_check_slot`."""
    lowest, highest, may_be_absent = _limits(table)
    low = cells.min(axis=1)
    bad = (cells.max(axis=1) > highest) | ((low < lowest) & ~may_be_absent)
    for cell in np.flatnonzero((low < lowest) & may_be_absent):
        present = cells[cell][cells[cell] != ABSENT]
        bad[cell] |= len(present) and present.min() < lowest[cell]
    if bad.any():
        raise CorruptFrame("state out of range", cell=int(np.flatnonzero(bad)[0]))


def _limits(table: SourceTable) -> tuple[Cells, Cells, npt.NDArray[np.bool_]]:
    """Return the lowest and the highest value of each cell of a row, and whether ABSENT is allowed."""
    lowest, highest = np.full(table.width, -TICK_LIMIT), np.full(table.width, TICK_LIMIT)
    may_be_absent = np.ones(table.width, dtype=bool)
    lowest[:HEADER_CELLS] = highest[ORDINAL + 1 : HEADER_CELLS] = 0
    may_be_absent[:HEADER_CELLS] = False
    for field, low, high, absent in _FIELD_LIMITS:
        cells = slice(HEADER_CELLS + field, HEADER_CELLS + SLOT_CELLS * table.slots, SLOT_CELLS)
        lowest[cells], highest[cells], may_be_absent[cells] = low, high, absent
    for rule in table.rules.rules:
        if rule.encoding is EncodingKind.FLOAT:
            first = HEADER_CELLS + rule.first_slot * SLOT_CELLS
            lowest[first : first + SLOT_CELLS], highest[first : first + SLOT_CELLS] = ABSENT, -(ABSENT + 1)
    return lowest, highest, may_be_absent


def _check_slot(table: SourceTable, rule: Rule, slot: int, fields: Cells) -> None:
    """Check that a float slot is finite, or that the predictor of another slot exists and has its state."""
    present = fields[X1] != ABSENT
    if rule.encoding is EncodingKind.FLOAT:
        good = np.isfinite(fields[X1].view(np.float64)) | ~present
    else:
        kind = fields[MODE] & 15
        needs_x2 = (kind == arithmetic.LINEAR) | (kind >= arithmetic.MODES)
        good = (kind < arithmetic.MODES + len(table.rules.custom)) & ~(needs_x2 & present & (fields[X2] == ABSENT))
        if not table.period[slot]:
            good &= kind != arithmetic.SEASONAL
    if not good.all():
        row = int(np.flatnonzero(~good)[0])
        raise CorruptFrame("float is not finite, or unknown predictor", property=rule.property.name, row=row)


def _moving(table: SourceTable, cells: Cells) -> list[int]:
    """Compute `SourceTable.moving` for all rows."""
    rules = table.rules.rules
    words = np.zeros((len(rules) // 64 + 1, table.rows), dtype=np.uint64)
    for index, rule in enumerate(rules):
        if rule.encoding in (EncodingKind.TICK, EncodingKind.GEO):
            moves = cells[HEADER_CELLS + rule.first_slot * SLOT_CELLS + MODE] & 15 != 0
            moves |= bool(table.period[rule.first_slot])
            words[index // 64] |= moves.astype(np.uint64) << np.uint64(index % 64)
    moving: list[int] = words[0].tolist()
    for number, word in enumerate(words[1:], start=1):
        moving = [low | high << 64 * number for low, high in zip(moving, word.tolist(), strict=True)]
    return moving
