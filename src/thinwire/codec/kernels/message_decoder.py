"""Many messages in one call: data and heartbeats leave the records that `decode` describes, message after message.

Heartbeats are ordinary here: whoever fills tables does not ask for watermarks, and the silence they tell of is rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thinwire.codec.kernels.bit_codes import BROKEN, crc
from thinwire.codec.kernels.frame_decoder import (
    AT,
    BYTES,
    EVENTS,
    FRAMES,
    FULL,
    NOT_ORDINARY,
    TAKEN,
    emit_suppressed,
    frame_at,
    take_frames,
)
from thinwire.codec.kernels.jit import lean, lean_part
from thinwire.codec.source_table import ORDINAL
from thinwire.wire.control_frames import MAX_SKIP, MAX_TOLD
from thinwire.wire.frame import FrameKind
from thinwire.wire.stream_state import CHAIN, INCARNATION, SEQUENCE, SOURCES, WIDE

MESSAGE, BYTE, ROWS, SEEN, DATA_BYTES, BEAT_BYTES, CELLS_OF_WALK = range(7)
"""cells of a walk: the message and the byte in it that it goes on from, the records left so far, the events seen,
and the bytes of data frames and of heartbeats"""

_BEAT, _BATCH = int(FrameKind.HEARTBEAT), int(FrameKind.BATCH)
_WIDE_BIT = 0x10
_LONGEST = 56


@lean_part
def varint_at(raw: Any, at: int, end: int) -> tuple[int, int]:
    """A whole number and the byte after it; BROKEN where it is cut off, padded or longer than any of a heartbeat."""
    value = 0
    shift = 0
    while at < end and shift < _LONGEST:
        byte = np.int64(raw[at])
        at += 1
        value |= int(byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (BROKEN if byte == 0 and shift > 7 else value), at
    return BROKEN, at


@lean_part
def beat_chain(cells: Any, raw: Any, first: int, last: int) -> int:
    """The running check after a heartbeat from byte `first` to `last`; BROKEN where it is none, or not the next."""
    wide = cells[WIDE]
    body = first + 3 + wide
    if last <= body or raw[first] != (_BEAT | cells[INCARNATION] << 6 | (_WIDE_BIT if wide else 0)):
        return BROKEN
    sequence = raw[first + 1] << 8 | raw[first + 2] if wide else np.int64(raw[first + 1])
    if sequence != cells[SEQUENCE] & ((1 << 8 * (1 + wide)) - 1):
        return BROKEN
    chain = crc(crc(cells[CHAIN], raw, first, body - 1), raw, body, last)
    return chain if chain & 0xFF == raw[body - 1] else BROKEN


@lean_part
def silences_at(cells: Any, table: Any, width: int, raw: Any, at: int, end: int) -> tuple[int, int]:
    """The byte where the silences of a heartbeat begin, and how many events they tell of; BROKEN where any is odd."""
    sequence, at = varint_at(raw, at, end)
    if sequence != cells[SEQUENCE]:
        return 0, BROKEN
    watermark, at = varint_at(raw, at, end)
    if watermark == BROKEN:
        return 0, BROKEN
    begin = at
    source = told = 0
    while at < end:
        gap, at = varint_at(raw, at, end)
        count, at = varint_at(raw, at, end)
        skip, at = varint_at(raw, at, end)
        if gap < 0 or count < 1 or not 0 < skip <= MAX_SKIP or max(gap, count) > cells[SOURCES]:
            return 0, BROKEN
        if source + gap + count > cells[SOURCES]:
            return 0, BROKEN
        for row in range(source + gap, source + gap + count):
            if table[row * width + ORDINAL] == 0:
                return 0, BROKEN
        source += gap + count
        told += count * skip
        if told > MAX_TOLD:
            return 0, BROKEN
    return begin, told


@lean_part
def take_beat(
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
) -> int:
    """A heartbeat from byte `first` to `last`: the events that every source it names was passed over with."""
    chain = beat_chain(cells, raw, first, last)
    if chain == BROKEN:
        return NOT_ORDINARY
    at, told = silences_at(cells, table, width, raw, first + 3 + cells[WIDE], last)
    if told == BROKEN:
        return NOT_ORDINARY
    if shown and told > len(out):
        return FULL
    k = 0
    row = 0
    while at < last:
        gap, at = varint_at(raw, at, last)
        count, at = varint_at(raw, at, last)
        skip, at = varint_at(raw, at, last)
        row += gap
        for _ in range(count):
            k = emit_suppressed(plan, table, width, row, skip, shown, work[0], out, k)
            row += 1
    cells[CHAIN] = chain
    cells[SEQUENCE] += 1
    run[EVENTS] = k
    return TAKEN


@lean_part
def take_message(
    plan: Any,
    cells: Any,
    table: Any,
    width: int,
    raw: Any,
    shown: bool,
    work: Any,
    run: Any,
    walk: Any,
    frames: Any,
    out: Any,
) -> int:
    """The frames of a message from `walk[BYTE]` on, as far as they are ordinary and `out` has room."""
    size = len(raw)
    while True:
        run[AT] = walk[BYTE]
        answer = take_frames(plan, cells, table, width, raw, size, shown, work, run, out[walk[ROWS] :])
        frames[walk[MESSAGE]] += run[FRAMES]
        walk[DATA_BYTES] += run[BYTES]
        walk[BYTE] = run[AT]
        walk[SEEN] += run[EVENTS]
        walk[ROWS] += run[EVENTS]
        if answer in (TAKEN, FULL):
            return answer
        if answer == NOT_ORDINARY:
            batch = raw[0] & 0x0F == _BATCH
            if batch and run[AT] == 0:
                return NOT_ORDINARY
            first, last = frame_at(raw, run[AT], size) if batch else (0, size)
            run[EVENTS] = 0
            answer = take_beat(plan, cells, table, width, raw, first, last, shown, work, run, out[walk[ROWS] :])
            if answer != TAKEN:
                return answer
            frames[walk[MESSAGE]] += 1
            walk[BEAT_BYTES] += last - first
            walk[BYTE] = last
            walk[SEEN] += run[EVENTS]
            walk[ROWS] += run[EVENTS]
            if last == size:
                return TAKEN


@lean
def take_messages(
    plan: Any,
    cells: Any,
    table: Any,
    width: int,
    raw: Any,
    starts: Any,
    shown: bool,
    work: Any,
    run: Any,
    walk: Any,
    frames: Any,
    rows: Any,
    out: Any,
) -> int:
    """The messages from `walk` on, as far as their frames are ordinary and `out` has room; answers as `take_frames`.

    raw, starts: the messages one behind the other, where each begins, and where the last one ends
    shown: do events that were passed over in silence leave a record?
    frames, rows: of each message, how many frames it gave, and how many records there were after it
    """
    while walk[MESSAGE] < len(starts) - 1:
        number = walk[MESSAGE]
        rows[number] = walk[ROWS]
        message = raw[starts[number] : starts[number + 1]]
        if len(message) == 0:
            return NOT_ORDINARY
        answer = take_message(plan, cells, table, width, message, shown, work, run, walk, frames, out)
        rows[number] = walk[ROWS]
        if answer != TAKEN:
            return answer
        walk[MESSAGE] += 1
        walk[BYTE] = 0
    return TAKEN
