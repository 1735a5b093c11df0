"""State of one source as bytes, for key frames and introductions."""

from __future__ import annotations

from typing import Any

from thinwire.codec.predictors import arithmetic
from thinwire.codec.rules import Rule
from thinwire.codec.source_table import COEFFICIENTS, MAX_COEFFICIENTS, MODE, OFFSET, TREND, X2, SourceTable
from thinwire.codec.ticks import ABSENT, TICK_LIMIT, UNSET
from thinwire.codec.value_conversion import bits_of, float_of
from thinwire.errors import CorruptFrame
from thinwire.wire import exact_value, varint
from thinwire.wire.partial_event import EncodingKind

_EMPTY = 0x20
_FRESH = 0x40
_APPROXIMATE = b"\x01"
_OBJECT_TYPES = {EncodingKind.TEXT: str, EncodingKind.ARRAY: tuple, EncodingKind.OPAQUE: bytes}

FIXED_LIMIT = 1 << 48
"""limit of offsets and trends, in 256ths of a tick"""


def snapshot_row(table: SourceTable, row: int) -> bytes:
    """Return the state of a row. It contains only the cells that the current predictors use."""
    parts: list[bytes] = []
    for index, rule in enumerate(table.rules.rules):
        if rule.encoding is EncodingKind.FLOAT:
            bits = table.last(row, rule.first_slot)
            parts.append(exact_value.encode(None if bits == ABSENT else float_of(bits)))
        elif rule.slots:
            parts += (_snapshot_slot(table, row, rule.first_slot + k) for k in range(rule.slots))
        else:
            parts.append(exact_value.encode(table.objects[index][row]))
    if table.is_approximate(row):
        parts.append(_APPROXIMATE)
    return b"".join(parts)


def restore_row(table: SourceTable, row: int, data: bytes, ordinal: int) -> None:
    """Restore a row."""
    at = 0
    if ordinal > TICK_LIMIT:
        raise CorruptFrame("ordinal out of range", ordinal=ordinal)
    table.cells[row * table.width] = ordinal
    for index, rule in enumerate(table.rules.rules):
        if rule.encoding is EncodingKind.FLOAT:
            value, at = exact_value.decode(data, at)
            _require(value is None or isinstance(value, float), rule)
            table.set_raw(row, rule.first_slot, ABSENT if value is None else bits_of(value))
        elif rule.slots:
            for k in range(rule.slots):
                at = _restore_slot(table, row, rule.first_slot + k, data, at)
        else:
            value, at = exact_value.decode(data, at)
            table.objects[index][row] = checked_object(rule, value)
    table.approximate.pop(row, None)
    if data[at:] == _APPROXIMATE:
        table.approximate[row] = ordinal
        at += 1
    if at != len(data):
        raise CorruptFrame("source state does not fit the schema", length=len(data), read=at)
    table.update_moving(row)


def _snapshot_slot(table: SourceTable, row: int, slot: int) -> bytes:
    cells, i = table.cells, table.slot_start(row, slot)
    mode, x1, trend = cells[i + MODE], cells[i], cells[i + TREND]
    kind = mode & 15
    # an absent value resets the trend, so the old trend must not be part of the state
    fresh = kind == arithmetic.TREND and trend == UNSET and x1 != ABSENT
    parts = [bytes((mode | _EMPTY * (x1 == ABSENT) | _FRESH * fresh,))]
    if kind == arithmetic.TREND:
        parts.append(varint.write(cells[i + COEFFICIENTS]))
    if x1 != ABSENT:
        parts.append(varint.write_signed(x1))
        if kind == arithmetic.LINEAR or kind >= arithmetic.MODES:
            parts.append(varint.write_signed(x1 - cells[i + X2]))
        if (kind == arithmetic.TREND and not fresh) or kind >= arithmetic.MODES:
            parts += map(varint.write_signed, (cells[i + OFFSET], 0 if trend == UNSET else trend))
    if table.period[slot]:
        start = row * table.width + table.ring_start[slot]
        season = cells[start : start + table.period[slot]]
        parts.append(exact_value.encode([None if x == ABSENT else x for x in season]))
    return b"".join(parts)


def _restore_slot(table: SourceTable, row: int, slot: int, data: bytes, at: int) -> int:
    if at >= len(data):
        raise CorruptFrame("source state cut off", slot=slot)
    head, at = data[at], at + 1
    mode = head & 0x1F
    kind = mode & 15
    coefficients = offset = 0
    trend = UNSET
    x1 = x2 = ABSENT
    if (
        kind >= arithmetic.MODES + len(table.rules.custom)
        or head & 0x80
        or (kind == arithmetic.SEASONAL and not table.period[slot])
    ):
        raise CorruptFrame("unknown predictor", mode=head, slot=slot)
    if kind == arithmetic.TREND:
        coefficients, at = varint.read(data, at)
    if not head & _EMPTY:
        x1, at = varint.read_signed(data, at)
        x2 = x1
        if kind == arithmetic.LINEAR or kind >= arithmetic.MODES:
            difference, at = varint.read_signed(data, at)
            x2 = x1 - difference
        if (kind == arithmetic.TREND and not head & _FRESH) or kind >= arithmetic.MODES:
            offset, at = varint.read_signed(data, at)
            trend, at = varint.read_signed(data, at)
        _check_sizes(slot, x1, x2, coefficients, offset, trend)
    i = table.slot_start(row, slot)
    for field, cell in enumerate((x1, x2, offset, trend, coefficients, mode)):
        table.cells[i + field] = cell
    return _restore_ring(table, row, slot, data, at) if table.period[slot] else at


def _restore_ring(table: SourceTable, row: int, slot: int, data: bytes, at: int) -> int:
    ring, at = exact_value.decode(data, at)
    fits = isinstance(ring, list) and len(ring) == table.period[slot]
    if not fits or not all(x is None or (isinstance(x, int) and abs(x) <= TICK_LIMIT) for x in ring):
        raise CorruptFrame("season does not fit the period", slot=slot)
    start = row * table.width + table.ring_start[slot]
    for k, x in enumerate(ring):
        table.cells[start + k] = ABSENT if x is None else x
    return at


def checked_object(rule: Rule, value: Any) -> Any:
    """Return a received text, array or opaque value as the state stores it."""
    if isinstance(value, list):
        value = tuple(value)
    good = value is None or isinstance(value, _OBJECT_TYPES[rule.encoding])
    if good and isinstance(value, tuple):
        good = all(isinstance(ticks, int) and abs(ticks) <= TICK_LIMIT for ticks in value)
    _require(good, rule)
    return value


def _check_sizes(slot: int, x1: int, x2: int, coefficients: int, offset: int, trend: int) -> None:
    fits = abs(x1) <= TICK_LIMIT and abs(x2) <= TICK_LIMIT and coefficients < MAX_COEFFICIENTS
    if not fits or abs(offset) > FIXED_LIMIT or (trend != UNSET and abs(trend) > FIXED_LIMIT):
        raise CorruptFrame("state out of range", slot=slot)


def _require(condition: bool, rule: Rule) -> None:
    if not condition:
        raise CorruptFrame("state of another kind than the property", property=rule.property.name)
