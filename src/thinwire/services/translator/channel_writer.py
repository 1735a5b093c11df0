"""Batches the frames of channels into messages and stores them: many channels concurrently, each in order.

A message is filled up to the size limit and ends at a position that can be stated in its envelope. A frame that begins
a key frame round is a message of its own.

Every channel has its own `FencedWriter`, so a translator that lost its lease is refused with `Superseded` by each of
them. The first failure stops all channels: the translation of the topic ends and starts again under a new epoch.
"""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from thinwire.brokers.protocol import Broker
from thinwire.errors import Superseded, TransportError
from thinwire.topics.fenced_writer import FencedWriter, RetryWarnings
from thinwire.topics.names import channel_data_subject, channel_key_subject, channel_log_of, channel_subjects
from thinwire.topics.position import MAX_ENVELOPE, Position, encode_envelope
from thinwire.wire import begins_round, join
from thinwire.wire.frame import MAX_FRAMES, size_in_batch

MAX_CONCURRENT = 32
"""channels that are written concurrently"""

_log = logging.getLogger("thinwire.translator")


class ChannelMessage(NamedTuple):
    """A message for a channel; `is_key` is set if it begins a key frame round."""

    class_id: str
    publisher: str
    is_key: bool
    payload: bytes


@dataclass(slots=True)
class MessageFrames:
    """The frames of a channel that resulted from one log message, with the position of the channel after each.

    positions: two numbers per frame; there may be tens of thousands
    size: bytes of the frames in a batch
    has_round: one of the frames begins a key frame round
    """

    frames: list[bytes] = field(default_factory=list)
    positions: array[int] = field(default_factory=lambda: array("q"))
    size: int = 0
    has_round: bool = False

    @property
    def end(self) -> Position:
        """The position after the last frame."""
        return Position(self.positions[-2], self.positions[-1])

    def put(self, frames: Sequence[bytes], positions: Iterable[int], *, only_data: bool) -> None:
        """Add frames and their positions; with `only_data`, no key frame is among them."""
        self.frames += frames
        self.positions.extend(positions)
        self.size += sum(map(size_in_batch, frames))
        self.has_round = self.has_round or (not only_data and any(map(begins_round, frames)))

    def items(self) -> Iterator[tuple[bytes, Position]]:
        """Return each frame with its position."""
        return zip(self.frames, map(Position, self.positions[::2], self.positions[1::2]), strict=True)


def batch_frames(messages: Iterable[MessageFrames], limit: int, epoch: int) -> list[tuple[bool, bytes]]:
    """Return payloads of at most `limit` bytes, each with whether it begins a key frame round.

    Frames of one log message are kept together where the limit allows it. A larger frame is a payload of its own.
    """
    payloads: list[tuple[bool, bytes]] = []
    batch: list[bytes] = []
    position = Position(0)
    capacity = free = limit - MAX_ENVELOPE - 1  # one byte precedes the frames of a batch

    def flush(*, is_key: bool = False) -> None:
        nonlocal free
        free = capacity
        if batch:
            payloads.append((is_key, encode_envelope(epoch, position, join(batch))))
            batch.clear()

    for message in messages:
        if message.size > free:
            flush()
        if message.size <= free and not message.has_round and len(batch) + len(message.frames) <= MAX_FRAMES:
            batch += message.frames
            position = message.end
            free -= message.size
            continue
        for frame, after_frame in message.items():
            is_key = begins_round(frame)
            if is_key or size_in_batch(frame) > free or len(batch) == MAX_FRAMES:
                flush()
            batch.append(frame)
            position = after_frame
            free -= size_in_batch(frame)
            if is_key:
                flush(is_key=True)
    flush()
    return payloads


class _ChannelAppender(NamedTuple):
    """The writer of one channel and its subjects."""

    writer: FencedWriter
    key_subject: str
    data_subject: str


class ChannelWriter:
    """Stores the messages that a `Translation` produces."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.topic = topic
        self._broker = broker
        self._appenders: dict[tuple[str, str], _ChannelAppender] = {}
        self._warnings = RetryWarnings(_log, lambda: f"cannot write channels of topic {topic}")
        self._failure: TransportError | None = None

    def set_last_offsets(self, class_id: str, offsets: Mapping[str, int]) -> None:
        """Set the last offset of the channels of a class, by publisher; the first append to each is fenced by it."""
        for publisher, offset in offsets.items():
            self._open(class_id, publisher, offset)

    def last(self, class_id: str, publisher: str) -> int:
        """Return the offset of the last message of a channel; 0 if there is none."""
        appender = self._appenders.get((class_id, publisher))
        return appender.writer.last if appender is not None else 0

    async def write(self, messages: Sequence[ChannelMessage]) -> None:
        """Store messages, those of one channel in order. Retries while the broker is unavailable."""
        queues: dict[tuple[str, str], list[ChannelMessage]] = {}
        for message in messages:
            queues.setdefault((message.class_id, message.publisher), []).append(message)
        if self._failure is None:
            await self._write_queues(deque(queues.items()))
        if self._failure is not None:
            raise self._failure

    async def _write_queues(self, queues: deque[tuple[tuple[str, str], list[ChannelMessage]]]) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(MAX_CONCURRENT, len(queues))):
                    group.create_task(self._write_channels(queues))
        except* TransportError:
            pass  # the first one is in `_failure`

    async def _write_channels(self, queues: deque[tuple[tuple[str, str], list[ChannelMessage]]]) -> None:
        try:
            while queues:
                channel, messages = queues.popleft()
                writer, key_subject, data_subject = self._appenders.get(channel) or self._open(*channel, 0)
                for message in messages:
                    await writer.append(key_subject if message.is_key else data_subject, message.payload)
        except TransportError as failure:
            self._failure = self._failure or failure
            raise

    def _open(self, class_id: str, publisher: str, last: int) -> _ChannelAppender:
        writer = FencedWriter(
            self._broker,
            channel_log_of(self.topic),
            channel_subjects(self.topic, class_id, publisher),
            last=last,
            superseded_error=self._superseded_error,
            on_retry=self._warnings,
        )
        key_subject = channel_key_subject(self.topic, class_id, publisher)
        data_subject = channel_data_subject(self.topic, class_id, publisher)
        appender = self._appenders[class_id, publisher] = _ChannelAppender(writer, key_subject, data_subject)
        return appender

    def _superseded_error(self, pattern: str) -> Superseded:
        return Superseded("another translator has written to the channel", topic=self.topic, channel=pattern)
