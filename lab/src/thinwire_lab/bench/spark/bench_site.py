"""Rows that are made already: a source in Python that has nothing to do, which no other can beat.

What it takes is what Spark takes for rows out of Python: carrying Arrow batches to the JVM and making rows of columns.

The stream that the source is measured on, as messages of a log: ours, and the same events as JSON.

It is the feed of the knee: half of the events tell something new, so that half a frame an event travels. Four
publishers take turns; each gathers twenty frames in a message. Rounds of key frames come sixteen times, so that a log
can be read in parts.

A broker with the stream in its logs, and the same as a recording.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from thinwire.brokers.embedded import EmbeddedServer
from thinwire.brokers.protocol import Broker
from thinwire.brokers.recording import RecordingWriter, open_recording
from thinwire.client.bus import connect
from thinwire.codec import Demand, StreamConfig, StreamEncoder
from thinwire.spark.source.source_schema import arrow_of, fit_columns
from thinwire.topics.log_tables import LogTable, span_of
from thinwire.topics.names import data_subject, key_subject, log_of, publisher_subjects
from thinwire.topics.recorder import Recorder
from thinwire.wire import begins_round, join
from thinwire_lab.live.live_feed import ROWS, SOURCES, TOLERANCE, TOPIC, Event, LoadSource, feed_schema


class ReadyDataSource(DataSource):
    """The batches of a file of Arrow: `path`; in so many parts: `parts`."""

    @classmethod
    def name(cls) -> str:
        """What follows `format`."""
        return "ready"

    def schema(self) -> StructType:
        """The columns of the file."""
        with pa.memory_map(self.options["path"]) as file:
            return from_arrow_schema(pa.ipc.open_file(file).schema)

    def reader(self, schema: StructType) -> ReadyReader:
        """Whatever columns are asked for."""
        return ReadyReader(self.options["path"], int(self.options["parts"]), schema.names)


class ReadyReader(DataSourceReader):
    """Hands batches over as they lie there."""

    def __init__(self, path: str, parts: int, names: list[str]) -> None:
        self.path = path
        self.parts = parts
        self.names = names

    def partitions(self) -> Sequence[InputPartition]:
        """By number."""
        return [InputPartition(number) for number in range(self.parts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Every n-th batch."""
        with pa.memory_map(self.path) as file:
            batches = pa.ipc.open_file(file)
            for number in range(partition.value, batches.num_record_batches, self.parts):
                yield batches.get_batch(number).select(self.names)


def make_ready(recording: Path, topic: str, path: Path) -> None:
    """Write the rows of a recorded topic into a file, in the very batches that the source would make."""
    with open_recording(str(recording)) as source:
        landing, span = LogTable(source, topic), span_of(source, log_of(topic))
        schema = arrow_of(from_arrow_schema(landing.schema))
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as out:
            for batch in landing.rows(span.first, span.last):
                out.write_batch(fit_columns(batch, schema))


PUBLISHERS = 4
A_TURN = PUBLISHERS * SOURCES
"""events, one of each source"""
A_CYCLE = A_TURN * ROWS
"""events after which the readings begin again"""
RATE = 2_000.0
"""events a second, in the time that the events tell"""
START = 1_700_000_000_000_000
FRAMES = 20
"""of a message"""
ROUNDS = 16
"""of key frames, in the whole stream"""


class BrokerMessage(NamedTuple):
    """What a publisher hands to the broker."""

    subject: str
    payload: bytes


@dataclass
class EncodedCounts:
    """How much was told: events, frames and messages."""

    events: int = 0
    frames: int = 0
    messages: int = 0

    @property
    def share(self) -> float:
        """Frames an event."""
        return self.frames / self.events

    @property
    def together(self) -> int:
        """Events of a message, about."""
        return max(1, round(self.events / self.messages))


