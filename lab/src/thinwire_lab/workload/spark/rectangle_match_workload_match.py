"""The events of a workload matched with its rectangles, as a folder of pairs."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from thinwire.spark.action_progress import Progress, watched
from thinwire_lab.workload.spark.rectangle_match import Way, match
from thinwire_lab.workload.spark.workload_folder import read_manifest, translated
from thinwire_lab.workload.spark.workload_folder_folders import new_folder


def match_folder(
    spark: SparkSession, folder: Path, out: Path, *, way: Way = "auto", progress: Progress | None = None
) -> dict[str, int]:
    """Write all pairs of an event and a distinct rectangle; how many they are, and how many subscriptions hear."""
    axes = read_manifest(folder)["axes"]
    events, rectangles = (spark.read.parquet(str((folder / name).resolve())) for name in ("events", "subscriptions"))
    with new_folder(out) as unfinished, translated(out):
        place = str((unfinished / "pairs").resolve())
        pairs = match(events, rectangles, axes, way=way)
        watched(spark, lambda: pairs.write.parquet(place), progress)
        sums = [F.count("*"), F.sum("multiplicity"), F.countDistinct("event")]
        row = spark.read.parquet(place).agg(*sums).collect()[0]
    return {"pairs": row[0], "notifications": row[1] or 0, "events": row[2]}
