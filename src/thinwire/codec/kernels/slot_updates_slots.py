"""What is expected of a slot, and how it takes a value: `Columns.expected`, `settle` and `advance`, for kernels."""

from __future__ import annotations

from typing import Any

from thinwire.codec.kernels.jit import lean_part, woven
from thinwire.codec.kernels.rule_table import LANE, PERIOD, RING, SLOT
from thinwire.codec.predictors.predictor_steps import SEASONAL, observe_trend, predict
from thinwire.codec.predictors.predictor_steps import TREND as TREND_MODE
from thinwire.codec.source_table_columns import COEFFICIENTS, FIELDS, HEAD, MODE, OFFSET, ORDINAL, TREND, X2
from thinwire.wire.partial_event import Lane

_TICK = int(Lane.TICK)


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
def settle_at(plan: Any, table: Any, start: int, j: int, x: int) -> None:
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
            settle_at(plan, table, start, j, expected_at(plan, table, start, j))
    table[start + ORDINAL] += 1
