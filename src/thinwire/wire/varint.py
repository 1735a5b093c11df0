"""Whole numbers in as few bytes as they need.

Seven bits a byte, least significant first, the high bit says that more follow. Signed numbers are zig-zagged, so that
small ones of either sign stay short. A number has one way to be written: the shortest.

>>> write(300).hex(), read(write(300), 0)
('ac02', (300, 2))
>>> [zigzag(n) for n in (0, -1, 1, -2)]
[0, 1, 2, 3]
"""

from __future__ import annotations

from thinwire.errors import CorruptFrame

MAX_BYTES = 10
MAX_VALUE = (1 << 64) - 1


def write(number: int) -> bytes:
    """The bytes of a number from 0 to 2^64 - 1."""
    if 0 <= number < 0x80:
        return _ONE[number]
    if not 0 <= number <= MAX_VALUE:
        raise ValueError(f"{number} does not fit into an unsigned 64-bit varint")
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def read(data: bytes, at: int) -> tuple[int, int]:
    """The number at this place, and the place after it."""
    number = shift = 0
    for place in range(at, min(at + MAX_BYTES, len(data))):
        byte = data[place]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number > MAX_VALUE or (not byte and place > at):
                break
            return number, place + 1
        shift += 7
    raise CorruptFrame("a number that does not end, is padded, or does not fit 64 bits", at=at, length=len(data))


def zigzag(number: int) -> int:
    """Signed to unsigned: 0, -1, 1, -2 become 0, 1, 2, 3."""
    return number << 1 if number >= 0 else (-number << 1) - 1


def unzigzag(number: int) -> int:
    """The way back from `zigzag`."""
    return -((number + 1) >> 1) if number & 1 else number >> 1


def write_signed(number: int) -> bytes:
    """The bytes of a signed 64-bit number."""
    return write(zigzag(number))


def read_signed(data: bytes, at: int) -> tuple[int, int]:
    """The signed number at this place, and the place after it."""
    number, at = read(data, at)
    return unzigzag(number), at


def write_blob(blob: bytes) -> bytes:
    """Bytes with their length in front."""
    return write(len(blob)) + blob


def read_blob(data: bytes, at: int, limit: int) -> tuple[bytes, int]:
    """The bytes at this place; their length is checked before anything is copied."""
    length, at = read(data, at)
    if length > limit or at + length > len(data):
        raise CorruptFrame("a part longer than its frame or its limit", length=length, limit=limit)
    return data[at : at + length], at + length


_ONE = [bytes((n,)) for n in range(0x80)]
