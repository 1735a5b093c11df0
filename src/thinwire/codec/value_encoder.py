"""Encoding of values against the state of a source table, one function per encoding kind.

An encoding function takes the table, the rule, the row, the converted value and the value. It updates the state and
returns `(is_exception, code)`, or None if nothing must be sent. `outside` means outside the declared range.

Exceptions are values that have no regular code: absent, off the grid or outside the declared range. They are sent
exactly, regardless of the tolerance.

The change gate of `changes` suppresses events in which no property except headers changed. It lets an event pass after
the maximum number of suppressed events, after a value that the state cannot represent, and first after a stream is
continued. The kernels have the same gate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from thinwire.codec import geo_distance as geo
from thinwire.codec.rules import Rule
from thinwire.codec.source_table import DUE, LAST_SENT, SourceTable
from thinwire.codec.ticks import ABSENT, OFF_GRID, TICK_LIMIT, decode_residual, encode_residual
from thinwire.codec.value_conversion import float_of, nearest
from thinwire.errors import CorruptFrame
from thinwire.schema import Property
from thinwire.wire.control_frames import MAX_SKIP
from thinwire.wire.partial_event import EncodingKind
from thinwire.wire.varint import zigzag


def encode_exact_value(ticks: int, value: Any) -> Any:
    """Return a number or timestamp as it is sent exactly: its ticks, or the value itself if it is off the grid.

    An integer on the wire is a tick, so an integer value off the grid is sent as a double.
    """
    if ticks != OFF_GRID:
        return ticks
    return float(value) if isinstance(value, int) else value


def outside(p: Property, value: Any) -> bool:
    """Check whether a value or an element is outside the declared range. Such values are always sent and flagged."""
    if p.minimum is None and p.maximum is None:
        return False
    low = -math.inf if p.minimum is None else p.minimum
    high = math.inf if p.maximum is None else p.maximum
    numbers = value if isinstance(value, list | tuple) else (value,)
    return any(isinstance(number, int | float) and not low <= number <= high for number in numbers)


def is_outside(rule: Rule, value: Any, flags: tuple[str, ...] = ()) -> bool:
    """Check whether a value outside the declared range must be sent, if its ticks do not show it.

    Decoded values may be outside by their error only, so the flags of the event decide.
    """
    if rule.encoding not in (EncodingKind.TICK, EncodingKind.FLOAT, EncodingKind.ARRAY):
        return False
    if rule.upstream:
        return rule.property.name in flags
    return rule.encoding is not EncodingKind.TICK and outside(rule.property, value)


def set_tick_state(table: SourceTable, rule: Rule, row: int, exact: Any) -> None:
    """Set a tick or flag slot to the state after an exact value."""
    slot = rule.first_slot
    if exact is None:
        table.set_raw(row, slot, ABSENT)
        return
    if isinstance(exact, bool):
        ticks: int | None = int(exact)
    elif isinstance(exact, int):
        ticks = max(-TICK_LIMIT, min(TICK_LIMIT, exact))
    else:
        ticks = nearest(rule.property, exact)
    if ticks != exact or isinstance(exact, float):  # 3 steps of 0.9 are not 3.0
        table.mark_approximate(row, rule)
    if ticks is None:
        ticks = table.predicted(row, slot)
    if ticks != ABSENT:
        table.set_value(row, slot, ticks)


def set_geo_state(table: SourceTable, rule: Rule, row: int, exact: Any) -> None:
    """Set both coordinates from an exact position, or to ABSENT."""
    if exact is None:
        table.set_raw(row, rule.first_slot, ABSENT)
        table.set_raw(row, rule.first_slot + 1, ABSENT)
        return
    north, east, on_grid = geo.to_ticks(exact, rule.property.name)
    if not on_grid:
        table.mark_approximate(row, rule)
    table.set_value(row, rule.first_slot, north)
    table.set_value(row, rule.first_slot + 1, east)


def check_kind(rule: Rule, exact: Any) -> None:
    """Reject an exact value that no property of this kind can have."""
    allowed = _ALLOWED[rule.encoding]
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


def first_value(table: SourceTable, rule: Rule, row: int, index: int, ticks: Any, value: Any, outside: bool) -> Any:
    """Store the first value of a property. Return the exact value if the state cannot represent it or it is flagged.

    outside: see `is_outside`
    """
    if rule.encoding in (EncodingKind.TEXT, EncodingKind.OPAQUE):
        table.objects[index][row] = ticks
    elif rule.encoding is EncodingKind.ARRAY:
        table.objects[index][row] = None if ticks is None else ticks[0]
        if ticks is not None and not ticks[1]:
            table.mark_approximate(row, rule)
        is_exact = ticks is None or (ticks[1] and not outside)
        return None if is_exact else [float(item) for item in value]
    elif rule.encoding is EncodingKind.FLOAT:
        table.set_raw(row, rule.first_slot, ticks)
        return float(value) if outside else None
    elif rule.encoding is EncodingKind.GEO:
        exact_position = None if ticks is None else [float(value[0]), float(value[1])]
        set_geo_state(table, rule, row, exact_position)
        return None if ticks is None or ticks[2] else exact_position
    elif (
        rule.encoding is EncodingKind.TICK and ticks != ABSENT and (outside or not rule.lowest <= ticks <= rule.highest)
    ):
        exact = encode_exact_value(ticks, value)
        set_tick_state(table, rule, row, exact)
        return exact
    elif ticks != ABSENT:
        table.set_value(row, rule.first_slot, ticks)
    return None


Encoded = tuple[bool, Any] | None


def tick_exception(table: SourceTable, rule: Rule, row: int, ticks: int, value: Any) -> Encoded:
    """Encode a tick that is absent, off the grid, out of range, or follows an absent value."""
    if ticks == ABSENT:
        if table.last(row, rule.first_slot) == ABSENT:
            return None
        exact = None
    else:
        exact = encode_exact_value(ticks, value)
    set_tick_state(table, rule, row, exact)
    return True, exact


def flag_exception(table: SourceTable, rule: Rule, row: int, ticks: int, value: Any) -> Encoded:
    """Encode a flag that becomes absent or present."""
    set_tick_state(table, rule, row, value)
    return True, value


def float_code(table: SourceTable, rule: Rule, row: int, bits: int, value: Any, outside: bool) -> Encoded:
    """Return the XOR with the last bit pattern if the value exceeds the tolerance."""
    last = table.last(row, rule.first_slot)
    if bits == last and not outside:
        return None
    if outside or ABSENT in (bits, last):
        table.set_raw(row, rule.first_slot, bits)
        return True, None if value is None else float(value)
    if is_within(value, float_of(last), rule.distance):
        return None
    table.set_raw(row, rule.first_slot, bits)
    return False, (bits ^ last) & (1 << 64) - 1


def geo_code(table: SourceTable, rule: Rule, row: int, position: Any, value: Any) -> Encoded:
    """Return two residuals if the position exceeds the tolerance."""
    slot = rule.first_slot
    north, east = table.predicted(row, slot), table.predicted(row, slot + 1)
    if position is None or north == ABSENT or not position[2]:
        if position is None and north == ABSENT:
            return None
        exact = None if value is None else [float(value[0]), float(value[1])]
        set_geo_state(table, rule, row, exact)
        return True, exact
    up, across = position[0] - north, geo.wrap(position[1] - east)
    codes = None
    if not geo.within(up, across, position[0], rule.tolerance):
        width = 2 * rule.half + 1
        steps = (up + rule.half) // width, (across + rule.half) // width
        codes = zigzag(steps[0]), zigzag(steps[1])
        north, east = move(north, east, steps, width)
    table.set_value(row, slot, north)
    table.set_value(row, slot + 1, east)
    return None if codes is None else (False, codes)


def move(north: int, east: int, steps: tuple[int, int], width: int) -> tuple[int, int]:
    """Move a position by whole bins on the globe."""
    return geo.on_globe(north + steps[0] * width, east + steps[1] * width)


def object_code(table: SourceTable, rule: Rule, row: int, value: Any, index: int) -> Encoded:
    """Return a text or opaque value if it changed."""
    column = table.objects[index]
    last = column[row]
    if value == last:
        return None
    column[row] = value
    return value is None or last is None, value


def array_code(table: SourceTable, rule: Rule, row: int, array: Any, value: Any, index: int, outside: bool) -> Encoded:
    """Return a patch of the elements that exceed the tolerance; the complete array if its length changed."""
    column = table.objects[index]
    last = column[row]
    if array is None or last is None or not array[1] or outside:
        if array is None and last is None:
            return None
        column[row] = None if array is None else array[0]
        if array is None:
            return True, None
        if not array[1]:
            table.mark_approximate(row, rule)
        return True, list(array[0]) if array[1] else [float(item) for item in value]
    ticks = array[0]
    if len(ticks) != len(last):
        column[row] = ticks
        return False, (True, list(ticks))
    return _patch(column, rule, row, ticks, last)


def _patch(column: list[Any], rule: Rule, row: int, ticks: tuple[int, ...], last: tuple[int, ...]) -> Encoded:
    patch = []
    now = list(last)
    for index_in_array, (new, old) in enumerate(zip(ticks, last, strict=True)):
        difference = new - old
        if not -rule.tolerance <= difference <= rule.tolerance:
            code = encode_residual(difference, rule.tolerance, rule.half)
            patch.append((index_in_array, code))
            now[index_in_array] = old + decode_residual(code, rule.tolerance, rule.half)
    if not patch:
        return None
    column[row] = tuple(now)
    return False, (False, patch)


def is_within(value: float, last: float, distance: float) -> bool:
    """Check whether two doubles are at most `distance` apart. Their difference is rounded, so equality is checked
    exactly."""
    apart = abs(value - last)
    return apart < distance or (apart == distance and abs(Fraction(value) - Fraction(last)) <= Fraction(distance))


Flags = tuple[str, ...]


class ChangeGate:
    """Finds the events without a triggering change."""

    def __init__(self, table: SourceTable) -> None:
        self.table = table
        self._watched = [(i, rule) for i, rule in enumerate(table.rules.rules) if table.rules.triggers(rule)]

    def is_unchanged(self, row: int, ticks: tuple[Any, ...], event: Mapping[str, Any], flags: Flags = ()) -> bool:
        """Check whether no property triggers a frame and the event need not be sent for another reason."""
        cells, start = self.table.cells, row * self.table.width
        if cells[start + DUE] == cells[start] + 1 or cells[start] - cells[start + LAST_SENT] >= MAX_SKIP - 1:
            return False
        for index, rule in self._watched:
            outside = is_outside(rule, event.get(rule.property.name), flags)
            if outside or _TRIGGERS[rule.encoding](self.table, rule, row, index, ticks[index]):
                return False
        return True


def _tick(table: SourceTable, rule: Rule, row: int, index: int, ticks: int) -> bool:
    last = table.last(row, rule.first_slot)
    if ABSENT in (ticks, last):
        return ticks != last
    beyond = not -rule.tolerance <= ticks - last <= rule.tolerance
    return beyond or (rule.has_range and not rule.lowest <= ticks <= rule.highest)


def _flag(table: SourceTable, rule: Rule, row: int, index: int, ticks: int) -> bool:
    return ticks != table.last(row, rule.first_slot)


def _float(table: SourceTable, rule: Rule, row: int, index: int, bits: int) -> bool:
    last = table.last(row, rule.first_slot)
    if bits == last or ABSENT in (bits, last):
        return bits != last
    return not is_within(float_of(bits), float_of(last), rule.distance)


def _geo(table: SourceTable, rule: Rule, row: int, index: int, position: Any) -> bool:
    north, east = table.last(row, rule.first_slot), table.last(row, rule.first_slot + 1)
    if position is None or north == ABSENT or not position[2]:
        return position is not None or north != ABSENT
    up, across = position[0] - north, geo.wrap(position[1] - east)
    return not geo.within(up, across, position[0], rule.tolerance)


def _object(table: SourceTable, rule: Rule, row: int, index: int, value: Any) -> bool:
    return bool(value != table.objects[index][row])


def _array(table: SourceTable, rule: Rule, row: int, index: int, array: Any) -> bool:
    last = table.objects[index][row]
    if array is None or last is None or not array[1] or len(array[0]) != len(last):
        return array is not None or last is not None
    return any(not -rule.tolerance <= new - old <= rule.tolerance for new, old in zip(array[0], last, strict=True))


_TRIGGERS: dict[EncodingKind, Callable[[SourceTable, Rule, int, int, Any], bool]] = {
    EncodingKind.TICK: _tick,
    EncodingKind.FLAG: _flag,
    EncodingKind.FLOAT: _float,
    EncodingKind.GEO: _geo,
    EncodingKind.TEXT: _object,
    EncodingKind.ARRAY: _array,
    EncodingKind.OPAQUE: _object,
}
"""tests whether a value must be sent; the prediction is the last value, because `changes` holds values"""
