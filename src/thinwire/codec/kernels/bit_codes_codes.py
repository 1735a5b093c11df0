"""The body of a DATA frame, taken apart by kernels: which properties travel, and their codes."""

from __future__ import annotations

from typing import Any

from thinwire.codec.kernels.bit_codes import bit_length, get, zeros_at
from thinwire.codec.kernels.jit import lean_part
from thinwire.codec.kernels.rule_table import LANE
from thinwire.wire.partial_event import Lane
from thinwire.wire.stream_state import FIRST

NOTHING = -1
"""in place of a code: the property does not travel; a float's code uses all 64 bits, so its nothing is zero"""

BROKEN = -1
"""in place of a code, or of the bit after it: this cannot be read"""

_FLAG, _FLOAT = int(Lane.FLAG), int(Lane.FLOAT)
_FLOAT_FIELD = 6
_LONGEST = 60


@lean_part
def take_code(raw: Any, at: int, end: int, level: int) -> tuple[int, int]:
    """A code at the scale of its field, and the bit after it; BROKEN where the bits run out or it is too long."""
    order = bit_length(level >> 5)
    zeros = zeros_at(raw, at, end)
    width = zeros + 1 + order
    if width > _LONGEST or at + zeros + width > end:
        return BROKEN, at
    at += zeros
    return get(raw, at, width) - (1 << order), at + width


@lean_part
def take_mask(raw: Any, at: int, end: int, count: int, codes: Any) -> int:
    """Marks what travels with 0, the rest with NOTHING; answers with the bit after the mask or BROKEN."""
    groups = (count + 7) // 8
    first = at
    if count > 8:
        at += groups
    if at > end:
        return BROKEN
    for g in range(groups):
        size = min(8, count - 8 * g)
        used = count <= 8 or get(raw, first + g, 1) == 1
        if used and at + size > end:
            return BROKEN
        for k in range(size):
            codes[8 * g + k] = NOTHING
            if used:
                if get(raw, at, 1):
                    codes[8 * g + k] = 0
                at += 1
    return at


@lean_part
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


@lean_part
def take_codes(plan: Any, cells: Any, raw: Any, at: int, end: int, codes: Any) -> int:
    """The codes of all that travels; answers with the bit after them or BROKEN. The scales stay as they are."""
    for j in range(plan.shape[1]):
        lane = plan[LANE, j]
        if codes[j] == NOTHING:
            if lane == _FLOAT:
                codes[j] = 0
            continue
        if lane == _FLAG:
            continue
        if lane > _FLOAT:
            return BROKEN
        if lane == _FLOAT:
            codes[j], at = take_float(raw, at, end)
            if codes[j] == 0:
                return BROKEN
        else:
            codes[j], at = take_code(raw, at, end, cells[FIRST + j])
            if codes[j] == BROKEN:
                return BROKEN
    return at


@lean_part
def padded(raw: Any, at: int, end: int) -> bool:
    """Are there fewer than eight bits left, all of them zero?"""
    return end - at < 8 and (end == at or get(raw, at, end - at) == 0)
