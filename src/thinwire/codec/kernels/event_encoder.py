"""Compiled encoding of events: convert the values, decide what to send, advance the state, write the frame.

`encode_event` encodes one event, `encode_rows` many. Kernels leave irregular events unchanged for
the scalar code: new sources, absent or off-grid values, values outside their range, and changed texts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thinwire.codec.kernels.frame_writer import put_frame
from thinwire.codec.kernels.jit import inlined, no_alloc, no_alloc_part
from thinwire.codec.kernels.rule_table import (
    AUTO,
    BAND,
    DOWN,
    ENCODING,
    GATE,
    HALF,
    HIGHEST,
    IS_INTEGER,
    LOWEST,
    PERIOD,
    TOLERANCE,
    TRIGGERS,
    UP,
)
from thinwire.codec.kernels.slot_updates import advance_at, predicted_at, set_slot_value
from thinwire.codec.predictors.arithmetic import FINE
from thinwire.codec.source_table import DUE, FILLED, HEADER_CELLS, LAST_SENT, MODE, ORDINAL, SLOT_CELLS, TRIAL
from thinwire.codec.ticks import ABSENT, decode_residual, encode_residual
from thinwire.wire.control_frames import MAX_SKIP
from thinwire.wire.partial_event import EncodingKind
from thinwire.wire.stream_state import ATTENTION, VALUES

IRREGULAR = -1

MAX_HEAD, MAX_VALUE = 32, 20
"""maximum bytes of a frame: without values, and per value"""

_EXACT = 1 << 53
_FAR = 1 << 60
_TICK, _FLOAT = int(EncodingKind.TICK), int(EncodingKind.FLOAT)
_INFINITE = 0x7FF


@inlined
def ticks_of(rules: Any, j: int, integers: int, value: float) -> int:
    """Return a value as ticks, or ABSENT if the scalar code must handle it."""
    ticks: Any = integers
    if not rules[IS_INTEGER, j]:
        up, down = rules[UP, j], rules[DOWN, j]
        scaled = value * down
        if not abs(scaled) < _EXACT:  # above this limit, neighbouring grid values are the same double
            return ABSENT
        if up != 1:
            scaled /= up
        ticks = np.int64(np.rint(scaled))
        if ticks * up / down != value:
            return ABSENT
    if rules[ENCODING, j] != _TICK:
        no_number = rules[ENCODING, j] == _FLOAT and (ticks >> 52) & _INFINITE == _INFINITE
        return ABSENT if no_number else ticks
    if -rules[BAND, j] <= ticks <= rules[BAND, j]:
        ticks = 0
    return ticks if rules[LOWEST, j] <= ticks <= rules[HIGHEST, j] else ABSENT


@inlined
def is_regular(rules: Any, table: Any, start: int, ticks: Any) -> bool:
    """Check that all ticks and all state values are present and close enough to subtract."""
    i = start + HEADER_CELLS
    for j in range(rules.shape[1]):
        encoding = rules[ENCODING, j]
        if encoding > _FLOAT:
            continue
        if ticks[j] == ABSENT or table[i] == ABSENT:
            return False
        if encoding == _TICK and abs(ticks[j] - table[i]) > _FAR:
            return False
        i += SLOT_CELLS
    return True


@inlined
def decide_held(i: int, table: Any, rules: Any, j: int, t: int) -> tuple[int, int]:
    """Encode a value against the last one. Return the code, and 1 if it is sent. Branch-free: on noisy values a branch
    would be mispredicted half of the time."""
    x = table[i]
    half = 0 if table[i + MODE] & FINE else rules[HALF, j]
    residual = t - x
    tolerance = rules[TOLERANCE, j]
    code = encode_residual(residual, tolerance, half)
    is_sent: Any = np.int64(residual > tolerance) | np.int64(residual < -tolerance)
    table[i] = x + decode_residual(code, tolerance, half) * is_sent
    return code, is_sent


@inlined
def decide_predicted(rules: Any, table: Any, start: int, i: int, j: int, t: int) -> tuple[int, int]:
    """Encode a value against the prediction of the slot's mode. Return the code, and 1 if it is sent."""
    x = predicted_at(rules, table, start, j)
    residual = t - x
    tolerance = rules[TOLERANCE, j]
    if -tolerance <= residual <= tolerance:
        set_slot_value(rules, table, start, j, x)
        return 0, 0
    half = 0 if table[i + MODE] & FINE else rules[HALF, j]
    code = encode_residual(residual, tolerance, half)
    set_slot_value(rules, table, start, j, x + decode_residual(code, tolerance, half))
    return code, 1


