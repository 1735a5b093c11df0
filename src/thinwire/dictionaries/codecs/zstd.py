"""zstd with a dictionary, without bytes that the receiver can restore.

A zstd frame of a short message starts with five redundant bytes: descriptor, window, and the header of its only block
(last, compressed, length). They are removed and restored by the receiver. Other messages (several blocks, or no gain)
start with a byte whose low half is 13. In zstd that byte means more than 4095 equal literals; such messages are sent as
a complete frame too.

>>> codec = Zstd(b'{"sensor": "T1", "temperature": ', level=3, largest=64)
>>> packed = codec.pack(b'{"sensor": "T1", "temperature": 21.5}')
>>> len(packed), codec.unpack(packed, limit=64)
(11, b'{"sensor": "T1", "temperature": 21.5}')

`TrimmedZstd` omits one more byte: a compressed block contains the compression modes of its sequences. With a trained
dictionary that byte is nearly always `fc` (tables of the dictionary) and is omitted; a dozen other values are encoded
in a mark at the start. Finding the byte costs about as much as unpacking a short message, so this codec is for links on
which bytes cost more than CPU time.

>>> modes_offset(bytes.fromhex("08 61 02 fc 1234"))
3
>>> modes_offset(bytes.fromhex("08 61 00")) is None
True
"""

from __future__ import annotations

from functools import cache, cached_property

import zstandard

from thinwire.dictionaries.codecs.codec import read_stored
from thinwire.errors import CorruptDictionary, CorruptFrame

TABLES = b"\x37\xa4\x30\xec"
"""start of a dictionary with zstd tables"""
MARK = 13
STORED, WHOLE = bytes((0x00 | MARK,)), bytes((0x10 | MARK,))
_LAST_COMPRESSED = 5
"""block header: bit "last" and type "compressed" (2)"""
_LARGEST_BLOCK = 1 << 17
_SMALLEST_WINDOW, _LARGEST_WINDOW = 10, 23
"""powers of two; the minimum of zstd, and 8 MB as the limit of memory at a receiver"""
_COMMON = 512
"""lengths with precomputed headers"""


class Zstd:
    """zstd with a dictionary, or without one if `content` is empty.

    content: a result of `train`, or any bytes that do not start with `TABLES`
    level: of zstd, 1 to 22
    largest: bytes of the largest expected message; longer ones are packed less well
    """

    def __init__(self, content: bytes, level: int = 3, largest: int = 1 << 17) -> None:
        self.content = content
        self.level = level
        self.largest = largest
        self.name = f"zstd {level} dictionary" if content else f"zstd {level}"
        self._window = min(max((max(largest, 1) - 1).bit_length(), _SMALLEST_WINDOW), _LARGEST_WINDOW)
        self._usual = min(max(2 * largest, 256), 1 << 16)
        self._headers = _headers(self._window)

    def pack(self, message: bytes) -> bytes:
        if not message:
            return b""
        try:
            frame = self._compressor.compress(message)
        except zstandard.ZstdError as problem:
            raise CorruptDictionary(f"zstd cannot use it: {problem}", length=len(self.content)) from None
        length = len(frame) - 5
        if length > len(message):
            return STORED + message
        header = self._headers[length] if length < _COMMON else _header(self._window, length)
        # zstd may use a smaller window than configured; a reader with a larger one decodes the same bytes.
        if frame[0] == 0 and frame[1] <= header[1] and frame[2:5] == header[2:] and frame[5] & 15 != MARK:
            return frame[5:]
        return WHOLE + frame[1:] if frame[0] == 0 and len(frame) <= len(message) else STORED + message

    def unpack(self, packed: bytes, limit: int) -> bytes:
        """Restore the header and decompress; the first attempt covers the common case in one call."""
        length = len(packed)
        if 0 < length < _COMMON and packed[0] & 15 != MARK:
            usual = self._usual
            try:
                return self._decompressor.decompress(self._headers[length] + packed, usual if usual < limit else limit)
            except zstandard.ZstdError:
                pass  # longer than expected, or corrupt
        return self._unpack_any(packed, limit) if packed else b""

    def _unpack_any(self, packed: bytes, limit: int) -> bytes:
        if packed[0] & 15 != MARK:
            if len(packed) >= _LARGEST_BLOCK:
                raise CorruptFrame("longer than a zstd block", length=len(packed), limit=_LARGEST_BLOCK)
            return self._read(_header(self._window, len(packed)) + packed, limit)
        if packed[:1] == WHOLE:
            # A descriptor of zero declares no size: zstd would allocate any size that a frame declares.
            return self._read(b"\0" + packed[1:], limit)
        return read_stored(packed, STORED, limit)

    def _read(self, frame: bytes, limit: int) -> bytes:
        # zstd allocates its buffer before it reads: try the expected size first, because allocating `limit` bytes costs
        # more than decompressing a short message.
        for size in sorted({min(self._usual, limit), limit}):
            try:
                return self._decompressor.decompress(frame, size, False, False)
            except zstandard.ZstdError as problem:
                reason = str(problem)
        raise CorruptFrame(f"zstd: {reason}", limit=limit)

    @cached_property
    def _shared(self) -> zstandard.ZstdCompressionDict | None:
        return zstandard.ZstdCompressionDict(self.content) if self.content else None

    @cached_property
    def _compressor(self) -> zstandard.ZstdCompressor:
        parameters = zstandard.ZstdCompressionParameters.from_level(
            self.level,
            source_size=max(self.largest, 1),
            dict_size=len(self.content),
            window_log=self._window,
            format=zstandard.FORMAT_ZSTD1_MAGICLESS,
            write_content_size=False,
            write_checksum=False,
            write_dict_id=False,
        )
        return zstandard.ZstdCompressor(dict_data=self._shared, compression_params=parameters)

    @cached_property
    def _decompressor(self) -> zstandard.ZstdDecompressor:
        return zstandard.ZstdDecompressor(
            dict_data=self._shared,
            max_window_size=1 << _LARGEST_WINDOW,
            format=zstandard.FORMAT_ZSTD1_MAGICLESS,
        )


