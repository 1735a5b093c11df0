"""A driver on a cluster: reads a topic, runs a sweep, and writes down what came of it.

Usage: cluster_driver.py MASTER SERVERS TOPIC FOLDER
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyarrow import feather

from thinwire.spark.session import session
from thinwire.spark.sweep import grid, sweep

SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": 1,
    "spark.driver.memory": "512m",
    "spark.scheduler.minRegisteredResourcesRatio": 1.0,  # no task before both executors are there
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
}


def where(n: int) -> Mapping[str, Any]:
    """Which executor runs the cell, and from where it has the package."""
    import thinwire
    from thinwire.reduction import kernels

    time.sleep(0.05)  # long enough for the other executor to get its share
    return {"square": n * n, "executor": os.getcwd(), "from": [thinwire.__file__, kernels.__file__]}


def main(master: str, servers: str, topic: str, folder: str) -> None:
    spark = session(master, **SETTINGS)
    try:
        reader = spark.read.format("thinwire").option("servers", servers).option("subscribe", topic)
        frame = reader.option("minPartitions", 4).load()
        feather.write_feather(frame.toArrow(), str(Path(folder) / "rows.arrow"))
        results = sweep(spark, where, grid(n=list(range(40))), tasks=8)
    finally:
        spark.stop()
    (Path(folder) / "sweep.json").write_text(json.dumps([result._asdict() for result in results]))


if __name__ == "__main__":
    main(*sys.argv[1:])
