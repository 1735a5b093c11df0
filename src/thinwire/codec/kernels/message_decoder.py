"""Compiled decoding of many messages in one call, to the records that `frame_decoder` describes.

Heartbeats are regular frames here: tables have no watermarks, and the suppressed events of a heartbeat are rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thinwire.codec.kernels.bit_codes import BROKEN, crc
from thinwire.codec.kernels.frame_decoder import (
    AT,
    BYTES,
    DECODED,
    EVENTS,
    FRAMES,
    FULL,
    IRREGULAR,
    decode_frames,
    frame_at,
    write_suppressed,
)
from thinwire.codec.kernels.jit import no_alloc, no_alloc_part
from thinwire.codec.source_table import ORDINAL
from thinwire.wire.control_frames import MAX_SKIP, MAX_SUPPRESSED
from thinwire.wire.frame import FrameKind
from thinwire.wire.stream_state import CHAIN, INCARNATION, SEQUENCE, SOURCES, WIDE

MESSAGE, BYTE, ROWS, SEEN, DATA_BYTES, HEARTBEAT_BYTES, SCAN_CELLS = range(7)
"""cells of a scan: the next message and byte, the number of records so far, the number of events, and the bytes of data
frames and of heartbeats"""

_BEAT, _BATCH = int(FrameKind.HEARTBEAT), int(FrameKind.BATCH)
_WIDE_BIT = 0x10
_LONGEST = 56


@no_alloc_part
def varint_at(raw: Any, at: int, end: int) -> tuple[int, int]:
    """Return an integer and the byte after it; BROKEN if it is cut off, padded or longer than any of a heartbeat."""
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


@no_alloc_part
def heartbeat_check(cells: Any, raw: Any, first: int, last: int) -> int:
    """Return the running check after a heartbeat; BROKEN if it is not a heartbeat or not the next frame."""
    wide = cells[WIDE]
    body = first + 3 + wide
    if last <= body or raw[first] != (_BEAT | cells[INCARNATION] << 6 | (_WIDE_BIT if wide else 0)):
        return BROKEN
    sequence = raw[first + 1] << 8 | raw[first + 2] if wide else np.int64(raw[first + 1])
    if sequence != cells[SEQUENCE] & ((1 << 8 * (1 + wide)) - 1):
        return BROKEN
    chain = crc(crc(cells[CHAIN], raw, first, body - 1), raw, body, last)
    return chain if chain & 0xFF == raw[body - 1] else BROKEN


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
        if gap < 0 or count < 1 or not 0 < skip <= MAX_SKIP or max(gap, count) > cells[SOURCES]:
            return 0, BROKEN
        if source + gap + count > cells[SOURCES]:
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
def decode_heartbeat(
    rules: Any,
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
    """Decode the heartbeat from byte `first` to `last`: the suppressed events of every source that it lists."""
    chain = heartbeat_check(cells, raw, first, last)
    if chain == BROKEN:
        return IRREGULAR
    at, events = read_suppressed_runs(cells, table, width, raw, first + 3 + cells[WIDE], last)
    if events == BROKEN:
        return IRREGULAR
    if shown and events > len(out):
        return FULL
    k = 0
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
def decode_message(
    rules: Any,
    cells: Any,
    table: Any,
    width: int,
    raw: Any,
    shown: bool,
    work: Any,
    run: Any,
    scan: Any,
    frames: Any,
    out: Any,
) -> int:
    """Decode the frames of a message from `scan[BYTE]` while they are regular and `out` has space."""
    size = len(raw)
    while True:
        run[AT] = scan[BYTE]
        answer = decode_frames(rules, cells, table, width, raw, size, shown, work, run, out[scan[ROWS] :])
        frames[scan[MESSAGE]] += run[FRAMES]
        scan[DATA_BYTES] += run[BYTES]
        scan[BYTE] = run[AT]
        scan[SEEN] += run[EVENTS]
        scan[ROWS] += run[EVENTS]
        if answer in (DECODED, FULL):
            return answer
        if answer == IRREGULAR:
            batch = raw[0] & 0x0F == _BATCH
            if batch and run[AT] == 0:
                return IRREGULAR
            first, last = frame_at(raw, run[AT], size) if batch else (0, size)
            run[EVENTS] = 0
            answer = decode_heartbeat(rules, cells, table, width, raw, first, last, shown, work, run, out[scan[ROWS] :])
            if answer != DECODED:
                return answer
            frames[scan[MESSAGE]] += 1
            scan[HEARTBEAT_BYTES] += last - first
            scan[BYTE] = last
            scan[SEEN] += run[EVENTS]
            scan[ROWS] += run[EVENTS]
            if last == size:
                return DECODED


@no_alloc
def decode_messages(
    rules: Any,
    cells: Any,
    table: Any,
    width: int,
    raw: Any,
    starts: Any,
    shown: bool,
    work: Any,
    run: Any,
    scan: Any,
    frames: Any,
    rows: Any,
    out: Any,
) -> int:
    """Decode messages from `scan` while their frames are regular and `out` has space. Returns as `decode_frames`.

    raw, starts: the concatenated messages, the start of each, and the end of the last
    shown: whether suppressed events give records
    frames, rows: per message, the number of frames decoded and the number of records after it
    """
    while scan[MESSAGE] < len(starts) - 1:
        number = scan[MESSAGE]
        rows[number] = scan[ROWS]
        message = raw[starts[number] : starts[number + 1]]
        if len(message) == 0:
            return IRREGULAR
        answer = decode_message(rules, cells, table, width, message, shown, work, run, scan, frames, out)
        rows[number] = scan[ROWS]
        if answer != DECODED:
            return answer
        scan[MESSAGE] += 1
        scan[BYTE] = 0
    return DECODED
