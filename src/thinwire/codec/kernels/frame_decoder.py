"""Frames to values, compiled: check, read, move the state on.

Takes ordinary DATA frames in sequence, as many as a message holds. Everything else is left alone, with nothing changed,
and the per-event code takes it: it knows how to resync, and how to name what is wrong.

An event leaves a record: twice its row and one more if it was passed over in silence, its ordinal, whether it is
irregular, and its values. Those of an irregular event, which has absent or very large ones, are left as ticks.

A reader of changes has properties watched. Then an event leaves none that shows the same values of these as the one
before it in its source, if that one was taken here too; where it was not, nobody can say yet, and it is a doubt.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thinwire.codec import ticks as residual
from thinwire.codec.kernels.bit_codes import BROKEN, NOTHING, crc, padded, take_code, take_codes, take_mask
from thinwire.codec.kernels.jit import lean, lean_part
from thinwire.codec.kernels.rule_table import DOWN, HALF, LANE, PERIOD, SLOT, TOLERANCE, UP, WATCHED, WHOLE
from thinwire.codec.kernels.slot_updates import expected_at, set_slot_value
from thinwire.codec.predictors.predictor import FINE
from thinwire.codec.source_table import FIELDS, HEAD, MODE, ORDINAL
from thinwire.codec.ticks import ABSENT, TICK_LIMIT
from thinwire.wire.control_frames import MAX_SKIP
from thinwire.wire.frame import MAX_FRAME, MAX_FRAMES, FrameKind
from thinwire.wire.partial_event import EncodingKind
from thinwire.wire.stream_state import (
    ALIAS,
    CHAIN,
    FIRST,
    INCARNATION,
    LAST_ALIAS,
    SEQUENCE,
    SKIP,
    SOURCES,
    WIDE,
    adapt,
)

AT, FRAMES, BYTES, EVENTS, DOUBTS, CELLS_OF_RUN = range(6)
"""cells of a run: the byte it goes on from, and how many frames, bytes of frames and events it has taken, and
of how many of these it is not known whether they show a change"""

RECORD = 3
"""cells of a record before the values"""

TAKEN, FULL, NOT_ORDINARY = range(3)
"""how a run ends, or what becomes of a frame: there is no room for its events, or the per-event code must see it"""

SAME, MOVED, DOUBTFUL = range(3)
"""what the watched properties of an event show, beside those of the one before it"""

_TICK, _FLOAT = int(EncodingKind.TICK), int(EncodingKind.FLOAT)
_DATA, _BATCH = int(FrameKind.DATA), int(FrameKind.BATCH)
_WIDE_BIT = 0x10
_EXACT = 1 << 53
_APART = 1 << 51
"""below this two numbers of ticks are two doubles, whatever they are divided by"""
_INFINITE = 0x7FF

decode_residual = residual.decode


@lean_part
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


@lean_part
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
            set_slot_value(plan, table, start, j, values[j])
    table[start + ORDINAL] += 1


@lean_part
def verdict_on(plan: Any, table: Any, start: int, values: Any) -> int:
    """Do the watched properties have other values than the slots, for whoever is shown both?"""
    found = SAME
    for j in range(plan.shape[1]):
        lane = plan[LANE, j]
        if lane > _FLOAT or not plan[WATCHED, j]:
            continue
        x, before = values[j], table[start + HEAD + plan[SLOT, j] * FIELDS]
        if x == before or (lane == _FLOAT and (x | before) << 1 == 0):  # 0.0 and -0.0 are equal
            continue
        if not plan[WHOLE, j] and max(abs(x), abs(before)) >= _APART // plan[UP, j]:
            return DOUBTFUL
        found = MOVED
    return found


@lean_part
def judged(plan: Any, table: Any, start: int, values: Any, ordinal: int, seen: Any, row: int) -> int:
    """What the next event of a source shows to whom the one numbered `ordinal` was the last; then it has been seen."""
    if seen is None or row >= len(seen):
        return MOVED
    last = seen[row]
    seen[row] = table[start + ORDINAL] + 1
    return verdict_on(plan, table, start, values) if last == ordinal else DOUBTFUL


@lean_part
def expect(plan: Any, table: Any, start: int, values: Any) -> None:
    """The source's next event is as expected in every slot."""
    for j in range(plan.shape[1]):
        lane = plan[LANE, j]
        if lane > _FLOAT:
            continue
        i = start + HEAD + plan[SLOT, j] * FIELDS
        values[j] = table[i]
        if lane == _TICK and values[j] != ABSENT and (table[i + MODE] & 15 or plan[PERIOD, j]):
            values[j] = expected_at(plan, table, start, j)
            set_slot_value(plan, table, start, j, values[j])
    table[start + ORDINAL] += 1


