"""Raw deflate, alone or with a preset dictionary.

A message that does not shrink is stored behind a byte that no deflate stream starts with (the reserved block type). It
grows by one byte instead of five.

>>> codec = PresetDeflate(b'{"sensor": "T1", "temperature": ')
>>> packed = codec.pack(b'{"sensor": "T1", "temperature": 21.5}')
>>> len(packed), codec.unpack(packed, limit=64)
(10, b'{"sensor": "T1", "temperature": 21.5}')

`TrimmedDeflate` omits nine bits. With a dictionary a short message is nearly always one block of the fixed code. Such a
block starts with three header bits, of which one is needed, and ends with seven zero bits, which the reader restores.
This saves one byte a message, sometimes two.

>>> codec = TrimmedDeflate(b'{"sensor": "T1", "temperature": ')
>>> packed = codec.pack(b'{"sensor": "T1", "temperature": 21.5}')
>>> len(packed), codec.unpack(packed, limit=64)
(9, b'{"sensor": "T1", "temperature": 21.5}')
"""

from __future__ import annotations

import zlib
from typing import Any

from thinwire.dictionaries.codecs.codec import read_stored
from thinwire.wire.frame import inflate

STORED = b"\x07"
_RESERVED_TYPE = 6
REACH = 1 << 15
"""bytes of the zlib window; earlier bytes of a dictionary are never used"""
_MARGIN = 262
"""bytes of the window that zlib does not use for matches"""
_LEAST_BITS, _MOST_BITS, _BITS_TO_MEMORY = 10, 15, 7
"""window bits; the default of zlib is 15 with memory level 8"""


class Deflate:
    """Deflate without header and checksum; `level` 1 to 9."""

    def __init__(self, level: int = 6) -> None:
        self.level = level
        self.name = f"deflate {level}"

    def pack(self, message: bytes) -> bytes:
        if not message:
            return b""
        packed = self._compress(message)
        return packed if len(packed) <= len(message) else STORED + message

    def unpack(self, packed: bytes, limit: int) -> bytes:
        if not packed:
            return b""
        if packed[0] & _RESERVED_TYPE == _RESERVED_TYPE:
            return read_stored(packed, STORED, limit)
        return inflate(packed, limit, self._decompressor)

    def _compress(self, message: bytes) -> bytes:
        return zlib.compress(message, self.level, wbits=-15)

    @property
    def _decompressor(self) -> Any:
        return zlib.decompressobj(-15)


class PresetDeflate(Deflate):
    """Deflate with a preset dictionary.

    A message is packed by a copy of a compressor that has read the dictionary. Copying costs more than packing a short
    message, so the smallest window that covers dictionary and message is used.

    content: the dictionary, most valuable bytes last
    level: of zlib, 1 to 9
    """

    def __init__(self, content: bytes, level: int = 6) -> None:
        super().__init__(level)
        self.content = content[-REACH:]
        self.name = f"zlib {level} dictionary"
        self._window = len(self.content) + _MARGIN
        self._compressors: dict[int, Any] = {}

    def _compress(self, message: bytes) -> bytes:
        compressor = self._compressor(self._window + len(message)).copy()
        packed: bytes = compressor.compress(message) + compressor.flush()
        return packed

    @property
    def _decompressor(self) -> Any:
        return zlib.decompressobj(-15, zdict=self.content)

    def _compressor(self, window: int) -> Any:
        bits = min(max(window.bit_length(), _LEAST_BITS), _MOST_BITS)
        if bits not in self._compressors:
            memory = bits - _BITS_TO_MEMORY
            self._compressors[bits] = zlib.compressobj(self.level, zlib.DEFLATED, -bits, memory, zdict=self.content)
        return self._compressors[bits]


WHOLE = b"\x0f"
"""mark in front of several blocks"""
_LAST, _LAST_FIXED, _HEADER, _MARK = 1, 3, 7, 7
"""of the first byte: bit of the last block, last block of the fixed code, mask of the block header, mask of a mark"""
_MAX_TRIMMED = 2
"""zero bytes omitted at the end of a fixed block, at most"""


class TrimmedDeflate(PresetDeflate):
    """`PresetDeflate` without the bits that a reader can restore."""

    def __init__(self, content: bytes, level: int = 9) -> None:
        super().__init__(content, level)
        self.name = f"zlib {level} brief dictionary"

    def pack(self, message: bytes) -> bytes:
        packed = super().pack(message)
        if not packed or packed[0] & _MARK == _MARK:
            return packed
        if packed[0] & _HEADER == _LAST_FIXED:
            return _trim(packed)
        if packed[0] & _LAST:
            return packed
        return WHOLE + packed if len(packed) <= len(message) else STORED + message

    def unpack(self, packed: bytes, limit: int) -> bytes:
        if packed and not packed[0] & _LAST:
            return inflate(_restore(packed), limit, self._decompressor, padded=True)
        if packed[:1] == WHOLE:
            return inflate(packed[1:], limit, self._decompressor)
        return super().unpack(packed, limit)


def _trim(stream: bytes) -> bytes:
    """Replace the header of a fixed block by one zero bit and remove zero bytes at its end."""
    bits = int.from_bytes(stream, "little") >> 3 << 1
    trimmed = bits.to_bytes(len(stream), "little")
    for _ in range(_MAX_TRIMMED):
        trimmed = trimmed.removesuffix(b"\0")
    return trimmed


def _restore(trimmed: bytes) -> bytes:
    """Restore the block; it may have extra zeros behind it."""
    bits = int.from_bytes(trimmed, "little") << 2 | _LAST_FIXED
    return bits.to_bytes(len(trimmed) + _MAX_TRIMMED, "little")
