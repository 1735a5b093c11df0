"""Stores an archive of the loaded Java classes of Spark, so that Java starts in half the time in tests."""

import os
import tempfile
from pathlib import Path

import conftest  # defines where tests store them
import pandas as pd
from pyspark.sql import functions

from thinwire.errors import SparkUnavailable
from thinwire.spark.session import check, session


def store_classes() -> None:
    """Store the classes that Java has loaded at the end of a run. Java ignores a file of another version."""
    if conftest.CLASSES.exists():
        return
    conftest.CLASSES.parent.mkdir(exist_ok=True)
    unfinished = conftest.CLASSES.with_suffix(f".{os.getpid()}")
    os.environ["JDK_JAVA_OPTIONS"] = (
        f"{conftest.QUICK_JAVA} -XX:ArchiveClassesAtExit={unfinished} {conftest.SILENT_JAVA}"
    )
    with tempfile.TemporaryDirectory() as folder:
        _use_spark(Path(folder))
    if unfinished.exists():
        unfinished.rename(conftest.CLASSES)


def _use_spark(folder: Path) -> None:
    spark = session("local[2]", app="classes")
    rows = spark.range(100).select("id", (functions.col("id") % 7).alias("key"), functions.col("id").cast("string"))
    rows.toDF("id", "key", "text").write.partitionBy("key").parquet(str(folder / "table"))
    table = spark.read.parquet(str(folder / "table"))
    table.groupBy("key").applyInPandas(_same, table.schema).groupBy("key").count().orderBy("key").collect()
    stream = spark.readStream.schema(table.schema).parquet(str(folder / "table")).writeStream
    stream.format("parquet").option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start(
        str(folder / "landed")
    ).awaitTermination()
    java = spark.sparkContext._gateway.proc
    spark.stop()
    java.stdin.close()
    java.wait()


def _same(rows: pd.DataFrame) -> pd.DataFrame:
    return rows


if __name__ == "__main__":
    try:
        check()
    except SparkUnavailable:
        pass
    else:
        store_classes()
