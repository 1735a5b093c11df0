"""Values that cannot take their lane: absent ones, ones off the grid, ones outside the declared range.

They travel exactly, whatever the tolerance, and both ends put the slot into the state that follows from them.

A property's first value: into the state as it is, and exactly beside it where the state cannot hold it.

Reduction of the lanes that are not plain ticks: one function each, `None` where nothing must travel.

Each takes the columns, the rule, the row, the converted value and the value itself, decides, moves the state on, and
answers with what travels: `(exceptional, code)`. `outside`: does the value lie outside the declared range?

The gate of `changes`: an event travels only where something beside its headers fires.

An event that nothing makes travel is passed over as if all of it had been expected, headers too; a receiver claims no
bound for those. What the gate lets through is told, also where all of it was expected: after a long silence, after a
value that the state cannot hold, and first of all where a link goes on with what another one told. The kernels have
the same gate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from thinwire.codec import geo_distance as geo
from thinwire.codec import ticks as residual
from thinwire.codec.rules import Rule
from thinwire.codec.source_table import DUE, TOLD, SourceTable
from thinwire.codec.ticks import ABSENT, OFF_GRID, TICK_LIMIT
from thinwire.codec.value_conversion import float_of, nearest
from thinwire.errors import CorruptFrame
from thinwire.schema import Property
from thinwire.wire.control_frames import MAX_SKIP
from thinwire.wire.partial_event import EncodingKind
from thinwire.wire.varint import zigzag


def encode_exact_value(ticks: int, value: Any) -> Any:
    """A number or timestamp as it travels exactly: its ticks, or the value itself where it is off the grid.

    An integer on the wire counts ticks, so that a whole number off the grid travels as a double.
    """
    if ticks != OFF_GRID:
        return ticks
    return float(value) if isinstance(value, int) else value


def outside(p: Property, value: Any) -> bool:
    """Does a value, or an element of it, lie outside the declared range? Then it always travels, and is flagged."""
    if p.minimum is None and p.maximum is None:
        return False
    low = -math.inf if p.minimum is None else p.minimum
    high = math.inf if p.maximum is None else p.maximum
    numbers = value if isinstance(value, list | tuple) else (value,)
    return any(isinstance(number, int | float) and not low <= number <= high for number in numbers)


def is_outside(rule: Rule, value: Any, flags: tuple[str, ...] = ()) -> bool:
    """Must a value travel because it lies outside the declared range, as far as its rule's ticks do not show it?

    Where values are off already, that was seen upstream, by those who had the truth: the event's flags tell of it.
    """
    if rule.lane not in (EncodingKind.TICK, EncodingKind.FLOAT, EncodingKind.ARRAY):
        return False
    if rule.upstream:
        return rule.property.name in flags
    return rule.lane is not EncodingKind.TICK and outside(rule.property, value)


def set_tick_state(columns: SourceTable, rule: Rule, row: int, exact: Any) -> None:
    """Bring a tick or flag slot into the state that an exact value leads to; `exact` is as it travels."""
    slot = rule.first_slot
    if exact is None:
        columns.put(row, slot, ABSENT)
        return
    if isinstance(exact, bool):
        ticks: int | None = int(exact)
    elif isinstance(exact, int):
        ticks = max(-TICK_LIMIT, min(TICK_LIMIT, exact))
    else:
        ticks = nearest(rule.property, exact)
    if ticks != exact or isinstance(exact, float):  # 3 steps of 0.9 are not 3.0
        columns.mark_near(row, rule)
    if ticks is None:
        ticks = columns.expected(row, slot)
    if ticks != ABSENT:
        columns.set_value(row, slot, ticks)


def set_float_state(columns: SourceTable, rule: Rule, row: int, exact: Any, bits: int) -> None:
    """The float slot holds this bit pattern, or nothing."""
    columns.put(row, rule.first_slot, ABSENT if exact is None else bits)


def set_geo_state(columns: SourceTable, rule: Rule, row: int, exact: Any) -> None:
    """Both coordinates from an exact position, or none."""
    if exact is None:
        columns.put(row, rule.first_slot, ABSENT)
        columns.put(row, rule.first_slot + 1, ABSENT)
        return
    north, east, on_grid = geo.to_ticks(exact, rule.property.name)
    if not on_grid:
        columns.mark_near(row, rule)
    columns.set_value(row, rule.first_slot, north)
    columns.set_value(row, rule.first_slot + 1, east)


def check_kind(rule: Rule, exact: Any) -> None:
    """Refuse an exact value that no property of this lane can have."""
    allowed = _ALLOWED[rule.lane]
    if exact is not None and (not isinstance(exact, allowed) or (isinstance(exact, bool) and bool not in allowed)):
        raise CorruptFrame("exact value of another kind than its property", property=rule.property.name)


_ALLOWED: dict[EncodingKind, tuple[type, ...]] = {
    EncodingKind.FLAG: (bool,),
    EncodingKind.TICK: (int, float, str),
    EncodingKind.FLOAT: (float,),
    EncodingKind.GEO: (list,),
    EncodingKind.TEXT: (str,),
    EncodingKind.ARRAY: (list,),
    EncodingKind.OPAQUE: (bytes,),
}


def first_value(columns: SourceTable, rule: Rule, row: int, index: int, ticks: Any, value: Any, outside: bool) -> Any:
    """Put a property's first value into the state; the exact value where the state cannot hold it or it is flagged.

    outside: does it lie outside the declared range, as `exceptions.is_outside` has it?
    """
    if rule.lane in (EncodingKind.TEXT, EncodingKind.OPAQUE):
        columns.objects[index][row] = ticks
    elif rule.lane is EncodingKind.ARRAY:
        columns.objects[index][row] = None if ticks is None else ticks[0]
        if ticks is not None and not ticks[1]:
            columns.mark_near(row, rule)
        shown = ticks is None or (ticks[1] and not outside)
        return None if shown else [float(item) for item in value]
    elif rule.lane is EncodingKind.FLOAT:
        columns.put(row, rule.first_slot, ticks)
        return float(value) if outside else None
    elif rule.lane is EncodingKind.GEO:
        exact_position = None if ticks is None else [float(value[0]), float(value[1])]
        set_geo_state(columns, rule, row, exact_position)
        return None if ticks is None or ticks[2] else exact_position
    elif rule.lane is EncodingKind.TICK and ticks != ABSENT and (outside or not rule.lowest <= ticks <= rule.highest):
        exact = encode_exact_value(ticks, value)
        set_tick_state(columns, rule, row, exact)
        return exact
    elif ticks != ABSENT:
        columns.set_value(row, rule.first_slot, ticks)
    return None


Answer = tuple[bool, Any] | None


def tick_exception(columns: SourceTable, rule: Rule, row: int, ticks: int, value: Any) -> Answer:
    """A tick that is absent, off the grid, out of range, or comes after an absence."""
    if ticks == ABSENT:
        if columns.last(row, rule.first_slot) == ABSENT:
            return None
        exact = None
    else:
        exact = encode_exact_value(ticks, value)
    set_tick_state(columns, rule, row, exact)
    return True, exact


def flag_exception(columns: SourceTable, rule: Rule, row: int, ticks: int, value: Any) -> Answer:
    """A flag that goes absent or comes back."""
    set_tick_state(columns, rule, row, value)
    return True, value


def float_code(columns: SourceTable, rule: Rule, row: int, bits: int, value: Any, outside: bool) -> Answer:
    """The XOR with the last pattern, where the value is further away than the tolerance."""
    last = columns.last(row, rule.first_slot)
    if bits == last and not outside:
        return None
    if outside or ABSENT in (bits, last):
        exact = None if value is None else float(value)
        set_float_state(columns, rule, row, exact, bits)
        return True, exact
    if is_near(value, float_of(last), rule.distance):
        return None
    set_float_state(columns, rule, row, value, bits)
    return False, (bits ^ last) & (1 << 64) - 1


def geo_code(columns: SourceTable, rule: Rule, row: int, position: Any, value: Any) -> Answer:
    """Two residuals, where the position is further away than the tolerance."""
    slot = rule.first_slot
    north, east = columns.expected(row, slot), columns.expected(row, slot + 1)
    if position is None or north == ABSENT or not position[2]:
        if position is None and north == ABSENT:
            return None
        exact = None if value is None else [float(value[0]), float(value[1])]
        set_geo_state(columns, rule, row, exact)
        return True, exact
    up, across = position[0] - north, geo.wrap(position[1] - east)
    codes = None
    if not geo.within(up, across, position[0], rule.tolerance):
        width = 2 * rule.half + 1
        steps = (up + rule.half) // width, (across + rule.half) // width
        codes = zigzag(steps[0]), zigzag(steps[1])
        north, east = move(north, east, steps, width)
    columns.set_value(row, slot, north)
    columns.set_value(row, slot + 1, east)
    return None if codes is None else (False, codes)


def move(north: int, east: int, steps: tuple[int, int], width: int) -> tuple[int, int]:
    """A position moved by whole bins and kept on the globe."""
    return geo.on_globe(north + steps[0] * width, east + steps[1] * width)


def object_code(columns: SourceTable, rule: Rule, row: int, thing: Any, index: int) -> Answer:
    """A text or an opaque value, where it is another one than before."""
    column = columns.objects[index]
    last = column[row]
    if thing == last:
        return None
    column[row] = thing
    return thing is None or last is None, thing


def array_code(columns: SourceTable, rule: Rule, row: int, array: Any, value: Any, index: int, outside: bool) -> Answer:
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


Flags = tuple[str, ...]


class Gate:
    """Looks at events before anything is decided about them."""

    def __init__(self, columns: SourceTable) -> None:
        self.columns = columns
        self._watched = [(i, rule) for i, rule in enumerate(columns.rules.rules) if columns.rules.fires(rule)]

    def passes_over(self, row: int, ticks: tuple[Any, ...], event: Mapping[str, Any], flags: Flags = ()) -> bool:
        """Let an event pass in silence where nothing in it makes it travel, unless it is due in any case."""
        table, start = self.columns.table, row * self.columns.width
        due = table[start + DUE] == table[start] + 1 or table[start] - table[start + TOLD] >= MAX_SKIP - 1
        if due or self._fires(row, ticks, event, flags):
            return False
        self.columns.advance(row)
        return True

    def _fires(self, row: int, ticks: tuple[Any, ...], event: Mapping[str, Any], flags: Flags) -> bool:
        for index, rule in self._watched:
            outside = is_outside(rule, event.get(rule.property.name), flags)
            if outside or _FIRES[rule.lane](self.columns, rule, row, index, ticks[index]):
                return True
        return False


def _tick(columns: SourceTable, rule: Rule, row: int, index: int, ticks: int) -> bool:
    expected = columns.expected(row, rule.first_slot)
    if ABSENT in (ticks, expected):
        return ticks != expected
    beyond = not -rule.tolerance <= ticks - expected <= rule.tolerance
    return beyond or (rule.ranged and not rule.lowest <= ticks <= rule.highest)


def _flag(columns: SourceTable, rule: Rule, row: int, index: int, ticks: int) -> bool:
    return ticks != columns.last(row, rule.first_slot)


def _float(columns: SourceTable, rule: Rule, row: int, index: int, bits: int) -> bool:
    last = columns.last(row, rule.first_slot)
    if bits == last or ABSENT in (bits, last):
        return bits != last
    return not is_near(float_of(bits), float_of(last), rule.distance)


def _geo(columns: SourceTable, rule: Rule, row: int, index: int, position: Any) -> bool:
    north, east = columns.expected(row, rule.first_slot), columns.expected(row, rule.first_slot + 1)
    if position is None or north == ABSENT or not position[2]:
        return position is not None or north != ABSENT
    up, across = position[0] - north, geo.wrap(position[1] - east)
    return not geo.within(up, across, position[0], rule.tolerance)


def _object(columns: SourceTable, rule: Rule, row: int, index: int, thing: Any) -> bool:
    return bool(thing != columns.objects[index][row])


def _array(columns: SourceTable, rule: Rule, row: int, index: int, array: Any) -> bool:
    last = columns.objects[index][row]
    if array is None or last is None or not array[1] or len(array[0]) != len(last):
        return array is not None or last is not None
    return any(not -rule.tolerance <= new - old <= rule.tolerance for new, old in zip(array[0], last, strict=True))


_FIRES: dict[EncodingKind, Callable[[SourceTable, Rule, int, int, Any], bool]] = {
    EncodingKind.TICK: _tick,
    EncodingKind.FLAG: _flag,
    EncodingKind.FLOAT: _float,
    EncodingKind.GEO: _geo,
    EncodingKind.TEXT: _object,
    EncodingKind.ARRAY: _array,
    EncodingKind.OPAQUE: _object,
}