@inlined
def decide(rules: Any, table: Any, start: int, ticks: Any, codes: Any, sent: Any) -> tuple[int, int]:
    """Encode all values and advance the state. Return the number of properties listed in `sent`, and the same as bits,
    the first property highest (of the last 64 properties if there are more)."""
    count: Any = 0
    bits: Any = 0
    is_sent: Any = 0
    i = start + HEADER_CELLS
    for j in range(rules.shape[1]):
        encoding = rules[ENCODING, j]
        bits <<= 1
        if encoding > _FLOAT:
            continue
        t = ticks[j]
        if encoding != _TICK:
            codes[j] = t ^ table[i]
            is_sent = np.int64(codes[j] != 0)
            table[i] = t
        elif table[i + MODE] & 15 or rules[PERIOD, j]:
            codes[j], is_sent = decide_predicted(rules, table, start, i, j, t)
        else:
            codes[j], is_sent = decide_held(i, table, rules, j, t)
        sent[count] = j
        count += is_sent
        bits |= is_sent
        i += SLOT_CELLS
    return count, bits


@no_alloc_part
def record_trial(rules: Any, cells: Any, table: Any, start: int, ticks: Any, blocks: Any, row: int) -> None:
    """Store an event in the trial of its source. Set ATTENTION when a trial starts or is complete."""
    trial = table[start + TRIAL]
    if trial:
        filled = table[start + FILLED]
        for j in range(rules.shape[1]):
            if rules[AUTO, j] >= 0:
                blocks[trial - 1, filled, rules[AUTO, j]] = ticks[j]
        table[start + FILLED] = filled + 1
        if filled + 1 < blocks.shape[1]:
            return
    cells[ATTENTION] = row + 1


@no_alloc_part
def is_quiet(rules: Any, table: Any, start: int, ticks: Any) -> bool:
    """Check that every triggering property is within its tolerance of the prediction. Nothing changes."""
    i = start + HEADER_CELLS
    for j in range(rules.shape[1]):
        encoding = rules[ENCODING, j]
        if encoding > _FLOAT:
            continue
        if rules[GATE, j] == TRIGGERS:
            if encoding != _TICK:
                if ticks[j] != table[i]:
                    return False
            elif abs(ticks[j] - predicted_at(rules, table, start, j)) > rules[TOLERANCE, j]:
                return False
        i += SLOT_CELLS
    return True


@no_alloc_part
def suppress(rules: Any, table: Any, start: int, ticks: Any) -> bool:
    """Suppress an event without a triggering change. Return whether it was suppressed. See `ChangeGate.suppress`."""
    ordinal = table[start + ORDINAL]
    due = table[start + DUE] == ordinal + 1 or ordinal - table[start + LAST_SENT] >= MAX_SKIP - 1
    if due or not is_quiet(rules, table, start, ticks):
        return False
    advance_at(rules, table, start)
    return True


@inlined
def encode_ticks(
    rules: Any, cells: Any, table: Any, width: int, row: int, ticks: Any, work: Any, blocks: Any, out: Any, at: int
) -> int:
    """Encode an event and write its frame if one is needed. Return the byte after it, or IRREGULAR.

    work: space for codes and sent properties
    """
    start = row * width
    codes, sent = work[0], work[1]
    if not is_regular(rules, table, start, ticks):
        return IRREGULAR
    if rules[GATE, 0] and suppress(rules, table, start, ticks):
        return at
    count, bits = decide(rules, table, start, ticks, codes, sent)
    ordinal = table[start + ORDINAL] + 1
    table[start + ORDINAL] = ordinal
    if blocks.shape[0] and ordinal >= table[start + DUE]:
        record_trial(rules, cells, table, start, ticks, blocks, row)
    skip = ordinal - table[start + LAST_SENT] - 1
    if count == 0 and skip < MAX_SKIP - 1 and not rules[GATE, 0]:
        return at
    table[start + LAST_SENT] = ordinal
    cells[VALUES] += count
    return put_frame(rules, cells, row, skip, codes, sent, count, bits, out, at)


