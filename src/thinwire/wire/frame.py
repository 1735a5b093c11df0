"""A frame: a header of at most four bytes, and a body.

    head | [slot] | sequence, 1 or 2 bytes | check | body

The head byte contains the kind (4 bits), whether the sequence is wide, whether the body is packed (then the slot
follows: 0 is deflate, others are bound to a dictionary), and the low two bits of the incarnation. The check is the low
byte of a running CRC-32 over every frame since the last key frame, this one included. It fails if a frame was lost,
altered or inserted, or belongs to another incarnation of the publisher.

>>> frame, chain = seal(1, b"body", sequence=258, chain=7)
>>> frame.hex(), len(frame)
('010270626f6479', 7)
>>> read(frame).body
b'body'

A broker message is one frame or a batch: the head byte of kind BATCH, then each frame with its length in front. A frame
has the same bytes alone and in a batch.

>>> message = join([b"\\x01\\x00\\x00one", b"\\x01\\x01\\x00two"])
>>> split(message) == [b"\\x01\\x00\\x00one", b"\\x01\\x01\\x00two"]
True
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple
from zlib import crc32

from thinwire.errors import CorruptFrame, UnknownDictionary
from thinwire.wire import varint

WIRE_VERSION = 1


class FrameKind(IntEnum):
    """The low four bits of the first byte of a frame. Readers skip unknown kinds."""

    DATA = 1
    """a partial event in the compact format"""
    EXCEPTION = 2
    """as DATA, with exact values: absent, off the grid, out of range"""
    JSON = 3
    """a partial event as JSON"""
    KEY = 4
    """full state of some sources; a reader can start here"""
    INTRODUCTION = 5
    """a new source with its first event"""
    SWITCH = 6
    """properties of a source change their predictor"""
    HEARTBEAT = 7
    """watermark, full sequence, runs of suppressed events"""
    AUDIT = 8
    """exact values of an event, to measure the real error"""
    BATCH = 9
    """several frames in one message"""
    REQUEST = 10
    """a subscriber requests a key frame"""
    BINDING = 12
    """binds a slot to a dictionary"""
    PAYLOAD = 13
    """an event of a topic without a schema: any bytes"""


_KNOWN = frozenset(FrameKind)


def is_known(kind: int) -> bool:
    """Return whether this version defines the kind."""
    return kind in _KNOWN


DEFLATE_SLOT = 0
_WORTH_TRYING = 96


def pack(body: bytes) -> tuple[bytes, int | None]:
    """Return the body or its deflated form, whichever is shorter with its slot byte, and the slot."""
    if len(body) < _WORTH_TRYING:
        return body, None
    packed = zlib.compress(body, 6, wbits=-15)
    return (packed, DEFLATE_SLOT) if len(packed) + 1 < len(body) else (body, None)


def inflate(packed: bytes, limit: int, decompressor: Any = None, *, padded: bool = False) -> bytes:
    """Decompress one complete deflate stream of at most `limit` bytes.

    decompressor: a new one of zlib, if the stream has a header or a dictionary; raw deflate by default
    padded: zeros may follow the end of the stream

    >>> inflate(zlib.compress(b"tick " * 20, 6, wbits=-15), limit=100) == b"tick " * 20
    True
    """
    decompressor = decompressor or zlib.decompressobj(-15)
    try:
        # one byte more than the limit: 0 means "no limit" to zlib, and a full buffer would hide the end of the stream
        body: bytes = decompressor.decompress(packed, limit + 1)
    except zlib.error as problem:
        raise CorruptFrame(f"deflate: {problem}", limit=limit) from None
    extra = decompressor.unused_data.strip(b"\0") if padded else decompressor.unused_data
    if not decompressor.eof or extra or len(body) > limit:
        raise CorruptFrame("a deflated stream is cut off, padded, or grows above the limit", limit=limit)
    return body


MAX_FRAME = 1 << 20
"""bytes of a frame, at most"""

LONG = 0x10
"""bit of the head byte: the sequence has two bytes"""
PACKED = 0x20
"""bit of the head byte: the body is packed, and a slot follows"""


class Frame(NamedTuple):
    """A parsed frame; `raw` are its bytes."""

    kind: int
    incarnation: int
    wide: bool
    slot: int | None
    sequence: int
    check: int
    raw: bytes

    @property
    def body(self) -> bytes:
        """The unpacked body. Verify the check first, so that forged frames cause no unpacking.

        A body packed with a dictionary is unpacked by the stream decoder, which has the bindings.
        """
        if self.slot is None:
            return self.sent_body
        if self.slot != DEFLATE_SLOT:
            raise UnknownDictionary(slot=self.slot)
        return inflate(self.sent_body, MAX_FRAME)

    @property
    def sent_body(self) -> bytes:
        """The body as sent, which may be packed."""
        return self.raw[self.header_size :]

    def chain_after(self, chain: int) -> int:
        """Return the running check after this frame; its low byte must equal `check`."""
        size = self.header_size
        return crc32(self.raw[size:], crc32(self.raw[: size - 1], chain))

    @property
    def header_size(self) -> int:
        return 3 + self.wide + (self.slot is not None)


def seal(
    kind: int,
    body: bytes,
    *,
    sequence: int,
    chain: int,
    incarnation: int = 0,
    wide: bool = False,
    slot: int | None = None,
) -> tuple[bytes, int]:
    """Return the bytes of a frame and the running check after it; a body with a slot is already packed."""
    head = kind | (incarnation & 3) << 6
    if slot is None and not wide:
        front = bytes((head, sequence & 0xFF))
    else:
        width = 2 if wide else 1
        head |= LONG * wide | PACKED * (slot is not None)
        named = (head,) if slot is None else (head, slot)
        front = bytes(named) + (sequence & (1 << 8 * width) - 1).to_bytes(width, "big")
    chain = crc32(body, crc32(front, chain))
    return b"%b%c%b" % (front, chain & 0xFF, body), chain


def read(raw: bytes) -> Frame:
    """Parse a frame; raise `CorruptFrame` if the bytes are not one."""
    if len(raw) < 3:
        raise CorruptFrame("shorter than a header", length=len(raw))
    if len(raw) > MAX_FRAME:
        raise CorruptFrame("longer than a frame may be", length=len(raw), limit=MAX_FRAME)
    head = raw[0]
    wide = bool(head & LONG)
    packed = head & PACKED
    at = 2 if packed else 1
    end = at + 1 + wide
    if len(raw) <= end:
        raise CorruptFrame("header cut off", length=len(raw))
    slot = raw[1] if packed else None
    return Frame(head & 0x0F, head >> 6, wide, slot, int.from_bytes(raw[at:end], "big"), raw[end], raw)


MAX_MESSAGE = 8 << 20
MAX_FRAMES = 65_536
_BATCH = bytes((FrameKind.BATCH,))
_SHORT = [bytes((size,)) for size in range(0x80)]


def join(frames: Sequence[bytes]) -> bytes:
    """Return one message with these frames."""
    if len(frames) == 1:
        return frames[0]
    parts = [_BATCH]
    for frame in frames:
        size = len(frame)
        parts.append(_SHORT[size] if size < 0x80 else varint.write(size))
        parts.append(frame)
    return b"".join(parts)


def size_in_batch(frame: bytes) -> int:
    """Return the bytes of a frame in a batch, including its length."""
    size = len(frame)
    return size + (1 if size < 0x80 else (size.bit_length() + 6) // 7)


def split(message: bytes) -> list[bytes]:
    """Return the frames of a message; raise `CorruptFrame` for nested batches."""
    if len(message) > MAX_MESSAGE:
        raise CorruptFrame("message above its limit", length=len(message), limit=MAX_MESSAGE)
    if not message or message[0] & 0x0F != FrameKind.BATCH:
        return [message]
    frames: list[bytes] = []
    at, end = 1, len(message)
    while at < end:
        size = message[at]
        if size < 0x80 and at + size < end:  # nearly all frames are short
            frame = message[at + 1 : at + 1 + size]
            at += 1 + size
        else:
            frame, at = varint.read_blob(message, at, MAX_FRAME)
        if not frame or frame[0] & 0x0F == FrameKind.BATCH:
            raise CorruptFrame("an empty frame or a batch inside a batch", at=at)
        frames.append(frame)
        if len(frames) > MAX_FRAMES:
            raise CorruptFrame("too many frames in a message", limit=MAX_FRAMES)
    return frames
