"""The gate of `changes`: an event travels only where something beside its headers fires.

An event that nothing makes travel is passed over as if all of it had been expected, headers too; a receiver claims no
bound for those. What the gate lets through is told, also where all of it was expected: after a long silence, after a
value that the state cannot hold, and first of all where a link goes on with what another one told. The kernels have
the same gate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from thinwire.codec import geo_distance as geo
from thinwire.codec import value_encoder as exceptions
from thinwire.codec import value_encoder_lane_codes as lane_codes
from thinwire.codec.rules import Rule
from thinwire.codec.source_table_columns import DUE, TOLD, Columns
from thinwire.codec.ticks import ABSENT
from thinwire.codec.value_conversion import float_of
from thinwire.wire.control_frames import MAX_SKIP
from thinwire.wire.partial_event import Lane

Flags = tuple[str, ...]


class Gate:
    """Looks at events before anything is decided about them."""

    def __init__(self, columns: Columns) -> None:
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
            outside = exceptions.is_outside(rule, event.get(rule.property.name), flags)
            if outside or _FIRES[rule.lane](self.columns, rule, row, index, ticks[index]):
                return True
        return False


def _tick(columns: Columns, rule: Rule, row: int, index: int, ticks: int) -> bool:
    expected = columns.expected(row, rule.first_slot)
    if ABSENT in (ticks, expected):
        return ticks != expected
    beyond = not -rule.tolerance <= ticks - expected <= rule.tolerance
    return beyond or (rule.ranged and not rule.lowest <= ticks <= rule.highest)


def _flag(columns: Columns, rule: Rule, row: int, index: int, ticks: int) -> bool:
    return ticks != columns.last(row, rule.first_slot)


def _float(columns: Columns, rule: Rule, row: int, index: int, bits: int) -> bool:
    last = columns.last(row, rule.first_slot)
    if bits == last or ABSENT in (bits, last):
        return bits != last
    return not lane_codes.is_near(float_of(bits), float_of(last), rule.distance)


def _geo(columns: Columns, rule: Rule, row: int, index: int, position: Any) -> bool:
    north, east = columns.expected(row, rule.first_slot), columns.expected(row, rule.first_slot + 1)
    if position is None or north == ABSENT or not position[2]:
        return position is not None or north != ABSENT
    up, across = position[0] - north, geo.wrap(position[1] - east)
    return not geo.within(up, across, position[0], rule.tolerance)


def _object(columns: Columns, rule: Rule, row: int, index: int, thing: Any) -> bool:
    return bool(thing != columns.objects[index][row])


def _array(columns: Columns, rule: Rule, row: int, index: int, array: Any) -> bool:
    last = columns.objects[index][row]
    if array is None or last is None or not array[1] or len(array[0]) != len(last):
        return array is not None or last is not None
    return any(not -rule.tolerance <= new - old <= rule.tolerance for new, old in zip(array[0], last, strict=True))


_FIRES: dict[Lane, Callable[[Columns, Rule, int, int, Any], bool]] = {
    Lane.TICK: _tick,
    Lane.FLAG: _flag,
    Lane.FLOAT: _float,
    Lane.GEO: _geo,
    Lane.TEXT: _object,
    Lane.ARRAY: _array,
    Lane.OPAQUE: _object,
}
