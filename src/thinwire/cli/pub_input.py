"""Lines of a file or of standard input, read beside an event loop that must not wait for them.

The work behind `thinwire pub`: lines become events, a schema is settled on, and everything is counted.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from thinwire.cli.connection_options import schema_of
from thinwire.client.bus import Bus
from thinwire.client.publisher import Publisher
from thinwire.errors import ConfigError, EventRejected, PayloadTooLarge, SchemaError
from thinwire.schema import Schema, infer
from thinwire.topics.registry_client import open_registry, register_schema, topic_document
from thinwire.topics.topic_documents import TopicDocument
from thinwire.topics.topic_plan import TopicPlan

CHUNK = 1 << 16
"""bytes read at once, at most"""
AHEAD = 2
"""chunks read ahead, at most"""
MAX_LINE = 16 << 20
"""bytes of one line; what is longer comes in pieces, and no piece of it is JSON"""


async def lines(descriptor: int) -> AsyncIterator[list[bytes]]:
    """The lines of an open file, as many at once as are there.

    A thread reads, past Python's buffers and their locks: it may sit in a read for ever and the process still ends.
    """
    chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    room = threading.Semaphore(AHEAD)
    loop = asyncio.get_running_loop()
    threading.Thread(target=_read, args=(descriptor, chunks, room, loop), daemon=True).start()
    rest = b""
    while chunk := await chunks.get():
        if isinstance(chunk, OSError):
            raise chunk
        room.release()
        *whole, rest = (rest + chunk).split(b"\n")
        if len(rest) > MAX_LINE:
            whole, rest = [*whole, rest], b""
        if whole:
            yield whole
    if rest:
        yield [rest]


def _read(
    descriptor: int,
    chunks: asyncio.Queue[bytes | OSError],
    room: threading.Semaphore,
    loop: asyncio.AbstractEventLoop,
) -> None:
    chunk: bytes | OSError = b"..."
    while chunk and not isinstance(chunk, OSError):
        room.acquire()
        try:
            chunk = os.read(descriptor, CHUNK)
        except OSError as trouble:
            chunk = trouble
        try:
            loop.call_soon_threadsafe(chunks.put_nowait, chunk)
        except RuntimeError:
            return  # the loop has ended: nobody wants to know any more


MAX_COMPLAINTS = 100
"""bad lines that are reported one by one"""


@dataclass(frozen=True)
class PublishOptions:
    """What is published, and how; `infer`: from how many lines a schema is found, 0 for none; `plan`: as planned."""

    topic: str
    schema: Schema | None = None
    infer: int = 0
    dimensions: list[str] | None = None
    time: str | None = None
    retain: bool = False
    name: str = ""
    linger: float | None = None
    plan: TopicPlan | None = None
    tolerance: Mapping[str, float | str] | None = None
    default_tolerance: float = 0
    rate: float | None = None

    @property
    def batching(self) -> dict[str, Any]:
        """How frames share messages, and what is promised where no registry decides: as told, else as planned."""
        planned = {} if self.plan is None else self.plan.publishing
        planned.pop("schema", None)
        return planned if self.linger is None else {**planned, "linger": self.linger}


class InputEvent(NamedTuple):
    """An event with the number of its line and its size as compact JSON."""

    number: int
    event: dict[str, Any]
    size: int


class EventInput:
    """The events of a file of JSON lines, and what became of them.

    taken, rejected: events that were published, lines that were not; raw_bytes: the taken ones as compact JSON
    """

    def __init__(self, descriptor: int, complain: Callable[[int, str], None]) -> None:
        self.taken = self.rejected = self.raw_bytes = 0
        self._complain = complain
        self._source = self._read(descriptor)
        self._sampled: list[InputEvent] = []

    async def __aiter__(self) -> AsyncIterator[InputEvent]:
        for read in self._sampled:
            yield read
        self._sampled.clear()
        async for read in self._source:
            yield read

    async def sample(self, count: int) -> list[dict[str, Any]]:
        """The first events; they come again when the intake is read."""
        while len(self._sampled) < count and (read := await anext(self._source, None)) is not None:
            self._sampled.append(read)
        return [read.event for read in self._sampled]

    async def offer(self, out: Publisher, number: int, event: dict[str, Any], size: int) -> None:
        """Publish one event; a refused one is reported, and the client keeps it as a dead letter."""
        try:
            await out.publish(event)
        except (EventRejected, PayloadTooLarge) as problem:
            self.refuse(number, str(problem))
        else:
            self.taken += 1
            self.raw_bytes += size

    def refuse(self, number: int, reason: str) -> None:
        """Count a bad line, and say why it is one."""
        self.rejected += 1
        if self.rejected <= MAX_COMPLAINTS:
            self._complain(number, reason)
        if self.rejected == MAX_COMPLAINTS:
            self._complain(number, "further bad lines are counted, not shown")

    async def _read(self, descriptor: int) -> AsyncIterator[InputEvent]:
        number = 0
        async for some in lines(descriptor):
            for line in some:
                number += 1
                read = self._parse(number, line)
                if read is not None:
                    yield read
            await asyncio.sleep(0)  # publishing seldom waits: what was published shall leave meanwhile

    def _parse(self, number: int, line: bytes) -> InputEvent | None:
        if not line.strip():
            return None
        try:
            event = json.loads(line)
        except (ValueError, RecursionError) as problem:
            self.refuse(number, f"not JSON: {problem}")
            return None
        if not isinstance(event, dict):
            self.refuse(number, f"not an object but {type(event).__name__}: one JSON object a line makes an event")
            return None
        compact = json.dumps(event, separators=(",", ":"), ensure_ascii=False)
        return InputEvent(number, event, len(compact.encode(errors="replace")))


@dataclass(frozen=True)
class PublishSummary:
    """What a run of `pub` came to; `unheard`: nobody wanted it, so nothing left."""

    topic: str
    publisher: str
    events: int
    rejected: int
    messages: int
    frames: int
    raw_bytes: int
    frame_bytes: int
    unheard: bool

    @classmethod
    def of(cls, intake: EventInput, out: Publisher, topic: str) -> PublishSummary:
        """The counts of an intake and of the publisher it went through."""
        counts = out.counts
        return cls(
            topic=topic,
            publisher=out.name,
            events=intake.taken,
            rejected=intake.rejected,
            messages=out.messages,
            frames=counts.frames,
            raw_bytes=intake.raw_bytes,
            frame_bytes=counts.frame_bytes,
            unheard=not out.wanted,
        )

    @property
    def saved(self) -> float | None:
        """The part of the raw bytes that did not travel."""
        return 1 - self.frame_bytes / self.raw_bytes if self.raw_bytes else None

    def facts(self) -> dict[str, Any]:
        """The numbers, by name."""
        shown = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("topic", "unheard")}
        return {**shown, "saved": self.saved}


async def resolve_input_schema(
    bus: Bus, feed: PublishOptions, intake: EventInput, say: Callable[[str], None]
) -> Schema:
    """The schema to publish under; registers what has to be."""
    present = await topic_document(await open_registry(bus.broker), feed.topic)
    if feed.plan is not None:
        return await _planned(bus, feed, feed.plan, say)
    schema = feed.schema
    if schema is not None and schema.name != feed.topic:
        raise ConfigError("a topic has the name of its schema", topic=feed.topic, schema=schema.name)
    if feed.infer and present is not None:
        say(f"{feed.topic} is registered: its schema counts, nothing is inferred")
    elif feed.infer:
        schema = await _inferred(feed, intake)
        await bus.register(schema, retain=feed.retain)
    schema = schema or await schema_of(bus, feed.topic)
    if feed.retain:
        await bus.register(schema, **_settings(present), retain=True)
    if (feed.tolerance or feed.default_tolerance) and await bus.served():
        say("a registry runs: subscribers say how far values may be off, --tolerance does not count")
    return schema


async def _planned(bus: Bus, feed: PublishOptions, plan: TopicPlan, say: Callable[[str], None]) -> Schema:
    """Register the topic as the plan has it."""
    settings = replace(plan.settings, retain=True) if feed.retain else plan.settings
    await register_schema(await open_registry(bus.broker), plan.schema, settings)
    if feed.tolerance or feed.default_tolerance:
        say("the plan says how far values may be off: --tolerance does not count")
    return plan.schema


async def _inferred(feed: PublishOptions, intake: EventInput) -> Schema:
    sample = await intake.sample(feed.infer)
    if not sample:
        raise SchemaError("there is no event to infer a schema from", topic=feed.topic)
    return infer(sample, feed.topic, dimensions=feed.dimensions, time=feed.time)


def _settings(present: TopicDocument | None) -> dict[str, Any]:
    """The settings a topic has, but for the one that is about to change."""
    if present is None:
        return {}
    settings = present.settings
    return {f.name: getattr(settings, f.name) for f in fields(settings) if f.name != "retain"}
