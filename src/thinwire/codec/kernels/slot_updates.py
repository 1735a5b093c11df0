"""Compiled prediction and update of slots, and fast advancing over many suppressed events.

A predicted timestamp usually advances in equal steps, which are then added at once. A slot with a season stores the
values of its last period and advances event by event.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thinwire.codec.kernels.jit import inlined, no_alloc, no_alloc_part
from thinwire.codec.kernels.rule_table import ENCODING, PERIOD, RING, SLOT
from thinwire.codec.predictors.arithmetic import SEASONAL, observe_trend, predict
from thinwire.codec.predictors.arithmetic import TREND as TREND_MODE
from thinwire.codec.source_table import COEFFICIENTS, HEADER_CELLS, MODE, OFFSET, ORDINAL, SLOT_CELLS, TREND, X2
from thinwire.codec.ticks import ABSENT, TICK_LIMIT
from thinwire.wire.partial_event import EncodingKind

_TICK = int(EncodingKind.TICK)


@no_alloc_part
def season_index(rules: Any, table: Any, start: int, j: int) -> int:
    """Return the index of the value one period before the next event."""
    return start + rules[RING, j] + (table[start + ORDINAL] + 1) % rules[PERIOD, j]


@inlined
def predicted_at(rules: Any, table: Any, start: int, j: int) -> int:
    """Return the prediction of a slot, as `SourceTable.predicted`."""
    i = start + HEADER_CELLS + rules[SLOT, j] * SLOT_CELLS
    mode = table[i + MODE]
    if not mode & 15:
        return table[i]
    x2 = table[season_index(rules, table, start, j)] if mode & 15 == SEASONAL else table[i + X2]
    return predict(mode, table[i], x2, table[i + OFFSET], table[i + TREND], table[i + COEFFICIENTS])


@inlined
def set_slot_value(rules: Any, table: Any, start: int, j: int, x: int) -> None:
    """Store a new value in a slot that has one, as `SourceTable.set_value`."""
    i = start + HEADER_CELLS + rules[SLOT, j] * SLOT_CELLS
    x1 = table[i]
    if table[i + MODE] & 15 == TREND_MODE:
        table[i + OFFSET], table[i + TREND] = observe_trend(
            x, x1, table[i + OFFSET], table[i + TREND], table[i + COEFFICIENTS]
        )
    table[i + X2] = x1
    table[i] = x
    if rules[PERIOD, j]:
        table[season_index(rules, table, start, j)] = x


@no_alloc_part
def advance_at(rules: Any, table: Any, start: int) -> None:
    """Advance a source by one suppressed event, as `SourceTable.advance`."""
    for j in range(rules.shape[1]):
        i = start + HEADER_CELLS + rules[SLOT, j] * SLOT_CELLS
        if rules[ENCODING, j] != _TICK or table[i] == ABSENT:
            continue
        if table[i + MODE] & 15 or rules[PERIOD, j]:
            set_slot_value(rules, table, start, j, predicted_at(rules, table, start, j))
    table[start + ORDINAL] += 1


_MAX_SUM = TICK_LIMIT // 4
"""ticks up to which steps may be added at once without reaching the limit of a tick"""


@no_alloc_part
def advance_slot(rules: Any, table: Any, start: int, j: int, count: int) -> None:
    """Advance a slot by `count` suppressed events. The position in a season follows from the ordinal."""
    i = start + HEADER_CELLS + rules[SLOT, j] * SLOT_CELLS
    seasonal = rules[PERIOD, j] != 0
    if table[i] == ABSENT or not (seasonal or table[i + MODE] & 15):
        return
    ordinal = table[start + ORDINAL]
    while count:
        offset, trend = table[i + OFFSET], table[i + TREND]
        before = table[i]
        set_slot_value(rules, table, start, j, predicted_at(rules, table, start, j))
        table[start + ORDINAL] += 1
        count -= 1
        step = table[i] - before
        settled = not seasonal and table[i + OFFSET] == offset and table[i + TREND] == trend
        if settled and count and abs(step) < _MAX_SUM // count and abs(table[i]) < _MAX_SUM:
            table[i] += step * count
            table[i + X2] = table[i] - step
            break
    table[start + ORDINAL] = ordinal


@no_alloc_part
def advance_row(rules: Any, table: Any, start: int, seen: int) -> int:
    """Advance a source to the event `seen`. Return the number of suppressed events."""
    count = seen - table[start + ORDINAL]
    if count <= 0:
        return 0
    for j in range(rules.shape[1]):
        if rules[ENCODING, j] == _TICK:
            advance_slot(rules, table, start, j, count)
    table[start + ORDINAL] = seen
    return count


@no_alloc
def advance_source(rules: Any, table: Any, width: int, row: int, seen: int) -> int:
    """Advance one source. Return the number of suppressed events."""
    return advance_row(rules, table, row * width, seen)


@no_alloc
def advance_sources(rules: Any, table: Any, width: int, positions: Any, seen: Any) -> int:
    """Advance every source to the event `seen[positions[row]]`. Return the number of suppressed events."""
    count = 0
    for row in range(len(table) // width):
        count += advance_row(rules, table, row * width, seen[positions[row]])
    return count


def warm_up_advance() -> None:
    """Compile `advance_source` and `advance_sources`, or load them from the cache."""
    rules, cells = np.zeros((1, 1), dtype=np.int64), np.zeros(HEADER_CELLS + SLOT_CELLS, dtype=np.int64)
    advance_source(rules, cells, len(cells), 0, 0)
    advance_sources(rules, cells, len(cells), np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))
