"""Frames to values, compiled: check, read, move the state on.

Takes ordinary DATA frames in sequence. Everything else is left alone, with nothing changed, and the per-event code
takes it: it knows how to resync, and how to name what is wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thinwire.formats.lanes import Lane
from thinwire.formats.link_state import (
    ALIAS,
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
from thinwire.reduction.columns import FIELDS, HEAD, MODE, ORDINAL
from thinwire.reduction.kernels.bits import bit_length, crc, get, zeros_at
from thinwire.reduction.kernels.compiled import compiled, part
from thinwire.reduction.kernels.plan import DOWN, HALF, LANE, PERIOD, SLOT, TOLERANCE, UP, WHOLE
from thinwire.reduction.kernels.slots import expected_at, settle_at
from thinwire.reduction.limits import ABSENT, TICK_LIMIT
from thinwire.reduction.predictors.steps import FINE

NOT_ORDINARY, REGULAR, IRREGULAR, SKIPPED = -1, 1, 2, 3
"""left alone; an event whose values are all numbers; an event with absent or very large values; left alone because
events were passed over before it: how many is in the first place of `out`, of which row in the second"""

NOTHING = -1
"""in place of a code: the property does not travel; a float's code uses all 64 bits, so its nothing is zero"""

_FLAG, _TICK, _FLOAT = int(Lane.FLAG), int(Lane.TICK), int(Lane.FLOAT)
_DATA = int(FrameKind.DATA)
_WIDE_BIT = 0x10
_FLOAT_FIELD = 6
_LONGEST = 60
_EXACT = 1 << 53
_BROKEN = -1
_INFINITE = 0x7FF

decode_residual = residual.decode


@part
def take_code(raw: Any, at: int, end: int, level: int) -> tuple[int, int]:
    """A code at the scale of its field, and the bit after it; _BROKEN where the bits run out or it is too long."""
    order = bit_length(level >> 5)
    zeros = zeros_at(raw, at, end)
    width = zeros + 1 + order
    if width > _LONGEST or at + zeros + width > end:
        return _BROKEN, at
    at += zeros
    return get(raw, at, width) - (1 << order), at + width


@part
def take_mask(raw: Any, at: int, end: int, count: int, codes: Any) -> int:
    """Marks what travels with 0, the rest with NOTHING; answers with the bit after the mask or _BROKEN."""
    groups = (count + 7) // 8
    first = at
    if count > 8:
        at += groups
    if at > end:
        return _BROKEN
    for g in range(groups):
        size = min(8, count - 8 * g)
        used = count <= 8 or get(raw, first + g, 1) == 1
        if used and at + size > end:
            return _BROKEN
        for k in range(size):
            codes[8 * g + k] = NOTHING
            if used:
                if get(raw, at, 1):
                    codes[8 * g + k] = 0
                at += 1
    return at


@part
def take_float(raw: Any, at: int, end: int) -> tuple[int, int]:
    """The XOR of two bit patterns; 0, which never travels, where it is broken."""
    if at + 2 * _FLOAT_FIELD > end:
        return 0, at
    zeros = get(raw, at, _FLOAT_FIELD)
    width = get(raw, at + _FLOAT_FIELD, _FLOAT_FIELD) + 1
    at += 2 * _FLOAT_FIELD
    if zeros + width > 64 or at + width > end:
        return 0, at
    high = get(raw, at, width - 32) if width > 32 else 0
    low = get(raw, at + width - 32, 32) if width > 32 else get(raw, at, width)
    return ((high << 32) | low) << zeros, at + width


@part
def take_codes(plan: Any, cells: Any, raw: Any, at: int, end: int, codes: Any) -> int:
    """The codes of all that travels; answers with the bit after them or _BROKEN. The scales stay as they are."""
    for j in range(plan.shape[1]):
        lane = plan[LANE, j]
        if codes[j] == NOTHING:
            if lane == _FLOAT:
                codes[j] = 0
            continue
        if lane == _FLAG:
            continue
        if lane > _FLOAT:
            return _BROKEN
        if lane == _FLOAT:
            codes[j], at = take_float(raw, at, end)
            if codes[j] == 0:
                return _BROKEN
        else:
            codes[j], at = take_code(raw, at, end, cells[FIRST + j])
            if codes[j] == _BROKEN:
                return _BROKEN
    return at


@part
def padded(raw: Any, at: int, end: int) -> bool:
    """Are there fewer than eight bits left, all of them zero?"""
    return end - at < 8 and (end == at or get(raw, at, end - at) == 0)


@part
def reconstruct(plan: Any, table: Any, start: int, codes: Any, values: Any) -> bool:
    """The new value of every slot, without changing any. Do all make sense?"""
    for j in range(plan.shape[1]):
        lane = plan[LANE, j]
        if lane > _FLOAT:
            continue
        i = start + HEAD + plan[SLOT, j] * FIELDS
        x = table[i]
        if lane != _TICK:
            if codes[j] != (0 if lane == _FLOAT else NOTHING):
                if x == ABSENT:
                    return False
                x = x ^ codes[j] if lane == _FLOAT else x ^ 1
                if lane == _FLOAT and (x == ABSENT or (x >> 52) & _INFINITE == _INFINITE):
                    return False
        else:
            if x != ABSENT:
                x = expected_at(plan, table, start, j)
            if codes[j] != NOTHING:
                if x == ABSENT:
                    return False
                half = 0 if table[i + MODE] & FINE else plan[HALF, j]
                x += decode_residual(codes[j], plan[TOLERANCE, j], half)
                if abs(x) > TICK_LIMIT:
                    return False
        values[j] = x
    return True