def turns(events: int) -> Iterator[list[list[Event]]]:
    """The events by publisher, a turn of all sources at a time."""
    feeds = [LoadSource(number, PUBLISHERS, RATE, START) for number in range(PUBLISHERS)]
    for turn in range(events // A_TURN):
        yield [feed.due(START + (turn + 1) * feed.period - 1) for feed in feeds]


def every(events: int) -> Iterator[Event]:
    """The events one by one."""
    for turn in turns(events):
        for some in turn:
            yield from some


def thin(events: int, told: EncodedCounts) -> Iterator[BrokerMessage]:
    """The messages of our publishers; `told` counts along."""
    seconds = events / RATE
    config = StreamConfig(demand=Demand(default_tolerance=TOLERANCE), key_frame_interval=seconds / ROUNDS)
    out = [_Out(f"p{number}", config) for number in range(PUBLISHERS)]
    for turn in turns(events):
        for one, some in zip(out, turn, strict=True):
            told.events += len(some)
            for event in some:
                yield from one.publish(event)
    for one in out:
        yield from one.end(START / 1e6 + seconds)
    told.frames = sum(one.frames for one in out)
    told.messages = sum(one.messages for one in out)


def as_json(events: int, topic: str, together: int) -> Iterator[BrokerMessage]:
    """The same events as lines of JSON, so many in a message."""
    waiting: list[list[str]] = [[] for _ in range(PUBLISHERS)]
    for turn in turns(events):
        for number, some in enumerate(turn):
            waiting[number] += [json.dumps(event, separators=(",", ":")) for event in some]
            while len(waiting[number]) >= together:
                yield _lines(topic, number, waiting[number][:together])
                del waiting[number][:together]
    for number, lines in enumerate(waiting):
        if lines:
            yield _lines(topic, number, lines)


def _lines(topic: str, publisher: int, lines: list[str]) -> BrokerMessage:
    return BrokerMessage(data_subject(topic, f"p{publisher}"), "\n".join(lines).encode())


@dataclass
class _Out:
    """A publisher, and the frames that wait for others."""

    name: str
    config: StreamConfig
    frames: int = 0
    messages: int = 0
    waiting: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.publisher = StreamEncoder(feed_schema(), self.config, name=self.name, now=START / 1e6)

    def publish(self, event: Event) -> Iterator[BrokerMessage]:
        now = event["time"] / 1e6
        started = [] if self.frames else self.publisher.start(now)
        yield from self._take(started + self.publisher.publish(event, now))

    def end(self, now: float) -> Iterator[BrokerMessage]:
        """Tell of the events that were passed over in silence, and let everything go."""
        yield from self._take(self.publisher.heartbeat(now))
        yield from self._send()

    def _take(self, frames: list[bytes]) -> Iterator[BrokerMessage]:
        self.frames += len(frames)
        for frame in frames:
            if begins_round(frame):
                yield from self._send()
                self.messages += 1
                yield BrokerMessage(key_subject(TOPIC, self.name), frame)
            else:
                self.waiting.append(frame)
                if len(self.waiting) == FRAMES:
                    yield from self._send()

    def _send(self) -> Iterator[BrokerMessage]:
        if self.waiting:
            self.messages += 1
            yield BrokerMessage(data_subject(TOPIC, self.name), join(self.waiting))
            self.waiting = []


BATCHED, SINGLE = "bench.json.batched", "bench.json.single"
"""topics of the JSON logs: messages of as many events as ours have, and of one event each"""
WAVE = 1_000
"""messages after which the broker's acknowledgement is waited for"""


class BenchSite:
    """A broker whose logs are filled one by one; `told`: what our publishers told.

    recording, ready: where our log goes as files, and as rows that are made already
    """

    def __init__(self, url: str, folder: Path, events: int) -> None:
        self.url = url
        self.events = events
        self.recording = folder / "recording"
        self.ready = folder / "ready.arrow"
        self.told = EncodedCounts()

    def publish(self) -> None:
        """Ours."""
        asyncio.run(self._publish())

    def publish_json(self, topic: str, events: int, together: int) -> None:
        """The first events of the same stream as JSON."""
        asyncio.run(self._fill(topic, as_json(events, topic, together)))

    def record(self) -> None:
        """Our log into files, as `thinwire record` does it."""
        asyncio.run(self._record())

    async def _publish(self) -> None:
        async with connect(self.url) as bus:
            await bus.register(feed_schema())
        await self._fill(TOPIC, thin(self.events, self.told))

    async def _fill(self, topic: str, messages: Iterable[BrokerMessage]) -> None:
        async with connect(self.url) as bus:
            await bus.broker.open_log(log_of(topic), [publisher_subjects(topic)])
            sent = await _in_waves(bus.broker, log_of(topic), messages)
            stored = (await bus.broker.span(log_of(topic))).messages
        if stored != sent:
            raise RuntimeError(f"the broker has stored {stored:,} of {sent:,} messages")

    async def _record(self) -> None:
        with RecordingWriter(self.recording) as out:
            async with connect(self.url) as bus:
                recorder = Recorder(bus.broker, out, [TOPIC])
                await recorder.open()
                await recorder.copy(until_caught_up=True)


@contextmanager
def site(events: int) -> Iterator[BenchSite]:
    """A broker of one's own, with our log filled."""
    with TemporaryDirectory(prefix="thinwire-bench-") as folder, EmbeddedServer() as server:
        made = BenchSite(server.url, Path(folder), events)
        made.publish()
        yield made


async def _in_waves(broker: Broker, log: str, messages: Iterable[BrokerMessage]) -> int:
    """Store messages in their order. One connection keeps it, so whoever is acknowledged vouches for those before."""
    sent, last = 0, None
    for message in messages:
        if last is not None:
            await broker.send(*last)
        last, sent = message, sent + 1
        if sent % WAVE == 0:
            await broker.append(log, *last)
            last = None
    if last is not None:
        await broker.append(log, *last)
    return sent
