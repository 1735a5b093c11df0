"""Mutations of bytes, as a defective disk, an attacker or another version of the software may cause them.

>>> truncate(b"valid bytes", Random(1), b"other")
b'va'
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from random import Random

Mutation = Callable[[bytes, Random, bytes], bytes]
"""receives the bytes to alter, a random generator and other valid bytes; returns the altered bytes"""

_VARINTS = (b"\xff" * 9 + b"\x01", b"\xff" * 10, b"\x80" * 10, b"\xff\xff\xff\xff\x0f", b"\x80\x80\x04", b"\x80\x00")
BOMBS = tuple(zlib.compress(bytes(size), 9, wbits=-15) for size in (1 << 12, 1 << 20, 1 << 23))
"""decompression bombs: short deflate streams of much longer data"""


def flip_bits(data: bytes, random: Random, other: bytes) -> bytes:
    """Flip some bits."""
    altered = bytearray(data or b"\0")
    for _ in range(random.choice((1, 1, 1, 2, 8))):
        altered[random.randrange(len(altered))] ^= 1 << random.randrange(8)
    return bytes(altered)


def overwrite(data: bytes, random: Random, other: bytes) -> bytes:
    """Replace a byte by an extreme or random value."""
    altered = bytearray(data or b"\0")
    altered[random.randrange(len(altered))] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
    return bytes(altered)


def truncate(data: bytes, random: Random, other: bytes) -> bytes:
    """Remove the end."""
    return data[: random.randrange(len(data) + 1)]


def splice(data: bytes, random: Random, other: bytes) -> bytes:
    """Join the beginning of the bytes with the end of the other bytes."""
    return data[: random.randrange(len(data) + 1)] + other[random.randrange(len(other) + 1) :]


def repeat(data: bytes, random: Random, other: bytes) -> bytes:
    """Repeat a part."""
    start = random.randrange(len(data) + 1)
    end = min(len(data), start + random.choice((1, 4, 64)))
    return data[:start] + data[start:end] * random.choice((2, 3, 100)) + data[end:]


def remove(data: bytes, random: Random, other: bytes) -> bytes:
    """Remove a part in the middle."""
    start = random.randrange(len(data) + 1)
    return data[:start] + data[start + random.choice((1, 2, 16)) :]


def insert_varint(data: bytes, random: Random, other: bytes) -> bytes:
    """Insert a very large or unterminated varint, or replace a byte by it. The byte may be a length."""
    at = random.randrange(len(data) + 1)
    return data[:at] + random.choice(_VARINTS) + data[at + random.randrange(2) :]


def insert_bomb(data: bytes, random: Random, other: bytes) -> bytes:
    """Replace the end by a decompression bomb."""
    at = random.randrange(min(len(data), 8) + 1)
    return data[:at] + random.choice(BOMBS)


def randomize(data: bytes, random: Random, other: bytes) -> bytes:
    """Keep a short beginning, followed by random bytes."""
    return data[: random.randrange(5)] + random.randbytes(random.choice((0, 1, 3, 10, 60, 500)))


MUTATIONS: tuple[Mutation, ...] = (
    flip_bits,
    flip_bits,
    overwrite,
    truncate,
    splice,
    repeat,
    remove,
    insert_varint,
    insert_bomb,
    randomize,
)


def alter(data: bytes, random: Random, other: bytes) -> bytes:
    """Apply one or several mutations."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        data = random.choice(MUTATIONS)(data, random, other)
    return data
