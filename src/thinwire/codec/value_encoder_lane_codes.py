"""Reduction of the lanes that are not plain ticks: one function each, `None` where nothing must travel.

Each takes the columns, the rule, the row, the converted value and the value itself, decides, moves the state on, and
answers with what travels: `(exceptional, code)`. `outside`: does the value lie outside the declared range?
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from thinwire.codec import geo_distance as geo
from thinwire.codec import ticks_residual as residual
from thinwire.codec import value_encoder as exceptions
from thinwire.codec.rules import Rule
from thinwire.codec.source_table_columns import Columns
from thinwire.codec.ticks import ABSENT
from thinwire.codec.value_conversion import float_of
from thinwire.wire.varint import zigzag

Answer = tuple[bool, Any] | None


def tick_exception(columns: Columns, rule: Rule, row: int, ticks: int, value: Any) -> Answer:
    """A tick that is absent, off the grid, out of range, or comes after an absence."""
    if ticks == ABSENT:
        if columns.last(row, rule.first_slot) == ABSENT:
            return None
        exact = None
    else:
        exact = exceptions.told_exactly(ticks, value)
    exceptions.settle_tick(columns, rule, row, exact)
    return True, exact


def flag_exception(columns: Columns, rule: Rule, row: int, ticks: int, value: Any) -> Answer:
    """A flag that goes absent or comes back."""
    exceptions.settle_tick(columns, rule, row, value)
    return True, value


def float_code(columns: Columns, rule: Rule, row: int, bits: int, value: Any, outside: bool) -> Answer:
    """The XOR with the last pattern, where the value is further away than the tolerance."""
    last = columns.last(row, rule.first_slot)
    if bits == last and not outside:
        return None
    if outside or ABSENT in (bits, last):
        exact = None if value is None else float(value)
        exceptions.settle_float(columns, rule, row, exact, bits)
        return True, exact
    if is_near(value, float_of(last), rule.distance):
        return None
    exceptions.settle_float(columns, rule, row, value, bits)
    return False, (bits ^ last) & (1 << 64) - 1


def geo_code(columns: Columns, rule: Rule, row: int, position: Any, value: Any) -> Answer:
    """Two residuals, where the position is further away than the tolerance."""
    slot = rule.first_slot
    north, east = columns.expected(row, slot), columns.expected(row, slot + 1)
    if position is None or north == ABSENT or not position[2]:
        if position is None and north == ABSENT:
            return None
        exact = None if value is None else [float(value[0]), float(value[1])]
        exceptions.settle_geo(columns, rule, row, exact)
        return True, exact
    up, across = position[0] - north, geo.wrap(position[1] - east)
    codes = None
    if not geo.within(up, across, position[0], rule.tolerance):
        width = 2 * rule.half + 1
        steps = (up + rule.half) // width, (across + rule.half) // width
        codes = zigzag(steps[0]), zigzag(steps[1])
        north, east = move(north, east, steps, width)
    columns.settle(row, slot, north)
    columns.settle(row, slot + 1, east)
    return None if codes is None else (False, codes)


def move(north: int, east: int, steps: tuple[int, int], width: int) -> tuple[int, int]:
    """A position moved by whole bins and kept on the globe."""
    return geo.on_globe(north + steps[0] * width, east + steps[1] * width)


def object_code(columns: Columns, rule: Rule, row: int, thing: Any, index: int) -> Answer:
    """A text or an opaque value, where it is another one than before."""
    column = columns.objects[index]
    last = column[row]
    if thing == last:
        return None
    column[row] = thing
    return thing is None or last is None, thing


def array_code(columns: Columns, rule: Rule, row: int, array: Any, value: Any, index: int, outside: bool) -> Answer:
    """A patch of the elements beyond the tolerance; the whole array where its length changed."""
    column = columns.objects[index]
    last = column[row]
    if array is None or last is None or not array[1] or outside:
        if array is None and last is None:
            return None
        column[row] = None if array is None else array[0]
        if array is None:
            return True, None
        if not array[1]:
            columns.mark_near(row, rule)
        return True, list(array[0]) if array[1] else [float(item) for item in value]
    ticks = array[0]
    if len(ticks) != len(last):
        column[row] = ticks
        return False, (True, list(ticks))
    return _patch(column, rule, row, ticks, last)


def _patch(column: list[Any], rule: Rule, row: int, ticks: tuple[int, ...], last: tuple[int, ...]) -> Answer:
    patch = []
    now = list(last)
    for place, (new, old) in enumerate(zip(ticks, last, strict=True)):
        difference = new - old
        if not -rule.tolerance <= difference <= rule.tolerance:
            code = residual.encode(difference, rule.tolerance, rule.half)
            patch.append((place, code))
            now[place] = old + residual.decode(code, rule.tolerance, rule.half)
    if not patch:
        return None
    column[row] = tuple(now)
    return False, (False, patch)


def is_near(value: float, last: float, distance: float) -> bool:
    """Are two doubles at most this far apart? Their difference is rounded, so where it equals the distance it is
    looked at exactly."""
    apart = abs(value - last)
    return apart < distance or (apart == distance and abs(Fraction(value) - Fraction(last)) <= Fraction(distance))
