"""gzip, as web servers use it: deflate with a header and a checksum. A baseline.

>>> codec = Gzip()
>>> codec.unpack(codec.pack(b"tick " * 20), limit=100) == b"tick " * 20
True
"""

from __future__ import annotations

import zlib

from thinwire.dictionaries.codecs.codec_stored import unstored
from thinwire.wire.frame_packing import inflate

STORED = b"\x00"
_FIRST = 0x1F
_WITH_HEADER = 31


class Gzip:
    """Eighteen bytes more than raw deflate; `level` 1 to 9."""

    def __init__(self, level: int = 6) -> None:
        self.level = level
        self.name = f"gzip {level}"

    def pack(self, message: bytes) -> bytes:
        """One whole gzip file, or the message behind a mark where that is shorter."""
        if not message:
            return b""
        packed = zlib.compress(message, self.level, wbits=_WITH_HEADER)
        return packed if len(packed) <= len(message) else STORED + message

    def unpack(self, packed: bytes, limit: int) -> bytes:
        """Inflated, as far as the limit, and compared with its checksum."""
        if not packed:
            return b""
        if packed[0] != _FIRST:
            return unstored(packed, STORED, limit)
        return inflate(packed, limit, zlib.decompressobj(_WITH_HEADER))
