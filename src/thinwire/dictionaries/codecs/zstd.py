"""zstd with a dictionary, without a single byte that the receiver could work out.

A frame of zstd for one short message opens with five bytes that say nothing new: a descriptor, the window, and the
header of its only block (last, compressed, its length). They are cut off and put back on arrival. What cannot be cut
that way (several blocks, a message that does not shrink) begins with a byte that no other message begins with: one
whose low half is 13, for zstd the mark of more than 4095 equal literals, which then travel in a whole frame as well.

>>> codec = Zstd(b'{"sensor": "T1", "temperature": ', level=3, largest=64)
>>> packed = codec.pack(b'{"sensor": "T1", "temperature": 21.5}')
>>> len(packed), codec.unpack(packed, limit=64)
(11, b'{"sensor": "T1", "temperature": 21.5}')

zstd with a trained dictionary, and one more byte that need not travel.

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

from functools import cache, cached_property

import zstandard

from thinwire.dictionaries.codecs.codec import unstored
from thinwire.errors import CorruptDictionary, CorruptFrame

TABLES = b"\x37\xa4\x30\xec"
"""what a dictionary with tables of zstd begins with"""
MARK = 13
STORED, WHOLE = bytes((0x00 | MARK,)), bytes((0x10 | MARK,))
_LAST_COMPRESSED = 5
"""of a block header: the bit "last" and the type "compressed" (2)"""
_LARGEST_BLOCK = 1 << 17
_SMALLEST_WINDOW, _LARGEST_WINDOW = 10, 23
"""as powers of two; zstd goes no lower, and no receiver shall be made to keep more than 8 MB"""
_COMMON = 512
"""lengths for which the bytes to put back are kept ready"""


class Zstd:
    """zstd, with shared bytes or (empty content) without.

    content: what `train` made, or any bytes that do not begin with `TABLES`
    level: of zstd, 1 to 22
    largest: bytes of the largest message to be expected; longer ones work, less well
    """

    def __init__(self, content: bytes, level: int = 3, largest: int = 1 << 17) -> None:
        self.content = content
        self.level = level
        self.largest = largest
        self.name = f"zstd {level} dictionary" if content else f"zstd {level}"
        self._window = min(max((max(largest, 1) - 1).bit_length(), _SMALLEST_WINDOW), _LARGEST_WINDOW)
        self._usual = min(max(2 * largest, 256), 1 << 16)
        self._openings = _openings(self._window)

    def pack(self, message: bytes) -> bytes:
        """Five bytes less than zstd's shortest frame, in the usual case."""
        if not message:
            return b""
        try:
            frame = self._compressor.compress(message)
        except zstandard.ZstdError as problem:
            raise CorruptDictionary(f"zstd cannot use it: {problem}", length=len(self.content)) from None
        length = len(frame) - 5
        if length > len(message):
            return STORED + message
        opening = self._openings[length] if length < _COMMON else _opening(self._window, length)
        # zstd may take a smaller window than it was told; a reader with a larger one reads the same.
        if frame[0] == 0 and frame[1] <= opening[1] and frame[2:5] == opening[2:] and frame[5] & 15 != MARK:
            return frame[5:]
        return WHOLE + frame[1:] if frame[0] == 0 and len(frame) <= len(message) else STORED + message

    def unpack(self, packed: bytes, limit: int) -> bytes:
        """Put back what was cut off and let zstd read it; the usual way is short, because it is taken so often."""
        length = len(packed)
        if 0 < length < _COMMON and packed[0] & 15 != MARK:
            usual = self._usual
            try:
                return self._decompressor.decompress(self._openings[length] + packed, usual if usual < limit else limit)
            except zstandard.ZstdError:
                pass  # not a usual one: longer than expected, or broken
        return self._unpack_any(packed, limit) if packed else b""

    def _unpack_any(self, packed: bytes, limit: int) -> bytes:
        if packed[0] & 15 != MARK:
            if len(packed) >= _LARGEST_BLOCK:
                raise CorruptFrame("longer than a block of zstd can be", length=len(packed), limit=_LARGEST_BLOCK)
            return self._read(_opening(self._window, len(packed)) + packed, limit)
        if packed[:1] == WHOLE:
            # A descriptor of zero promises no size: zstd would make room for whatever size a frame promises.
            return self._read(b"\0" + packed[1:], limit)
        return unstored(packed, STORED, limit)

    def _read(self, frame: bytes, limit: int) -> bytes:
        # zstd's buffer is made before anything is read: one for a usual message first, because making one of `limit`
        # bytes costs more than reading a short message.
        for room in sorted({min(self._usual, limit), limit}):
            try:
                return self._decompressor.decompress(frame, room, False, False)
            except zstandard.ZstdError as problem:
                trouble = str(problem)
        raise CorruptFrame(f"zstd: {trouble}", limit=limit)

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


def _opening(window: int, length: int) -> bytes:
    """What is cut off a frame whose only block has this length."""
    header = length << 3 & 0xFFFFFF | _LAST_COMPRESSED
    return bytes((0, window - _SMALLEST_WINDOW << 3)) + header.to_bytes(3, "little")


@cache
def _openings(window: int) -> list[bytes]:
    return [_opening(window, length) for length in range(_COMMON)]


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
