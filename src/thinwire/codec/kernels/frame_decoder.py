"""Compiled decoding of frames: check, read, advance the state.

Kernels decode the regular DATA frames of a message in order. They leave any other frame unchanged for the scalar code,
which resynchronises and reports errors.

Each event becomes a record: twice its row, plus one if it was suppressed; its ordinal; whether it is irregular; its
values. Irregular events have absent or very large values, which stay in ticks.

If properties are watched, an event gives no record if it has the same watched values as the previous event of its
source. The kernel can only compare events if it decoded the previous one as well; otherwise the result is undecided.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from thinwire.codec.kernels.bit_codes import BROKEN, NOTHING, crc, is_padded, read_code, read_codes, read_mask
from thinwire.codec.kernels.jit import no_alloc, no_alloc_part
from thinwire.codec.kernels.rule_table import DOWN, ENCODING, HALF, IS_INTEGER, PERIOD, SLOT, TOLERANCE, UP, WATCHED
from thinwire.codec.kernels.slot_updates import advance_at, advance_row, predicted_at, set_slot_value
from thinwire.codec.predictors.arithmetic import FINE
from thinwire.codec.source_table import HEADER_CELLS, MODE, ORDINAL, SLOT_CELLS
from thinwire.codec.ticks import ABSENT, TICK_LIMIT, decode_residual
from thinwire.wire.control_frames import MAX_SKIP
from thinwire.wire.frame import LONG, FrameKind
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

MESSAGE, AT, FRAMES, BYTES, HEARTBEAT_BYTES, EVENTS, UNDECIDED, RUN_CELLS = range(8)
"""cells of a run: the next message and byte; the number of frames, of bytes of data frames and of heartbeats, and of
records; the number of events for which it is undecided whether they are changes"""

RECORD = 3
"""cells of a record before the values"""

DECODED, FULL, IRREGULAR = range(3)
"""result of a run or a frame: decoded; no space for its events; left to the scalar code"""


class Decoding(NamedTuple):
    """Arguments that all steps of decoding share: rules, state, space for values, and the cells of the run.

    shown: whether suppressed events give records
    """

    rules: Any
    cells: Any
    table: Any
    width: int
    shown: bool
    work: Any
    run: Any


SAME, CHANGED, UNKNOWN = range(3)
"""comparison of the watched properties with the previous event"""

_TICK, _FLOAT = int(EncodingKind.TICK), int(EncodingKind.FLOAT)
_DATA = int(FrameKind.DATA)
_EXACT = 1 << 53
_APART = 1 << 51
"""below this limit two different ticks are two different doubles, whatever the step"""
_INFINITE = 0x7FF


@no_alloc_part
def reconstruct(rules: Any, table: Any, start: int, codes: Any, values: Any) -> bool:
    """Compute the new value of every slot without storing it. Return whether all values are valid."""
    for j in range(rules.shape[1]):
        encoding = rules[ENCODING, j]
        if encoding > _FLOAT:
            continue
        i = start + HEADER_CELLS + rules[SLOT, j] * SLOT_CELLS
        x = table[i]
        if encoding != _TICK:
            if codes[j] != (0 if encoding == _FLOAT else NOTHING):
                if x == ABSENT:
                    return False
                x = x ^ codes[j] if encoding == _FLOAT else x ^ 1
                if encoding == _FLOAT and (x == ABSENT or (x >> 52) & _INFINITE == _INFINITE):
                    return False
        else:
            if x != ABSENT:
                x = predicted_at(rules, table, start, j)
            if codes[j] != NOTHING:
                if x == ABSENT:
                    return False
                half = 0 if table[i + MODE] & FINE else rules[HALF, j]
                x += decode_residual(codes[j], rules[TOLERANCE, j], half)
                if abs(x) > TICK_LIMIT:
                    return False
        values[j] = x
    return True


@no_alloc_part
def commit(rules: Any, cells: Any, table: Any, start: int, codes: Any, values: Any) -> None:
    """Store the new values and adapt the scales."""
    for j in range(rules.shape[1]):
        encoding = rules[ENCODING, j]
        if encoding > _FLOAT:
            continue
        i = start + HEADER_CELLS + rules[SLOT, j] * SLOT_CELLS
        if encoding != _TICK:
            table[i] = values[j]
            continue
        if codes[j] != NOTHING:
            cells[FIRST + j] = adapt(cells[FIRST + j], codes[j])
        if values[j] != ABSENT and (codes[j] != NOTHING or table[i + MODE] & 15 or rules[PERIOD, j]):
            set_slot_value(rules, table, start, j, values[j])
    table[start + ORDINAL] += 1


@no_alloc_part
def compare_watched(rules: Any, table: Any, start: int, values: Any) -> int:
    """Compare the watched properties of an event with the slots."""
    found = SAME
    for j in range(rules.shape[1]):
        encoding = rules[ENCODING, j]
        if encoding > _FLOAT or not rules[WATCHED, j]:
            continue
        x, before = values[j], table[start + HEADER_CELLS + rules[SLOT, j] * SLOT_CELLS]
        if x == before or (encoding == _FLOAT and (x | before) << 1 == 0):  # 0.0 and -0.0 are equal
            continue
        if not rules[IS_INTEGER, j] and max(abs(x), abs(before)) >= _APART // rules[UP, j]:
            return UNKNOWN
        found = CHANGED
    return found


@no_alloc_part
def compare_with_seen(rules: Any, table: Any, start: int, values: Any, ordinal: int, seen: Any, row: int) -> int:
    """Compare the next event of a source with the last one seen, which must have `ordinal`, and mark it as seen."""
    if seen is None or row >= len(seen):
        return CHANGED
    last = seen[row]
    seen[row] = table[start + ORDINAL] + 1
    return compare_watched(rules, table, start, values) if last == ordinal else UNKNOWN


@no_alloc_part
def read_values(rules: Any, table: Any, start: int, values: Any) -> None:
    """Copy the value of every slot."""
    for j in range(rules.shape[1]):
        if rules[ENCODING, j] <= _FLOAT:
            values[j] = table[start + HEADER_CELLS + rules[SLOT, j] * SLOT_CELLS]


@no_alloc_part
def copy_cells(source: Any, start: int, target: Any, index: int, count: int) -> None:
    """Copy cells one at a time. A slice would reference the table, which must be free to grow."""
    for k in range(count):
        target[index + k] = source[start + k]


@no_alloc_part
def record(rules: Any, values: Any, index: int, ordinal: int, out: Any, k: int) -> None:
    """Write the record of an event: numbers as doubles, whole numbers as integers."""
    doubles = out.view(np.float64)
    out[k, 0], out[k, 1], out[k, 2] = index, ordinal, 0
    for j in range(rules.shape[1]):
        if rules[ENCODING, j] > _FLOAT:
            continue
        x = values[j]
        if x == ABSENT or (not rules[IS_INTEGER, j] and abs(x) >= _EXACT // rules[UP, j]):
            out[k, 2] = 1
        elif rules[IS_INTEGER, j]:
            out[k, RECORD + j] = x
        elif rules[DOWN, j] == 1:
            out[k, RECORD + j] = x * rules[UP, j]
        else:
            doubles[k, RECORD + j] = x * rules[UP, j] / rules[DOWN, j]
    if out[k, 2]:
        copy_cells(values, 0, out[k], RECORD, rules.shape[1])


@no_alloc_part
def write_suppressed(
    rules: Any, table: Any, width: int, row: int, skip: int, shown: bool, values: Any, out: Any, k: int
) -> int:
    """Advance a source by `skip` suppressed events and write their records. Return the next free record."""
    start = row * width
    if not shown:
        advance_row(rules, table, start, table[start + ORDINAL] + skip)
        return k
    for after in range(k, k + skip):
        advance_at(rules, table, start)
        read_values(rules, table, start, values)
        record(rules, values, 2 * row + 1, table[start + ORDINAL], out, after)
    return k + skip


@no_alloc_part
def chain_after(cells: Any, raw: Any, first: int, last: int, kind: int) -> int:
    """Return the running check after a frame; BROKEN if it is of another kind or not the next frame."""
    wide = cells[WIDE]
    body = first + 3 + wide
    if last <= body or raw[first] != (kind | cells[INCARNATION] << 6 | (LONG if wide else 0)):
        return BROKEN
    sequence = raw[first + 1] << 8 | raw[first + 2] if wide else np.int64(raw[first + 1])
    if sequence != cells[SEQUENCE] & ((1 << 8 * (1 + wide)) - 1):
        return BROKEN
    chain = crc(crc(cells[CHAIN], raw, first, body - 1), raw, body, last)
    return chain if chain & 0xFF == raw[body - 1] else BROKEN


@no_alloc_part
def decode_frame(decoding: Decoding, raw: Any, first: int, last: int, out: Any, seen: Any) -> int:
    """Decode the data frame from byte `first` to `last`.

    seen: per source, the last event decoded here, if properties are watched; otherwise empty or None
    """
    rules, cells, table, width, shown, work, run = decoding
    body = first + 3 + cells[WIDE]
    chain = chain_after(cells, raw, first, last, _DATA)
    if chain == BROKEN:
        return IRREGULAR
    at, end = body * 8, last * 8
    row = 0
    alias_code = 0
    if cells[SOURCES] > 1:
        alias_code, at = read_code(raw, at, end, cells[ALIAS])
        if alias_code == BROKEN:
            return IRREGULAR
        away = -((alias_code + 1) >> 1) if alias_code & 1 else alias_code >> 1
        row = cells[LAST_ALIAS] + 1 + away
    skip, at = read_code(raw, at, end, cells[SKIP])
    start = row * width
    if not 0 <= row < cells[SOURCES] or table[start + ORDINAL] == 0 or not 0 <= skip <= MAX_SKIP:
        return IRREGULAR
    values, codes, before = work[0], work[1], work[2]
    at = read_mask(raw, at, end, rules.shape[1], codes)
    if at != BROKEN:
        at = read_codes(rules, cells, raw, at, end, codes)
    if at == BROKEN or not is_padded(raw, at, end):
        return IRREGULAR
    k = run[EVENTS]
    ordinal = table[start + ORDINAL]
    if k + 1 + (skip if shown else 0) > len(out):
        return FULL if k else IRREGULAR
    if skip:
        copy_cells(table, start, before, 0, width)
        k = write_suppressed(rules, table, width, row, skip, shown, values, out, k)
    if not reconstruct(rules, table, start, codes, values):
        if skip:
            copy_cells(before, 0, table, start, width)
        return IRREGULAR
    verdict = compare_with_seen(rules, table, start, values, ordinal, seen, row)
    commit(rules, cells, table, start, codes, values)
    if verdict != SAME:
        record(rules, values, 2 * row, table[start + ORDINAL], out, k)
        k += 1
    run[EVENTS] = k
    run[UNDECIDED] += verdict == UNKNOWN
    if cells[SOURCES] > 1:
        cells[ALIAS] = adapt(cells[ALIAS], alias_code)
        cells[LAST_ALIAS] = row
    cells[SKIP] = adapt(cells[SKIP], skip)
    cells[CHAIN] = chain
    cells[SEQUENCE] += 1
    return DECODED


@no_alloc
def expand_suppressed(rules: Any, table: Any, width: int, row: int, skip: int, shown: bool, work: Any, out: Any) -> int:
    """Advance a source by `skip` suppressed events. Return the number of records."""
    return write_suppressed(rules, table, width, row, skip, shown, work[0], out, 0)
