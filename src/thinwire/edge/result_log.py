"""Messages that a function could not process: kept with the reason, for people to look at.

Results on their way: each once, in order, refused where another host has taken the topic over.

Every result insists on being the next under its function's own subject. A host that was paused and wakes up finds that
another has written, and ends; and the last result in the log says which message it was made of, so whoever takes over
goes on behind it: a message may be processed twice, its result is stored once.

How far a topic has been processed, for whoever goes on.

It is written under the epoch of the topic's lease, so that a host that was paused and wakes up cannot turn it back.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from dataclasses import dataclass

from thinwire.brokers.protocol import NOTHING, Broker, Bucket, Retention
from thinwire.edge.edge_documents import Document, EdgeTopic, edge_log, edge_subject, writer_of
from thinwire.edge.edge_messages import Carried
from thinwire.edge.topic_worker import WorkerOutcome
from thinwire.errors import Conflict, CorruptFrame, Superseded, TransportError
from thinwire.topics import document_validation as checks
from thinwire.topics.names import DEAD_LOG, dead_subject

MAX_SHOWN = 16_384
"""characters of a message that are kept"""
MAX_KEPT = 10_000
"""letters that are kept, of all topics together"""
PATIENCE = 5.0

_log = logging.getLogger("thinwire.edge")


class EdgeLetters:
    """The dead letters of one host. Of a topic whose messages stay at their host only the reason leaves it."""

    def __init__(self, broker: Broker, host: str) -> None:
        self.host = host
        self._broker = broker

    async def keep(self, topic: EdgeTopic, offset: int, identity: str, body: bytes, outcome: WorkerOutcome) -> None:
        """Store a message with the reason; where even that fails, say so in the log and go on."""
        letter = {
            "topic": topic.topic,
            "publisher": self.host,
            "error": outcome.kind,
            "reason": "" if topic.near else outcome.body.decode("utf-8", "replace"),
            "offset": offset,
            "id": identity,
            "event": "stays at its host" if topic.near else body.decode("utf-8", "replace")[:MAX_SHOWN],
        }
        try:
            await self._broker.open_log(DEAD_LOG, ["tw.dead.>"], Retention(messages=MAX_KEPT))
            subject = dead_subject(topic.topic)
            await self._broker.append(DEAD_LOG, subject, json.dumps(letter).encode(), timeout=PATIENCE)
        except TransportError as trouble:
            _log.warning("%s: a message that could not be processed was not kept: %s", topic.topic, trouble)


REMEMBERED = 4096
"""ids of a topic that are known again"""
READ_BACK = 1024
"""results that are read to know their ids, after a move"""


class Outlet:
    """Where the results of one topic go."""

    def __init__(self, broker: Broker, topic: str, output: str) -> None:
        self.topic = topic
        self.log, self.subject = edge_log(output), edge_subject(output, writer_of(topic))
        self._pattern = edge_subject(output)
        self._broker = broker
        self._last = NOTHING
        self._known: OrderedDict[str, None] = OrderedDict()

    async def open(self) -> int:
        """Find the last result; the offset of the message that it was made of, 0 where there is none."""
        await self._broker.open_log(self.log, [self._pattern])
        newest = await self._broker.last(self.log, self.subject)
        if newest is None:
            return 0
        self._last = newest.offset
        return await self._read_back(newest.offset)

    def has(self, identity: str) -> bool:
        """Was a message with this id dealt with, as far as is remembered?"""
        return identity in self._known

    def remember(self, identity: str) -> None:
        """A message with this id is dealt with."""
        self._known[identity] = None
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    async def store(self, result: Carried) -> None:
        """Append a result; `Superseded` where another host has written one."""
        try:
            self._last = await self._broker.append(self.log, self.subject, result.encode(), after=self._last)
        except Conflict:
            raise Superseded("another host writes the results", topic=self.topic, epoch=result.epoch) from None

    async def _read_back(self, last: int) -> int:
        """The origin of the last result, with the ids of those before it taken in."""
        origin = 0
        first = max(1, last - READ_BACK + 1)
        reader = await self._broker.read(self.log, first=first, subjects=[self.subject])
        try:
            while (stored := await reader.next(timeout=10.0)) is not None:
                reader.done(stored.offset)
                try:
                    result = Carried.decode(stored.payload)
                    origin = max(origin, result.origin)
                    self.remember(result.id)
                except CorruptFrame:
                    pass  # somebody else's: it tells nothing
                if stored.offset >= last:
                    break
        finally:
            await reader.close()
        return origin


@dataclass(frozen=True)
class PositionDocument(Document):
    """Everything up to this offset is done; the epoch is that of the lease under which it was written."""

    offset: int = 0
    epoch: int = 0

    def __post_init__(self) -> None:
        checks.count("offset", self.offset)
        checks.count("epoch", self.epoch)


class EdgePosition:
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
