"""A driver on a cluster: runs a sweep, reads a topic while an executor is killed, and writes the results.

Usage: cluster_driver.py MASTER SERVERS TOPIC FOLDER
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import feather

from thinwire.spark.parameter_sweep import grid, sweep
from thinwire.spark.session import session

SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": 1,
    "spark.driver.memory": "512m",
    "spark.scheduler.minRegisteredResourcesRatio": 1.0,  # no task before both executors are there
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
    "spark.network.timeout": "600s",  # a slow executor is not lost; a killed one is detected at once
}


def where(n: int) -> Mapping[str, Any]:
    """Return the executor that runs the cell, and the location of its package."""
    import thinwire
    from thinwire.codec import kernels

    time.sleep(0.05)  # long enough for the other executor to get its share
    return {"square": n * n, "executor": os.getcwd(), "from": [thinwire.__file__, kernels.__file__]}


def deadly(mark: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Pass rows through; the first task that has passed some kills its executor."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            half = batch.num_rows // 2
            yield batch.slice(0, half)
            if first(mark):
                kill_executor()
            yield batch.slice(half)

    return run


def first(mark: Path) -> bool:
    """Return True for the first caller."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def kill_executor() -> None:
    """Kill the JVM of this worker and wait until the worker is killed too."""
    import psutil

    above = psutil.Process().parents()
    next(one for one in above if "CoarseGrainedExecutorBackend" in " ".join(one.cmdline())).kill()
    time.sleep(600)


def main(master: str, servers: str, topic: str, folder: str) -> None:
    spark = session(master, **SETTINGS)
    try:
        results = sweep(spark, where, grid(n=list(range(40))))
        reader = spark.read.format("thinwire").option("servers", servers).option("subscribe", topic)
        frame = reader.option("minPartitions", 4).load()
        rows = frame.mapInArrow(deadly(Path(folder) / "killed"), frame.schema).toArrow()
    finally:
        spark.stop()
    feather.write_feather(rows, str(Path(folder) / "rows.arrow"))
    (Path(folder) / "sweep.json").write_text(json.dumps([result._asdict() for result in results]))


if __name__ == "__main__":
    main(*sys.argv[1:])
