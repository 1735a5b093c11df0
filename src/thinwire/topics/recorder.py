"""The recorder: copies topic logs into a recording, with the documents that are needed to decode them.

A recording is continued after the last stored message. Every message is copied once, under its own offset. Messages
that retention removed before they were copied are reported as a gap.

>>> result = RecordingResult("rooms", since=5, last=0, end=9)
>>> result.note(StoredMessage(5, "rooms.p1.k", b"...", 0.0))
>>> result.note(StoredMessage(9, "rooms.p1.d", b".", 0.0))
(6, 8)
>>> result.messages, result.bytes, result.behind, result.gaps
(2, 4, 0, [(6, 8)])
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from thinwire.brokers.protocol import Broker, Bucket, LogReader, Span, StoredMessage
from thinwire.brokers.recording import RecordingWriter, open_recording
from thinwire.errors import BrokerUnavailable, ConfigError, Conflict, UnknownLog, UnknownTopic
from thinwire.topics.checkpoint_store import CheckpointIndex, checkpoint_index_key
from thinwire.topics.dictionary_store import MAX_CHAIN, parent_in
from thinwire.topics.log_selection import LogSelection, newest_messages
from thinwire.topics.names import (
    CHECKPOINTS,
    DICTIONARIES,
    FACTS,
    REGISTRY,
    DocumentKind,
    check_topic,
    config_key,
    keys_of,
    log_of,
    publisher_subjects,
    topic_key,
)
from thinwire.topics.registry_client import publisher_names, topic_document
from thinwire.topics.seeker import find_round_start
from thinwire.wire import bindings_in


@dataclass
class RecordingResult:
    """Progress of one topic.

    since: the first offset of this run; last: the last recorded offset, of this or an earlier run, 0 for none
    end: the last offset of the log at the last check
    gaps: first and last offsets of removed messages
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
        """Messages of the log that are not copied yet."""
        return max(0, self.end - max(self.last, self.since - 1))

    def note(self, stored: StoredMessage) -> tuple[int, int] | None:
        """Record a copied message. Return the gap before it, if there is one."""
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
"""attempts to read checkpoints while they change"""


async def put_documents(broker: Broker, out: RecordingWriter, topic: str) -> None:
    """Record the current schemas, settings and static facts of a topic."""
    registry = await broker.bucket(REGISTRY)
    for pattern in (keys_of(DocumentKind.SCHEMA, topic), topic_key(topic), config_key(topic)):
        await _put_all(out, REGISTRY, registry, pattern)
    await _put_all(out, FACTS, await broker.bucket(FACTS), f"{topic}.*")


async def put_dictionaries(broker: Broker, out: RecordingWriter, hashes: Collection[bytes]) -> list[bytes]:
    """Record dictionaries with their parents. Return the hashes of those that were found at the broker."""
    if not hashes:
        return []
    bucket = await broker.bucket(DICTIONARIES)
    return [hash for hash in hashes if await _put_with_parents(out, bucket, hash)]


async def _put_with_parents(out: RecordingWriter, bucket: Bucket, hash: bytes) -> int:
    """Record a dictionary and its chain of parents. Return how many there are."""
    for number in range(MAX_CHAIN):
        value = await _put_one(out, DICTIONARIES, bucket, hash.hex()) if hash else None
        if value is None:
            return number
        await _put_all(out, DICTIONARIES, bucket, f"{hash.hex()}.*")
        hash = parent_in(value)
    return MAX_CHAIN


async def put_checkpoints(broker: Broker, out: RecordingWriter, topic: str) -> None:
    """Record the checkpoints of a topic.

    The index is recorded after all pieces that it lists, because the translator may delete checkpoints meanwhile.
    """
    bucket = await broker.bucket(CHECKPOINTS)
    for _ in range(ATTEMPTS):
        entry = await bucket.get(checkpoint_index_key(topic))
        if entry is None or entry.value is None:
            return
        complete = [one for one in CheckpointIndex.decode(entry.value).checkpoints if one.complete]
        pieces = [key for one in complete for part in one.parts.values() for key in one.piece_keys(topic, part)]
        missing = [key for key in pieces if await _put_one(out, CHECKPOINTS, bucket, key) is None]
        if not missing:
            out.put_document(CHECKPOINTS, entry.key, entry.value)
            return
    raise Conflict("the checkpoints change faster than they can be read", topic=topic, attempts=ATTEMPTS)


async def _put_all(out: RecordingWriter, name: str, bucket: Bucket, pattern: str) -> None:
    for entry in await bucket.entries(pattern):
        if entry.value is not None:
            out.put_document(name, entry.key, entry.value)


async def _put_one(out: RecordingWriter, name: str, bucket: Bucket, key: str) -> bytes | None:
    """Record a document and return its value; None if there is none."""
    entry = await bucket.get(key)
    if entry is not None and entry.value is not None:
        out.put_document(name, key, entry.value)
    return entry.value if entry is not None else None


Start = Literal["earliest", "latest"] | int | datetime


async def find_start(broker: Broker, topic: str, start: Start, span: Span) -> int:
    """Return the first offset to record, so that all messages from the requested start on can be decoded."""
    if start == "earliest":
        return span.first
    if isinstance(start, datetime):
        offset = await broker.offset_at(log_of(topic), start.timestamp())
    else:
        offset = max(start, span.first) if isinstance(start, int) else span.last + 1
    return await find_round_start(broker, LogSelection(topic), await _publishers(broker, topic, offset), offset)


