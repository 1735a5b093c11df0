"""Ways to spoil bytes, each seeded: what a broken disk, a hostile peer or a wrong version might send."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from random import Random

Mutation = Callable[[bytes, Random, bytes], bytes]
"""from the bytes to spoil, a generator and other valid bytes to the spoilt bytes"""

_VARINTS = (b"\xff" * 9 + b"\x01", b"\xff" * 10, b"\x80" * 10, b"\xff\xff\xff\xff\x0f", b"\x80\x80\x04", b"\x80\x00")
BOMBS = tuple(zlib.compress(bytes(size), 9, wbits=-15) for size in (1 << 12, 1 << 20, 1 << 23))


def flip(data: bytes, chance: Random, other: bytes) -> bytes:
    """Some bits change."""
    spoilt = bytearray(data or b"\0")
    for _ in range(chance.choice((1, 1, 1, 2, 8))):
        spoilt[chance.randrange(len(spoilt))] ^= 1 << chance.randrange(8)
    return bytes(spoilt)


def overwrite(data: bytes, chance: Random, other: bytes) -> bytes:
    """A byte takes another value: an extreme one, or any."""
    spoilt = bytearray(data or b"\0")
    spoilt[chance.randrange(len(spoilt))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    return bytes(spoilt)


def truncate(data: bytes, chance: Random, other: bytes) -> bytes:
    """The end is missing."""
    return data[: chance.randrange(len(data) + 1)]


def splice(data: bytes, chance: Random, other: bytes) -> bytes:
    """The beginning of one, the end of another."""
    return data[: chance.randrange(len(data) + 1)] + other[chance.randrange(len(other) + 1) :]


def repeat(data: bytes, chance: Random, other: bytes) -> bytes:
    """A part comes several times."""
    start = chance.randrange(len(data) + 1)
    end = min(len(data), start + chance.choice((1, 4, 64)))
    return data[:start] + data[start:end] * chance.choice((2, 3, 100)) + data[end:]


def remove(data: bytes, chance: Random, other: bytes) -> bytes:
    """A part in the middle is missing."""
    start = chance.randrange(len(data) + 1)
    return data[:start] + data[start + chance.choice((1, 2, 16)) :]


def lie(data: bytes, chance: Random, other: bytes) -> bytes:
    """A number in the middle, a length perhaps, becomes huge, or endless."""
    place = chance.randrange(len(data) + 1)
    return data[:place] + chance.choice(_VARINTS) + data[place + chance.randrange(2) :]


def bomb(data: bytes, chance: Random, other: bytes) -> bytes:
    """A few bytes that unpack to very many."""
    place = chance.randrange(min(len(data), 8) + 1)
    return data[:place] + chance.choice(BOMBS)


def noise(data: bytes, chance: Random, other: bytes) -> bytes:
    """Any bytes, behind a beginning that is right."""
    return data[: chance.randrange(5)] + chance.randbytes(chance.choice((0, 1, 3, 10, 60, 500)))


MUTATIONS: tuple[Mutation, ...] = (flip, flip, overwrite, truncate, splice, repeat, remove, lie, bomb, noise)


def spoil(data: bytes, chance: Random, other: bytes) -> bytes:
    """One mutation, sometimes a few."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        data = chance.choice(MUTATIONS)(data, chance, other)
    return data
