"""zstd with a trained dictionary, and one more byte that need not travel.

A compressed block says before its sequences how their three kinds of numbers are coded. With a trained dictionary and
short messages the answer is nearly always "by the tables of the dictionary" (`fc`), so it is left out, and said with a
mark where it is another. Finding its place costs about as much as unpacking a short message does: this is for links
where bytes count for more.

>>> place_of_modes(bytes.fromhex("08 61 02 fc 1234"))
3
>>> place_of_modes(bytes.fromhex("08 61 00")) is None
True
"""

from __future__ import annotations

from thinwire.dictionaries.codecs.zstd import MARK, STORED, Zstd
from thinwire.errors import CorruptFrame

BY_TABLES = 0xFC
OTHERWISE = bytes((0x20 | MARK,))
"""in front of a block that says how its numbers are coded"""


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
        if packed[at] == BY_TABLES:
            return packed[:at] + packed[at + 1 :]
        return OTHERWISE + packed if len(packed) <= len(message) else STORED + message

    def unpack(self, packed: bytes, limit: int) -> bytes:
        """Put the byte back, then read as `Zstd` does."""
        if not packed or packed[0] & 15 == MARK:
            return super().unpack(packed[1:] if packed[:1] == OTHERWISE else packed, limit)
        try:
            at = place_of_modes(packed)
        except IndexError:
            raise CorruptFrame("a block that ends before its sequences", length=len(packed), limit=limit) from None
        if at is None:
            return super().unpack(packed, limit)
        return super().unpack(b"%b\xfc%b" % (packed[:at], packed[at:]), limit)


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
