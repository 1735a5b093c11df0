"""The recorder: logs of topics into a recording, as they grow.

A recording goes on where it ended, however it ended: every message is copied once, under its own offset. What the
broker no longer has when it is asked for is a gap, and is named.

How far the recording of a topic is.

>>> copied = RecordingResult("rooms", since=5, last=0, end=9)
>>> copied.note(Stored(5, "rooms.p1.k", b"...", 0.0))
>>> copied.note(Stored(9, "rooms.p1.d", b".", 0.0))
(6, 8)
>>> copied.messages, copied.bytes, copied.behind, copied.gaps
(2, 4, 0, [(6, 8)])

What must be known to read a topic's log, taken from the broker's buckets.

Where the recording of a topic begins, and whether it may go on at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from thinwire.brokers.protocol import Broker, Bucket, LogReader, Span, Stored
from thinwire.brokers.recording import RecordingWriter, open_recording
from thinwire.errors import BrokerUnavailable, ConfigError, Conflict, UnknownLog, UnknownTopic
from thinwire.topics import topic_settings as keys
from thinwire.topics.checkpoint_store import index_key, read_index
from thinwire.topics.dictionary_store import MAX_CHAIN, parent_in
from thinwire.topics.log_position import LogSelection
from thinwire.topics.log_seek import last_keys
from thinwire.topics.names import (
    CHECKPOINTS,
    DICTIONARIES,
    FACTS,
    REGISTRY,
    check_topic,
    log_of,
    publisher_in,
    publisher_subjects,
)
from thinwire.topics.topic_settings import config_key, topic_key
from thinwire.wire import bindings_in


@dataclass
class RecordingResult:
    """What was copied of a topic in this run.

    since: the offset it began with; last: the last one recorded, in this run or before, 0 for none
    end: the last one the broker had when it was asked last
    gaps: first and last offsets of what the broker no longer had
    """

    topic: str
    since: int
    last: int
    end: int
    messages: int = 0
    bytes: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)

    @property
    def behind(self) -> int:
        """Messages at the broker that are still to be copied."""
        return max(0, self.end - max(self.last, self.since - 1))

    def note(self, stored: Stored) -> tuple[int, int] | None:
        """A message was copied; the gap before it, where there is one."""
        expected = self.last + 1 if self.last else self.since
        self.last = stored.offset
        self.end = max(self.end, stored.offset)
        self.messages += 1
        self.bytes += len(stored.payload)
        if stored.offset == expected:
            return None
        self.gaps.append((expected, stored.offset - 1))
        return self.gaps[-1]


ATTEMPTS = 5
"""how often checkpoints are read again because somebody changed them meanwhile"""


async def put_documents(broker: Broker, out: RecordingWriter, topic: str) -> None:
    """Record the schemas, the settings and the facts of a topic, as they are now."""
    registry = await broker.bucket(REGISTRY)
    for pattern in (f"{keys.SCHEMA}.{topic}.*", topic_key(topic), config_key(topic)):
        await _put_all(out, REGISTRY, registry, pattern)
    await _put_all(out, FACTS, await broker.bucket(FACTS), f"{topic}.*")


async def put_dictionaries(broker: Broker, out: RecordingWriter, hashes: Collection[bytes]) -> list[bytes]:
    """Record dictionaries, each with all its pieces, and those that they are told as changes of; the ones that the
    broker has."""
    found: list[bytes] = []
    bucket = await broker.bucket(DICTIONARIES) if hashes else None
    for hash in hashes:
        assert bucket is not None
        if await _put_line(out, bucket, hash):
            found.append(hash)
    return found


async def _put_line(out: RecordingWriter, bucket: Bucket, hash: bytes) -> int:
    """Record a dictionary, the one it is a change of, and so on; how many there were."""
    for number in range(MAX_CHAIN):
        entry = await bucket.get(hash.hex()) if hash else None
        if entry is None or entry.value is None:
            return number
        out.put_document(DICTIONARIES, entry.key, entry.value)
        await _put_all(out, DICTIONARIES, bucket, f"{hash.hex()}.*")
        hash = parent_in(entry.value)
    return MAX_CHAIN


async def put_checkpoints(broker: Broker, out: RecordingWriter, topic: str) -> None:
    """Record the checkpoints of a topic.

    The index comes last, when all it tells of is there: while pieces are read, others may throw old ones away.
    """
    bucket = await broker.bucket(CHECKPOINTS)
    for _ in range(ATTEMPTS):
        entry = await bucket.get(index_key(topic))
        if entry is None or entry.value is None:
            return
        complete = [one for one in read_index(topic, entry.value) if one.complete]
        pieces = [key for one in complete for part in one.parts.values() for key in one.keys(part)]
        if all([await _put_one(out, CHECKPOINTS, bucket, key) for key in pieces]):
            out.put_document(CHECKPOINTS, entry.key, entry.value)
            return
    raise Conflict("others keep changing the checkpoints", topic=topic, attempts=ATTEMPTS)


async def _put_all(out: RecordingWriter, name: str, bucket: Bucket, pattern: str) -> None:
    for entry in await bucket.entries(pattern):
        if entry.value is not None:
            out.put_document(name, entry.key, entry.value)


async def _put_one(out: RecordingWriter, name: str, bucket: Bucket, key: str) -> bool:
    entry = await bucket.get(key)
    if entry is None or entry.value is None:
        return False
    out.put_document(name, key, entry.value)
    return True


Start = Literal["earliest", "latest"] | int | datetime


async def beginning(broker: Broker, topic: str, start: Start, span: Span) -> int:
    """The offset to begin with: what comes from the place asked for on shall be readable."""
    if start == "earliest":
        return span.first
    if isinstance(start, datetime):
        place = await broker.offset_at(log_of(topic), start.timestamp())
    else:
        place = max(start, span.first) if isinstance(start, int) else span.last + 1
    return await last_keys(broker, LogSelection(topic), await _speakers(broker, topic, place), place)


async def check_same(broker: Broker, topic: str, span: Span, recorded: Stored) -> None:
    """Is the log at the broker the one that was recorded, or another that was begun under its name?"""
    there = await broker.last(log_of(topic), ">", up_to=recorded.offset)
    differs = there is not None and there.offset == recorded.offset and there[:3] != recorded[:3]
    if differs or span.last < recorded.offset:
        way = "the log at the broker is not the one that was recorded, it was begun anew: choose another folder"
        raise ConfigError(way, topic=topic, recorded_up_to=recorded.offset, log_ends_at=span.last)


async def _speakers(broker: Broker, topic: str, place: int) -> set[str]:
    """The publishers that said something from `place` on, or that the registry knows to be there."""
    track, registry = LogSelection(topic), await broker.bucket(REGISTRY)
    living = {keys.parse(entry.key).name for entry in await registry.entries(f"{keys.PUBLISHER}.{topic}.*")}
    for name in map(publisher_in, await broker.subjects(track.log, track.keys())):
        newest = await broker.last(track.log, track.subjects(name))
        if newest is not None and newest.offset >= place:
            living.add(name)
    return living


PULSE = 1.0
"""seconds after which what was read is in the files, whatever happens to this process"""
DOCUMENTS = 10.0
"""seconds between two looks at the documents: a schema may come while its topic is recorded"""
AHEAD = 1_024
"""messages read ahead"""


class Recorder:
    """Records some topics: `open`, `copy`, and `put_documents` once more at the end.

    checkpoints: record the checkpoints of the topics as well; a reader begins in the middle at less cost then
    tell: called with a sentence for people
    copied: how far each topic is
    """

    def __init__(
        self,
        broker: Broker,
        out: RecordingWriter,
        topics: Sequence[str],
        *,
        checkpoints: bool = False,
        tell: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self.topics = [check_topic(topic) for topic in dict.fromkeys(topics)]
        self.checkpoints = checkpoints
        self.copied: dict[str, RecordingResult] = {}
        self._broker, self._out, self._tell = broker, out, tell
        self._bound: set[bytes] = set()
        """the dictionaries that messages name and that are not recorded yet"""

    async def open(self, start: Start = "earliest") -> None:
        """Find out where every topic begins, or goes on; record what is known of it."""
        await open_logs(self._broker, self.topics)
        for topic in self.topics:
            self.copied[topic] = await self._place(topic, start)
        await self.put_documents()

    async def copy(self, *, until_caught_up: bool = False) -> None:
        """Copy messages as they come, until cancelled; or everything that is there now."""
        keeping = asyncio.create_task(self._keep())
        tasks = {keeping, *(asyncio.create_task(self._copy(topic, until_caught_up)) for topic in self.topics)}
        try:
            pending = tasks
            while pending != {keeping}:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def put_documents(self) -> None:
        """Record the documents as they are now."""
        for topic in self.topics:
            await put_documents(self._broker, self._out, topic)
            if self.checkpoints:
                await put_checkpoints(self._broker, self._out, topic)
        self._bound -= set(await put_dictionaries(self._broker, self._out, list(self._bound)))
        self._out.flush()

    async def _place(self, topic: str, start: Start) -> RecordingResult:
        log, span = log_of(topic), await self._broker.span(log_of(topic))
        self._out.last(log)  # finishes what a recorder that was killed left open
        with open_recording(self._out.path) as recording:
            recorded = recording.last(log, ">")
        if recorded is None:
            return RecordingResult(topic, await beginning(self._broker, topic, start, span), 0, span.last)
        await check_same(self._broker, topic, span, recorded)
        self._tell(f"{topic}: goes on after offset {recorded.offset:,}")
        return RecordingResult(topic, recorded.offset + 1, recorded.offset, span.last)

    async def _copy(self, topic: str, until_caught_up: bool) -> None:
        copied, log = self.copied[topic], log_of(topic)
        end = copied.end if until_caught_up else None
        if end is not None and copied.behind == 0:
            return
        reader = await self._broker.read(log, first=copied.since, limit=AHEAD)
        try:
            while end is None or copied.last < end:
                stored = await reader.next(PULSE)
                if stored is not None:
                    self._take(copied, stored, reader)
                elif end is not None and (await self._broker.span(log)).first > end:
                    return  # what was awaited has left the log meanwhile
        finally:
            await reader.close()

    def _take(self, copied: RecordingResult, stored: Stored, reader: LogReader) -> None:
        self._out.append(log_of(copied.topic), stored)
        self._bound.update(binding.hash for binding in bindings_in(stored.payload))
        gap = copied.note(stored)
        if gap is not None:
            self._tell(f"{copied.topic}: offsets {gap[0]:,} to {gap[1]:,} are no longer in the log")
        reader.done(stored.offset)

    async def _keep(self) -> None:
        """Now and then, write what was read, see how far the log is, and look for new documents."""
        loop = asyncio.get_running_loop()
        due = loop.time() + DOCUMENTS
        while True:
            await asyncio.sleep(PULSE)
            self._out.flush()
            with suppress(BrokerUnavailable, Conflict):  # the log is read on when the broker is back
                for copied in self.copied.values():
                    copied.end = max(copied.end, (await self._broker.span(log_of(copied.topic))).last)
                if loop.time() >= due:
                    await self.put_documents()
                    due = loop.time() + DOCUMENTS


async def open_logs(broker: Broker, topics: Sequence[str]) -> None:
    """Refuse topics that nobody knows.

    A topic has a log once somebody published or subscribed; one that is only registered gets it now.
    """
    for topic in topics:
        try:
            await broker.span(log_of(check_topic(topic)))
        except UnknownLog:
            if await (await broker.bucket(REGISTRY)).get(topic_key(topic)) is None:
                raise UnknownTopic("and nothing was ever published to it", topic=topic) from None
            await broker.open_log(log_of(topic), [publisher_subjects(topic)])
