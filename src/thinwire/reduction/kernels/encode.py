"""Events to frames, compiled: decide, move the state on, write the frame.

`encode_event` takes one event and `encode_rows` many; both are the same steps. An event that is anything but ordinary
(a new source, an absent, off-grid or outlying value, a changed text) is left alone and the per-event code takes it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thinwire.formats.lanes import Lane
from thinwire.formats.link_state import (
    ALIAS,
    ATTENTION,
    CHAIN,
    FIRST,
    INCARNATION,
    LAST_ALIAS,
    SEQUENCE,
    SKIP,
    SOURCES,
    WIDE,
)
from thinwire.formats.scales import adapt
from thinwire.frames.control import MAX_SKIP
from thinwire.frames.kinds import FrameKind
from thinwire.reduction import residual
from thinwire.reduction.columns import (
    COEFFICIENTS,
    DUE,
    FIELDS,
    FILLED,
    HEAD,
    MODE,
    OFFSET,
    ORDINAL,
    TOLD,
    TREND,
    TRIAL,
    X2,
)
from thinwire.reduction.kernels.bits import bit_length, crc, put, put_code
from thinwire.reduction.kernels.compiled import compiled, part
from thinwire.reduction.kernels.plan import (
    AUTO,
    BAND,
    DOWN,
    HALF,
    HIGHEST,
    LANE,
    LOWEST,
    PERIOD,
    RING,
    SLOT,
    TOLERANCE,
    UP,
    WHOLE,
)
from thinwire.reduction.limits import ABSENT
from thinwire.reduction.predictors.steps import FINE, SEASONAL
from thinwire.reduction.predictors.steps import TREND as TREND_MODE
from thinwire.reduction.predictors.steps import observe_trend, predict

ORDINARY, NOT_ORDINARY = 0, -1
NOTHING = -1
"""in place of a code: the property does not travel"""

_EXACT = 1 << 53
_FAR = 1 << 60
_FLAG, _TICK, _FLOAT = int(Lane.FLAG), int(Lane.TICK), int(Lane.FLOAT)
_DATA = int(FrameKind.DATA)
_WIDE_BIT = 0x10
_FLOAT_FIELD = 6
_INFINITE = 0x7FF

encode_residual = residual.encode
decode_residual = residual.decode


@part
def ticks_of(plan: Any, j: int, whole: int, value: float) -> int:
    """A value as ticks, or ABSENT where the per-event code must look at it."""
    if plan[j, WHOLE]:
        ticks = whole
    else:
        scaled = value * plan[j, DOWN] / plan[j, UP]
        if not abs(scaled) < _EXACT:
            return ABSENT
        ticks = np.int64(np.rint(scaled))
        if ticks * plan[j, UP] / plan[j, DOWN] != value:
            return ABSENT
    if plan[j, LANE] != _TICK:
        no_number = plan[j, LANE] == _FLOAT and (ticks >> 52) & _INFINITE == _INFINITE
        return ABSENT if no_number else ticks
    if -plan[j, BAND] <= ticks <= plan[j, BAND]:
        ticks = 0
    return ticks if plan[j, LOWEST] <= ticks <= plan[j, HIGHEST] else ABSENT


@part
def season_place(plan: Any, table: Any, start: int, j: int) -> int:
    """Where the value one period before the next event stands."""
    return start + plan[j, RING] + (table[start + ORDINAL] + 1) % plan[j, PERIOD]


@part
def expected_at(plan: Any, table: Any, start: int, j: int) -> int:
    """What both ends expect of a slot."""
    i = start + HEAD + plan[j, SLOT] * FIELDS
    mode = table[i + MODE]
    if not mode & 15:
        return table[i]
    x2 = table[season_place(plan, table, start, j)] if mode & 15 == SEASONAL else table[i + X2]
    return predict(mode, table[i], x2, table[i + OFFSET], table[i + TREND], table[i + COEFFICIENTS])


@part
def settle_at(plan: Any, table: Any, start: int, j: int, x: int) -> None:
    """Both ends now have this value."""
    i = start + HEAD + plan[j, SLOT] * FIELDS
    x1 = table[i]
    if table[i + MODE] & 15 == TREND_MODE:
        table[i + OFFSET], table[i + TREND] = observe_trend(
            x, x1, table[i + OFFSET], table[i + TREND], table[i + COEFFICIENTS]
        )
    table[i + X2] = x1
    table[i] = x
    if plan[j, PERIOD]:
        table[season_place(plan, table, start, j)] = x


@part
def look(plan: Any, table: Any, start: int, whole: Any, values: Any, ticks: Any) -> bool:
    """Is this event ordinary? Fills in its ticks, changes nothing."""
    for j in range(len(plan)):
        lane = plan[j, LANE]
        if lane > _FLOAT:
            continue
        i = start + HEAD + plan[j, SLOT] * FIELDS
        t = ticks_of(plan, j, whole[j], values[j])
        if t == ABSENT or table[i] == ABSENT:
            return False
        if lane == _TICK:
            miss = t - table[i]
            if miss > _FAR or miss < -_FAR:
                return False
        ticks[j] = t
    return True


@part
def decide(plan: Any, table: Any, start: int, ticks: Any, codes: Any) -> bool:
    """Which properties travel, with which codes; the state moves on. Does any travel?"""
    any_travels = False
    for j in range(len(plan)):
        lane = plan[j, LANE]
        codes[j] = 0 if lane == _FLOAT else NOTHING
        if lane > _FLOAT:
            continue
        i = start + HEAD + plan[j, SLOT] * FIELDS
        t = ticks[j]
        if lane != _TICK:
            if t != table[i]:
                codes[j] = t ^ table[i] if lane == _FLOAT else 0
                table[i] = t
                any_travels = True
            continue
        mode = table[i + MODE]
        x = expected_at(plan, table, start, j)
        miss = t - x
        tolerance = plan[j, TOLERANCE]
        if miss > tolerance or miss < -tolerance:
            half = 0 if mode & FINE else plan[j, HALF]
            codes[j] = encode_residual(miss, tolerance, half)
            settle_at(plan, table, start, j, x + decode_residual(codes[j], tolerance, half))
            any_travels = True
        elif mode & 15 or plan[j, PERIOD]:
            settle_at(plan, table, start, j, x)
    return any_travels


@part
def put_mask(codes: Any, lanes: Any, count: int, out: Any, at: int) -> int:
    """One bit a property, in groups of eight where there are more."""
    groups = (count + 7) // 8
    if count > 8:
        for g in range(groups):
            used = 0
            for j in range(8 * g, min(8 * g + 8, count)):
                if travels(codes, lanes, j):
                    used = 1
            at = put(out, at, used, 1)
    for g in range(groups):
        end = min(8 * g + 8, count)
        bits = 0
        for j in range(8 * g, end):
            bits = (bits << 1) | (1 if travels(codes, lanes, j) else 0)
        if bits or count <= 8:
            at = put(out, at, bits, end - 8 * g)
    return at


@part
def travels(codes: Any, lanes: Any, j: int) -> bool:
    """Does the property travel? A float's code uses all 64 bits, so its nothing is zero."""
    return codes[j] != (0 if lanes[j] == _FLOAT else NOTHING)


