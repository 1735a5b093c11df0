"""A driver of a Connect server: reads a topic as a table and as a stream, runs sweeps, completes partial events.

Usage: connect_driver.py REMOTE SERVERS TOPIC FOLDER
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import feather
from pyspark.sql import SparkSession

from thinwire.spark.parameter_sweep import grid, sweep
from thinwire.spark.reconstruction import reconstruct
from thinwire.spark.session import session

PARTIALS = {"room": ["a", "b", "a", "b", "a"], "_ordinal": [1, 1, 2, 2, 3], "t": [20.5, 7.0, None, None, 21.0]}


def squared(n: int) -> Mapping[str, Any]:
    import thinwire

    time.sleep(0.2)
    return {"square": n * n, "from": thinwire.__file__}


def waited(seconds: float) -> Mapping[str, Any]:
    time.sleep(seconds)
    return {}


def main(remote: str, servers: str, topic: str, folder: str) -> None:
    out = Path(folder)
    spark = session(remote)
    try:
        options = {"servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
        rows = spark.read.format("thinwire").options(**options, minPartitions=2).load().toArrow()
        feather.write_feather(rows, str(out / "rows.arrow"))
        facts = {"sweep": swept(spark), "cancelled_after": cancelled(spark), "filled": filled(spark)}
    finally:
        spark.stop()
    (out / "facts.json").write_text(json.dumps(facts))


def swept(spark: SparkSession) -> dict[str, Any]:
    reported: list[tuple[int, int]] = []
    results = sweep(spark, squared, grid(n=list(range(20))), progress=lambda *at: reported.append(at))
    return {"figures": [result.figures for result in results], "reported": reported}


def cancelled(spark: SparkSession) -> float:
    """Return the seconds until a sweep of many minutes ends after an interruption at its start."""
    started = time.monotonic()

    def interrupt(done: int, total: int) -> None:
        if total:
            raise KeyboardInterrupt

    try:
        sweep(spark, waited, grid(seconds=[600.0, 600.0]), progress=interrupt)
    except KeyboardInterrupt:
        sweep(spark, squared, grid(n=[7]))  # finds a free core only if the tasks have ended
    return time.monotonic() - started


def filled(spark: SparkSession) -> list[Any]:
    frame = reconstruct(spark.createDataFrame(pa.table(PARTIALS)), source=["room"], buckets=2)
    return [row["t"] for row in frame.orderBy("room", "_ordinal").collect()]


if __name__ == "__main__":
    main(*sys.argv[1:])
