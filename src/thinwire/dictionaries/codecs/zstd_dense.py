"""zstd with a trained dictionary, and one more byte that need not travel.

A compressed block says before its sequences how their three kinds of numbers are coded. With a trained dictionary and
short messages the answer is nearly always "by the tables of the dictionary" (`fc`), so it is left out; a dozen other
answers are said by a mark in front, which costs nothing. Finding the place costs about as much as unpacking a short
message does: this is for links where bytes count for more.

>>> place_of_modes(bytes.fromhex("08 61 02 fc 1234"))
3
>>> place_of_modes(bytes.fromhex("08 61 00")) is None
True
"""

from __future__ import annotations

from thinwire.dictionaries.codecs.zstd import MARK, STORED, WHOLE, Zstd
from thinwire.errors import CorruptFrame

BY_TABLES = 0xFC
OTHERWISE = 0x20 | MARK
"""in front of a block that is whole"""
ANSWERS = (0xF0, 0x3C, 0xCC, 0xC0, 0x0C, 0x7C, 0x30, 0x00, 0xDC, 0xBC, 0xAC, 0xEC, 0xD0)
"""the other answers that have a mark of their own: the first `3d`, the last `fd`"""
_MARKS = {answer: bytes((place << 4 | MARK,)) for place, answer in enumerate(ANSWERS, 3)} | {BY_TABLES: b""}


class Dense(Zstd):
    """As `Zstd`, one byte less a message; made for content with tables, and correct with any."""

    def __init__(self, content: bytes, level: int = 12, largest: int = 1 << 17) -> None:
        super().__init__(content, level, largest)
        self.name = f"zstd {level} dense dictionary"

    def pack(self, message: bytes) -> bytes:
        """The block without the byte that is always the same."""
        packed = super().pack(message)
        if not packed or packed[0] & 15 == MARK:
            return packed
        at = place_of_modes(packed)
        if at is None:
            return packed
        mark = _MARKS.get(packed[at])
        if mark is not None:
            return mark + packed[:at] + packed[at + 1 :]
        return bytes((OTHERWISE,)) + packed if len(packed) <= len(message) else STORED + message

    def unpack(self, packed: bytes, limit: int) -> bytes:
        """Put the byte back, then read as `Zstd` does."""
        if not packed or packed[0] in (STORED[0], WHOLE[0]):
            return super().unpack(packed, limit)
        if packed[0] == OTHERWISE:
            return super().unpack(packed[1:], limit)
        if packed[0] & 15 == MARK:
            return self._unpack_block(packed[1:], ANSWERS[(packed[0] >> 4) - 3], limit)
        return self._unpack_block(packed, BY_TABLES, limit)

    def _unpack_block(self, block: bytes, answer: int, limit: int) -> bytes:
        try:
            at = place_of_modes(block)
        except IndexError:
            raise CorruptFrame("a block that ends before its sequences", length=len(block), limit=limit) from None
        return super().unpack(block if at is None else b"%b%c%b" % (block[:at], answer, block[at:]), limit)


def place_of_modes(block: bytes) -> int | None:
    """Where a compressed block says how its sequences are coded; None where it has no sequences (RFC 8878, 3.1.1.3)."""
    at = _end_of_literals(block)
    count = block[at]
    if not count:
        return None
    return at + (1 if count < 128 else 2 if count < 255 else 3)


def _end_of_literals(block: bytes) -> int:
    first = block[0]
    kind, form = first & 3, first >> 2 & 3
    if kind < 2:  # as they are, or one byte for all of them
        length = 1 if not form & 1 else 2 if form == 1 else 3
        size = int.from_bytes(block[:length], "little") >> (3 if length == 1 else 4)
        return length + (size if kind == 0 else 1)
    # packed: two sizes of 10, 14 or 18 bits behind four bits of header; the second is that of the packed form
    length, bits = ((3, 10), (3, 10), (4, 14), (5, 18))[form]
    return length + (int.from_bytes(block[:length], "little") >> 4 + bits & (1 << bits) - 1)
