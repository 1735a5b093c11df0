"""Channel documents: how each demand class of a topic is served. Only the topic's translator writes them.

    no document    the class reads the topic log
    "log"          the class reads the topic log, for the given reason
    "open"         the class has a channel with all events after input offset `since`
    "refused"      the class reads the topic log because the topic has too many channels; the reason gives advice

>>> document = ChannelDocument("building.rooms", "00ff00ff00ff00ff", "open", epoch=3, since=120)
>>> ChannelDocument.decode(document.encode()) == document, document.key
(True, 'building.rooms.00ff00ff00ff00ff')
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from thinwire.brokers.protocol import ANY, NOTHING, Bucket, BucketEntry
from thinwire.errors import Conflict, RegistryError, Superseded
from thinwire.topics.document import Document
from thinwire.topics.document_fields import Count, Text, Token, Topic

State = Literal["open", "log", "refused"]


@dataclass(frozen=True)
class ChannelDocument(Document):
    """How one demand class of a topic is served.

    name: id of the class
    epoch: epoch of the translator at the last change
    since: input offset after which the channel is complete
    """

    topic: Topic
    name: Token
    state: State
    epoch: Count = 0
    since: Count = 0
    reason: Text = ""

    @property
    def key(self) -> str:
        return channel_key(self.topic, self.name)


def channel_key(topic: str, class_id: str) -> str:
    """Key of the channel document of a class."""
    return f"{topic}.{class_id}"


async def channel_documents(bucket: Bucket, topic: str) -> dict[str, ChannelDocument]:
    """The valid channel documents of a topic by class."""
    store = ChannelStore(bucket, topic)
    await store.load()
    return store.by_class


class ChannelStore:
    """The channel documents of one topic, as the topic's translator reads and writes them.

    A translator that was paused can write after another one took the topic over. Each write therefore requires the
    revision that was read, and raises `Superseded` if the stored document has a later epoch.
    """

    def __init__(self, bucket: Bucket, topic: str) -> None:
        self.topic = topic
        self.by_class: dict[str, ChannelDocument] = {}
        self._bucket = bucket
        self._revisions: dict[str, int] = {}

    async def load(self) -> None:
        """Read all documents. Invalid ones are ignored; the next write replaces them."""
        self.by_class.clear()
        self._revisions.clear()
        for entry in await self._bucket.entries(channel_key(self.topic, "*")):
            self._apply(entry)

    async def write_document(self, document: ChannelDocument) -> None:
        """Store a document if it differs from the stored one."""
        if self.by_class.get(document.name) == document:
            return
        value = document.encode()
        try:
            revision = await self._bucket.put(document.key, value, revision=self._revisions.get(document.name, NOTHING))
        except Conflict:
            await self._refresh(document.name, document.epoch)
            revision = await self._bucket.put(document.key, value, revision=self._revisions.get(document.name, NOTHING))
        self._apply(BucketEntry(document.key, value, revision))

    async def delete(self, class_id: str, epoch: int) -> None:
        """Delete the document of a class."""
        await self._refresh(class_id, epoch)
        await self._bucket.delete(channel_key(self.topic, class_id), revision=self._revisions.get(class_id, ANY))
        self._discard(class_id)

    async def _refresh(self, class_id: str, epoch: int) -> None:
        entry = await self._bucket.get(channel_key(self.topic, class_id))
        self._discard(class_id)
        if entry is not None:
            self._apply(entry)
        found = self.by_class.get(class_id)
        if found is not None and found.epoch > epoch:
            raise Superseded("the channel document has a later epoch", topic=self.topic, epoch=found.epoch)

    def _apply(self, entry: BucketEntry) -> None:
        class_id = entry.key.rpartition(".")[2]
        self._revisions[class_id] = entry.revision
        document = read_channel_document(entry.value)
        if document is not None and document.key == entry.key:
            self.by_class[class_id] = document

    def _discard(self, class_id: str) -> None:
        self.by_class.pop(class_id, None)
        self._revisions.pop(class_id, None)


def read_channel_document(value: bytes | None) -> ChannelDocument | None:
    """Return a stored document; None if there is none or it is invalid."""
    try:
        return ChannelDocument.decode(value) if value is not None else None
    except RegistryError:
        return None