def _header(window: int, length: int) -> bytes:
    """Return the omitted start of a frame whose only block has this length."""
    block = length << 3 & 0xFFFFFF | _LAST_COMPRESSED
    return bytes((0, window - _SMALLEST_WINDOW << 3)) + block.to_bytes(3, "little")


@cache
def _headers(window: int) -> list[bytes]:
    return [_header(window, length) for length in range(_COMMON)]


DICTIONARY_MODES = 0xFC
UNTRIMMED = 0x20 | MARK
"""mark in front of a complete block"""
MODES = (0xF0, 0x3C, 0xCC, 0xC0, 0x0C, 0x7C, 0x30, 0x00, 0xDC, 0xBC, 0xAC, 0xEC, 0xD0)
"""other modes with their own mark: the first is `3d`, the last `fd`"""
_MARKS = {modes: bytes((index << 4 | MARK,)) for index, modes in enumerate(MODES, 3)} | {DICTIONARY_MODES: b""}


class TrimmedZstd(Zstd):
    """`Zstd` without the mode byte; efficient for dictionaries with tables, correct for all."""

    def __init__(self, content: bytes, level: int = 12, largest: int = 1 << 17) -> None:
        super().__init__(content, level, largest)
        self.name = f"zstd {level} dense dictionary"

    def pack(self, message: bytes) -> bytes:
        packed = super().pack(message)
        if not packed or packed[0] & 15 == MARK:
            return packed
        at = modes_offset(packed)
        if at is None:
            return packed
        mark = _MARKS.get(packed[at])
        if mark is not None:
            return mark + packed[:at] + packed[at + 1 :]
        return bytes((UNTRIMMED,)) + packed if len(packed) <= len(message) else STORED + message

    def unpack(self, packed: bytes, limit: int) -> bytes:
        if not packed or packed[0] in (STORED[0], WHOLE[0]):
            return super().unpack(packed, limit)
        if packed[0] == UNTRIMMED:
            return super().unpack(packed[1:], limit)
        if packed[0] & 15 == MARK:
            return self._unpack_block(packed[1:], MODES[(packed[0] >> 4) - 3], limit)
        return self._unpack_block(packed, DICTIONARY_MODES, limit)

    def _unpack_block(self, block: bytes, modes: int, limit: int) -> bytes:
        try:
            at = modes_offset(block)
        except IndexError:
            raise CorruptFrame("a block ends before its sequences", length=len(block), limit=limit) from None
        return super().unpack(block if at is None else b"%b%c%b" % (block[:at], modes, block[at:]), limit)


def modes_offset(block: bytes) -> int | None:
    """Return the offset of the compression modes in a block; None if it has no sequences (RFC 8878, 3.1.1.3)."""
    at = _end_of_literals(block)
    count = block[at]
    if not count:
        return None
    return at + (1 if count < 128 else 2 if count < 255 else 3)


def _end_of_literals(block: bytes) -> int:
    first = block[0]
    kind, form = first & 3, first >> 2 & 3
    if kind < 2:  # raw, or one byte repeated
        length = 1 if not form & 1 else 2 if form == 1 else 3
        size = int.from_bytes(block[:length], "little") >> (3 if length == 1 else 4)
        return length + (size if kind == 0 else 1)
    # compressed: two sizes of 10, 14 or 18 bits behind four header bits; the second is the compressed size
    length, bits = ((3, 10), (3, 10), (4, 14), (5, 18))[form]
    return length + (int.from_bytes(block[:length], "little") >> 4 + bits & (1 << bits) - 1)
