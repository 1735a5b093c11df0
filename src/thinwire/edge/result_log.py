"""Stored results of an edge topic: the result log, and the position in the input log.

Results are appended by a `FencedWriter`, so a host that lost the topic's lease is refused. Each result contains the
offset of its input message, and the next host resumes after the last one: a message may be processed twice, its result
is stored once.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass

from thinwire.brokers.protocol import NOTHING, Broker, Bucket
from thinwire.edge.edge_documents import EDGE_POSITIONS, edge_log, edge_subject, writer_of
from thinwire.edge.edge_messages import EdgeMessage
from thinwire.errors import Conflict, CorruptFrame, Superseded
from thinwire.topics.document import Document
from thinwire.topics.document_fields import Count
from thinwire.topics.fenced_writer import FencedWriter, RetryWarnings

MAX_IDS = 4096
"""message ids per topic that are remembered to detect duplicates"""
MAX_READ_BACK = 1024
"""results that are read after a takeover to restore their message ids"""
READ_TIMEOUT = 10.0

_log = logging.getLogger("thinwire.edge")


class ResultWriter:
    """Appends the results of one topic and remembers the ids of processed messages."""

    def __init__(self, broker: Broker, topic: str, output: str) -> None:
        self.log, self.subject = edge_log(output), edge_subject(output, writer_of(topic))
        self._pattern = edge_subject(output)
        self._broker = broker
        self._ids: OrderedDict[str, None] = OrderedDict()
        self._writer = FencedWriter(
            broker,
            self.log,
            self.subject,
            superseded_error=lambda _: Superseded("another host has written results", topic=topic),
            on_retry=RetryWarnings(_log, lambda: f"cannot write results of topic {topic}"),
            always_fenced=True,
        )

    async def open(self) -> int:
        """Restore the message ids of the last results; return the input offset of the last one, 0 if there is none."""
        await self._broker.ensure_log(self.log, [self._pattern])
        newest = await self._broker.last(self.log, self.subject)
        if newest is None:
            return 0
        last = self._writer.last = newest.offset
        origin = 0
        reader = await self._broker.read(self.log, first=max(1, last - MAX_READ_BACK + 1), subjects=[self.subject])
        try:
            while (stored := await reader.next(timeout=READ_TIMEOUT)) is not None:
                reader.done(stored.offset)
                with suppress(CorruptFrame):  # not written by an edge host
                    result = EdgeMessage.decode(stored.payload)
                    origin = max(origin, result.origin)
                    self.remember(result.id)
                if stored.offset >= last:
                    break
        finally:
            await reader.close()
        return origin

    def has_processed(self, identity: str) -> bool:
        """Return whether a message with this id is among the last `MAX_IDS` processed ones."""
        return identity in self._ids

    def remember(self, identity: str) -> None:
        """Record that a message with this id was processed."""
        self._ids[identity] = None
        while len(self._ids) > MAX_IDS:
            self._ids.popitem(last=False)

    async def store(self, result: EdgeMessage) -> None:
        """Append a result. Raises `Superseded` if another host has written one."""
        await self._writer.append(self.subject, result.encode())


@dataclass(frozen=True)
class PositionDocument(Document):
    """The input offset up to which a topic is processed, and the lease epoch under which it was written."""

    offset: Count = 0
    epoch: Count = 0


class EdgePosition:
    """The position of one topic. Writes are fenced by bucket revision and epoch, so a former holder cannot reset it."""

    _bucket: Bucket

    def __init__(self, broker: Broker, topic: str, epoch: int) -> None:
        self.topic = topic
        self.epoch = epoch
        self.offset = 0
        self._broker = broker
        self._revision = NOTHING
        self._stored = -1

    @property
    def is_open(self) -> bool:
        return self._stored >= 0

    async def open(self, processed: int) -> None:
        """Load the position and write it under this epoch; from then on former holders are refused.

        processed: input offset of the last stored result
        """
        self._bucket = await self._broker.bucket(EDGE_POSITIONS)
        entry = await self._bucket.get(self.topic)
        found = PositionDocument()
        if entry is not None and entry.value is not None:
            found, self._revision = PositionDocument.decode(entry.value), entry.revision
        if found.epoch > self.epoch:
            raise Superseded(topic=self.topic, epoch=self.epoch, newer=found.epoch)
        self.offset = max(processed, found.offset)
        await self.store()

    async def store(self) -> None:
        """Write the position if it has changed. Raises `Superseded` if another host has written it."""
        offset = self.offset
        if offset == self._stored:
            return
        value = PositionDocument(offset, self.epoch).encode()
        try:
            self._revision = await self._bucket.put(self.topic, value, revision=self._revision)
        except Conflict:
            entry = await self._bucket.get(self.topic)
            # After a lost acknowledgement the value is stored and only its revision is unknown.
            if entry is None or entry.value != value:
                raise Superseded(topic=self.topic, epoch=self.epoch) from None
            self._revision = entry.revision
        self._stored = offset
