"""Deflate with a preset dictionary, and nine bits that need not travel.

With shared bytes a message of a hundred bytes comes down to twenty, and is nearly always one block of the fixed code.
Such a block opens with three bits (the last one, fixed code), for which one bit will do, and ends with seven bits of
zero, which a reader can put back: mostly a byte a message, sometimes two.

>>> codec = Brief(b'{"sensor": "T1", "temperature": ')
>>> packed = codec.pack(b'{"sensor": "T1", "temperature": 21.5}')
>>> len(packed), codec.unpack(packed, limit=64)
(9, b'{"sensor": "T1", "temperature": 21.5}')
"""

from __future__ import annotations

from thinwire.dictionaries.codecs.codec_stored import unstored
from thinwire.dictionaries.codecs.deflate import STORED, Preset
from thinwire.wire.frame_packing import inflate

WHOLE = b"\x0f"
"""in front of several blocks"""
_LAST, _LAST_FIXED, _HEADER, _MARK = 1, 3, 7, 7
"""of the first byte: the bit of a last block, a last block of the fixed code, the bits that say so, those of a mark"""
_LEFT_OUT = 2
"""bytes of zero at the end of a fixed block that are left out at most"""


class Brief(Preset):
    """As `Preset`, a byte less a message."""

    def __init__(self, content: bytes, level: int = 9) -> None:
        super().__init__(content, level)
        self.name = f"zlib {level} brief dictionary"

    def pack(self, message: bytes) -> bytes:
        """Without the bits that a reader can work out."""
        packed = super().pack(message)
        if not packed or packed[0] & _MARK == _MARK:
            return packed
        if packed[0] & _HEADER == _LAST_FIXED:
            return _shortened(packed)
        if packed[0] & _LAST:
            return packed
        return WHOLE + packed if len(packed) <= len(message) else STORED + message

    def unpack(self, packed: bytes, limit: int) -> bytes:
        """Put the bits back, then inflate."""
        if not packed:
            return b""
        if packed[:1] == WHOLE:
            return inflate(packed[1:], limit, self._reader)
        if packed[0] & _MARK == _MARK:
            return unstored(packed, STORED, limit)
        if packed[0] & _LAST:
            return inflate(packed, limit, self._reader)
        return inflate(_lengthened(packed), limit, self._reader, padded=True)


def _shortened(stream: bytes) -> bytes:
    """A fixed block with one bit of zero for its header, and without the zeros at its end."""
    bits = int.from_bytes(stream, "little") >> 3 << 1
    brief = bits.to_bytes(len(stream), "little")
    for _ in range(_LEFT_OUT):
        brief = brief.removesuffix(b"\0")
    return brief


def _lengthened(brief: bytes) -> bytes:
    """The block again, or with zeros behind it."""
    bits = int.from_bytes(brief, "little") << 2 | _LAST_FIXED
    return bits.to_bytes(len(brief) + _LEFT_OUT, "little")