@lean_part
def is_constant(plan: Any, table: Any, start: int) -> bool:
    """Does no slot of a source move by itself?"""
    for j in range(plan.shape[1]):
        i = start + HEAD + plan[SLOT, j] * FIELDS
        if plan[LANE, j] == _TICK and (table[i + MODE] & 15 or plan[PERIOD, j]):
            return False
    return True


@lean_part
def copy_cells(source: Any, start: int, target: Any, place: int, count: int) -> None:
    """Cells one by one: a slice would hold on to the table, which must be free to grow."""
    for k in range(count):
        target[place + k] = source[start + k]


@lean_part
def record(plan: Any, values: Any, place: int, ordinal: int, out: Any, k: int) -> None:
    """Leave an event: numbers as doubles, whole ones as integers."""
    doubles = out.view(np.float64)
    out[k, 0], out[k, 1], out[k, 2] = place, ordinal, 0
    for j in range(plan.shape[1]):
        if plan[LANE, j] > _FLOAT:
            continue
        x = values[j]
        if x == ABSENT or (not plan[WHOLE, j] and abs(x) >= _EXACT // plan[UP, j]):
            out[k, 2] = 1
        elif plan[WHOLE, j]:
            out[k, RECORD + j] = x
        elif plan[DOWN, j] == 1:
            out[k, RECORD + j] = x * plan[UP, j]
        else:
            doubles[k, RECORD + j] = x * plan[UP, j] / plan[DOWN, j]
    if out[k, 2]:
        copy_cells(values, 0, out[k], RECORD, plan.shape[1])


@lean_part
def emit_suppressed(
    plan: Any, table: Any, width: int, row: int, skip: int, shown: bool, values: Any, out: Any, k: int
) -> int:
    """The source's next `skip` events, which were as expected; answers with the next free record."""
    start = row * width
    if not shown and is_constant(plan, table, start):
        table[start + ORDINAL] += skip
        return k
    for _ in range(skip):
        expect(plan, table, start, values)
        if shown:
            record(plan, values, 2 * row + 1, table[start + ORDINAL], out, k)
            k += 1
    return k


@lean_part
def frame_at(raw: Any, at: int, size: int) -> tuple[int, int]:
    """Where the frame of a batch whose length stands here begins and ends; it ends before it begins where it cannot."""
    length = 0
    shift = 0
    while at < size and shift < 21:
        byte = np.int64(raw[at])
        at += 1
        length |= int(byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            padding = byte == 0 and shift > 7
            if padding or length == 0 or length > MAX_FRAME or at + length > size or raw[at] & 0x0F == _BATCH:
                return at, 0
            return at, at + length
    return at, 0


@lean_part
def is_whole(raw: Any, size: int) -> bool:
    """Is this a batch of whole frames?"""
    at = 1
    frames = 0
    while at < size:
        start, at = frame_at(raw, at, size)
        frames += 1
        if at < start or frames > MAX_FRAMES:
            return False
    return True


@lean_part
def chain_after(cells: Any, raw: Any, first: int, last: int) -> int:
    """The running check after the frame from byte `first` to `last`; BROKEN where it is no data, or not the next."""
    wide = cells[WIDE]
    body = first + 3 + wide
    if last <= body or raw[first] != (_DATA | cells[INCARNATION] << 6 | (_WIDE_BIT if wide else 0)):
        return BROKEN
    sequence = raw[first + 1] << 8 | raw[first + 2] if wide else np.int64(raw[first + 1])
    if sequence != cells[SEQUENCE] & ((1 << 8 * (1 + wide)) - 1):
        return BROKEN
    chain = crc(crc(cells[CHAIN], raw, first, body - 1), raw, body, last)
    return chain if chain & 0xFF == raw[body - 1] else BROKEN


@lean_part
def take_frame(
    plan: Any,
    cells: Any,
    table: Any,
    width: int,
    raw: Any,
    first: int,
    last: int,
    shown: bool,
    work: Any,
    run: Any,
    out: Any,
    seen: Any = None,
) -> int:
    """One frame, from byte `first` to `last`."""
    body = first + 3 + cells[WIDE]
    chain = chain_after(cells, raw, first, last)
    if chain == BROKEN:
        return NOT_ORDINARY
    at, end = body * 8, last * 8
    row = 0
    alias_code = 0
    if cells[SOURCES] > 1:
        alias_code, at = take_code(raw, at, end, cells[ALIAS])
        if alias_code == BROKEN:
            return NOT_ORDINARY
        away = -((alias_code + 1) >> 1) if alias_code & 1 else alias_code >> 1
        row = cells[LAST_ALIAS] + 1 + away
    skip, at = take_code(raw, at, end, cells[SKIP])
    start = row * width
    if not 0 <= row < cells[SOURCES] or table[start + ORDINAL] == 0 or not 0 <= skip <= MAX_SKIP:
        return NOT_ORDINARY
    values, codes, before = work[0], work[1], work[2]
    at = take_mask(raw, at, end, plan.shape[1], codes)
    if at != BROKEN:
        at = take_codes(plan, cells, raw, at, end, codes)
    if at == BROKEN or not padded(raw, at, end):
        return NOT_ORDINARY
    k = run[EVENTS]
    ordinal = table[start + ORDINAL]
    if k + 1 + (skip if shown else 0) > len(out):
        return FULL if k else NOT_ORDINARY
    if skip:
        copy_cells(table, start, before, 0, width)
        k = emit_suppressed(plan, table, width, row, skip, shown, values, out, k)
        if not reconstruct(plan, table, start, codes, values):
            copy_cells(before, 0, table, start, width)
            return NOT_ORDINARY
    elif not reconstruct(plan, table, start, codes, values):
        return NOT_ORDINARY
    verdict = judged(plan, table, start, values, ordinal, seen, row)
    commit(plan, cells, table, start, codes, values)
    if verdict != SAME:
        record(plan, values, 2 * row, table[start + ORDINAL], out, k)
        k += 1
    run[EVENTS] = k
    run[DOUBTS] += verdict == DOUBTFUL
    if cells[SOURCES] > 1:
        cells[ALIAS] = adapt(cells[ALIAS], alias_code)
        cells[LAST_ALIAS] = row
    cells[SKIP] = adapt(cells[SKIP], skip)
    cells[CHAIN] = chain
    cells[SEQUENCE] += 1
    return TAKEN


@lean
def take_frames(
    plan: Any,
    cells: Any,
    table: Any,
    width: int,
    raw: Any,
    size: int,
    shown: bool,
    work: Any,
    run: Any,
    out: Any,
    seen: Any = None,
) -> int:
    """The frames of a message of `size` bytes from `run[AT]` on, as far as they are ordinary and `out` has room.

    shown: do events that were passed over in silence leave a record?
    seen: where properties are watched, of each source the last event that was taken here; empty where none are
    """
    run[FRAMES] = run[BYTES] = run[EVENTS] = run[DOUBTS] = 0
    batch = raw[0] & 0x0F == _BATCH
    if batch and run[AT] == 0:
        if not is_whole(raw, size):
            return NOT_ORDINARY
        run[AT] = 1
    while run[AT] < size:
        first, last = frame_at(raw, run[AT], size) if batch else (0, size)
        answer = take_frame(plan, cells, table, width, raw, first, last, shown, work, run, out, seen)
        if answer != TAKEN:
            return answer
        run[AT] = last
        run[FRAMES] += 1
        run[BYTES] += last - first
    return TAKEN


@lean
def pass_over(plan: Any, table: Any, width: int, row: int, skip: int, shown: bool, work: Any, out: Any) -> int:
    """The source's next `skip` events, which were as expected; answers with the number of records."""
    return emit_suppressed(plan, table, width, row, skip, shown, work[0], out, 0)
