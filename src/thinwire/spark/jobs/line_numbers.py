"""Locations of lines that Spark reads in blocks of files."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


class LineLocation(NamedTuple):
    """Location of a line: the file, the block of it that a task reads, and the number in the block from 1 on.

    >>> location = LineLocation("rooms.jsonl", 0, 7)
    >>> location.next("rooms.jsonl", 0).line, location.next("rooms.jsonl", 64).line
    (8, 1)
    """

    file: str
    block: int
    line: int

    def next(self, file: str, block: int) -> LineLocation:
        """Return the location of the next line that is read, in this file and block."""
        return LineLocation(file, block, self.line + 1 if (file, block) == self[:2] else 1)


def number_lines(frame: DataFrame) -> DataFrame:
    """Return the rows with line numbers in files instead of blocks."""
    before = Window.partitionBy("file").orderBy("block").rowsBetween(Window.unboundedPreceding, -1)
    blocks = frame.groupBy("file", "block").agg(F.max("line").alias("lines"))
    starts = blocks.select("file", "block", F.coalesce(F.sum("lines").over(before), F.lit(0)).alias("start"))
    joined = frame.join(F.broadcast(starts), ["file", "block"])
    return joined.withColumn("line", F.col("line") + F.col("start")).withColumn("block", F.lit(0)).drop("start")


def strip_scheme(file: str) -> str:
    """Return the path of a file without the scheme `file:`.

    >>> strip_scheme("file:///data/rooms.jsonl"), strip_scheme("s3a://lake/rooms.jsonl")
    ('/data/rooms.jsonl', 's3a://lake/rooms.jsonl')
    """
    return "/" + file.removeprefix("file:").lstrip("/") if file.startswith("file:/") else file
