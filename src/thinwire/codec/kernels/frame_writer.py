"""Compiled writing of DATA frames in the compact format, with the same bytes as `wire.compact_body` and `seal`."""

from __future__ import annotations

from typing import Any

from thinwire.codec.kernels.bit_codes import bit_length, crc, finish, put, put_code, put_long
from thinwire.codec.kernels.jit import inlined, no_alloc_part
from thinwire.codec.kernels.rule_table import ENCODING
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

_TICK, _FLOAT = int(EncodingKind.TICK), int(EncodingKind.FLOAT)
_DATA = int(FrameKind.DATA)
_FLOAT_FIELD = 6
_NARROW = 48
"""number of properties whose mask fits one number"""


@inlined
def put_mask(
    bits: int, sent: Any, sent_count: int, total: int, out: Any, at: int, held: int, count: int
) -> tuple[int, int, int]:
    """Write one bit per property, in groups of eight if there are more than eight. `bits` is the mask if it fits."""
    if total <= _NARROW:
        return put_narrow(bits, total, out, at, held, count)
    groups = (total + 7) >> 3
    used = 0
    for k in range(sent_count):
        used |= 1 << (groups - 1 - (sent[k] >> 3))
    at, held, count = put(out, at, held, count, used, groups)
    k = 0
    while k < sent_count:
        group = sent[k] >> 3
        end = min(8 * group + 8, total)
        bits = 0
        while k < sent_count and sent[k] < end:
            bits |= 1 << (end - 1 - sent[k])
            k += 1
        at, held, count = put(out, at, held, count, bits, end - 8 * group)
    return at, held, count


@inlined
def put_narrow(bits: int, total: int, out: Any, at: int, held: int, count: int) -> tuple[int, int, int]:
    """Write a mask that fits one number."""
    if total <= 8:
        return put(out, at, held, count, bits, total)
    groups = (total + 7) >> 3
    used = 0
    for group in range(groups):
        after = max(0, total - 8 * group - 8)
        size = total - 8 * group - after
        used = used << 1 | (1 if (bits >> after) & ((1 << size) - 1) else 0)
    at, held, count = put(out, at, held, count, used, groups)
    for group in range(groups):
        after = max(0, total - 8 * group - 8)
        size = total - 8 * group - after
        part = (bits >> after) & ((1 << size) - 1)
        if part:
            at, held, count = put(out, at, held, count, part, size)
    return at, held, count


@no_alloc_part
def put_float(out: Any, at: int, held: int, count: int, code: int) -> tuple[int, int, int]:
    """Write the XOR of two bit patterns without its leading and trailing zeros."""
    zeros = 0
    while not (code >> zeros) & 1:
        zeros += 1
    digits = (code >> zeros) & ((1 << (64 - zeros)) - 1) if zeros else code
    width = 64 if digits < 0 else bit_length(digits)
    at, held, count = put(out, at, held, count, zeros << _FLOAT_FIELD | (width - 1), 2 * _FLOAT_FIELD)
    return put_long(out, at, held, count, digits, width)


@inlined
def put_body(
    rules: Any, cells: Any, row: int, skip: int, codes: Any, sent: Any, sent_count: int, bits: int, out: Any, at: int
) -> int:
    """Write the body of a DATA frame. Return the byte after it."""
    held, count = 0, 0
    if cells[SOURCES] > 1:
        away = row - cells[LAST_ALIAS] - 1
        code = away << 1 if away >= 0 else ((-away) << 1) - 1
        at, held, count = put_code(out, at, held, count, code, cells[ALIAS])
        cells[ALIAS] = adapt(cells[ALIAS], code)
        cells[LAST_ALIAS] = row
    at, held, count = put_code(out, at, held, count, skip, cells[SKIP])
    cells[SKIP] = adapt(cells[SKIP], skip)
    at, held, count = put_mask(bits, sent, sent_count, rules.shape[1], out, at, held, count)
    for k in range(sent_count):
        j = sent[k]
        encoding = rules[ENCODING, j]
        if encoding == _TICK:
            level = cells[FIRST + j]
            at, held, count = put_code(out, at, held, count, codes[j], level)
            cells[FIRST + j] = adapt(level, codes[j])
        elif encoding == _FLOAT:
            at, held, count = put_float(out, at, held, count, codes[j])
    return finish(out, at, held, count)


@inlined
def put_frame(
    rules: Any, cells: Any, row: int, skip: int, codes: Any, sent: Any, sent_count: int, bits: int, out: Any, start: int
) -> int:
    """Write a complete frame from byte `start`. Return the byte after it."""
    wide = cells[WIDE]
    out[start] = _DATA | cells[INCARNATION] << 6 | (LONG if wide else 0)
    sequence = cells[SEQUENCE]
    if wide:
        out[start + 1] = (sequence >> 8) & 0xFF
    out[start + 1 + wide] = sequence & 0xFF
    body = start + 3 + wide
    end = put_body(rules, cells, row, skip, codes, sent, sent_count, bits, out, body)
    chain = crc(crc(cells[CHAIN], out, start, body - 1), out, body, end)
    out[body - 1] = chain & 0xFF
    cells[CHAIN] = chain
    cells[SEQUENCE] = sequence + 1
    return end
