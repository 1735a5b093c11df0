"""A stream in small batches: how much is read beside what was asked for.

The source: events a CPU-second, beside raw frames and JSON through the same reader, and from recorded files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from thinwire_lab.bench.benchmark import Bar, Row, Setting
from thinwire_lab.bench.spark.bench_site import A_CYCLE, BATCHED, FRAMES, SINGLE, BenchSite, site
from thinwire_lab.bench.spark.process_usage import TWO, Spent, drain, race, rate, running
from thinwire_lab.bench.spark.reconstruction_bench import EVENT, from_lines, from_single
from thinwire_lab.live.live_feed import TOLERANCE, TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


BATCH_EVENTS, BATCH_EVENTS_QUICK = 4 * A_CYCLE, 20_000
A_TRIGGER = 5_000
"""frames of a batch"""
LIMIT = 1.3
TRIES = 5
LATE = "failed to connect back"
"""what a stream ends with before its first batch where the process that plans it takes ten seconds to start"""


def small_batches(setting: Setting) -> Iterator[Row]:
    """The log read as a stream to its end; tasks write down what they were asked for and what they read."""
    with (
        TemporaryDirectory(prefix="thinwire-bench-") as folder,
        site(setting.size(BATCH_EVENTS, BATCH_EVENTS_QUICK)) as place,
    ):
        with running() as spark:
            _follow(spark, place, Path(folder))
        told = [json.loads(line) for line in (Path(folder) / "state" / "reading.jsonl").read_text().splitlines()]
    yield _row(place, told)


def _follow(spark: SparkSession, place: BenchSite, folder: Path) -> None:
    options = {
        "servers": place.url,
        "subscribe": TOPIC,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(A_TRIGGER // FRAMES),
        "stateLocation": str(folder / "state"),
    }
    rows = spark.readStream.format("thinwire").options(**options).load()
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
    _run(writer.trigger(availableNow=True), TRIES)


def _run(writer: DataStreamWriter, tries: int) -> None:
    """To the end of the log. Nothing was read where the stream was late, so to start it again changes no figure."""
    from pyspark.errors import StreamingQueryException

    try:
        writer.start().awaitTermination()
    except StreamingQueryException as problem:
        if tries == 1 or LATE not in str(problem):
            raise
        _run(writer, tries - 1)


def _row(place: BenchSite, told: list[dict[str, Any]]) -> Row:
    sums = {name: sum(one[name] for one in told) for name in ("requested", "read", "replayed", "rows")}
    trouble = "" if sums["rows"] == place.events else f"{sums['rows']:,} rows, not {place.events:,}"
    how = f"{sums['requested']:,} messages of {FRAMES} frames in {len(told)} batches on {TWO}, {place.events:,} events"
    name = f"stream, {A_TRIGGER:,} frames a trigger: messages read to messages asked for"
    value = (sums["read"] + sums["replayed"]) / sums["requested"]
    return Row(name, "times", value, high=LIMIT, how=how, note=trouble, sound=not trouble)


EVENTS, QUICK = 40 * A_CYCLE, 20_000
FEWER = 4
"""by how much the log with one message an event is shorter: a rate does not need the whole"""
PARTS = 4
ROUNDS = 5
SHARE = 0.5
"""frames an event that the stream must have"""
OURS, FILES, OWN = "events", "files", "own columns"
SOURCE_FRAMES, MESSAGES, LINES, SINGLES = "frames", "messages", "json", "json single"
READY, READY_OWN = "ready", "ready own columns"

Runs = dict[str, list[Spent]]


def source(setting: Setting) -> Iterator[Row]:
    """All methods in the same run, taking turns."""
    with site(setting.size(EVENTS, QUICK)) as place, running() as spark:
        place.publish_json(BATCHED, place.events, place.told.together)
        place.publish_json(SINGLE, place.events // FEWER, 1)
        place.record()
        _make_ready(spark, place)
        rows = {**_methods(spark, place), **_ready(spark, place)}
        trouble = _trouble(place, rows, setting)
        methods = {name: _drained(made) for name, made in rows.items()}
        found = race(methods, setting.size(ROUNDS, 1), setting.progress)
    yield from _rows(place, found, trouble)


def workers(setting: Setting) -> Iterator[Row]:
    """The same read with one worker and with two."""
    with site(setting.size(EVENTS, QUICK)) as place:
        for number, master in enumerate(("local[1]", TWO), start=1):
            with running(master) as spark:
                method = _drained(_methods(spark, place)[OURS])
                [runs] = race({OURS: method}, setting.size(ROUNDS, 1), setting.progress).values()
            yield from _worker_rows(place, number, runs)


def _methods(spark: SparkSession, place: BenchSite) -> dict[str, Callable[[], DataFrame]]:
    def read(topic: str, **options: object) -> DataFrame:
        reader = spark.read.format("thinwire").option("subscribe", topic).option("minPartitions", PARTS)
        where = {} if "path" in options else {"servers": place.url}
        columns = str(options.pop("schema", "")) or None
        return reader.options(**where, **{name: str(value) for name, value in options.items()}).load(schema=columns)

    return {
        OURS: lambda: read(TOPIC),
        FILES: lambda: read(TOPIC, path=place.recording),
        OWN: lambda: read(TOPIC, path=place.recording, schema=EVENT),
        SOURCE_FRAMES: lambda: read(TOPIC, columns="frames"),
        MESSAGES: lambda: read(TOPIC, columns="messages"),
        LINES: lambda: from_lines(read(BATCHED, columns="messages")),
        SINGLES: lambda: from_single(read(SINGLE, columns="messages")),
    }


def _make_ready(spark: SparkSession, place: BenchSite) -> None:
    from thinwire_lab.bench.spark.bench_site import ReadyDataSource, make_ready

    spark.dataSource.register(ReadyDataSource)
    make_ready(place.recording, TOPIC, place.ready)


def _ready(spark: SparkSession, place: BenchSite) -> dict[str, Callable[[], DataFrame]]:
    """The rows of the recording without the work of reading it: all columns, and those of the event."""

    def read(schema: str | None = None) -> DataFrame:
        return spark.read.format("ready").options(path=str(place.ready), parts=str(PARTS)).load(schema=schema)

    return {READY: read, READY_OWN: lambda: read(EVENT)}


def _drained(made: Callable[[], DataFrame]) -> Callable[[], None]:
    """With everything that a query takes: finding the columns, planning, reading."""
    return lambda: drain(made())


def _trouble(place: BenchSite, rows: dict[str, Callable[[], DataFrame]], setting: Setting) -> str:
    """Why the figures would mean nothing: the methods have not read the same, or the stream is too easy."""
    expected = dict.fromkeys((OURS, FILES, OWN, LINES, READY, READY_OWN), place.events)
    expected |= {SOURCE_FRAMES: place.told.frames, MESSAGES: place.told.messages, SINGLES: place.events // FEWER}
    for name, count in expected.items():
        found = rows[name]().count()
        if found != count:
            return f"{name}: {found:,} rows, not {count:,}"
    ours = rows[OURS]().agg({"temperature": "avg"}).collect()[0][0]
    true = rows[LINES]().select("event.*").agg({"temperature": "avg"}).collect()[0][0]
    if not abs(ours - true) <= TOLERANCE:
        return f"the mean temperature is {ours:g}, not {true:g}"
    share = place.told.share
    return f"{share:.3f} frames an event, not {SHARE:g}" if share < SHARE and not setting.quick else ""


def _rows(place: BenchSite, found: Runs, trouble: str) -> Iterator[Row]:
    told = place.told
    items = dict.fromkeys(found, told.events)
    items |= {SOURCE_FRAMES: told.frames, MESSAGES: told.frames, SINGLES: told.events // FEWER}
    rates = {name: rate(items[name], runs) for name, runs in found.items()}
    common = f"{_stream(place)}; median of {len(found[OURS])} rounds in turn on {TWO}, {PARTS} parts, noop sink"
    called = {
        SOURCE_FRAMES: "raw frames, one a row",
        MESSAGES: "raw frames, in messages as they are",
        LINES: f"JSON lines, {told.together} events a message, from_json",
        SINGLES: "JSON, one message an event, from_json",
        OURS: "source",
        FILES: "recorded files",
        OWN: "recorded files, the event's own columns",
        READY: "rows made already",
        READY_OWN: "rows made already, the event's own columns",
    }

    def row(ours: str, theirs: str, low: float | None) -> Row:
        pairs = zip(found[ours], found[theirs], strict=True)
        value = median((items[ours] / mine.cpu) / (items[theirs] / other.cpu) for mine, other in pairs)
        how = f"{rates[ours]:,.0f} events to {rates[theirs]:,.0f} a CPU-second; {common}"
        name = f"{called[ours]}: events a CPU-second to {called[theirs]}"
        return Row(name, "times", value, low=low, how=how, note=trouble, sound=not trouble)

    yield row(OURS, SOURCE_FRAMES, 0.7)
    yield row(OURS, MESSAGES, None)
    yield row(OURS, LINES, 1.0)
    yield row(OURS, SINGLES, None)
    yield row(FILES, LINES, 5.0)
    yield row(OWN, LINES, None)
    yield row(READY, LINES, None)
    yield row(READY_OWN, LINES, None)
    yield row(FILES, READY, None)


def _worker_rows(place: BenchSite, number: int, runs: list[Spent]) -> Iterator[Row]:
    how = f"{_stream(place)}; median of {len(runs)} rounds, {PARTS} parts, noop sink"
    called = f"source, {number} worker{'s' if number > 1 else ''}: rows"
    yield Row(f"{called} a second", "events/s", median(place.events / run.wall for run in runs), how=how)
    yield Row(f"{called} a CPU-second", "events/s", rate(place.events, runs), how=how)


def _stream(place: BenchSite) -> str:
    told = place.told
    return f"{told.events:,} events, {told.share:.2f} frames an event, {told.messages:,} messages"


BARS = [Bar("source", source), Bar("stream", small_batches), Bar("workers", workers)]
