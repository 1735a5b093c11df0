"""Values that cannot take their lane: absent ones, ones off the grid, ones outside the declared range.

They travel exactly, whatever the tolerance, and both ends put the slot into the state that follows from them.
"""

from __future__ import annotations

import math
from typing import Any

from thinwire.codec import geo_distance as geo
from thinwire.codec.rules import Rule
from thinwire.codec.source_table_columns import Columns
from thinwire.codec.ticks import ABSENT, OFF_GRID, TICK_LIMIT
from thinwire.codec.value_conversion import nearest
from thinwire.errors import CorruptFrame
from thinwire.schema import Property
from thinwire.wire.partial_event import Lane


def told_exactly(ticks: int, value: Any) -> Any:
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
    if rule.lane not in (Lane.TICK, Lane.FLOAT, Lane.ARRAY):
        return False
    if rule.upstream:
        return rule.property.name in flags
    return rule.lane is not Lane.TICK and outside(rule.property, value)


def settle_tick(columns: Columns, rule: Rule, row: int, exact: Any) -> None:
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
        columns.settle(row, slot, ticks)


def settle_float(columns: Columns, rule: Rule, row: int, exact: Any, bits: int) -> None:
    """The float slot holds this bit pattern, or nothing."""
    columns.put(row, rule.first_slot, ABSENT if exact is None else bits)


def settle_geo(columns: Columns, rule: Rule, row: int, exact: Any) -> None:
    """Both coordinates from an exact position, or none."""
    if exact is None:
        columns.put(row, rule.first_slot, ABSENT)
        columns.put(row, rule.first_slot + 1, ABSENT)
        return
    north, east, on_grid = geo.to_ticks(exact, rule.property.name)
    if not on_grid:
        columns.mark_near(row, rule)
    columns.settle(row, rule.first_slot, north)
    columns.settle(row, rule.first_slot + 1, east)


def check_kind(rule: Rule, exact: Any) -> None:
    """Refuse an exact value that no property of this lane can have."""
    allowed = _ALLOWED[rule.lane]
    if exact is not None and (not isinstance(exact, allowed) or (isinstance(exact, bool) and bool not in allowed)):
        raise CorruptFrame("exact value of another kind than its property", property=rule.property.name)


_ALLOWED: dict[Lane, tuple[type, ...]] = {
    Lane.FLAG: (bool,),
    Lane.TICK: (int, float, str),
    Lane.FLOAT: (float,),
    Lane.GEO: (list,),
    Lane.TEXT: (str,),
    Lane.ARRAY: (list,),
    Lane.OPAQUE: (bytes,),
}
