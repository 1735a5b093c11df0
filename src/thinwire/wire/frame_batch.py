"""Several frames in one broker message.

A message is one frame, or a batch: the head byte of kind BATCH, then each frame with its length in front. A frame has
the same bytes alone and in a batch.

>>> message = join([b"\\x01\\x00\\x00one", b"\\x01\\x01\\x00two"])
>>> split(message) == [b"\\x01\\x00\\x00one", b"\\x01\\x01\\x00two"]
True
"""

from __future__ import annotations

from collections.abc import Sequence

from thinwire.errors import CorruptFrame
from thinwire.wire import varint
from thinwire.wire.frame import MAX_FRAME
from thinwire.wire.frame_kinds import FrameKind

MAX_MESSAGE = 8 << 20
MAX_FRAMES = 65_536
_BATCH = bytes((FrameKind.BATCH,))
_SHORT = [bytes((size,)) for size in range(0x80)]


def join(frames: Sequence[bytes]) -> bytes:
    """One message out of these frames."""
    if len(frames) == 1:
        return frames[0]
    parts = [_BATCH]
    for frame in frames:
        size = len(frame)
        parts.append(_SHORT[size] if size < 0x80 else varint.write(size))
        parts.append(frame)
    return b"".join(parts)


def room_for(frame: bytes) -> int:
    """The bytes that a frame takes in a batch: its own, and those of its length."""
    size = len(frame)
    return size + (1 if size < 0x80 else (size.bit_length() + 6) // 7)


def split(message: bytes) -> list[bytes]:
    """The frames of a message. A batch inside a batch is refused."""
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
