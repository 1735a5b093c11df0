"""Compiled decoding of messages to the records that `frame_decoder` describes.

Heartbeats are regular frames for tables, which have no watermarks: their suppressed events are rows.
"""

from __future__ import annotations

from typing import Any

from thinwire.codec.kernels.bit_codes import BROKEN, varint_at
from thinwire.codec.kernels.frame_decoder import (
    AT,
    BYTES,
    DECODED,
    EVENTS,
    FRAMES,
    FULL,
    HEARTBEAT_BYTES,
    IRREGULAR,
    MESSAGE,
    Decoding,
    chain_after,
    decode_frame,
    write_suppressed,
)
from thinwire.codec.kernels.jit import no_alloc, no_alloc_part
from thinwire.codec.source_table import ORDINAL
from thinwire.wire.control_frames import MAX_SKIP, MAX_SUPPRESSED
from thinwire.wire.frame import MAX_FRAME, MAX_FRAMES, FrameKind
from thinwire.wire.stream_state import CHAIN, SEQUENCE, SOURCES, WIDE

_BEAT, _BATCH = int(FrameKind.HEARTBEAT), int(FrameKind.BATCH)
_LENGTH_BYTES = 3


@no_alloc_part
def read_suppressed_runs(cells: Any, table: Any, width: int, raw: Any, at: int, end: int) -> tuple[int, int]:
    """Return the byte of the first suppressed run and the number of suppressed events; BROKEN if a run is invalid."""
    sequence, at = varint_at(raw, at, end)
    if sequence != cells[SEQUENCE]:
        return 0, BROKEN
    watermark, at = varint_at(raw, at, end)
    if watermark == BROKEN:
        return 0, BROKEN
    begin = at
    source = events = 0
    while at < end:
        gap, at = varint_at(raw, at, end)
        count, at = varint_at(raw, at, end)
        skip, at = varint_at(raw, at, end)
        if gap < 0 or count < 1 or not 0 < skip <= MAX_SKIP or source + gap + count > cells[SOURCES]:
            return 0, BROKEN
        for row in range(source + gap, source + gap + count):
            if table[row * width + ORDINAL] == 0:
                return 0, BROKEN
        source += gap + count
        events += count * skip
        if events > MAX_SUPPRESSED:
            return 0, BROKEN
    return begin, events


@no_alloc_part
def decode_heartbeat(decoding: Decoding, raw: Any, first: int, last: int, out: Any) -> int:
    """Decode the heartbeat from byte `first` to `last`: the suppressed events of every source that it lists."""
    rules, cells, table, width, shown, work, run = decoding
    chain = chain_after(cells, raw, first, last, _BEAT)
    if chain == BROKEN:
        return IRREGULAR
    at, events = read_suppressed_runs(cells, table, width, raw, first + 3 + cells[WIDE], last)
    if events == BROKEN:
        return IRREGULAR
    k = run[EVENTS]
    if shown and k + events > len(out):
        return FULL
    row = 0
    while at < last:
        gap, at = varint_at(raw, at, last)
        count, at = varint_at(raw, at, last)
        skip, at = varint_at(raw, at, last)
        row += gap
        for _ in range(count):
            k = write_suppressed(rules, table, width, row, skip, shown, work[0], out, k)
            row += 1
    cells[CHAIN] = chain
    cells[SEQUENCE] += 1
    run[EVENTS] = k
    return DECODED


@no_alloc_part
def frame_at(raw: Any, at: int, size: int) -> tuple[int, int]:
    """Return start and end of the frame whose length is at byte `at` of a batch; end < start if it is invalid."""
    length, start = varint_at(raw, at, min(size, at + _LENGTH_BYTES))
    if length < 1 or length > MAX_FRAME or start + length > size or raw[start] & 0x0F == _BATCH:
        return start, 0
    return start, start + length


@no_alloc_part
def is_whole(raw: Any, size: int) -> bool:
    """Check that a batch consists of complete frames."""
    at = 1
    frames = 0
    while at < size:
        start, at = frame_at(raw, at, size)
        frames += 1
        if at < start or frames > MAX_FRAMES:
            return False
    return True


@no_alloc_part
def decode_message(decoding: Decoding, raw: Any, size: int, out: Any, seen: Any, heartbeats: bool) -> int:
    """Decode the frames of a message of `size` bytes from `run[AT]` while they are regular and `out` has space.

    heartbeats: whether heartbeats are regular
    """
    run = decoding.run
    batch = raw[0] & 0x0F == _BATCH
    if batch and run[AT] == 0:
        if not is_whole(raw, size):
            return IRREGULAR
        run[AT] = 1
    while run[AT] < size:
        first, last = frame_at(raw, run[AT], size) if batch else (0, size)
        cell = BYTES
        answer = decode_frame(decoding, raw, first, last, out, seen)
        if answer == IRREGULAR and heartbeats:
            cell = HEARTBEAT_BYTES
            answer = decode_heartbeat(decoding, raw, first, last, out)
        if answer != DECODED:
            return answer
        run[AT] = last
        run[FRAMES] += 1
        run[cell] += last - first
    return DECODED


@no_alloc
def decode_frames(
    rules: Any,
    cells: Any,
    table: Any,
    width: int,
    raw: Any,
    size: int,
    shown: bool,
    work: Any,
    run: Any,
    out: Any,
    seen: Any,
) -> int:
    """Decode data frames of one message, see `decode_message` and `decode_frame`. The other cells of `run` restart."""
    run[FRAMES:] = 0
    return decode_message(Decoding(rules, cells, table, width, shown, work, run), raw, size, out, seen, False)


@no_alloc
def decode_messages(decoding: Decoding, raw: Any, starts: Any, frames: Any, records: Any, out: Any) -> int:
    """Decode messages from `run[MESSAGE]` while their frames are regular and `out` has space.

    Returns DECODED, or why it stopped.

    raw, starts: the concatenated messages, the start of each, and the end of the last
    frames, records: per message, `run[FRAMES]` and `run[EVENTS]` after it
    """
    run = decoding.run
    while run[MESSAGE] < len(starts) - 1:
        number = run[MESSAGE]
        message = raw[starts[number] : starts[number + 1]]
        answer = decode_message(decoding, message, len(message), out, None, True) if len(message) else IRREGULAR
        frames[number], records[number] = run[FRAMES], run[EVENTS]
        if answer != DECODED:
            return answer
        run[MESSAGE] += 1
        run[AT] = 0
    return DECODED
