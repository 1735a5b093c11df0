"""Logs for tests of tables: messages of real publishers in memory, and the rows of a reader from the beginning."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from thinwire.brokers.protocol import Block, Span, StoredMessage
from thinwire.brokers.subjects import matches
from thinwire.codec import StreamConfig, StreamDecoder, StreamEncoder
from thinwire.codec.interned_values import source_text
from thinwire.errors import DataLoss, PeerFault, UnknownLog
from thinwire.schema import Event, Property, Schema
from thinwire.topics.log_tables.log_table import LogTable
from thinwire.topics.names import REGISTRY, data_subject, key_subject, log_of, publisher_in, schema_key, topic_key
from thinwire.topics.topic_documents import TopicDocument, encode
from thinwire.wire import Request, begins_round, join

TOPIC = "building.rooms"


def rooms(version: int = 1, *more: Property) -> Schema:
    properties = [
        Property("time", "timestamp", "header", form="epoch"),
        Property("room", "string", "dimension"),
        Property("t", "number", step="0.1", minimum=-50, maximum=150),
        Property("n", "integer"),
        Property("state", "enum", members=["idle", "busy"]),
    ]
    return Schema(TOPIC, [*properties, *more], version)


def losses_in(caplog: pytest.LogCaptureFixture) -> list[DataLoss]:
    """Return the losses that were logged."""
    found = [record.args[0] for record in caplog.records if isinstance(record.args, tuple) and record.args]
    return [loss for loss in found if isinstance(loss, DataLoss)]


class MemorySource:
    """A `LogSource` over lists."""

    def __init__(self, block: int = 7) -> None:
        self.messages: dict[str, list[StoredMessage]] = {}
        self.buckets: dict[str, dict[str, bytes]] = {}
        self.block = block

    def copy(self) -> MemorySource:
        made = MemorySource(self.block)
        made.messages = {log: list(messages) for log, messages in self.messages.items()}
        made.buckets = {bucket: dict(documents) for bucket, documents in self.buckets.items()}
        return made

    def append(self, subject: str, payload: bytes, topic: str = TOPIC) -> int:
        log = self.messages.setdefault(log_of(topic), [])
        offset = log[-1].offset + 1 if log else 1
        log.append(StoredMessage(offset, subject, payload, 1_000.0 + offset / 8))
        return offset

    def register(self, *schemas: Schema) -> None:
        """The last one is current."""
        documents = self.buckets.setdefault(REGISTRY, {})
        for schema in schemas:
            documents[schema_key(schema.name, schema.fingerprint)] = encode(schema)
            topic = TopicDocument(schema.name, schema.fingerprint.hex())
            documents[topic_key(schema.name)] = encode(topic)

    def put(self, bucket: str, documents: Mapping[str, bytes]) -> None:
        self.buckets.setdefault(bucket, {}).update(documents)

    def logs(self) -> list[str]:
        return sorted(self.messages)

    def span(self, log: str) -> Span:
        found = self._log(log)
        size = sum(len(stored.payload) for stored in found)
        return Span(found[0].offset, found[-1].offset, len(found), size, "today") if found else Span(1, 0, 0, 0)

    def last(self, log: str, pattern: str, *, up_to: int | None = None) -> StoredMessage | None:
        found = (s for s in reversed(self._log(log)) if up_to is None or s.offset <= up_to)
        return next((stored for stored in found if matches(pattern, stored.subject)), None)

    def subjects(self, log: str, pattern: str = ">") -> dict[str, int]:
        found: dict[str, int] = {}
        for stored in self._log(log):
            if matches(pattern, stored.subject):
                found[stored.subject] = found.get(stored.subject, 0) + 1
        return found

    def offset_at(self, log: str, time: float) -> int:
        found = self._log(log)
        return next((stored.offset for stored in found if stored.time >= time), found[-1].offset + 1)

    def read(self, log: str, first: int, last: int, *, subjects: Sequence[str] = ()) -> Iterator[list[StoredMessage]]:
        found = self._log(log)
        start = bisect_left(found, first, key=lambda stored: stored.offset)
        wanted = [
            stored
            for stored in found[start:]
            if stored.offset <= last and (not subjects or any(matches(one, stored.subject) for one in subjects))
        ]
        for at in range(0, len(wanted), self.block):
            yield wanted[at : at + self.block]

    def read_blocks(self, log: str, first: int, last: int, *, subjects: Sequence[str] = ()) -> Iterator[Block]:
        for block in self.read(log, first, last, subjects=subjects):
            offsets, names, payloads, times = zip(*block, strict=True)
            yield Block(np.array(offsets, np.int64), np.array(times, np.float64), list(names), list(payloads))

    def document(self, bucket: str, key: str) -> bytes | None:
        return self.buckets.get(bucket, {}).get(key)

    def documents(self, bucket: str, pattern: str = ">") -> dict[str, bytes]:
        return {key: value for key, value in self.buckets.get(bucket, {}).items() if matches(pattern, key)}

    def close(self) -> None: ...

    def _log(self, log: str) -> list[StoredMessage]:
        if log not in self.messages:
            raise UnknownLog(log=log)
        return self.messages[log]


class LogWriter:
    """A publisher that writes to a log, in messages of random size."""

    def __init__(
        self,
        source: MemorySource,
        name: str,
        schema: Schema,
        *,
        seed: int = 0,
        incarnation: int = 1,
        config: StreamConfig | None = None,
    ) -> None:
        self.name = name
        self.source = source
        self.chance = random.Random(f"{name}{seed}")
        self.publisher = StreamEncoder(
            schema, name=name, incarnation=incarnation, config=config or StreamConfig(max_silence=5.0)
        )
        self._frames: list[bytes] = self.publisher.start(0.0)

    def publish(self, event: Mapping[str, Any], now: float) -> None:
        self._frames += [*self.publisher.publish(event, now), *self.publisher.poll(now)]
        if self.chance.random() < 0.4:
            self.flush()

    def key_round(self, now: float) -> None:
        """Write a key frame round, as after a request of a reader."""
        self._frames += self.publisher.answer(Request(0, 0), now)
        self.flush()

    def flush(self) -> None:
        pending: list[bytes] = []
        for frame in self._frames:
            if begins_round(frame):
                self._send(pending)
                pending = []
                self.source.append(key_subject(TOPIC, self.name), frame)
            else:
                pending.append(frame)
        self._send(pending)
        self._frames = []

    def _send(self, frames: list[bytes]) -> None:
        if frames:
            self.source.append(data_subject(TOPIC, self.name), frames[0] if len(frames) == 1 else join(frames))


def readings(count: int, seed: int = 0, rooms_: int = 5) -> Iterator[dict[str, Any]]:
    """Return readings of rooms that drift, stay constant for a while, and change quickly at times."""
    chance = random.Random(seed)
    value = [20.0] * rooms_
    for n in range(count):
        room = chance.randrange(rooms_)
        value[room] += chance.choice([0.0, 0.0, 0.1, -0.1, 1.7])
        state = "busy" if chance.random() < 0.1 else "idle"
        yield {"time": 1_000 * n, "room": f"r{room}", "t": round(value[room], 1), "n": n // 7, "state": state}


Row = tuple[Any, ...]


def row_of(event: Event, offset: int) -> Row:
    bounds = {name: event.bound.get(name) for name in ("time", "t", "n")}
    values = tuple(event.get(name) for name in ("time", "room", "t", "n", "state"))
    return (*values, event.publisher, source_text(event.source), event.ordinal, offset, event.virtual, bounds)


def expected(source: MemorySource, schemas: list[Schema]) -> list[Row]:
    """Return the rows of a reader from the beginning, with the offset of their message."""
    links: dict[str, StreamDecoder] = {}
    rows: list[Row] = []
    for stored in source.messages[log_of(TOPIC)]:
        name = publisher_in(stored.subject)
        link = links.setdefault(name, StreamDecoder(schemas, publisher=name))
        try:
            found = link.receive(stored.payload, now=0.0)
        except PeerFault:
            continue
        rows += [row_of(thing, stored.offset) for thing in found if isinstance(thing, Event)]
    return rows


def landed(landing: LogTable, first: int, last: int, state: bytes | None = None) -> list[Row]:
    names = ["time", "room", "t", "n", "state", "_publisher", "_source", "_ordinal", "_offset", "_virtual", "_bound"]
    rows = [row for batch in landing.rows(first, last, state) for row in batch.select(names).to_pylist()]
    return [tuple(row[name] for name in names) for row in rows]


def in_order(rows: list[Row]) -> list[Row]:
    """Sort rows by publisher, stably: between publishers of one block the order is undefined."""
    return sorted(rows, key=lambda row: (row[8], row[5]))
