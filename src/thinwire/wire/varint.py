"""Variable-length integers.

Seven bits a byte, least significant first; the high bit is set if more bytes follow. Signed numbers use zigzag, so that
small ones of either sign are short. Only the shortest form of a number is valid.

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
    """Encode a number from 0 to 2^64 - 1."""
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
    """Return the number at offset `at` and the offset after it."""
    number = shift = 0
    for offset in range(at, min(at + MAX_BYTES, len(data))):
        byte = data[offset]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number > MAX_VALUE or (not byte and offset > at):
                break
            return number, offset + 1
        shift += 7
    raise CorruptFrame("a number that does not end, is padded, or does not fit 64 bits", at=at, length=len(data))


def zigzag(number: int) -> int:
    """Signed to unsigned: 0, -1, 1, -2 become 0, 1, 2, 3."""
    return number << 1 if number >= 0 else (-number << 1) - 1


def unzigzag(number: int) -> int:
    """Inverse of `zigzag`."""
    return -((number + 1) >> 1) if number & 1 else number >> 1


def write_signed(number: int) -> bytes:
    return write(zigzag(number))


def read_signed(data: bytes, at: int) -> tuple[int, int]:
    number, at = read(data, at)
    return unzigzag(number), at


def write_blob(blob: bytes) -> bytes:
    return write(len(blob)) + blob


def read_blob(data: bytes, at: int, limit: int) -> tuple[bytes, int]:
    """Return the bytes at offset `at` and the offset after them; the length is checked before copying."""
    length, at = read(data, at)
    if length > limit or at + length > len(data):
        raise CorruptFrame("a part longer than its frame or its limit", length=length, limit=limit)
    return data[at : at + length], at + length


_ONE = [bytes((n,)) for n in range(0x80)]
