"""Writes the messages of a topic's channels: many channels concurrently, one message in flight per channel.

Every channel has its own `FencedWriter`, so a translator that lost its lease is refused with `Superseded` by each of
them. The first failure stops all channels: the translation of the topic ends and starts again under a new epoch.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence

from thinwire.brokers.protocol import Broker
from thinwire.errors import Superseded, TransportError
from thinwire.services.translator.frame_buffer import ChannelMessage
from thinwire.topics.fenced_writer import FencedWriter, RetryWarnings
from thinwire.topics.names import channel_data_subject, channel_key_subject, channel_log_of, channel_subjects

MAX_CONCURRENT = 32
"""channels that are written concurrently"""

_log = logging.getLogger("thinwire.translator")


class ChannelWriter:
    """Stores the messages that a `Translation` produces."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.topic = topic
        self._broker = broker
        self._writers: dict[tuple[str, str], FencedWriter] = {}
        self._warnings = RetryWarnings(_log, lambda: f"cannot write channels of topic {topic}")
        self._failure: TransportError | None = None

    def set_last_offsets(self, class_id: str, offsets: Mapping[str, int]) -> None:
        """Set the last offset of the channels of a class, by publisher; the first append to each is fenced by it."""
        for publisher, offset in offsets.items():
            self._writers[class_id, publisher] = self._new_writer(class_id, publisher, offset)

    def last(self, class_id: str, publisher: str) -> int:
        """Return the offset of the last message of a channel; 0 if there is none."""
        return self._writer(class_id, publisher).last

    async def write(self, messages: Sequence[ChannelMessage]) -> None:
        """Store messages, those of one channel in order. Retries while the broker is unavailable."""
        queues: dict[tuple[str, str], list[ChannelMessage]] = {}
        for message in messages:
            queues.setdefault((message.class_id, message.publisher), []).append(message)
        if self._failure is None and queues:
            await self._write_all(deque(queues.values()))
        if self._failure is not None:
            raise self._failure

    async def _write_all(self, queues: deque[list[ChannelMessage]]) -> None:
        tasks = [asyncio.ensure_future(self._work(queues)) for _ in range(min(MAX_CONCURRENT, len(queues)))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, TransportError):
                self._failure = self._failure or result
            elif isinstance(result, Exception):
                raise result

    async def _work(self, queues: deque[list[ChannelMessage]]) -> None:
        while queues:
            for message in queues.popleft():
                subject = channel_key_subject if message.key else channel_data_subject
                writer = self._writer(message.class_id, message.publisher)
                await writer.append(subject(self.topic, message.class_id, message.publisher), message.payload)

    def _writer(self, class_id: str, publisher: str) -> FencedWriter:
        writer = self._writers.get((class_id, publisher))
        if writer is None:
            writer = self._writers[class_id, publisher] = self._new_writer(class_id, publisher, 0)
        return writer

    def _new_writer(self, class_id: str, publisher: str, last: int) -> FencedWriter:
        return FencedWriter(
            self._broker,
            channel_log_of(self.topic),
            channel_subjects(self.topic, class_id, publisher),
            last=last,
            superseded=self._superseded,
            on_retry=self._warnings,
        )

    def _superseded(self, pattern: str) -> Superseded:
        return Superseded("another translator has written to the channel", topic=self.topic, channel=pattern)
