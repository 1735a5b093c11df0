"""Raw deflate, alone or with a preset dictionary.

A message that does not shrink begins with a byte that no deflate stream begins with (the reserved block type), so that
it costs one byte more than itself and not five.

>>> codec = Preset(b'{"sensor": "T1", "temperature": ')
>>> packed = codec.pack(b'{"sensor": "T1", "temperature": 21.5}')
>>> len(packed), codec.unpack(packed, limit=64)
(10, b'{"sensor": "T1", "temperature": 21.5}')
"""

from __future__ import annotations

import zlib
from typing import Any

from thinwire.dictionaries.codecs.codec_stored import unstored
from thinwire.wire.frame_packing import inflate

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
