"""Events of files and topics as rows of a DataFrame: what they say, when they happened, and where they stood.

Lines are parsed by the same code as without Spark. A line that is no event has a reason instead of an event.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from thinwire.analysis import kind_of
from thinwire.analysis.event_columns import events_of
from thinwire.analysis.event_files import Header, again, header_of, kept, of_row
from thinwire.analysis.event_times import HEAD, Stamper
from thinwire.errors import ConfigError
from thinwire.schema import Schema
from thinwire.spark.jobs.analyze_input import Line, bare, lines_by, read_by
from thinwire.spark.jobs.time_columns import named


def parsed(spark: SparkSession, paths: Sequence[str], stamper: Stamper | None = None) -> DataFrame:
    """The lines and rows of files (or folders of such), parsed; without a stamper nothing has a time."""
    frames = [_file(spark, path, stamper) for path in paths]
    if not frames:
        raise ConfigError("name at least one file", paths=[])
    found = frames[0]
    for frame in frames[1:]:
        found = found.union(frame)
    return found


def landed(rows: DataFrame, schema: Schema, stamper: Stamper | None = None) -> DataFrame:
    """The rows of a topic, in the order of its log."""

    def lines(batch: pa.RecordBatch) -> list[Line]:
        places = zip(batch.column("_offset").to_pylist(), batch.column("_ordinal").to_pylist(), strict=True)
        some = zip(events_of(batch, schema), places, strict=True)
        return [(schema.name, offset, line, event, kept(event), None) for event, (offset, line) in some]

    columns = [named(p.name) for p in schema if p.name in rows.columns]
    return read_by(rows.select(*columns, "_offset", "_ordinal"), lambda: lines, stamper)


@contextmanager
def naming_damage() -> Iterator[None]:
    """A file that cannot be read through, such as one that only its name calls gzipped, is found out on the way."""
    try:
        yield
    except Exception as problem:  # a session in this process and a remote one raise different things
        found = re.search(r"FAILED_READ_FILE.*? reading file (\S+)\.\s", str(problem))
        if found is None:
            raise
        raise ConfigError("damaged, or not what its name says: this cannot be read", path=bare(found[1])) from None


def head_of(frame: DataFrame) -> list[dict[str, Any]]:
    """The first few events."""
    return [again(row.event) for row in frame.where("event is not null").select("event").limit(HEAD).collect()]


def numbered(frame: DataFrame) -> DataFrame:
    """With lines numbered in their files, not in the blocks that tasks read."""
    before = Window.partitionBy("file").orderBy("block").rowsBetween(Window.unboundedPreceding, -1)
    blocks = frame.groupBy("file", "block").agg(F.max("line").alias("lines"))
    starts = blocks.select("file", "block", F.coalesce(F.sum("lines").over(before), F.lit(0)).alias("start"))
    joined = frame.join(F.broadcast(starts), ["file", "block"])
    return joined.withColumn("line", F.col("line") + F.col("start")).withColumn("block", F.lit(0)).drop("start")


def _file(spark: SparkSession, path: str, stamper: Stamper | None) -> DataFrame:
    """What a path holds; a folder holds Parquet."""
    name = PurePosixPath(path).name
    kind = kind_of(name) if "." in name else "parquet"
    try:
        if kind == "parquet":
            return _table(spark.read.parquet(path), stamper)
        return _text(spark, path, kind, stamper)
    except AnalysisException as problem:
        if problem.getCondition() == "PATH_NOT_FOUND":
            raise ConfigError("there is no such file", path=path) from None
        raise ConfigError(f"this cannot be read: {str(problem).splitlines()[0]}", path=path) from None


def _table(rows: DataFrame, stamper: Stamper | None) -> DataFrame:
    def lines(batch: pa.RecordBatch) -> list[Line]:
        files, numbers = (batch.column(name).to_pylist() for name in (_FILE, _BLOCK))
        events = map(of_row, batch.drop_columns([_FILE, _BLOCK]).to_pylist())
        some = zip(files, numbers, events, strict=True)
        return [(bare(file), 0, number + 1, event, kept(event), None) for file, number, event in some]

    about = (F.col("_metadata.file_path").alias(_FILE), F.col("_metadata.row_index").alias(_BLOCK))
    return read_by(rows.select("*", *about), lambda: lines, stamper)


def _text(spark: SparkSession, path: str, kind: str, stamper: Stamper | None) -> DataFrame:
    lines = spark.read.text(path).select(
        "value", F.col("_metadata.file_path").alias(_FILE), F.col("_metadata.file_block_start").alias(_BLOCK)
    )
    header: Header | None = None
    if kind == "csv":
        first = lines.where(F.col(_BLOCK) == 0).select("value").first()
        header = header_of(first.value if first is not None else "", path)
    return read_by(lines, lambda: lines_by(header), stamper)


_FILE, _BLOCK = "__file", "__block"
