"""The stream that the Spark source is measured on, in the logs of a broker and as a recording.

It is the feed of the saturation rate: half a frame per event. Four publishers send in turn, 20 frames in a message.
The JSON topics have the same events. There are 16 rounds of key frames, so that a log can be read in parts.

`ReadyDataSource` returns the rows of the recording without decoding. No source in Python can be faster: its time is
that of Spark to carry Arrow batches to the JVM and to make rows of columns.
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
from thinwire.topics.log_tables.log_table import LogTable
from thinwire.topics.log_tables.source_broker import span_of
from thinwire.topics.names import data_subject, key_subject, log_of, publisher_subjects
from thinwire.topics.recorder import Recorder
from thinwire.wire import begins_round, join
from thinwire_lab.live.live_feed import ROWS, SOURCES, TOLERANCE, TOPIC, Event, LoadSource, feed_schema


class ReadyDataSource(DataSource):
    """The batches of an Arrow file; options: its `path`, and the number of `parts`."""

    @classmethod
    def name(cls) -> str:
        return "ready"

    def schema(self) -> StructType:
        with pa.memory_map(self.options["path"]) as file:
            return from_arrow_schema(pa.ipc.open_file(file).schema)

    def reader(self, schema: StructType) -> ReadyReader:
        return ReadyReader(self.options["path"], int(self.options["parts"]), schema.names)


class ReadyReader(DataSourceReader):
    """Reads the requested columns of an Arrow file."""

    def __init__(self, path: str, parts: int, names: list[str]) -> None:
        self.path = path
        self.parts = parts
        self.names = names

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(self.parts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(self.path) as file:
            batches = pa.ipc.open_file(file)
            for number in range(partition.value, batches.num_record_batches, self.parts):
                yield batches.get_batch(number).select(self.names)


def store_decoded_rows(recording: Path, topic: str, path: Path) -> None:
    """Write the rows of a recorded topic into a file, in the batches that the source would make."""
    with open_recording(str(recording)) as source:
        table, span = LogTable(source, topic), span_of(source, log_of(topic))
        schema = arrow_of(from_arrow_schema(table.schema))
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as out:
            for batch in table.rows(span.first, span.last):
                out.write_batch(fit_columns(batch, schema))


PUBLISHERS = 4
TURN_EVENTS = PUBLISHERS * SOURCES
"""one event of each source"""
CYCLE_EVENTS = TURN_EVENTS * ROWS
"""events after which the readings are repeated"""
RATE = 2_000.0
"""events per second by their timestamps"""
START = 1_700_000_000_000_000
FRAMES = 20
"""frames of a message"""
ROUNDS = 16
"""rounds of key frames in the stream"""


class BrokerMessage(NamedTuple):
    """Subject and payload of a message that a publisher sends to the broker."""

    subject: str
    payload: bytes


@dataclass
class EncodedCounts:
    """Number of events, frames and messages."""

    events: int = 0
    frames: int = 0
    messages: int = 0

    @property
    def share(self) -> float:
        """Frames per event."""
        return self.frames / self.events

    @property
    def together(self) -> int:
        """Mean number of events of a message."""
        return max(1, round(self.events / self.messages))


def turns(events: int) -> Iterator[list[list[Event]]]:
    """Yield the events of all sources by publisher, turn by turn."""
    feeds = [LoadSource(number, PUBLISHERS, RATE, START) for number in range(PUBLISHERS)]
    for turn in range(events // TURN_EVENTS):
        yield [feed.due(START + (turn + 1) * feed.period - 1) for feed in feeds]


def all_events(events: int) -> Iterator[Event]:
    """Yield the events in order."""
    for turn in turns(events):
        for own in turn:
            yield from own


def encode_frames(events: int, counts: EncodedCounts) -> Iterator[BrokerMessage]:
    """Yield the messages of our publishers and update the counts."""
    seconds = events / RATE
    config = StreamConfig(demand=Demand(default_tolerance=TOLERANCE), key_frame_interval=seconds / ROUNDS)
    publishers = [_FramePublisher(f"p{number}", config) for number in range(PUBLISHERS)]
    for turn in turns(events):
        for publisher, own in zip(publishers, turn, strict=True):
            counts.events += len(own)
            for event in own:
                yield from publisher.publish(event)
    for publisher in publishers:
        yield from publisher.end(START / 1e6 + seconds)
    counts.frames = sum(publisher.frames for publisher in publishers)
    counts.messages = sum(publisher.messages for publisher in publishers)


def encode_json(events: int, topic: str, together: int) -> Iterator[BrokerMessage]:
    """Yield the same events as JSON lines, `together` of them in a message."""
    pending: list[list[str]] = [[] for _ in range(PUBLISHERS)]
    for turn in turns(events):
        for number, own in enumerate(turn):
            pending[number] += [json.dumps(event, separators=(",", ":")) for event in own]
            while len(pending[number]) >= together:
                yield _json_message(topic, number, pending[number][:together])
                del pending[number][:together]
    for number, lines in enumerate(pending):
        if lines:
            yield _json_message(topic, number, lines)


def _json_message(topic: str, publisher: int, lines: list[str]) -> BrokerMessage:
    return BrokerMessage(data_subject(topic, f"p{publisher}"), "\n".join(lines).encode())


@dataclass
class _FramePublisher:
    """A stream encoder and its pending frames."""

    name: str
    config: StreamConfig
    frames: int = 0
    messages: int = 0
    pending: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.encoder = StreamEncoder(feed_schema(), self.config, name=self.name, now=START / 1e6)

    def publish(self, event: Event) -> Iterator[BrokerMessage]:
        now = event["time"] / 1e6
        started = [] if self.frames else self.encoder.start(now)
        yield from self._take(started + self.encoder.publish(event, now))

    def end(self, now: float) -> Iterator[BrokerMessage]:
        """Send a heartbeat for the suppressed events, and all pending frames."""
        yield from self._take(self.encoder.heartbeat(now))
        yield from self._send()

    def _take(self, frames: list[bytes]) -> Iterator[BrokerMessage]:
        self.frames += len(frames)
        for frame in frames:
            if begins_round(frame):
                yield from self._send()
                self.messages += 1
                yield BrokerMessage(key_subject(TOPIC, self.name), frame)
            else:
                self.pending.append(frame)
                if len(self.pending) == FRAMES:
                    yield from self._send()

    def _send(self) -> Iterator[BrokerMessage]:
        if self.pending:
            self.messages += 1
            yield BrokerMessage(data_subject(TOPIC, self.name), join(self.pending))
            self.pending = []


BATCHED, SINGLE = "bench.json.batched", "bench.json.single"
"""topics of the JSON logs: with as many events in a message as ours, and with one event"""
WAVE = 1_000
"""messages after which the publisher waits for an acknowledgement"""


class BenchSite:
    """A broker with the logs of the stream.

    counts: of our log; recording, ready: our log as a recording, and as rows in an Arrow file
    """

    def __init__(self, url: str, folder: Path, events: int) -> None:
        self.url = url
        self.events = events
        self.recording = folder / "recording"
        self.decoded_rows = folder / "ready.arrow"
        self.counts = EncodedCounts()

    async def publish(self) -> None:
        """Publish our log."""
        async with connect(self.url) as bus:
            await bus.register(feed_schema())
        await self._fill(TOPIC, encode_frames(self.events, self.counts))

    async def publish_json(self, topic: str, events: int, together: int) -> None:
        """Publish the first events of the same stream as JSON."""
        await self._fill(topic, encode_json(events, topic, together))

    async def _fill(self, topic: str, messages: Iterable[BrokerMessage]) -> None:
        async with connect(self.url) as bus:
            await bus.broker.ensure_log(log_of(topic), [publisher_subjects(topic)])
            sent = await _store_in_waves(bus.broker, log_of(topic), messages)
            stored = (await bus.broker.span(log_of(topic))).messages
        if stored != sent:
            raise RuntimeError(f"the broker has stored {stored:,} of {sent:,} messages")

    async def record(self) -> None:
        """Record our log, as `thinwire record` does."""
        with RecordingWriter(self.recording) as out:
            async with connect(self.url) as bus:
                recorder = Recorder(bus.broker, out, [TOPIC])
                await recorder.open()
                await recorder.copy(until_caught_up=True)


@contextmanager
def site(events: int) -> Iterator[BenchSite]:
    """Start a broker and publish our log."""
    with TemporaryDirectory(prefix="thinwire-bench-") as folder, EmbeddedServer() as server:
        system = BenchSite(server.url, Path(folder), events)
        asyncio.run(system.publish())
        yield system


async def _store_in_waves(broker: Broker, log: str, messages: Iterable[BrokerMessage]) -> int:
    """Store messages in order. A connection keeps the order, so an acknowledgement covers all earlier messages."""
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