@part
def put_float(out: Any, at: int, code: int) -> int:
    """The XOR of two bit patterns without the zeros at its ends."""
    zeros = 0
    while not (code >> zeros) & 1:
        zeros += 1
    low = (code >> zeros) & ((1 << (64 - zeros)) - 1 if zeros else -1)
    width = 64 if low < 0 else bit_length(low)
    at = put(out, at, zeros, _FLOAT_FIELD)
    at = put(out, at, width - 1, _FLOAT_FIELD)
    if width > 32:
        at = put(out, at, (low >> 32) & ((1 << (width - 32)) - 1), width - 32)
        return put(out, at, low & 0xFFFFFFFF, 32)
    return put(out, at, low, width)


@part
def put_body(plan: Any, cells: Any, row: int, skip: int, codes: Any, out: Any, at: int) -> int:
    """The body of a DATA frame in `compact`; answers with the bit after it."""
    if cells[SOURCES] > 1:
        away = row - cells[LAST_ALIAS] - 1
        code = away << 1 if away >= 0 else ((-away) << 1) - 1
        at = put_code(out, at, code, cells[ALIAS])
        cells[ALIAS] = adapt(cells[ALIAS], code)
        cells[LAST_ALIAS] = row
    at = put_code(out, at, skip, cells[SKIP])
    cells[SKIP] = adapt(cells[SKIP], skip)
    at = put_mask(codes, plan[:, LANE], len(plan), out, at)
    for j in range(len(plan)):
        lane = plan[j, LANE]
        if lane == _FLAG or not travels(codes, plan[:, LANE], j):
            continue
        if lane == _FLOAT:
            at = put_float(out, at, codes[j])
        else:
            at = put_code(out, at, codes[j], cells[FIRST + j])
            cells[FIRST + j] = adapt(cells[FIRST + j], codes[j])
    return at