@no_alloc_part
def scale_event(rules: Any, integers: Any, ticks: Any) -> None:
    """Convert the values of a packed event to ticks."""
    values = integers.view(np.float64)
    for j in range(rules.shape[1]):
        if rules[ENCODING, j] <= _FLOAT:
            ticks[j] = ticks_of(rules, j, integers[j], values[j])


@no_alloc
def scale_events(rules: Any, cells: Any, count: int) -> None:
    """Convert the values of packed events to ticks in place."""
    for n in range(count):
        scale_event(rules, cells[n], cells[n])


@no_alloc
def encode_event(
    rules: Any, cells: Any, table: Any, width: int, row: int, integers: Any, work: Any, blocks: Any, out: Any
) -> int:
    """Encode one event into `out`. Return the end of its frame, 0 if nothing is sent, or IRREGULAR.

    work: space for codes, sent properties and ticks. `cells[ATTENTION]` is set to a row whose trial needs attention
    """
    scale_event(rules, integers, work[2])
    return encode_ticks(rules, cells, table, width, row, work[2], work, blocks, out, 0)


@no_alloc_part
def scale_numbers(values: Any, up: float, down: float, band: int, lowest: float, highest: float, ticks: Any) -> None:
    """Convert a column of numbers as `ticks_of` does, without a branch."""
    for n in range(len(values)):
        value = values[n]
        scaled = value * down if up == 1.0 else value * down / up
        rounded = np.rint(scaled)
        exact = (abs(scaled) < _EXACT) & (rounded * up / down == value)
        rounded = 0.0 if abs(rounded) <= band else rounded
        ticks[n] = np.int64(rounded) if exact & (rounded >= lowest) & (rounded <= highest) else ABSENT


@no_alloc
def scale_columns(rules: Any, integers: Any, ticks: Any) -> None:
    """Convert all values of a batch to ticks, one property at a time; ABSENT if the scalar code must handle a value.

    ticks: one line per event
    """
    values = integers.view(np.float64)
    for j in range(rules.shape[1]):
        if rules[ENCODING, j] == _TICK and not rules[IS_INTEGER, j]:
            up, down = float(rules[UP, j]), float(rules[DOWN, j])
            lowest, highest = float(rules[LOWEST, j]), float(rules[HIGHEST, j])
            scale_numbers(values[j], up, down, rules[BAND, j], lowest, highest, ticks[:, j])
        elif rules[ENCODING, j] <= _FLOAT:
            for n in range(integers.shape[1]):
                ticks[n, j] = ticks_of(rules, j, integers[j, n], values[j, n])


@no_alloc
def encode_rows(
    rules: Any,
    cells: Any,
    table: Any,
    width: int,
    rows: Any,
    ticks: Any,
    first: int,
    last: int,
    work: Any,
    blocks: Any,
    out: Any,
    ends: Any,
) -> int:
    """Encode events from index `first` to `last` until one is irregular or needs attention, or `out` is nearly full.

    Returns the index of the next event. `ends[n]` is the end of event n's frame; it equals the previous end if nothing
    is sent. Events of unknown sources have the row -1.
    """
    at = 0
    limit = len(out) - MAX_HEAD - MAX_VALUE * rules.shape[1]
    for n in range(first, last):
        if rows[n] < 0 or at > limit:
            return n
        end = encode_ticks(rules, cells, table, width, rows[n], ticks[n], work, blocks, out, at)
        if end == IRREGULAR:
            return n
        ends[n] = at = end
        if cells[ATTENTION]:
            return n + 1
    return last
