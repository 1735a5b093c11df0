"""Events passed over in silence, many at once: where each of them would have left the state of its source.

It is what `advance_at` does event by event. What moves although nothing is said of it, the time that follows its
cadence, mostly goes on in equal steps: then all of them are one. A slot with a season keeps the values of its last
period, whatever predicts it now, and so takes every one of them.

What is expected of a slot, and how it takes a value: `Columns.expected`, `settle` and `advance`, for kernels.
"""

from __future__ import annotations

from typing import Any

from thinwire.codec.kernels.jit import lean, lean_part, woven
from thinwire.codec.kernels.rule_table import LANE, PERIOD, RING, SLOT
from thinwire.codec.predictors.predictor import SEASONAL, observe_trend, predict
from thinwire.codec.predictors.predictor import TREND as TREND_MODE
from thinwire.codec.source_table import COEFFICIENTS, FIELDS, HEAD, MODE, OFFSET, ORDINAL, TREND, X2
from thinwire.codec.ticks import ABSENT, TICK_LIMIT
from thinwire.wire.partial_event import EncodingKind

_TICK = int(EncodingKind.TICK)


@lean_part
def season_place(plan: Any, table: Any, start: int, j: int) -> int:
    """Where the value one period before the next event stands."""
    return start + plan[RING, j] + (table[start + ORDINAL] + 1) % plan[PERIOD, j]


@woven
def expected_at(plan: Any, table: Any, start: int, j: int) -> int:
    """What both ends expect of a slot."""
    i = start + HEAD + plan[SLOT, j] * FIELDS
    mode = table[i + MODE]
    if not mode & 15:
        return table[i]
    x2 = table[season_place(plan, table, start, j)] if mode & 15 == SEASONAL else table[i + X2]
    return predict(mode, table[i], x2, table[i + OFFSET], table[i + TREND], table[i + COEFFICIENTS])


@woven
def set_slot_value(plan: Any, table: Any, start: int, j: int, x: int) -> None:
    """Both ends now have this value."""
    i = start + HEAD + plan[SLOT, j] * FIELDS
    x1 = table[i]
    if table[i + MODE] & 15 == TREND_MODE:
        table[i + OFFSET], table[i + TREND] = observe_trend(
            x, x1, table[i + OFFSET], table[i + TREND], table[i + COEFFICIENTS]
        )
    table[i + X2] = x1
    table[i] = x
    if plan[PERIOD, j]:
        table[season_place(plan, table, start, j)] = x


@lean_part
def advance_at(plan: Any, table: Any, start: int) -> None:
    """The source's next event is as expected in every slot, all of which have values."""
    for j in range(plan.shape[1]):
        if plan[LANE, j] != _TICK:
            continue
        if table[start + HEAD + plan[SLOT, j] * FIELDS + MODE] & 15 or plan[PERIOD, j]:
            set_slot_value(plan, table, start, j, expected_at(plan, table, start, j))
    table[start + ORDINAL] += 1


_NEAR = TICK_LIMIT // 4
"""ticks up to which steps may be added up: none of them comes to a limit where it would be cut off"""


@lean_part
def pass_season(plan: Any, table: Any, start: int, j: int, count: int) -> None:
    """The same where each value has its own place in the period, which the number of the event tells."""
    ordinal = table[start + ORDINAL]
    for passed in range(count):
        table[start + ORDINAL] = ordinal + passed
        set_slot_value(plan, table, start, j, expected_at(plan, table, start, j))
    table[start + ORDINAL] = ordinal


@lean_part
def pass_slot(plan: Any, table: Any, start: int, j: int, count: int) -> None:
    """A slot goes on by so many events that are as expected."""
    i = start + HEAD + plan[SLOT, j] * FIELDS
    if table[i] == ABSENT:
        return
    if plan[PERIOD, j]:
        pass_season(plan, table, start, j, count)
        return
    if not table[i + MODE] & 15:
        return
    while count:
        offset, trend = table[i + OFFSET], table[i + TREND]
        before = table[i]
        set_slot_value(plan, table, start, j, expected_at(plan, table, start, j))
        count -= 1
        step = table[i] - before
        settled = table[i + OFFSET] == offset and table[i + TREND] == trend
        if settled and count and abs(step) < _NEAR // count and abs(table[i]) < _NEAR:
            table[i] += step * count
            table[i + X2] = table[i] - step
            return


@lean_part
def pass_row(plan: Any, table: Any, start: int, seen: int) -> int:
    """A source goes on to the event `seen`; how many were passed over."""
    count = seen - table[start + ORDINAL]
    if count <= 0:
        return 0
    for j in range(plan.shape[1]):
        if plan[LANE, j] == _TICK:
            pass_slot(plan, table, start, j, count)
    table[start + ORDINAL] = seen
    return count


@lean
def pass_one(plan: Any, table: Any, width: int, row: int, seen: int) -> int:
    """One source goes on; how many events were passed over."""
    return pass_row(plan, table, row * width, seen)


@lean
def pass_all(plan: Any, table: Any, width: int, places: Any, seen: Any) -> int:
    """Every source goes on to the event that `seen` has at its place; how many were passed over."""
    count = 0
    for row in range(len(table) // width):
        count += pass_row(plan, table, row * width, seen[places[row]])
    return count
