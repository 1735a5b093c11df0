"""Input of `thinwire pub`: events parsed from JSON lines, counters, and the schema to publish under."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from thinwire.cli.connection_options import fetch_schema
from thinwire.client.bus import Bus
from thinwire.client.publisher import Publisher
from thinwire.errors import ConfigError, EventRejected, PayloadTooLarge, SchemaError
from thinwire.schema import Schema, infer
from thinwire.topics.registry_client import open_registry, register_schema, topic_document
from thinwire.topics.topic_documents import TopicDocument
from thinwire.topics.topic_plan import TopicPlan

CHUNK = 1 << 16
"""largest number of bytes per read"""
READ_AHEAD = 2
"""largest number of chunks read ahead"""
MAX_LINE = 16 << 20
"""largest line in bytes; a longer one is split, and its pieces are rejected as invalid JSON"""
MAX_REPORTED = 100
"""bad lines that are reported one by one"""


async def read_lines(descriptor: int) -> AsyncIterator[list[bytes]]:
    """Yield the lines of an open file, as many at a time as are available.

    A daemon thread reads the descriptor without Python's buffers, so a blocked read does not keep the process alive.
    """
    chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    capacity = threading.Semaphore(READ_AHEAD)
    loop = asyncio.get_running_loop()
    threading.Thread(target=_read_chunks, args=(descriptor, chunks, capacity, loop), daemon=True).start()
    partial = b""
    while chunk := await chunks.get():
        if isinstance(chunk, OSError):
            raise chunk
        capacity.release()
        *lines, partial = (partial + chunk).split(b"\n")
        if len(partial) > MAX_LINE:
            lines, partial = [*lines, partial], b""
        if lines:
            yield lines
    if partial:
        yield [partial]


def _read_chunks(
    descriptor: int,
    chunks: asyncio.Queue[bytes | OSError],
    capacity: threading.Semaphore,
    loop: asyncio.AbstractEventLoop,
) -> None:
    chunk: bytes | OSError = b"..."
    while chunk and not isinstance(chunk, OSError):
        capacity.acquire()
        try:
            chunk = os.read(descriptor, CHUNK)
        except OSError as error:
            chunk = error
        try:
            loop.call_soon_threadsafe(chunks.put_nowait, chunk)
        except RuntimeError:
            return  # the event loop is closed


@dataclass(frozen=True)
class PublishOptions:
    """Options of `thinwire pub`.

    infer: lines to infer a schema from; 0 to use a given or registered schema
    """

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
        """Publisher arguments from the plan; an explicit linger overrides the planned one."""
        planned = {} if self.plan is None else self.plan.publishing
        planned.pop("schema", None)
        return planned if self.linger is None else {**planned, "linger": self.linger}


class InputEvent(NamedTuple):
    """An event, the number of its line, and its size as compact JSON."""

    number: int
    event: dict[str, Any]
    size: int


class EventInput:
    """Events parsed from JSON lines, with counters.

    taken: events published; rejected: lines not published; raw_bytes: published events as compact JSON
    """

    def __init__(self, descriptor: int, on_rejected: Callable[[int, str], None]) -> None:
        self.taken = self.rejected = self.raw_bytes = 0
        self._on_rejected = on_rejected
        self._source = self._read(descriptor)
        self._sampled: list[InputEvent] = []

    async def __aiter__(self) -> AsyncIterator[InputEvent]:
        for item in self._sampled:
            yield item
        self._sampled.clear()
        async for item in self._source:
            yield item

    async def sample(self, count: int) -> list[dict[str, Any]]:
        """Return the first events; iteration yields them again."""
        while len(self._sampled) < count and (item := await anext(self._source, None)) is not None:
            self._sampled.append(item)
        return [item.event for item in self._sampled]

    async def offer(self, out: Publisher, number: int, event: dict[str, Any], size: int) -> None:
        """Publish one event. A rejected event is reported; the client stores it as a dead letter."""
        try:
            await out.publish(event)
        except (EventRejected, PayloadTooLarge) as error:
            self.reject(number, str(error))
        else:
            self.taken += 1
            self.raw_bytes += size

    def reject(self, number: int, reason: str) -> None:
        """Count a bad line and report the reason."""
        self.rejected += 1
        if self.rejected <= MAX_REPORTED:
            self._on_rejected(number, reason)
        if self.rejected == MAX_REPORTED:
            self._on_rejected(number, "further bad lines are counted, not shown")

    async def _read(self, descriptor: int) -> AsyncIterator[InputEvent]:
        number = 0
        async for lines in read_lines(descriptor):
            for line in lines:
                number += 1
                item = self._parse(number, line)
                if item is not None:
                    yield item
            await asyncio.sleep(0)  # publishing rarely suspends; without this the outbox would not send meanwhile

    def _parse(self, number: int, line: bytes) -> InputEvent | None:
        if not line.strip():
            return None
        try:
            event = json.loads(line)
        except (ValueError, RecursionError) as error:
            self.reject(number, f"not JSON: {error}")
            return None
        if not isinstance(event, dict):
            self.reject(number, f"not an object but {type(event).__name__}: one JSON object a line makes an event")
            return None
        compact = json.dumps(event, separators=(",", ":"), ensure_ascii=False)
        return InputEvent(number, event, len(compact.encode(errors="replace")))


@dataclass(frozen=True)
class PublishSummary:
    """Counters of a run of `thinwire pub`.

    unheard: the topic had no subscriber and does not retain events, so nothing was sent
    """

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
    def of(cls, events: EventInput, out: Publisher, topic: str) -> PublishSummary:
        """Collect the counters of an input and its publisher."""
        counts = out.counts
        return cls(
            topic=topic,
            publisher=out.name,
            events=events.taken,
            rejected=events.rejected,
            messages=out.messages,
            frames=counts.frames,
            raw_bytes=events.raw_bytes,
            frame_bytes=counts.frame_bytes,
            unheard=not out.wanted,
        )

    @property
    def saved(self) -> float | None:
        """Share of the raw bytes that was not sent."""
        return 1 - self.frame_bytes / self.raw_bytes if self.raw_bytes else None

    def facts(self) -> dict[str, Any]:
        """Return the counters by name."""
        counters = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("topic", "unheard")}
        return {**counters, "saved": self.saved}


async def resolve_input_schema(
    bus: Bus, options: PublishOptions, events: EventInput, on_status: Callable[[str], None]
) -> Schema:
    """Return the schema to publish under; register it if it is planned, inferred or to be retained."""
    registered = await topic_document(await open_registry(bus.broker), options.topic)
    if options.plan is not None:
        return await _register_plan(bus, options, options.plan, on_status)
    schema = options.schema
    if schema is not None and schema.name != options.topic:
        raise ConfigError("the schema must have the name of the topic", topic=options.topic, schema=schema.name)
    if options.infer and registered is not None:
        on_status(f"{options.topic} is registered: its schema is used, nothing is inferred")
    elif options.infer:
        schema = await _infer_schema(options, events)
        await bus.register(schema, retain=options.retain)
    schema = schema or await fetch_schema(bus, options.topic)
    if options.retain:
        await bus.register(schema, **_other_settings(registered), retain=True)
    if (options.tolerance or options.default_tolerance) and await bus.served():
        on_status("--tolerance is ignored: a registry is running, and subscribers request tolerances")
    return schema


async def _register_plan(
    bus: Bus, options: PublishOptions, plan: TopicPlan, on_status: Callable[[str], None]
) -> Schema:
    settings = replace(plan.settings, retain=True) if options.retain else plan.settings
    await register_schema(await open_registry(bus.broker), plan.schema, settings)
    if options.tolerance or options.default_tolerance:
        on_status("--tolerance is ignored: the plan contains the tolerances")
    return plan.schema


async def _infer_schema(options: PublishOptions, events: EventInput) -> Schema:
    sample = await events.sample(options.infer)
    if not sample:
        raise SchemaError("there is no event to infer a schema from", topic=options.topic)
    return infer(sample, options.topic, dimensions=options.dimensions, time=options.time)


def _other_settings(registered: TopicDocument | None) -> dict[str, Any]:
    """Return the registered settings except `retain`."""
    if registered is None:
        return {}
    settings = registered.settings
    return {f.name: getattr(settings, f.name) for f in fields(settings) if f.name != "retain"}
