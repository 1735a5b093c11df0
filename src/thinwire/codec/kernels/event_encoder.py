"""Events to frames, compiled: look at the values, decide, move the state on, write the frame.

`encode_event` takes one event and `encode_rows` many; both are the same steps. An event that is anything but ordinary
(a new source, an absent, off-grid or outlying value, a changed text) is left alone and the per-event code takes it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thinwire.codec import ticks as residual
from thinwire.codec.kernels.frame_writer import put_frame
from thinwire.codec.kernels.jit import lean, lean_part, woven
from thinwire.codec.kernels.rule_table import (
    AUTO,
    BAND,
    DOWN,
    FIRES,
    GATE,
    HALF,
    HIGHEST,
    LANE,
    LOWEST,
    PERIOD,
    TOLERANCE,
    UP,
    WHOLE,
)
from thinwire.codec.kernels.slot_updates import advance_at, expected_at, set_slot_value
from thinwire.codec.predictors.predictor import FINE
from thinwire.codec.source_table import DUE, FIELDS, FILLED, HEAD, MODE, ORDINAL, TOLD, TRIAL
from thinwire.codec.ticks import ABSENT
from thinwire.wire.control_frames import MAX_SKIP
from thinwire.wire.partial_event import EncodingKind
from thinwire.wire.stream_state import ATTENTION, VALUES

NOT_ORDINARY = -1

_EXACT = 1 << 53
_FAR = 1 << 60
_TICK, _FLOAT = int(EncodingKind.TICK), int(EncodingKind.FLOAT)
_INFINITE = 0x7FF

encode_residual = residual.encode
decode_residual = residual.decode


@woven
def ticks_of(plan: Any, j: int, whole: int, value: float) -> int:
    """A value as ticks, or ABSENT where the per-event code must look at it."""
    ticks: Any = whole
    if not plan[WHOLE, j]:
        up, down = plan[UP, j], plan[DOWN, j]
        scaled = value * down
        if not abs(scaled) < _EXACT:  # beyond it, neighbours on the grid are one double
            return ABSENT
        if up != 1:
            scaled /= up
        ticks = np.int64(np.rint(scaled))
        if ticks * up / down != value:
            return ABSENT
    if plan[LANE, j] != _TICK:
        no_number = plan[LANE, j] == _FLOAT and (ticks >> 52) & _INFINITE == _INFINITE
        return ABSENT if no_number else ticks
    if -plan[BAND, j] <= ticks <= plan[BAND, j]:
        ticks = 0
    return ticks if plan[LOWEST, j] <= ticks <= plan[HIGHEST, j] else ABSENT


@woven
def ordinary(plan: Any, table: Any, start: int, ticks: Any) -> bool:
    """Are all ticks there, on a state that has values too, and near enough to be subtracted?"""
    i = start + HEAD
    for j in range(plan.shape[1]):
        lane = plan[LANE, j]
        if lane > _FLOAT:
            continue
        if ticks[j] == ABSENT or table[i] == ABSENT:
            return False
        if lane == _TICK and abs(ticks[j] - table[i]) > _FAR:
            return False
        i += FIELDS
    return True


@woven
def decide_held(i: int, table: Any, plan: Any, j: int, t: int) -> tuple[int, int]:
    """The last value is expected: the code, and 1 where it travels. Written without branches, which noise would make
    the processor guess wrong half of the time."""
    x = table[i]
    half = 0 if table[i + MODE] & FINE else plan[HALF, j]
    miss = t - x
    tolerance = plan[TOLERANCE, j]
    code = encode_residual(miss, tolerance, half)
    travels: Any = np.int64(miss > tolerance) | np.int64(miss < -tolerance)
    table[i] = x + decode_residual(code, tolerance, half) * travels
    return code, travels


@woven
def decide_predicted(plan: Any, table: Any, start: int, i: int, j: int, t: int) -> tuple[int, int]:
    """The slot's mode says what is expected: the code, and 1 where it travels."""
    x = expected_at(plan, table, start, j)
    miss = t - x
    tolerance = plan[TOLERANCE, j]
    if -tolerance <= miss <= tolerance:
        set_slot_value(plan, table, start, j, x)
        return 0, 0
    half = 0 if table[i + MODE] & FINE else plan[HALF, j]
    code = encode_residual(miss, tolerance, half)
    set_slot_value(plan, table, start, j, x + decode_residual(code, tolerance, half))
    return code, 1