@part
def put_frame(plan: Any, cells: Any, row: int, skip: int, codes: Any, out: Any, start: int) -> int:
    """A whole frame from byte `start` on; answers with the byte after it."""
    wide = cells[WIDE]
    out[start] = _DATA | cells[INCARNATION] << 6 | (_WIDE_BIT if wide else 0)
    sequence = cells[SEQUENCE]
    if wide:
        out[start + 1] = (sequence >> 8) & 0xFF
    out[start + 1 + wide] = sequence & 0xFF
    body = start + 3 + wide
    end = (put_body(plan, cells, row, skip, codes, out, body * 8) + 7) >> 3
    chain = crc(crc(cells[CHAIN], out, start, body - 1), out, body, end)
    out[body - 1] = chain & 0xFF
    cells[CHAIN] = chain
    cells[SEQUENCE] = sequence + 1
    return end


@part
def note_trial(plan: Any, cells: Any, table: Any, start: int, ticks: Any, blocks: Any, row: int) -> None:
    """Keep an event for the trial its source is in; ask for attention where one begins or is complete."""
    trial = table[start + TRIAL]
    if trial:
        filled = table[start + FILLED]
        for j in range(len(plan)):
            if plan[j, AUTO] >= 0:
                blocks[trial - 1, filled, plan[j, AUTO]] = ticks[j]
        table[start + FILLED] = filled + 1
        if filled + 1 < blocks.shape[1]:
            return
    cells[ATTENTION] = row + 1


@compiled
def encode_event(
    plan: Any, cells: Any, table: Any, width: int, row: int, whole: Any, work: Any, blocks: Any, out: Any, at: int
) -> int:
    """One event into `out` from byte `at` on: the byte after its frame, `at` itself where nothing travels, or
    NOT_ORDINARY. `work` has room for ticks and codes; `cells[ATTENTION]` names a row whose trial wants attention."""
    start = row * width
    ticks, codes = work[0], work[1]
    if not look(plan, table, start, whole, whole.view(np.float64), ticks):
        return NOT_ORDINARY
    any_travels = decide(plan, table, start, ticks, codes)
    ordinal = table[start + ORDINAL] + 1
    table[start + ORDINAL] = ordinal
    if blocks.shape[0] and ordinal >= table[start + DUE]:
        note_trial(plan, cells, table, start, ticks, blocks, row)
    skip = ordinal - table[start + TOLD] - 1
    if not any_travels and skip < MAX_SKIP - 1:
        return at
    table[start + TOLD] = ordinal
    return put_frame(plan, cells, row, skip, codes, out, at)


@compiled
def encode_rows(
    plan: Any,
    cells: Any,
    table: Any,
    width: int,
    rows: Any,
    whole: Any,
    dirty: Any,
    first: int,
    work: Any,
    blocks: Any,
    out: Any,
    ends: Any,
) -> tuple[int, int]:
    """Many events, from number `first` on, until one is not ordinary, wants attention, or `out` is nearly full.

    Answers with the number of the next event and the bytes written; `ends[n]` is where event n's frame ends, equal to
    the end before it where nothing travels.
    """
    at = 0
    room = len(out) - 32 - 20 * len(plan)
    for n in range(first, len(rows)):
        if dirty[n] or rows[n] < 0 or at > room:
            return n, at
        end = encode_event(plan, cells, table, width, rows[n], whole[n], work, blocks, out, at)
        if end == NOT_ORDINARY:
            return n, at
        at = end
        ends[n] = at
        if cells[ATTENTION]:
            return n + 1, at
    return len(rows), at
