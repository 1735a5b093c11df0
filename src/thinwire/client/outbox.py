"""Batches the frames of a publisher into messages and stores each message once, in order.

Frames are collected for `linger` seconds, until `max_batch` bytes are pending, or while the previous message is in
flight: a slow connection produces larger messages, not more of them. A frame that begins a key frame round is stored
alone under the key subject, which makes the round findable by subject.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress

from thinwire.brokers.protocol import Broker
from thinwire.errors import BrokerUnavailable, NameInUse, ThinwireError, TransportClosed
from thinwire.topics.fenced_writer import FencedWriter, RetryWarnings
from thinwire.topics.names import data_subject, key_subject, log_of, publisher_subjects
from thinwire.wire import begins_round, join

_LENGTH_BYTES = 5
"""maximum size of the length prefix of a frame in a batch; one byte precedes the first of them"""

_log = logging.getLogger("thinwire.client")


class Outbox:
    """Queue of encoded frames, at most `max_pending` bytes, and the task that stores them.

    last: offset of the publisher's last message in the log when the outbox is created; 0 if there is none
    messages: number of stored messages
    failure: the error that stopped the outbox
    has_raised: `failure` has been raised to the caller
    is_blocked: `wait_for_capacity` must be called before `put`: the queue is full, or the outbox has stopped
    """

    def __init__(
        self, broker: Broker, topic: str, publisher: str, *, last: int, linger: float, max_batch: int, max_pending: int
    ) -> None:
        self.topic = topic
        self.publisher = publisher
        self.linger = linger
        self.max_batch = min(max_batch, broker.max_payload)
        self.max_pending = max_pending
        self.messages = 0
        self.failure: ThinwireError | None = None
        self.has_raised = False
        self.is_blocked = False
        self._key_subject = key_subject(topic, publisher)
        self._data_subject = data_subject(topic, publisher)
        self._writer = FencedWriter(
            broker,
            log_of(topic),
            publisher_subjects(topic, publisher),
            last=last,
            superseded_error=lambda _: NameInUse(topic=topic, name=publisher),
            on_retry=RetryWarnings(_log, lambda: f"cannot publish to topic {topic}, {self._size} bytes pending"),
        )
        self._pending: deque[bytes] = deque()
        self._size = 0
        self._flushing = False
        self._has_frames = asyncio.Event()
        self._send_now = asyncio.Event()
        self._has_capacity = asyncio.Event()
        self._empty = asyncio.Event()
        self._has_capacity.set()
        self._empty.set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the task that stores frames."""
        self._task = asyncio.create_task(self._send_all(), name=f"outbox {self.topic} {self.publisher}")

    @property
    def last(self) -> int:
        """Offset of the publisher's last message in the log; 0 if there is none."""
        return self._writer.last

    def put(self, frames: list[bytes]) -> None:
        """Add frames to the queue."""
        if not frames:
            return
        self._pending.extend(frames)
        self._size += sum(map(len, frames))
        self._empty.clear()
        self._has_frames.set()
        if self._size >= self.max_batch:
            self._send_now.set()
        if self._size >= self.max_pending and self.failure is None:
            self.is_blocked = True
            self._has_capacity.clear()

    async def wait_for_capacity(self) -> None:
        """Wait until the queue is below `max_pending` bytes. Raises the error that stopped the outbox."""
        await self._wait_unless_failed(self._has_capacity)

    async def wait_until_stored(self, timeout: float | None = None) -> None:
        """Wait until all frames are stored. Raises the error that stopped the outbox."""
        self._flushing = True
        self._send_now.set()
        try:
            async with asyncio.timeout(timeout):
                await self._wait_unless_failed(self._empty)
        except TimeoutError:
            error = self._writer.error
            kind = type(error) if error is not None else BrokerUnavailable
            reason = f": {error.detail}" if error is not None and error.detail else ""
            raise kind(f"not all frames are stored{reason}", topic=self.topic, waited=timeout) from None
        finally:
            self._flushing = False

    async def close(self) -> None:
        """Stop sending and discard pending frames."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._fail(TransportClosed())

    async def _wait_unless_failed(self, event: asyncio.Event) -> None:
        if self.failure is None:
            await event.wait()
        if self.failure is not None:
            self.has_raised = True
            raise self.failure

    def _fail(self, failure: ThinwireError) -> None:
        if self.failure is None:
            self.failure = failure
        self.is_blocked = True
        self._has_capacity.set()
        self._empty.set()

    async def _send_all(self) -> None:
        try:
            while True:
                await self._has_frames.wait()
                if self.linger and not self._flushing:
                    await self._linger()
                await self._send_message()
        except ThinwireError as failure:
            self._fail(failure)

    async def _linger(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self.linger):
                await self._send_now.wait()

    async def _send_message(self) -> None:
        """Remove the frames of one message from the queue and store them."""
        first = self._pending.popleft()
        self._size -= len(first)
        if begins_round(first):
            subject, payload = self._key_subject, first
        else:
            subject, payload = self._data_subject, self._batch(first) if self._pending else first
        if not self._pending:
            self._has_frames.clear()
        if self._size < self.max_batch and not self._flushing:
            self._send_now.clear()
        await self._writer.append(subject, payload)
        self.messages += 1
        if self.is_blocked and self._size < self.max_pending:
            self.is_blocked = False
            self._has_capacity.set()
        if not self._pending:
            self._empty.set()

    def _batch(self, first: bytes) -> bytes:
        """Remove the frames that fit into a message after its first one; return the message."""
        frames, size = [first], 1 + _LENGTH_BYTES + len(first)
        while self._pending and size + _LENGTH_BYTES + len(self._pending[0]) <= self.max_batch:
            if begins_round(self._pending[0]):
                break
            frame = self._pending.popleft()
            self._size -= len(frame)
            size += _LENGTH_BYTES + len(frame)
            frames.append(frame)
        return first if len(frames) == 1 else join(frames)
