"""How a class is served: one document a class, written by the translator of its topic alone.

    no document    the class reads the log of the topic
    "log"          so it does, for the reason given: the log is what it asked for
    "open"         it has a channel, which tells everything after input offset `since`
    "refused"      it would have a channel, and there are too many; the reason says what to do. It reads the log

>>> document = ChannelDocument("building.rooms", "00ff00ff00ff00ff", "open", epoch=3, since=120)
>>> ChannelDocument.decode(document.encode()) == document, document.key
(True, 'building.rooms.00ff00ff00ff00ff')
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from thinwire.brokers.protocol import ANY, NOTHING, Bucket, BucketEntry
from thinwire.errors import Conflict, RegistryError, Superseded
from thinwire.topics import document_validation as checks

State = Literal["open", "log", "refused"]


@dataclass(frozen=True)
class ChannelDocument:
    """How one class of a topic is served.

    name: the class; epoch: the translator's, of the last change; since: what is told comes after this input offset
    """

    topic: str
    name: str
    state: State
    epoch: int = 0
    since: int = 0
    reason: str = ""

    def __post_init__(self) -> None:
        checks.topic(self.topic)
        checks.check_token("name", self.name)
        checks.text("state", self.state, "open", "log", "refused")
        checks.count("epoch", self.epoch)
        checks.count("since", self.since)
        checks.text("reason", self.reason)

    @classmethod
    def decode(cls, value: bytes) -> ChannelDocument:
        """The document as it is stored; a `RegistryError` names the field where it cannot be one."""
        return checks.build(cls, checks.read_object(value))

    @property
    def key(self) -> str:
        return channel_key(self.topic, self.name)

    def encode(self) -> bytes:
        return checks.write_object(asdict(self))


def channel_key(topic: str, class_id: str) -> str:
    """Where it says how a class is served."""
    return f"{topic}.{class_id}"


async def channel_documents(bucket: Bucket, topic: str) -> dict[str, ChannelDocument]:
    """How each class of a topic is served; what cannot be read is left out."""
    shelf = ChannelStore(bucket, topic)
    await shelf.load()
    return shelf.documents


class ChannelStore:
    """The documents of one topic's classes, as their only writer keeps them.

    A translator that was paused may write once more; so each write insists on what was read, and one that finds a
    later epoch ends with `Superseded`.
    """

    def __init__(self, bucket: Bucket, topic: str) -> None:
        self.topic = topic
        self.documents: dict[str, ChannelDocument] = {}
        self._bucket = bucket
        self._revisions: dict[str, int] = {}

    async def load(self) -> None:
        """Read what there is; what cannot be read is as good as nothing, and will be replaced."""
        self.documents.clear()
        self._revisions.clear()
        for entry in await self._bucket.entries(channel_key(self.topic, "*")):
            self._take(entry)

    async def write_document(self, document: ChannelDocument) -> None:
        """Say how a class is served, if that is news."""
        if self.documents.get(document.name) == document:
            return
        value = document.encode()
        try:
            revision = await self._bucket.put(document.key, value, revision=self._revision(document.name))
        except Conflict:
            await self._look(document.name, document.epoch)
            revision = await self._bucket.put(document.key, value, revision=self._revision(document.name))
        self._take(BucketEntry(document.key, value, revision))

    async def forget(self, class_id: str, epoch: int) -> None:
        """Say nothing of a class any more."""
        await self._look(class_id, epoch)
        await self._bucket.delete(channel_key(self.topic, class_id), revision=self._revision(class_id) or ANY)
        self.documents.pop(class_id, None)
        self._revisions.pop(class_id, None)

    async def _look(self, class_id: str, epoch: int) -> None:
        entry = await self._bucket.get(channel_key(self.topic, class_id))
        self.documents.pop(class_id, None)
        self._revisions.pop(class_id, None)
        if entry is not None:
            self._take(entry)
        found = self.documents.get(class_id)
        if found is not None and found.epoch > epoch:
            raise Superseded("a later one says how classes are served", topic=self.topic, epoch=found.epoch)

    def _take(self, entry: BucketEntry) -> None:
        class_id = entry.key.rpartition(".")[2]
        self._revisions[class_id] = entry.revision
        document = _read(entry.value)
        if document is not None and document.key == entry.key:
            self.documents[class_id] = document

    def _revision(self, class_id: str) -> int:
        return self._revisions.get(class_id, NOTHING)


def _read(value: bytes | None) -> ChannelDocument | None:
    try:
        return ChannelDocument.decode(value) if value is not None else None
    except RegistryError:
        return None
