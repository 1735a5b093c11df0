"""A property's first value: into the state as it is, and exactly beside it where the state cannot hold it."""

from __future__ import annotations

from typing import Any

from thinwire.codec import value_encoder as exceptions
from thinwire.codec.rules import Rule
from thinwire.codec.source_table_columns import Columns
from thinwire.codec.ticks import ABSENT
from thinwire.wire.partial_event import Lane


def first_value(columns: Columns, rule: Rule, row: int, index: int, ticks: Any, value: Any, outside: bool) -> Any:
    """Put a property's first value into the state; the exact value where the state cannot hold it or it is flagged.

    outside: does it lie outside the declared range, as `exceptions.is_outside` has it?
    """
    if rule.lane in (Lane.TEXT, Lane.OPAQUE):
        columns.objects[index][row] = ticks
    elif rule.lane is Lane.ARRAY:
        columns.objects[index][row] = None if ticks is None else ticks[0]
        if ticks is not None and not ticks[1]:
            columns.mark_near(row, rule)
        shown = ticks is None or (ticks[1] and not outside)
        return None if shown else [float(item) for item in value]
    elif rule.lane is Lane.FLOAT:
        columns.put(row, rule.first_slot, ticks)
        return float(value) if outside else None
    elif rule.lane is Lane.GEO:
        exact_position = None if ticks is None else [float(value[0]), float(value[1])]
        exceptions.settle_geo(columns, rule, row, exact_position)
        return None if ticks is None or ticks[2] else exact_position
    elif rule.lane is Lane.TICK and ticks != ABSENT and (outside or not rule.lowest <= ticks <= rule.highest):
        exact = exceptions.told_exactly(ticks, value)
        exceptions.settle_tick(columns, rule, row, exact)
        return exact
    elif ticks != ABSENT:
        columns.settle(row, rule.first_slot, ticks)
    return None
