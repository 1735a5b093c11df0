"""Bit fields in bytes, most significant bit first, and the codes of a DATA body."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from thinwire.codec.kernels.jit import inlined, no_alloc_part
from thinwire.codec.kernels.rule_table import ENCODING
from thinwire.wire.partial_event import EncodingKind
from thinwire.wire.stream_state import FIRST

# zlib inverts the running value before and after each byte
CRC_TABLE = np.array([zlib.crc32(bytes((n ^ 0xFF,))) ^ 0xFF000000 for n in range(256)], dtype=np.int64)
LENGTHS = np.array([n.bit_length() for n in range(256)], dtype=np.int64)


@inlined
def crc(chain: int, data: Any, start: int, end: int) -> int:
    """Return the running CRC-32 over some bytes, as zlib's `crc32(data, chain)`."""
    c = (chain ^ 0xFFFFFFFF) & 0xFFFFFFFF
    for k in range(start, end):
        c = (c >> 8) ^ CRC_TABLE[(c ^ data[k]) & 0xFF]
    return c ^ 0xFFFFFFFF


@no_alloc_part
def bit_length(number: int) -> int:
    """Return the number of bits of a non-negative number."""
    length = 0
    while number >= 256:
        number >>= 8
        length += 8
    return length + LENGTHS[number]


@inlined
def put(out: Any, at: int, held: int, count: int, value: int, width: int) -> tuple[int, int, int]:
    """Append `width` bits (at most 48). The last `count` bits in `held` are not written yet; `at` is their byte.
    Returns the new `at`, `held` and `count`. Bytes are written only when the next bits would not fit."""
    if count + width > 56:
        at, held, count = flush(out, at, held, count)
    return at, held << width | value, count + width


@inlined
def flush(out: Any, at: int, held: int, count: int) -> tuple[int, int, int]:
    """Write all complete bytes in `held`."""
    while count >= 8:
        count -= 8
        out[at] = (held >> count) & 0xFF
        at += 1
    return at, held & ((1 << count) - 1), count


@inlined
def finish(out: Any, at: int, held: int, count: int) -> int:
    """Write the remaining bits, padded with zeros. Return the byte after them."""
    at, held, count = flush(out, at, held, count)
    if count:
        out[at] = held << (8 - count)
        at += 1
    return at


@inlined
def put_long(out: Any, at: int, held: int, count: int, value: int, width: int) -> tuple[int, int, int]:
    """Append up to 64 bits."""
    if width > 32:
        at, held, count = put(out, at, held, count, (value >> 32) & ((1 << (width - 32)) - 1), width - 32)
        width = 32
    return put(out, at, held, count, value & ((1 << width) - 1), width)


@inlined
def put_code(out: Any, at: int, held: int, count: int, code: int, level: int) -> tuple[int, int, int]:
    """Append a code at the scale of its field."""
    order = bit_length(level >> 5)
    value = code + (1 << order)
    width = bit_length(value)
    if 2 * width - 1 - order <= 48:
        return put(out, at, held, count, value, 2 * width - 1 - order)
    at, held, count = put_long(out, at, held, count, 0, width - 1 - order)
    return put_long(out, at, held, count, value, width)


@no_alloc_part
def get(data: Any, at: int, width: int) -> int:
    """Read `width` bits (at most 62) at bit `at`."""
    value = 0
    while width > 0:
        room = 8 - (at & 7)
        take = room if width > room else width
        value = (value << take) | ((data[at >> 3] >> (room - take)) & ((1 << take) - 1))
        at += take
        width -= take
    return value


@no_alloc_part
def zeros_at(data: Any, at: int, end: int) -> int:
    """Count the zero bits from bit `at` up to `end`."""
    count = 0
    while at + count < end:
        byte = np.int64(data[(at + count) >> 3])
        if (byte >> (7 - ((at + count) & 7))) & 1:
            return count
        count += 1
    return count


NOTHING = -1
"""in place of a code: the property is not sent. The code of a float uses all 64 bits; there it is zero"""

BROKEN = -1
"""in place of a code or of the bit after it: the bits are invalid"""

_FLAG, _FLOAT = int(EncodingKind.FLAG), int(EncodingKind.FLOAT)
_FLOAT_FIELD = 6
_LONGEST = 60
_LONGEST_VARINT = 56


@no_alloc_part
def read_code(raw: Any, at: int, end: int, level: int) -> tuple[int, int]:
    """Return a code at the scale of its field and the bit after it; BROKEN if the bits end early or the code is too
    long."""
    order = bit_length(level >> 5)
    zeros = zeros_at(raw, at, end)
    width = zeros + 1 + order
    if width > _LONGEST or at + zeros + width > end:
        return BROKEN, at
    at += zeros
    return get(raw, at, width) - (1 << order), at + width


@no_alloc_part
def varint_at(raw: Any, at: int, end: int) -> tuple[int, int]:
    """Return an integer and the byte after it; BROKEN if it is cut off, padded or longer than any of a heartbeat."""
    value = 0
    shift = 0
    while at < end and shift < _LONGEST_VARINT:
        byte = np.int64(raw[at])
        at += 1
        value |= int(byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (BROKEN if byte == 0 and shift > 7 else value), at
    return BROKEN, at


@no_alloc_part
def read_mask(raw: Any, at: int, end: int, count: int, codes: Any) -> int:
    """Set the codes of sent properties to 0 and of the others to NOTHING. Return the bit after the mask, or BROKEN."""
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


@no_alloc_part
def read_float(raw: Any, at: int, end: int) -> tuple[int, int]:
    """Return the XOR of two bit patterns and the bit after it; 0, which is never sent, if it is invalid."""
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


@no_alloc_part
def read_codes(rules: Any, cells: Any, raw: Any, at: int, end: int, codes: Any) -> int:
    """Read the codes of all sent properties. Return the bit after them, or BROKEN. The scales do not change."""
    for j in range(rules.shape[1]):
        encoding = rules[ENCODING, j]
        if codes[j] == NOTHING:
            if encoding == _FLOAT:
                codes[j] = 0
            continue
        if encoding == _FLAG:
            continue
        if encoding > _FLOAT:
            return BROKEN
        if encoding == _FLOAT:
            codes[j], at = read_float(raw, at, end)
            if codes[j] == 0:
                return BROKEN
        else:
            codes[j], at = read_code(raw, at, end, cells[FIRST + j])
            if codes[j] == BROKEN:
                return BROKEN
    return at


@no_alloc_part
def is_padded(raw: Any, at: int, end: int) -> bool:
    """Check that fewer than eight bits are left and that all of them are zero."""
    return end - at < 8 and (end == at or get(raw, at, end - at) == 0)
