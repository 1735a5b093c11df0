"""Benchmarks of the Spark source: events per CPU-second compared with raw frames and JSON, small batches, workers.

All methods read through the same reader and broker, or from recorded files.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from thinwire_lab.bench.benchmark import Benchmark, Row, Setting
from thinwire_lab.bench.spark.bench_site import BATCHED, CYCLE_EVENTS, FRAMES, SINGLE, BenchSite, site
from thinwire_lab.bench.spark.process_usage import TWO_CORES, ProcessUsage, drain, race, rate, spark_session
from thinwire_lab.bench.spark.reconstruction_bench import EVENT, from_lines, from_single
from thinwire_lab.live.live_feed import TOLERANCE, TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


BATCH_EVENTS, BATCH_EVENTS_QUICK = 4 * CYCLE_EVENTS, 20_000
TRIGGER_FRAMES = 5_000
"""frames per micro-batch"""
MAX_READ = 1.3
"""messages that are read, as a multiple of those requested"""
TRIES = 5
SLOW_START = "failed to connect back"
"""part of the error of a stream whose planning process takes more than ten seconds to start"""


def small_batches(setting: Setting) -> Iterator[Row]:
    """Read the log as a stream to its end. Tasks report the messages that were requested and read."""
    with (
        TemporaryDirectory(prefix="thinwire-bench-") as folder,
        site(setting.size(BATCH_EVENTS, BATCH_EVENTS_QUICK)) as system,
    ):
        with spark_session() as spark:
            _read_stream(spark, system, Path(folder))
        reports = [json.loads(line) for line in (Path(folder) / "state" / "reading.jsonl").read_text().splitlines()]
    yield _row(system, reports)


def _read_stream(spark: SparkSession, system: BenchSite, folder: Path) -> None:
    options = {
        "servers": system.url,
        "subscribe": TOPIC,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(TRIGGER_FRAMES // FRAMES),
        "stateLocation": str(folder / "state"),
    }
    rows = spark.readStream.format("thinwire").options(**options).load()
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
    run_stream(writer.trigger(availableNow=True), TRIES)


def run_stream(writer: DataStreamWriter, tries: int) -> None:
    """Run a stream to the end of the log. After `SLOW_START` it has read nothing and is started again."""
    from pyspark.errors import StreamingQueryException

    try:
        writer.start().awaitTermination()
    except StreamingQueryException as error:
        if tries == 1 or SLOW_START not in str(error):
            raise
        run_stream(writer, tries - 1)


def _row(system: BenchSite, reports: list[dict[str, Any]]) -> Row:
    sums = {name: sum(report[name] for report in reports) for name in ("requested", "read", "replayed", "rows")}
    invalid = "" if sums["rows"] == system.events else f"{sums['rows']:,} rows, not {system.events:,}"
    how = f"{sums['requested']:,} messages of {FRAMES} frames in {len(reports)} batches on {TWO_CORES}"
    how += f", {system.events:,} events"
    name = f"stream, {TRIGGER_FRAMES:,} frames a trigger: messages read to messages requested"
    value = (sums["read"] + sums["replayed"]) / sums["requested"]
    return Row(name, "times", value, high=MAX_READ, how=how, invalid=invalid)


EVENTS, EVENTS_QUICK = 40 * CYCLE_EVENTS, 20_000
SINGLE_DIVISOR = 4
"""the log with one message per event contains this fraction of the events: it is slower, and a rate needs fewer"""
PARTITIONS = 4
ROUNDS = 5
MIN_FRAMES_PER_EVENT = 0.5
OURS, FILES, OWN = "events", "files", "own columns"
SOURCE_FRAMES, MESSAGES, LINES, SINGLES = "frames", "messages", "json", "json single"
READY, READY_OWN = "ready", "ready own columns"
"""methods; own columns: only the properties of the event; ready: rows that were decoded and stored in advance"""

COMPARISONS = (
    (OURS, SOURCE_FRAMES, 0.7),
    (OURS, MESSAGES, None),
    (OURS, LINES, 1.0),
    (OURS, SINGLES, None),
    (FILES, LINES, 5.0),
    (OWN, LINES, None),
    (READY, LINES, None),
    (READY_OWN, LINES, None),
    (FILES, READY, None),
)
"""two methods and the required ratio of their rates"""

Runs = dict[str, list[ProcessUsage]]


def compare_methods(setting: Setting) -> Iterator[Row]:
    """Run all methods in turn."""
    with site(setting.size(EVENTS, EVENTS_QUICK)) as system, spark_session() as spark:
        asyncio.run(system.publish_json(BATCHED, system.events, system.counts.together))
        asyncio.run(system.publish_json(SINGLE, system.events // SINGLE_DIVISOR, 1))
        asyncio.run(system.record())
        _store_decoded(spark, system)
        queries = {**_methods(spark, system), **_ready_methods(spark, system)}
        invalid = _describe_invalid(system, queries, setting)
        methods = {name: _drained(query) for name, query in queries.items()}
        found = race(methods, setting.size(ROUNDS, 1), setting.progress)
    yield from _rows(system, found, invalid)


def compare_workers(setting: Setting) -> Iterator[Row]:
    """Read with one worker and with two."""
    with site(setting.size(EVENTS, EVENTS_QUICK)) as system:
        for number, master in enumerate(("local[1]", TWO_CORES), start=1):
            with spark_session(master) as spark:
                method = _drained(_methods(spark, system)[OURS])
                [runs] = race({OURS: method}, setting.size(ROUNDS, 1), setting.progress).values()
            yield from _worker_rows(system, number, runs)


def _methods(spark: SparkSession, system: BenchSite) -> dict[str, Callable[[], DataFrame]]:
    def read(topic: str, **options: object) -> DataFrame:
        reader = spark.read.format("thinwire").option("subscribe", topic).option("minPartitions", PARTITIONS)
        location = {} if "path" in options else {"servers": system.url}
        columns = str(options.pop("schema", "")) or None
        return reader.options(**location, **{name: str(value) for name, value in options.items()}).load(schema=columns)

    return {
        OURS: lambda: read(TOPIC),
        FILES: lambda: read(TOPIC, path=system.recording),
        OWN: lambda: read(TOPIC, path=system.recording, schema=EVENT),
        SOURCE_FRAMES: lambda: read(TOPIC, columns="frames"),
        MESSAGES: lambda: read(TOPIC, columns="messages"),
        LINES: lambda: from_lines(read(BATCHED, columns="messages")),
        SINGLES: lambda: from_single(read(SINGLE, columns="messages")),
    }


def _store_decoded(spark: SparkSession, system: BenchSite) -> None:
    from thinwire_lab.bench.spark.bench_site import ReadyDataSource, store_decoded_rows

    spark.dataSource.register(ReadyDataSource)
    store_decoded_rows(system.recording, TOPIC, system.decoded_rows)


def _ready_methods(spark: SparkSession, system: BenchSite) -> dict[str, Callable[[], DataFrame]]:
    """Return queries of rows that are not decoded: with all columns, and with those of the event."""

    def read(schema: str | None = None) -> DataFrame:
        return (
            spark.read.format("ready").options(path=str(system.decoded_rows), parts=str(PARTITIONS)).load(schema=schema)
        )

    return {READY: read, READY_OWN: lambda: read(EVENT)}


def _drained(query: Callable[[], DataFrame]) -> Callable[[], None]:
    """Return the execution of a query, including the schema and planning."""
    return lambda: drain(query())


def _describe_invalid(system: BenchSite, queries: dict[str, Callable[[], DataFrame]], setting: Setting) -> str:
    """Return why the results are not valid: the methods have read different rows, or the stream has too few frames."""
    expected = dict.fromkeys((OURS, FILES, OWN, LINES, READY, READY_OWN), system.events)
    expected |= {
        SOURCE_FRAMES: system.counts.frames,
        MESSAGES: system.counts.messages,
        SINGLES: system.events // SINGLE_DIVISOR,
    }
    for name, count in expected.items():
        found = queries[name]().count()
        if found != count:
            return f"{name}: {found:,} rows, not {count:,}"
    our_mean = queries[OURS]().agg({"temperature": "avg"}).collect()[0][0]
    true_mean = queries[LINES]().select("event.*").agg({"temperature": "avg"}).collect()[0][0]
    if not abs(our_mean - true_mean) <= TOLERANCE:
        return f"the mean temperature is {our_mean:g}, not {true_mean:g}"
    share = system.counts.share
    has_too_few = share < MIN_FRAMES_PER_EVENT and not setting.quick
    return f"{share:.3f} frames an event, not {MIN_FRAMES_PER_EVENT:g}" if has_too_few else ""


def _rows(system: BenchSite, found: Runs, invalid: str) -> Iterator[Row]:
    counts = system.counts
    processed = dict.fromkeys(found, counts.events)
    processed |= {SOURCE_FRAMES: counts.frames, MESSAGES: counts.frames, SINGLES: counts.events // SINGLE_DIVISOR}
    rates = {name: rate(processed[name], runs) for name, runs in found.items()}
    common = f"{_describe_stream(system)}; median of {len(found[OURS])} rounds in turn on {TWO_CORES}"
    common += f", {PARTITIONS} parts, noop sink"
    titles = {
        SOURCE_FRAMES: "raw frames, one a row",
        MESSAGES: "raw frames, in messages as they are",
        LINES: f"JSON lines, {counts.together} events a message, from_json",
        SINGLES: "JSON, one message an event, from_json",
        OURS: "source",
        FILES: "recorded files",
        OWN: "recorded files, the event's own columns",
        READY: "rows made in advance",
        READY_OWN: "rows made in advance, the event's own columns",
    }

    def row(ours: str, reference: str, low: float | None) -> Row:
        pairs = zip(found[ours], found[reference], strict=True)
        value = median(
            (processed[ours] / run.cpu) / (processed[reference] / reference_run.cpu) for run, reference_run in pairs
        )
        how = f"{rates[ours]:,.0f} events to {rates[reference]:,.0f} a CPU-second; {common}"
        name = f"{titles[ours]}: events a CPU-second to {titles[reference]}"
        return Row(name, "times", value, low=low, how=how, invalid=invalid)

    yield from (row(*comparison) for comparison in COMPARISONS)


def _worker_rows(system: BenchSite, number: int, runs: list[ProcessUsage]) -> Iterator[Row]:
    how = f"{_describe_stream(system)}; median of {len(runs)} rounds, {PARTITIONS} parts, noop sink"
    name = f"source, {number} worker{'s' if number > 1 else ''}: rows"
    yield Row(f"{name} a second", "events/s", median(system.events / run.wall for run in runs), how=how)
    yield Row(f"{name} a CPU-second", "events/s", rate(system.events, runs), how=how)


def _describe_stream(system: BenchSite) -> str:
    counts = system.counts
    return f"{counts.events:,} events, {counts.share:.2f} frames an event, {counts.messages:,} messages"


BENCHMARKS = [
    Benchmark("source", compare_methods),
    Benchmark("stream", small_batches),
    Benchmark("workers", compare_workers),
]