@part
def commit(plan: Any, cells: Any, table: Any, start: int, codes: Any, values: Any) -> None:
    """Move slots and scales on."""
    for j in range(plan.shape[1]):
        lane = plan[LANE, j]
        if lane > _FLOAT:
            continue
        i = start + HEAD + plan[SLOT, j] * FIELDS
        if lane != _TICK:
            table[i] = values[j]
            continue
        if codes[j] != NOTHING:
            cells[FIRST + j] = adapt(cells[FIRST + j], codes[j])
        if values[j] != ABSENT and (codes[j] != NOTHING or table[i + MODE] & 15 or plan[PERIOD, j]):
            settle_at(plan, table, start, j, values[j])
    table[start + ORDINAL] += 1


@part
def show(plan: Any, values: Any, out: Any) -> int:
    """Values as they are handed out: numbers as doubles, the rest as ticks."""
    doubles = out.view(np.float64)
    answer = REGULAR
    for j in range(plan.shape[1]):
        if plan[LANE, j] > _FLOAT:
            continue
        x = values[j]
        if x == ABSENT:
            answer = IRREGULAR
        elif plan[WHOLE, j]:
            out[j] = x
        elif abs(x) < _EXACT // plan[UP, j]:
            doubles[j] = x * plan[UP, j] / plan[DOWN, j]
        else:
            answer = IRREGULAR
    return answer


@compiled
def decode_frame(
    plan: Any, cells: Any, table: Any, width: int, raw: Any, size: int, passed_over: bool, work: Any, out: Any
) -> int:
    """One frame of `size` bytes; its row is left in `cells[LAST_ALIAS]`, its values in `out`.

    Where events were passed over before it, the caller sees to them first and calls again with `passed_over`.
    """
    wide = cells[WIDE]
    body = 3 + wide
    if size <= body or raw[0] != (_DATA | cells[INCARNATION] << 6 | (_WIDE_BIT if wide else 0)):
        return NOT_ORDINARY
    sequence = raw[1] << 8 | raw[2] if wide else np.int64(raw[1])
    if sequence != cells[SEQUENCE] & ((1 << 8 * (1 + wide)) - 1):
        return NOT_ORDINARY
    chain = crc(crc(cells[CHAIN], raw, 0, body - 1), raw, body, size)
    if chain & 0xFF != raw[body - 1]:
        return NOT_ORDINARY
    at, end = body * 8, size * 8
    row = 0
    alias_code = 0
    if cells[SOURCES] > 1:
        alias_code, at = take_code(raw, at, end, cells[ALIAS])
        if alias_code == _BROKEN:
            return NOT_ORDINARY
        away = -((alias_code + 1) >> 1) if alias_code & 1 else alias_code >> 1
        row = cells[LAST_ALIAS] + 1 + away
    skip, at = take_code(raw, at, end, cells[SKIP])
    known = 0 <= row < cells[SOURCES] and table[row * width + ORDINAL] != 0
    if not known or skip < 0 or skip > MAX_SKIP:
        return NOT_ORDINARY
    values, codes = work[0], work[1]
    at = take_mask(raw, at, end, plan.shape[1], codes)
    if at != _BROKEN:
        at = take_codes(plan, cells, raw, at, end, codes)
    if at == _BROKEN or not padded(raw, at, end):
        return NOT_ORDINARY
    if skip and not passed_over:
        out[0], out[1] = skip, row
        return SKIPPED
    if not reconstruct(plan, table, row * width, codes, values):
        return NOT_ORDINARY
    commit(plan, cells, table, row * width, codes, values)
    if cells[SOURCES] > 1:
        cells[ALIAS] = adapt(cells[ALIAS], alias_code)
        cells[LAST_ALIAS] = row
    cells[SKIP] = adapt(cells[SKIP], skip)
    cells[CHAIN] = chain
    cells[SEQUENCE] += 1
    return show(plan, values, out)


@compiled
def pass_over(plan: Any, table: Any, width: int, row: int, work: Any, out: Any) -> int:
    """The source's next event, which was as expected in every slot; its values are left in `out`."""
    start = row * width
    values = work[0]
    for j in range(plan.shape[1]):
        lane = plan[LANE, j]
        if lane > _FLOAT:
            continue
        i = start + HEAD + plan[SLOT, j] * FIELDS
        values[j] = table[i]
        if lane == _TICK and values[j] != ABSENT and (table[i + MODE] & 15 or plan[PERIOD, j]):
            values[j] = expected_at(plan, table, start, j)
            settle_at(plan, table, start, j, values[j])
    table[start + ORDINAL] += 1
    return show(plan, values, out)
