"""Bits into bytes and back, for kernels: most significant first."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinwire.reduction.kernels.compiled import part



def _crc_table() -> Any:
    """The CRC-32 table, reflected polynomial EDB88320."""
    table = np.zeros(256, dtype=np.uint32)
    for n in range(256):
        c = n
        for _ in range(8):
            c = (c >> 1) ^ (0xEDB88320 if c & 1 else 0)
        table[n] = c
    return table


CRC_TABLE = _crc_table()


@part
def crc(chain: int, data: Any, start: int, end: int) -> int:
    """The running CRC-32 over some bytes, as zlib's `crc32(data, chain)`."""
    c = (chain ^ 0xFFFFFFFF) & 0xFFFFFFFF
    for k in range(start, end):
        c = (c >> 8) ^ np.int64(CRC_TABLE[(c ^ data[k]) & 0xFF])
    return c ^ 0xFFFFFFFF


@part
def bit_length(number: int) -> int:
    """How many bits a number that is not negative needs."""
    length = 0
    while number >= 65536:
        number >>= 16
        length += 16
    while number > 0:
        number >>= 1
        length += 1
    return length


@part
def put(out: Any, at: int, value: int, width: int) -> int:
    """Write the low `width` bits (62 at most) at bit `at`; bytes beyond the last bit written are zeroed as reached."""
    while width > 0:
        used = at & 7
        room = 8 - used
        take = room if width > room else width
        bits = (value >> (width - take)) & ((1 << take) - 1)
        place = at >> 3
        if used == 0:
            out[place] = bits << (room - take)
        else:
            out[place] |= bits << (room - take)
        at += take
        width -= take
    return at


@part
def put_code(out: Any, at: int, code: int, level: int) -> int:
    """Write a code at the scale of its field."""
    order = bit_length(level >> 5)
    value = code + (1 << order)
    width = bit_length(value)
    at = put(out, at, 0, width - 1 - order)
    return put(out, at, value, width)


@part
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


@part
def zeros_at(data: Any, at: int, end: int) -> int:
    """How many zero bits stand at bit `at`, before `end`."""
    count = 0
    while at + count < end:
        byte = np.int64(data[(at + count) >> 3])
        if (byte >> (7 - ((at + count) & 7))) & 1:
            return count
        count += 1
    return count