@woven
def decide(plan: Any, table: Any, start: int, ticks: Any, codes: Any, sent: Any) -> tuple[int, int]:
    """Which properties travel, with which codes; the state moves on. Answers with how many are listed in `sent`, and
    with the same as bits, the first property highest (of the last 64 properties where there are more)."""
    count: Any = 0
    bits: Any = 0
    travels: Any = 0
    i = start + HEAD
    for j in range(plan.shape[1]):
        lane = plan[LANE, j]
        bits <<= 1
        if lane > _FLOAT:
            continue
        t = ticks[j]
        if lane != _TICK:
            codes[j] = t ^ table[i]
            travels = np.int64(codes[j] != 0)
            table[i] = t
        elif table[i + MODE] & 15 or plan[PERIOD, j]:
            codes[j], travels = decide_predicted(plan, table, start, i, j, t)
        else:
            codes[j], travels = decide_held(i, table, plan, j, t)
        sent[count] = j
        count += travels
        bits |= travels
        i += FIELDS
    return count, bits


@lean_part
def note_trial(plan: Any, cells: Any, table: Any, start: int, ticks: Any, blocks: Any, row: int) -> None:
    """Keep an event for the trial its source is in; ask for attention where one begins or is complete."""
    trial = table[start + TRIAL]
    if trial:
        filled = table[start + FILLED]
        for j in range(plan.shape[1]):
            if plan[AUTO, j] >= 0:
                blocks[trial - 1, filled, plan[AUTO, j]] = ticks[j]
        table[start + FILLED] = filled + 1
        if filled + 1 < blocks.shape[1]:
            return
    cells[ATTENTION] = row + 1


@lean_part
def is_quiet(plan: Any, table: Any, start: int, ticks: Any) -> bool:
    """Is every property that may make an event travel within its tolerance of what is expected? Nothing changes."""
    i = start + HEAD
    for j in range(plan.shape[1]):
        lane = plan[LANE, j]
        if lane > _FLOAT:
            continue
        if plan[GATE, j] == FIRES:
            if lane != _TICK:
                if ticks[j] != table[i]:
                    return False
            elif abs(ticks[j] - expected_at(plan, table, start, j)) > plan[TOLERANCE, j]:
                return False
        i += FIELDS
    return True


@lean_part
def passes_over(plan: Any, table: Any, start: int, ticks: Any) -> bool:
    """Let an event pass in silence where nothing in it makes it travel; `Gate` does the same for per-event code."""
    ordinal = table[start + ORDINAL]
    due = table[start + DUE] == ordinal + 1 or ordinal - table[start + TOLD] >= MAX_SKIP - 1
    if due or not is_quiet(plan, table, start, ticks):
        return False
    advance_at(plan, table, start)
    return True


@woven
def encode_if_needed(
    plan: Any,
    cells: Any,
    table: Any,
    start: int,
    row: int,
    ticks: Any,
    codes: Any,
    sent: Any,
    blocks: Any,
    out: Any,
    at: int,
) -> int:
    """Decide about an event, and write its frame where one is needed."""
    if plan[GATE, 0] and passes_over(plan, table, start, ticks):
        return at
    count, bits = decide(plan, table, start, ticks, codes, sent)
    ordinal = table[start + ORDINAL] + 1
    table[start + ORDINAL] = ordinal
    if blocks.shape[0] and ordinal >= table[start + DUE]:
        note_trial(plan, cells, table, start, ticks, blocks, row)
    skip = ordinal - table[start + TOLD] - 1
    if count == 0 and skip < MAX_SKIP - 1 and not plan[GATE, 0]:
        return at
    table[start + TOLD] = ordinal
    cells[VALUES] += count
    return put_frame(plan, cells, row, skip, codes, sent, count, bits, out, at)


