"""Buffers the frames of a channel and batches them into messages.

A message is filled up to the size limit and ends at a position that can be stated in its envelope. A frame that begins
a key frame round is a message of its own.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from thinwire.topics.position import MAX_ENVELOPE, Position, encode_envelope
from thinwire.wire import begins_round, join
from thinwire.wire.frame import MAX_FRAMES, size_in_batch

FRAME_OVERHEAD = 64
"""bytes of memory per buffered frame beside its content, which is often a dozen bytes"""


class ChannelMessage(NamedTuple):
    """A message for a channel; `key` is set if it begins a key frame round."""

    class_id: str
    publisher: str
    key: bool
    payload: bytes


class MessageFrames:
    """The frames that resulted from one log message, with the position of the channel after each.

    size: bytes of the frames in a batch
    has_round: one of the frames begins a key frame round
    """

    __slots__ = ("_positions", "frames", "has_round", "size")

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.size = 0
        self.has_round = False
        self._positions = array("q")  # two numbers per frame; there may be tens of thousands

    @property
    def end(self) -> Position:
        """The position after the last frame."""
        return Position(self._positions[-2], self._positions[-1])

    def put(self, frames: Sequence[bytes], positions: Iterable[int], *, data: bool) -> None:
        """Add frames and their positions as a flat sequence of numbers."""
        self.frames += frames
        self._positions.extend(positions)
        self.size += sum(map(size_in_batch, frames))
        self.has_round = self.has_round or (not data and any(map(begins_round, frames)))

    def items(self) -> Iterator[tuple[bytes, Position]]:
        """Return each frame with its position."""
        return zip(self.frames, map(Position, self._positions[::2], self._positions[1::2]), strict=True)


class FrameBuffer:
    """The frames of a channel that are not stored yet, grouped by log message.

    size: bytes of memory that they use
    """

    def __init__(self) -> None:
        self.size = 0
        self._messages: list[MessageFrames] = []
        self._starts_message = True

    def start_message(self) -> None:
        """Assign the following frames to another log message."""
        self._starts_message = True

    def put(self, frames: Sequence[bytes], positions: Iterable[int], *, data: bool = False) -> None:
        """Add at least one frame; `data` states that no key frame is among them."""
        if self._starts_message:
            self._messages.append(MessageFrames())
            self._starts_message = False
        self._messages[-1].put(frames, positions, data=data)
        self.size += sum(map(len, frames)) + FRAME_OVERHEAD * len(frames)

    def take(self) -> list[MessageFrames]:
        """Remove and return all frames."""
        messages, self._messages = self._messages, []
        self.size, self._starts_message = 0, True
        return messages


def batch_frames(messages: Iterable[MessageFrames], limit: int, epoch: int) -> Iterator[tuple[bool, bytes]]:
    """Batch frames into payloads of at most `limit` bytes, each with whether it begins a key frame round.

    Frames of one log message are kept together where the limit allows it. A larger frame is a payload of its own.
    """
    batch: list[bytes] = []
    position = Position(0)
    capacity = free = limit - MAX_ENVELOPE - 1

    def flush(*, key: bool = False) -> Iterator[tuple[bool, bytes]]:
        if batch:
            payload = encode_envelope(epoch, position, join(batch))
            batch.clear()
            yield key, payload

    for message in messages:
        if message.size > free:
            yield from flush()
            free = capacity
        if message.size <= free and not message.has_round and len(batch) + len(message.frames) <= MAX_FRAMES:
            batch += message.frames
            position = message.end
            free -= message.size
            continue
        for frame, after_frame in message.items():
            is_key = begins_round(frame)
            if is_key or size_in_batch(frame) > free or len(batch) == MAX_FRAMES:
                yield from flush()
                free = capacity
            batch.append(frame)
            position = after_frame
            free -= size_in_batch(frame)
            if is_key:
                yield from flush(key=True)
                free = capacity
    yield from flush()
