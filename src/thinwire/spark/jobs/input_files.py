"""Input files of jobs: lines of text with their locations, and errors that name the file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from thinwire.errors import ConfigError


@contextmanager
def report_missing_file(path: str) -> Iterator[None]:
    """Raise `ConfigError` with the path of a file that does not exist or whose columns Spark cannot determine."""
    try:
        yield
    except AnalysisException as problem:
        if problem.getCondition() == "PATH_NOT_FOUND":
            raise ConfigError("no such file", path=path) from None
        raise ConfigError(f"the file cannot be read: {str(problem).splitlines()[0]}", path=path) from None


@contextmanager
def report_unreadable_file() -> Iterator[None]:
    """Raise `ConfigError` with the path of a file that a task fails to read, such as a damaged gzip file."""
    try:
        yield
    except Exception as problem:  # local and remote sessions raise different classes
        found = re.search(r"FAILED_READ_FILE.*? reading file (\S+)\.\s", str(problem))
        if found is None:
            raise
        path = strip_scheme(found[1])
        raise ConfigError("the file cannot be read: damaged, or not of the type of its name", path=path) from None


def strip_scheme(file: str) -> str:
    """Return the path of a file without the scheme `file:`.

    >>> strip_scheme("file:///data/rooms.jsonl"), strip_scheme("s3a://lake/rooms.jsonl")
    ('/data/rooms.jsonl', 's3a://lake/rooms.jsonl')
    """
    return "/" + file.removeprefix("file:").lstrip("/") if file.startswith("file:/") else file


def read_lines(spark: SparkSession, path: str) -> DataFrame:
    """Return the lines of a text file as bytes, each with its file and the start of the block that a task reads."""
    location = (F.col("_metadata.file_path").alias("file"), F.col("_metadata.file_block_start").alias("block"))
    return spark.read.text(path).select(F.col("value").cast("binary"), *location)


def add_line_numbers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add the number of each line in its block, from 1 on. A task reads the lines of a block in order.

    >>> lines = {"value": [b"a", b"b", b"c"], "file": ["rooms.jsonl"] * 3, "block": [0, 0, 64]}
    >>> [batch.column("line").to_pylist() for batch in add_line_numbers(iter([pa.RecordBatch.from_pydict(lines)]))]
    [[1, 2, 1]]
    """
    previous, line = None, 0
    for batch in batches:
        numbers = []
        for location in zip(batch.column("file").to_pylist(), batch.column("block").to_pylist(), strict=True):
            line = line + 1 if location == previous else 1
            previous = location
            numbers.append(line)
        yield batch.append_column("line", pa.array(numbers, pa.int64()))


def number_in_files(frame: DataFrame) -> DataFrame:
    """Return the rows with line numbers in files instead of blocks, as if each file were one block."""
    before = Window.partitionBy("file").orderBy("block").rowsBetween(Window.unboundedPreceding, -1)
    blocks = frame.groupBy("file", "block").agg(F.max("line").alias("lines"))
    starts = blocks.select("file", "block", F.coalesce(F.sum("lines").over(before), F.lit(0)).alias("start"))
    joined = frame.join(F.broadcast(starts), ["file", "block"])
    return joined.withColumn("line", F.col("line") + F.col("start")).withColumn("block", F.lit(0)).drop("start")
