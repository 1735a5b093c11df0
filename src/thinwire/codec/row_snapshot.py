"""One source's columns as bytes, for key frames and introductions, and back."""

from __future__ import annotations

from thinwire.codec.predictors import predictor as steps
from thinwire.codec.rules import Rule
from thinwire.codec.source_table import COEFFICIENTS, MAX_COEFFICIENTS, MODE, OFFSET, TREND, X2, SourceTable
from thinwire.codec.ticks import ABSENT, TICK_LIMIT, UNSET
from thinwire.codec.value_conversion import bits_of, float_of
from thinwire.errors import CorruptFrame
from thinwire.wire import exact_value as exact
from thinwire.wire import varint
from thinwire.wire.partial_event import EncodingKind

_EMPTY = 0x20
_FRESH = 0x40
_NEAR = b"\x01"
_FIXED_LIMIT = 1 << 48


def take(columns: SourceTable, row: int) -> bytes:
    """The state of a row. Only what the current predictors read is told."""
    parts: list[bytes] = []
    for index, rule in enumerate(columns.rules.rules):
        if rule.lane is EncodingKind.FLOAT:
            bits = columns.last(row, rule.first_slot)
            parts.append(exact.encode(None if bits == ABSENT else float_of(bits)))
        elif rule.slots:
            parts += (_take_slot(columns, row, rule.first_slot + k) for k in range(rule.slots))
        else:
            parts.append(exact.encode(columns.objects[index][row]))
    if columns.is_near(row):
        parts.append(_NEAR)
    return b"".join(parts)


def restore(columns: SourceTable, row: int, data: bytes, ordinal: int) -> None:
    """Put a row into the state that was told."""
    at = 0
    if ordinal > TICK_LIMIT:
        raise CorruptFrame("an ordinal beyond all limits", ordinal=ordinal)
    columns.table[row * columns.width] = ordinal
    for index, rule in enumerate(columns.rules.rules):
        if rule.lane is EncodingKind.FLOAT:
            value, at = exact.decode(data, at)
            _need(value is None or isinstance(value, float), rule)
            columns.put(row, rule.first_slot, ABSENT if value is None else bits_of(value))
        elif rule.slots:
            for k in range(rule.slots):
                at = _restore_slot(columns, row, rule.first_slot + k, data, at)
        else:
            at = _restore_object(columns, row, index, rule, data, at)
    columns.near.pop(row, None)
    if data[at:] == _NEAR:
        columns.near[row] = ordinal
        at += 1
    if at != len(data):
        raise CorruptFrame("columns do not fit the schema", length=len(data), read=at)
    columns.note_moving(row)


def _take_slot(columns: SourceTable, row: int, slot: int) -> bytes:
    table, i = columns.table, columns.place(row, slot)
    mode, x1, trend = table[i + MODE], table[i], table[i + TREND]
    # an absent value restarts the trend, so what the trend was must not show
    fresh = mode & 15 == steps.TREND and trend == UNSET and x1 != ABSENT
    parts = [bytes((mode | _EMPTY * (x1 == ABSENT) | _FRESH * fresh,))]
    if mode & 15 == steps.TREND:
        parts.append(varint.write(table[i + COEFFICIENTS]))
    if x1 != ABSENT:
        parts.append(varint.write_signed(x1))
        if mode & 15 == steps.LINEAR:
            parts.append(varint.write_signed(x1 - table[i + X2]))
        elif mode & 15 == steps.TREND and not fresh:
            parts += (varint.write_signed(table[i + OFFSET]), varint.write_signed(trend))
    if columns.period[slot]:
        start = row * columns.width + columns.ring_start[slot]
        season = table[start : start + columns.period[slot]]
        parts.append(exact.encode([None if x == ABSENT else x for x in season]))
    return b"".join(parts)


def _restore_slot(columns: SourceTable, row: int, slot: int, data: bytes, at: int) -> int:
    if at >= len(data):
        raise CorruptFrame("columns cut off", slot=slot)
    head, at = data[at], at + 1
    mode = head & 0x1F
    kind = mode & 15
    coefficients = offset = 0
    trend = UNSET
    x1 = x2 = ABSENT
    if kind >= steps.MODES or head & 0x80 or (kind == steps.SEASONAL and not columns.period[slot]):
        raise CorruptFrame("a predictor that does not exist", mode=head, slot=slot)
    if kind == steps.TREND:
        coefficients, at = varint.read(data, at)
    if not head & _EMPTY:
        x1, at = varint.read_signed(data, at)
        x2 = x1
        if kind == steps.LINEAR:
            difference, at = varint.read_signed(data, at)
            x2 = x1 - difference
        elif kind == steps.TREND and not head & _FRESH:
            offset, at = varint.read_signed(data, at)
            trend, at = varint.read_signed(data, at)
        _check_sizes(slot, x1, x2, coefficients, offset, trend)
    i = columns.place(row, slot)
    for field, cell in enumerate((x1, x2, offset, trend, coefficients, mode)):
        columns.table[i + field] = cell
    return _restore_ring(columns, row, slot, data, at) if columns.period[slot] else at


def _restore_ring(columns: SourceTable, row: int, slot: int, data: bytes, at: int) -> int:
    ring, at = exact.decode(data, at)
    fits = isinstance(ring, list) and len(ring) == columns.period[slot]
    if not fits or not all(x is None or (isinstance(x, int) and abs(x) <= TICK_LIMIT) for x in ring):
        raise CorruptFrame("a season that does not fit its period", slot=slot)
    start = row * columns.width + columns.ring_start[slot]
    for k, x in enumerate(ring):
        columns.table[start + k] = ABSENT if x is None else x
    return at


def _restore_object(columns: SourceTable, row: int, index: int, rule: Rule, data: bytes, at: int) -> int:
    value, at = exact.decode(data, at)
    if rule.lane is EncodingKind.ARRAY and value is not None:
        _need(isinstance(value, list) and all(isinstance(x, int) and abs(x) <= TICK_LIMIT for x in value), rule)
        value = tuple(value)
    else:
        _need(value is None or isinstance(value, str if rule.lane is EncodingKind.TEXT else bytes), rule)
    columns.objects[index][row] = value
    return at


def _check_sizes(slot: int, x1: int, x2: int, coefficients: int, offset: int, trend: int) -> None:
    fits = abs(x1) <= TICK_LIMIT and abs(x2) <= TICK_LIMIT and coefficients < MAX_COEFFICIENTS
    if not fits or abs(offset) > _FIXED_LIMIT or (trend != UNSET and abs(trend) > _FIXED_LIMIT):
        raise CorruptFrame("state beyond all limits", slot=slot)


def _need(condition: bool, rule: Rule) -> None:
    if not condition:
        raise CorruptFrame("state of another kind than the property", property=rule.property.name)
