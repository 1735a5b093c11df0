"""Bits into bytes and back, for kernels: most significant first."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinwire.codec.kernels.jit import lean_part, woven


def _crc_table() -> Any:
    """The CRC-32 table, reflected polynomial EDB88320."""
    table = np.zeros(256, dtype=np.int64)
    for n in range(256):
        c = n
        for _ in range(8):
            c = (c >> 1) ^ (0xEDB88320 if c & 1 else 0)
        table[n] = c
    return table


CRC_TABLE = _crc_table()
LENGTHS = np.array([n.bit_length() for n in range(256)], dtype=np.int64)


@woven
def crc(chain: int, data: Any, start: int, end: int) -> int:
    """The running CRC-32 over some bytes, as zlib's `crc32(data, chain)`."""
    c = (chain ^ 0xFFFFFFFF) & 0xFFFFFFFF
    for k in range(start, end):
        c = (c >> 8) ^ CRC_TABLE[(c ^ data[k]) & 0xFF]
    return c ^ 0xFFFFFFFF


@lean_part
def bit_length(number: int) -> int:
    """How many bits a number that is not negative needs."""
    length = 0
    while number >= 256:
        number >>= 8
        length += 8
    return length + LENGTHS[number]


@woven
def put(out: Any, at: int, held: int, count: int, value: int, width: int) -> tuple[int, int, int]:
    """Write `width` bits (48 at most). `held` are the last `count` bits, not written yet, and `at` is the byte they
    belong to; the same three come back. Bytes are written only when the next bits would not fit."""
    if count + width > 56:
        at, held, count = flush(out, at, held, count)
    return at, held << width | value, count + width


@woven
def flush(out: Any, at: int, held: int, count: int) -> tuple[int, int, int]:
    """Write all whole bytes that are held."""
    while count >= 8:
        count -= 8
        out[at] = (held >> count) & 0xFF
        at += 1
    return at, held & ((1 << count) - 1), count


@woven
def finish(out: Any, at: int, held: int, count: int) -> int:
    """Write what is held, padded with zeros; answers with the byte after it."""
    at, held, count = flush(out, at, held, count)
    if count:
        out[at] = held << (8 - count)
        at += 1
    return at


@woven
def put_long(out: Any, at: int, held: int, count: int, value: int, width: int) -> tuple[int, int, int]:
    """Write up to 64 bits."""
    if width > 32:
        at, held, count = put(out, at, held, count, (value >> 32) & ((1 << (width - 32)) - 1), width - 32)
        width = 32
    return put(out, at, held, count, value & ((1 << width) - 1), width)


@woven
def put_code(out: Any, at: int, held: int, count: int, code: int, level: int) -> tuple[int, int, int]:
    """Write a code at the scale of its field."""
    order = bit_length(level >> 5)
    value = code + (1 << order)
    width = bit_length(value)
    if 2 * width - 1 - order <= 48:
        return put(out, at, held, count, value, 2 * width - 1 - order)
    at, held, count = put_long(out, at, held, count, 0, width - 1 - order)
    return put_long(out, at, held, count, value, width)


@lean_part
def get(data: Any, at: int, width: int) -> int:
    """Read `width` bits (62 at most) at bit `at`."""
    value = 0
    while width > 0:
        room = 8 - (at & 7)
        take = room if width > room else width
        value = (value << take) | ((data[at >> 3] >> (room - take)) & ((1 << take) - 1))
        at += take
        width -= take
    return value


@lean_part
def zeros_at(data: Any, at: int, end: int) -> int:
    """How many zero bits stand at bit `at`, before `end`."""
    count = 0
    while at + count < end:
        byte = np.int64(data[(at + count) >> 3])
        if (byte >> (7 - ((at + count) & 7))) & 1:
            return count
        count += 1
    return count
