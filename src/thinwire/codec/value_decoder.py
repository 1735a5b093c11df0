"""What a code does to the receiver's state, one function a lane; the mirror of `lane_codes`.

Each takes the columns, the row, the rule, the property's number and the code. What no writer could have sent is
refused as a corrupt frame.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thinwire.codec import ticks_residual as residual
from thinwire.codec import value_encoder as exceptions
from thinwire.codec import value_encoder_lane_codes as lane_codes
from thinwire.codec.predictors.predictor_steps import FINE
from thinwire.codec.rules import Rule
from thinwire.codec.source_table_columns import MODE, Columns
from thinwire.codec.ticks import ABSENT, TICK_LIMIT
from thinwire.codec.value_conversion import array_of, bits_of
from thinwire.errors import CorruptFrame, EventRejected
from thinwire.wire.partial_event import Lane
from thinwire.wire.varint import unzigzag

_FARTHEST = 1 << 40
_INFINITE = 0x7FF


def held(columns: Columns, row: int, rule: Rule, code: int) -> None:
    """A residual against the last value, where that is all the slot's predictor reads."""
    table = columns.table
    i = columns.place(row, rule.first_slot)
    x = table[i]
    half = 0 if table[i + MODE] & FINE else rule.half
    table[i] = _within(x + residual.decode(code, rule.tolerance, half), x, rule)


def exact(columns: Columns, row: int, rule: Rule, index: int, code: Any) -> None:
    """A value told exactly, whatever its lane."""
    exceptions.check_kind(rule, code)
    try:
        _settle_exact(columns, row, rule, index, code)
    except EventRejected as problem:
        raise CorruptFrame(f"exact value: {problem}") from None


def _tick(columns: Columns, row: int, rule: Rule, index: int, code: int) -> None:
    expected = columns.expected(row, rule.first_slot)
    half = 0 if columns.table[columns.place(row, rule.first_slot) + MODE] & FINE else rule.half
    value = expected + residual.decode(code, rule.tolerance, half)
    columns.settle(row, rule.first_slot, _within(value, expected, rule))


def _flag(columns: Columns, row: int, rule: Rule, index: int, code: None) -> None:
    flag = columns.last(row, rule.first_slot)
    if flag == ABSENT:
        raise CorruptFrame("the other of no value", property=rule.property.name)
    columns.put(row, rule.first_slot, flag ^ 1)


def _float(columns: Columns, row: int, rule: Rule, index: int, code: int) -> None:
    last = columns.last(row, rule.first_slot)
    pattern = (last ^ code) & (1 << 64) - 1
    bits = pattern - (1 << 64) if pattern >> 63 else pattern
    if ABSENT in (last, bits) or pattern >> 52 & _INFINITE == _INFINITE:
        raise CorruptFrame("a float that is no number", property=rule.property.name)
    columns.put(row, rule.first_slot, bits)


def _geo(columns: Columns, row: int, rule: Rule, index: int, code: tuple[int, int]) -> None:
    slot = rule.first_slot
    north, east = columns.expected(row, slot), columns.expected(row, slot + 1)
    if max(code) > _FARTHEST:
        raise CorruptFrame("a position beyond the globe", property=rule.property.name)
    steps = unzigzag(code[0]), unzigzag(code[1])
    north, east = lane_codes.move(_within(north, north, rule), east, steps, 2 * rule.half + 1)
    columns.settle(row, slot, _within(north, north, rule))
    columns.settle(row, slot + 1, east)


def _object(columns: Columns, row: int, rule: Rule, index: int, code: Any) -> None:
    columns.objects[index][row] = code


def _array(columns: Columns, row: int, rule: Rule, index: int, code: tuple[bool, list[Any]]) -> None:
    whole, items = code
    column = columns.objects[index]
    if whole:
        column[row] = tuple(_within(ticks, 0, rule) for ticks in items)
        return
    if column[row] is None:
        raise CorruptFrame("a patch on no array", property=rule.property.name)
    now = list(column[row])
    for place, residual_code in items:
        if place >= len(now):
            raise CorruptFrame("a patch beyond its array", property=rule.property.name, place=place)
        value = now[place] + residual.decode(residual_code, rule.tolerance, rule.half)
        now[place] = _within(value, 0, rule)
    column[row] = tuple(now)


def _settle_exact(columns: Columns, row: int, rule: Rule, index: int, code: Any) -> None:
    if rule.lane in (Lane.TICK, Lane.FLAG):
        exceptions.settle_tick(columns, rule, row, code)
    elif rule.lane is Lane.FLOAT:
        exceptions.settle_float(columns, rule, row, code, ABSENT if code is None else bits_of(code))
    elif rule.lane is Lane.GEO:
        exceptions.settle_geo(columns, rule, row, code)
    elif rule.lane is Lane.ARRAY and code is not None:
        spelled = all(isinstance(item, int) for item in code)
        ticks, on_grid = (tuple(code), True) if spelled else array_of(rule.property, code)
        columns.objects[index][row] = ticks
        if not on_grid:
            columns.mark_near(row, rule)
    else:
        columns.objects[index][row] = code


def _within(value: int, expected: int, rule: Rule) -> int:
    if expected == ABSENT or not -TICK_LIMIT <= value <= TICK_LIMIT:
        raise CorruptFrame("a residual on no value, or beyond all limits", property=rule.property.name)
    return value


BY_LANE: dict[Lane, Callable[[Columns, int, Rule, int, Any], None]] = {
    Lane.TICK: _tick,
    Lane.FLAG: _flag,
    Lane.FLOAT: _float,
    Lane.GEO: _geo,
    Lane.TEXT: _object,
    Lane.ARRAY: _array,
    Lane.OPAQUE: _object,
}
