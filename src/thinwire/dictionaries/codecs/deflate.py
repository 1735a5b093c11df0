"""Raw deflate, alone or with a preset dictionary.

A message that does not shrink begins with a byte that no deflate stream begins with (the reserved block type), so that
it costs one byte more than itself and not five.

>>> codec = Preset(b'{"sensor": "T1", "temperature": ')
>>> packed = codec.pack(b'{"sensor": "T1", "temperature": 21.5}')
>>> len(packed), codec.unpack(packed, limit=64)
(10, b'{"sensor": "T1", "temperature": 21.5}')

Deflate with a preset dictionary, and nine bits that need not travel.

With shared bytes a message of a hundred bytes comes down to twenty, and is nearly always one block of the fixed code.
Such a block opens with three bits (the last one, fixed code), for which one bit will do, and ends with seven bits of
zero, which a reader can put back: mostly a byte a message, sometimes two.

>>> codec = Brief(b'{"sensor": "T1", "temperature": ')
>>> packed = codec.pack(b'{"sensor": "T1", "temperature": 21.5}')
>>> len(packed), codec.unpack(packed, limit=64)
(9, b'{"sensor": "T1", "temperature": 21.5}')
"""

from __future__ import annotations

import zlib
from typing import Any

from thinwire.dictionaries.codecs.codec import unstored
from thinwire.wire.frame import inflate

STORED = b"\x07"
_RESERVED_TYPE = 6
REACH = 1 << 15
"""bytes that zlib looks back; what lies further ahead in a dictionary is never found"""
_MARGIN = 262
"""bytes of its window that zlib does not look back over"""
_LEAST_BITS, _MOST_BITS, _BITS_TO_MEMORY = 10, 15, 7
"""of a window; zlib's usual 15 goes with its usual memory level of 8"""


class Deflate:
    """zlib's deflate without header and checksum; `level` 1 to 9."""

    def __init__(self, level: int = 6) -> None:
        self.level = level
        self.name = f"deflate {level}"

    def pack(self, message: bytes) -> bytes:
        """Deflated, or stored where that is shorter."""
        if not message:
            return b""
        packed = zlib.compress(message, self.level, wbits=-15)
        return packed if len(packed) <= len(message) else STORED + message

    def unpack(self, packed: bytes, limit: int) -> bytes:
        """Inflated, as far as the limit."""
        if not packed:
            return b""
        if _is_stored(packed):
            return unstored(packed, STORED, limit)
        return inflate(packed, limit)


class Preset:
    """Deflate that may refer to shared bytes.

    To copy a machine that has read them costs more than to pack a short message, so each message gets the smallest one
    that looks back over all of them.

    content: the shared bytes, the most valuable last
    level: of zlib, 1 to 9
    """

    def __init__(self, content: bytes, level: int = 6) -> None:
        self.content = content[-REACH:]
        self.level = level
        self.name = f"zlib {level} dictionary"
        self._room = len(self.content) + _MARGIN
        self._primed: dict[int, Any] = {}

    def pack(self, message: bytes) -> bytes:
        """Deflated by a copy of a machine that has read the shared bytes already, or stored."""
        if not message:
            return b""
        machine = self._machine(self._room + len(message)).copy()
        packed: bytes = machine.compress(message) + machine.flush()
        return packed if len(packed) <= len(message) else STORED + message

    def unpack(self, packed: bytes, limit: int) -> bytes:
        """Inflated, as far as the limit."""
        if not packed:
            return b""
        if _is_stored(packed):
            return unstored(packed, STORED, limit)
        return inflate(packed, limit, self._reader)

    @property
    def _reader(self) -> Any:
        return zlib.decompressobj(-15, zdict=self.content)

    def _machine(self, room: int) -> Any:
        """The smallest one that looks back so far, as far as any can, with tables to match."""
        bits = min(max(room.bit_length(), _LEAST_BITS), _MOST_BITS)
        found = self._primed.get(bits)
        if found is None:
            found = zlib.compressobj(self.level, zlib.DEFLATED, -bits, bits - _BITS_TO_MEMORY, zdict=self.content)
            self._primed[bits] = found
        return found


def _is_stored(packed: bytes) -> bool:
    return packed[0] & _RESERVED_TYPE == _RESERVED_TYPE


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