async def check_same_log(broker: Broker, topic: str, span: Span, recorded: StoredMessage) -> None:
    """Refuse to continue a recording of a log that was deleted and created again."""
    stored = await broker.last(log_of(topic), ">", up_to=recorded.offset)
    differs = stored is not None and stored.offset == recorded.offset and stored != recorded._replace(time=stored.time)
    if differs or span.last < recorded.offset:
        detail = "the log is not the recorded one, it was created again: choose another folder"
        raise ConfigError(detail, topic=topic, recorded_up_to=recorded.offset, log_ends_at=span.last)


async def _publishers(broker: Broker, topic: str, offset: int) -> set[str]:
    """Publishers with messages at or after `offset`, or listed in the registry."""
    newest = await newest_messages(broker, LogSelection(topic))
    active = {name for name, stored in newest.items() if stored.offset >= offset}
    return active | await publisher_names(await broker.bucket(REGISTRY), topic)


FLUSH_INTERVAL = 1.0
"""seconds between two writes to the files"""
DOCUMENTS_INTERVAL = 10.0
"""seconds between two copies of the documents: a schema may be registered while its topic is recorded"""
AHEAD = 1_024
"""messages read ahead, at most"""


class Recorder:
    """Records topics. Call `open`, then `copy`, then `put_documents` for the documents that have changed meanwhile.

    checkpoints: also record checkpoints, which make seeks in the recording shorter
    on_progress: called with a status line
    results: progress by topic
    """

    def __init__(
        self,
        broker: Broker,
        out: RecordingWriter,
        topics: Sequence[str],
        *,
        checkpoints: bool = False,
        on_progress: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.topics = [check_topic(topic) for topic in dict.fromkeys(topics)]
        self.checkpoints = checkpoints
        self.results: dict[str, RecordingResult] = {}
        self._broker, self._out, self._on_progress = broker, out, on_progress
        self._missing_dictionaries: set[bytes] = set()
        """hashes of dictionaries that messages use and that are not recorded yet"""

    async def open(self, start: Start = "earliest") -> None:
        """Find the first offset of every topic and record its documents."""
        await open_logs(self._broker, self.topics)
        for topic in self.topics:
            self.results[topic] = await self._open_topic(topic, start)
        await self.put_documents()

    async def copy(self, *, until_caught_up: bool = False) -> None:
        """Copy messages until cancelled, or up to the current end of the logs."""
        periodic = asyncio.create_task(self._run_periodic_tasks())
        tasks = {periodic, *(asyncio.create_task(self._copy(topic, until_caught_up)) for topic in self.topics)}
        try:
            pending = tasks
            while pending != {periodic}:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def put_documents(self) -> None:
        """Record the current documents."""
        for topic in self.topics:
            await put_documents(self._broker, self._out, topic)
            if self.checkpoints:
                await put_checkpoints(self._broker, self._out, topic)
        recorded = await put_dictionaries(self._broker, self._out, list(self._missing_dictionaries))
        self._missing_dictionaries -= set(recorded)
        self._out.flush()

    async def _open_topic(self, topic: str, start: Start) -> RecordingResult:
        log, span = log_of(topic), await self._broker.span(log_of(topic))
        self._out.last(log)  # called for its side effect: it completes the segment that a killed recorder left open
        with open_recording(self._out.path) as recording:
            recorded = recording.last(log, ">")
        if recorded is None:
            return RecordingResult(topic, await find_start(self._broker, topic, start, span), 0, span.last)
        await check_same_log(self._broker, topic, span, recorded)
        self._on_progress(f"{topic}: continues after offset {recorded.offset:,}")
        return RecordingResult(topic, recorded.offset + 1, recorded.offset, span.last)

    async def _copy(self, topic: str, until_caught_up: bool) -> None:
        result, log = self.results[topic], log_of(topic)
        end = result.end if until_caught_up else None
        if end is not None and result.behind == 0:
            return
        reader = await self._broker.read(log, first=result.since, max_unacknowledged=AHEAD)
        try:
            while end is None or result.last < end:
                stored = await reader.next(FLUSH_INTERVAL)
                if stored is not None:
                    self._record(result, stored, reader)
                elif end is not None and (await self._broker.span(log)).first > end:
                    return  # retention removed the last messages meanwhile
        finally:
            await reader.close()

    def _record(self, result: RecordingResult, stored: StoredMessage, reader: LogReader) -> None:
        self._out.append(log_of(result.topic), stored)
        self._missing_dictionaries.update(binding.hash for binding in bindings_in(stored.payload))
        gap = result.note(stored)
        if gap is not None:
            self._on_progress(f"{result.topic}: offsets {gap[0]:,} to {gap[1]:,} are no longer in the log")
        reader.done(stored.offset)

    async def _run_periodic_tasks(self) -> None:
        """Periodically write files, update the ends of the logs and copy documents."""
        loop = asyncio.get_running_loop()
        due = loop.time() + DOCUMENTS_INTERVAL
        while True:
            await asyncio.sleep(FLUSH_INTERVAL)
            self._out.flush()
            with suppress(BrokerUnavailable, Conflict):  # copying resumes after the outage
                for result in self.results.values():
                    result.end = max(result.end, (await self._broker.span(log_of(result.topic))).last)
                if loop.time() >= due:
                    await self.put_documents()
                    due = loop.time() + DOCUMENTS_INTERVAL


async def open_logs(broker: Broker, topics: Sequence[str]) -> None:
    """Create the missing logs of registered topics. Raise `UnknownTopic` for a topic that has neither.

    Otherwise the first publisher or subscription creates the log of a topic.
    """
    for topic in topics:
        try:
            await broker.span(log_of(check_topic(topic)))
        except UnknownLog:
            if await topic_document(await broker.bucket(REGISTRY), topic) is None:
                raise UnknownTopic("the topic is not registered and has no log", topic=topic) from None
            await broker.ensure_log(log_of(topic), [publisher_subjects(topic)])
