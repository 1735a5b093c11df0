"""How far a topic has been processed, for whoever goes on.

It is written under the epoch of the topic's lease, so that a host that was paused and wakes up cannot turn it back.
"""

from __future__ import annotations

from dataclasses import dataclass

from thinwire.brokers.protocol_broker import NOTHING, Bucket
from thinwire.edge.edge_documents import Document
from thinwire.errors import Conflict, Superseded
from thinwire.topics import document_validation as checks


@dataclass(frozen=True)
class PositionDocument(Document):
    """Everything up to this offset is done; the epoch is that of the lease under which it was written."""

    offset: int = 0
    epoch: int = 0

    def __post_init__(self) -> None:
        checks.count("offset", self.offset)
        checks.count("epoch", self.epoch)


class Position:
    """The position of one topic, as one holder of its lease keeps it."""

    def __init__(self, bucket: Bucket, topic: str, epoch: int) -> None:
        self.topic = topic
        self.epoch = epoch
        self.offset = 0
        self._bucket = bucket
        self._revision = NOTHING
        self._stored = -1

    async def open(self, least: int) -> None:
        """Take it over: from here on earlier holders are refused. `least` is known to be done from elsewhere."""
        entry = await self._bucket.get(self.topic)
        found = PositionDocument()
        if entry is not None and entry.value is not None:
            found, self._revision = PositionDocument.decode(entry.value), entry.revision
        if found.epoch > self.epoch:
            raise Superseded(topic=self.topic, epoch=self.epoch, newer=found.epoch)
        self.offset = max(least, found.offset)
        await self.store()

    async def store(self) -> None:
        """Write it, where it has changed; `Superseded` if somebody else has."""
        offset = self.offset
        if offset == self._stored:
            return
        value = PositionDocument(offset, self.epoch).encode()
        try:
            self._revision = await self._bucket.put(self.topic, value, revision=self._revision)
        except Conflict:
            entry = await self._bucket.get(self.topic)
            # an answer that was lost: it is stored, only its revision is not known
            if entry is None or entry.value != value:
                raise Superseded(topic=self.topic, epoch=self.epoch) from None
            self._revision = entry.revision
        self._stored = offset
