"""Events of files and topics as rows of a DataFrame: what they say, when they happened, and where they stood.

Lines are parsed by the same code as without Spark. A line that is no event has a reason instead of an event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from thinwire.errors import ConfigError
from thinwire.evaluation.analysis import kind_of
from thinwire.evaluation.analysis.lines import Header, NoEvent, again, event_of, header_of, kept, of_row
from thinwire.evaluation.analysis.rows import events_of
from thinwire.evaluation.analysis.stamping import HEAD, Stamper
from thinwire.events import Schema
from thinwire.spark.jobs.instants import named

PARSED = "file string, block long, line long, event string, text string, reason string"
STAMPED = f"{PARSED}, seconds double"
_SHOWN = 200
_NOTHING = (None, None, None)
"""a line that is empty, or a header: neither an event nor a fault, but it counts"""
_ROW = ("file", "block", "line", "event", "text", "reason")


class Place(NamedTuple):
    """Where a line stands: the file, the block of it that a task reads, and its number there from 1 on."""

    file: str
    block: int
    line: int

    def next(self, file: str, block: int) -> Place:
        """The place of the line that is read after this one, and stands there."""
        return Place(file, block, self.line + 1 if (file, block) == self[:2] else 1)


def parsed(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """The lines and rows of files (or folders of such), parsed."""
    frames = [_file(spark, path) for path in paths]
    if not frames:
        raise ConfigError("name at least one file", paths=[])
    found = frames[0]
    for frame in frames[1:]:
        found = found.union(frame)
    return found


def landed(rows: DataFrame, schema: Schema) -> DataFrame:
    """The rows of a topic, in the order of its log."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            places = zip(batch.column("_offset").to_pylist(), batch.column("_ordinal").to_pylist(), strict=True)
            some = zip(events_of(batch, schema), places, strict=True)
            yield _rows([(schema.name, offset, line, kept(event), None, None) for event, (offset, line) in some])

    columns = [named(p.name) for p in schema if p.name in rows.columns]
    return rows.select(*columns, "_offset", "_ordinal").mapInArrow(run, PARSED)


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


def stamped(frame: DataFrame, stamper: Stamper | None) -> DataFrame:
    """With the time of every event; one that tells none is no event. Without a stamper nothing has a time."""
    alone = stamper.alone if stamper is not None else None

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = Stamper(alone) if alone is not None else None
        for batch in batches:
            yield _with_times(batch, reader)

    return frame.mapInArrow(run, STAMPED)


def _with_times(batch: pa.RecordBatch, stamper: Stamper | None) -> pa.RecordBatch:
    seconds: list[float | None] = [None] * batch.num_rows
    events, texts, reasons = (batch.column(name).to_pylist() for name in _ROW[3:])
    there = [place for place, text in enumerate(events) if text is not None]
    if stamper is not None:
        times = stamper.seconds([again(events[place]) for place in there])
        for place, time in zip(there, times, strict=True):
            seconds[place] = time
            if time is None:
                reasons[place] = stamper.complaint
                texts[place], events[place] = events[place][:_SHOWN], None
    arrays = [*batch.columns[:3], *(pa.array(column, pa.string()) for column in (events, texts))]
    arrays += [pa.array(reasons, pa.string()), pa.array(seconds, pa.float64())]
    return pa.RecordBatch.from_arrays(arrays, names=[*_ROW, "seconds"])


def _file(spark: SparkSession, path: str) -> DataFrame:
    """What a path holds; a folder holds Parquet."""
    name = PurePosixPath(path).name
    kind = kind_of(name) if "." in name else "parquet"
    try:
        return _table(spark.read.parquet(path)) if kind == "parquet" else _text(spark, path, kind)
    except AnalysisException as problem:
        if problem.getCondition() == "PATH_NOT_FOUND":
            raise ConfigError("there is no such file", path=path) from None
        raise ConfigError(f"this cannot be read: {str(problem).splitlines()[0]}", path=path) from None


def _table(rows: DataFrame) -> DataFrame:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            files, numbers = (batch.column(name).to_pylist() for name in (_FILE, _BLOCK))
            some = batch.drop_columns([_FILE, _BLOCK]).to_pylist()
            places = zip(files, numbers, some, strict=True)
            yield _rows([(_bare(file), 0, n + 1, kept(of_row(row)), None, None) for file, n, row in places])

    about = (F.col("_metadata.file_path").alias(_FILE), F.col("_metadata.row_index").alias(_BLOCK))
    return rows.select("*", *about).mapInArrow(run, PARSED)


def _text(spark: SparkSession, path: str, kind: str) -> DataFrame:
    lines = spark.read.text(path).select(
        "value", F.col("_metadata.file_path").alias(_FILE), F.col("_metadata.file_block_start").alias(_BLOCK)
    )
    header: Header | None = None
    if kind == "csv":
        first = lines.where(F.col(_BLOCK) == 0).select("value").first()
        header = header_of(first.value if first is not None else "", path)
    return lines.mapInArrow(_parser(header), PARSED)


def _parser(header: Header | None) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        place = Place("", 0, 0)
        for batch in batches:
            found = []
            for text, file, block in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                place = place.next(_bare(file), block)
                is_header = header is not None and place[1:] == (0, 1)
                is_line = bool(text.strip()) and not is_header
                found.append((*place, *(_read(text, header) if is_line else _NOTHING)))
            yield _rows(found)

    return run


def _read(text: str, header: Header | None) -> tuple[str | None, str | None, str | None]:
    """The event, or the beginning of what is none, and the reason."""
    try:
        event = event_of(text, header)
    except NoEvent as problem:
        return None, text[:_SHOWN], str(problem)
    return (text if header is None else kept(event)), None, None


def _bare(file: str) -> str:
    """A file's path as people write it.

    >>> _bare("file:///data/rooms.jsonl"), _bare("s3a://lake/rooms.jsonl")
    ('/data/rooms.jsonl', 's3a://lake/rooms.jsonl')
    """
    return "/" + file.removeprefix("file:").lstrip("/") if file.startswith("file:/") else file


def _rows(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else [()] * len(_ROW)
    kinds = (pa.string(), pa.int64(), pa.int64(), pa.string(), pa.string(), pa.string())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(_ROW))


_FILE, _BLOCK = "__file", "__block"