@lean_part
def scale_event(plan: Any, whole: Any, ticks: Any) -> None:
    """The values of a packed event as ticks."""
    values = whole.view(np.float64)
    for j in range(plan.shape[1]):
        if plan[LANE, j] <= _FLOAT:
            ticks[j] = ticks_of(plan, j, whole[j], values[j])


@lean_part
def room_in(plan: Any, out: Any) -> int:
    """The byte of `out` up to which there is room for another event's frame."""
    return len(out) - 32 - 20 * plan.shape[1]


@lean
def encode_event(
    plan: Any, cells: Any, table: Any, width: int, row: int, whole: Any, work: Any, blocks: Any, out: Any, at: int
) -> int:
    """One event into `out` from byte `at` on: the byte after its frame, `at` itself where nothing travels, or
    NOT_ORDINARY. `work` has room for ticks, codes and what travels; `cells[ATTENTION]` names a row whose trial wants
    attention."""
    start = row * width
    ticks, codes, sent = work[0], work[1], work[2]
    scale_event(plan, whole, ticks)
    if not ordinary(plan, table, start, ticks):
        return NOT_ORDINARY
    return encode_if_needed(plan, cells, table, start, row, ticks, codes, sent, blocks, out, at)


@lean
def encode_packed(
    plan: Any,
    cells: Any,
    table: Any,
    width: int,
    rows: Any,
    whole: Any,
    first: int,
    count: int,
    work: Any,
    blocks: Any,
    out: Any,
    ends: Any,
) -> int:
    """Packed events one after the other, from number `first` on; answers as `encode_rows` does, but for the bytes."""
    at = 0
    room = room_in(plan, out)
    ticks, codes, sent = work[0], work[1], work[2]
    for n in range(first, count):
        start = rows[n] * width
        if at > room:
            return n
        scale_event(plan, whole[n], ticks)
        if not ordinary(plan, table, start, ticks):
            return n
        at = encode_if_needed(plan, cells, table, start, rows[n], ticks, codes, sent, blocks, out, at)
        ends[n] = at
        if cells[ATTENTION]:
            return n + 1
    return count


@lean_part
def scale_numbers(values: Any, up: float, down: float, band: int, lowest: float, highest: float, ticks: Any) -> None:
    """A column of numbers as `ticks_of` would give them one by one, without a branch."""
    for n in range(len(values)):
        value = values[n]
        scaled = value * down if up == 1.0 else value * down / up
        near = np.rint(scaled)
        exact = (abs(scaled) < _EXACT) & (near * up / down == value)
        near = 0.0 if abs(near) <= band else near
        ticks[n] = np.int64(near) if exact & (near >= lowest) & (near <= highest) else ABSENT


@lean
def scale_columns(plan: Any, whole: Any, ticks: Any) -> None:
    """All values of a batch as ticks, a property at a time; ABSENT where the per-event code must look at one."""
    values = whole.view(np.float64)
    for j in range(plan.shape[1]):
        if plan[LANE, j] == _TICK and not plan[WHOLE, j]:
            up, down = float(plan[UP, j]), float(plan[DOWN, j])
            lowest, highest = float(plan[LOWEST, j]), float(plan[HIGHEST, j])
            scale_numbers(values[j], up, down, plan[BAND, j], lowest, highest, ticks[j])
        elif plan[LANE, j] <= _FLOAT:
            for n in range(whole.shape[1]):
                ticks[j, n] = ticks_of(plan, j, whole[j, n], values[j, n])


@lean
def encode_rows(
    plan: Any,
    cells: Any,
    table: Any,
    width: int,
    rows: Any,
    ticks: Any,
    odd: Any,
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
    room = room_in(plan, out)
    event, codes, sent = work[0], work[1], work[2]
    for n in range(first, len(rows)):
        row = rows[n]
        if odd[n] or row < 0 or at > room:
            return n, at
        start = row * width
        for j in range(plan.shape[1]):
            event[j] = ticks[j, n]
        if not ordinary(plan, table, start, event):
            return n, at
        at = encode_if_needed(plan, cells, table, start, row, event, codes, sent, blocks, out, at)
        ends[n] = at
        if cells[ATTENTION]:
            return n + 1, at
    return len(rows), at
