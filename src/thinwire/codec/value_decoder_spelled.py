"""Values that are spelled out, into the receiver's state: for each property a function made for its rule.

Most of them are numbers that their step divides, in a slot that expects its last value: these take the short way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thinwire.codec import value_decoder as arrivals
from thinwire.codec import value_encoder as exceptions
from thinwire.codec.rules import Rule
from thinwire.codec.source_table_columns import FIELDS, HEAD, MODE, Columns
from thinwire.codec.ticks import ABSENT, TICK_LIMIT
from thinwire.codec.value_conversion import converter, step_of
from thinwire.codec.value_encoder_first_values import first_value
from thinwire.errors import CorruptFrame, EventRejected
from thinwire.schema import Kind
from thinwire.wire.partial_event import Lane

Taker = Callable[[int, Any], Any]
"""row and value in; out comes the exact value where the state cannot show it"""


def taker(columns: Columns, rule: Rule, index: int) -> Taker:
    """The function that settles the values of a property; what no property of its kind can have is a corrupt frame."""
    convert, p = converter(rule.property), rule.property

    def take(row: int, value: Any) -> Any:
        if value is None:
            arrivals.exact(columns, row, rule, index, None)
            return None
        try:
            ticks = convert(value)
        except EventRejected as problem:
            raise CorruptFrame(f"spelled-out value: {problem}") from None
        outside = rule.lane is not Lane.TICK and exceptions.outside(p, value)
        return first_value(columns, rule, row, index, ticks, value, outside)

    counted = p.kind is Kind.TIMESTAMP and p.form in (None, "epoch")
    return _of_number(columns, rule, take) if counted or p.kind in (Kind.NUMBER, Kind.INTEGER) else take


def _of_number(columns: Columns, rule: Rule, take_any: Taker) -> Taker:
    """The short way for what is a number, is divided by its step and lies in its range; `take_any` for the rest."""
    step, slot = step_of(rule.property), rule.first_slot
    up, down = step.denominator, step.numerator
    lowest, highest = rule.lowest, rule.highest
    width, first, mode = columns.width, HEAD + slot * FIELDS, MODE
    moves, settle = columns.period[slot] > 0, columns.settle

    def take(row: int, value: Any) -> Any:
        if value.__class__ is float and -TICK_LIMIT < value * up < TICK_LIMIT:
            ticks = round(value * up / down)
            if ticks * down / up != value:
                return take_any(row, value)
        elif value.__class__ is int and down == 1:
            ticks = value * up  # in its range it is a double too, where the step is no whole number
        else:
            return take_any(row, value)
        if not lowest <= ticks <= highest:
            return take_any(row, value)
        table, i = columns.table, row * width + first
        if moves or table[i + mode] & 15 or table[i] == ABSENT:
            settle(row, slot, ticks)
        else:
            table[i] = ticks
        return None

    return take
