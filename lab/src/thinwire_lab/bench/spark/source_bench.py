"""A stream in small batches: how much is read beside what was asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from thinwire_lab.bench.benchmark import Row, Setting
from thinwire_lab.bench.spark.bench_site_site import Site, site
from thinwire_lab.bench.spark.bench_site_stream import A_CYCLE, FRAMES
from thinwire_lab.bench.spark.process_usage_sessions import TWO, running
from thinwire_lab.live.live_feed_feed import TOPIC

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

EVENTS, QUICK = 4 * A_CYCLE, 20_000
A_TRIGGER = 5_000
"""frames of a batch"""
LIMIT = 1.3
TRIES = 5
LATE = "failed to connect back"
"""what a stream ends with before its first batch where the process that plans it takes ten seconds to start"""


def small_batches(setting: Setting) -> Iterator[Row]:
    """The log read as a stream to its end; tasks write down what they were asked for and what they read."""
    with TemporaryDirectory(prefix="thinwire-bench-") as folder, site(setting.size(EVENTS, QUICK)) as place:
        with running() as spark:
            _follow(spark, place, Path(folder))
        told = [json.loads(line) for line in (Path(folder) / "state" / "reading.jsonl").read_text().splitlines()]
    yield _row(place, told)


def _follow(spark: SparkSession, place: Site, folder: Path) -> None:
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


def _row(place: Site, told: list[dict[str, Any]]) -> Row:
    sums = {name: sum(one[name] for one in told) for name in ("asked", "read", "run_up", "rows")}
    trouble = "" if sums["rows"] == place.events else f"{sums['rows']:,} rows, not {place.events:,}"
    how = f"{sums['asked']:,} messages of {FRAMES} frames in {len(told)} batches on {TWO}, {place.events:,} events"
    name = f"stream, {A_TRIGGER:,} frames a trigger: messages read to messages asked for"
    value = (sums["read"] + sums["run_up"]) / sums["asked"]
    return Row(name, "times", value, high=LIMIT, how=how, note=trouble, sound=not trouble)
