"""Events of files and topics as rows of a DataFrame, with time and location.

Lines are parsed by the same code as without Spark. A line that is not an event has a reason instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from thinwire.analysis import kind_of
from thinwire.analysis.event_columns import events_of
from thinwire.analysis.event_files import CsvHeader, NoEvent, again, event_of, header_of, kept, of_row
from thinwire.analysis.event_times import HEAD, Stamper
from thinwire.errors import ConfigError
from thinwire.schema import Schema
from thinwire.spark.jobs.time_columns import named

READ = "file string, block long, line long, event string, text string, reason string, seconds double"
"""columns of parsed lines; for a line that is not an event, `text` is its start and `reason` the error"""

ParsedLine = tuple[dict[str, Any] | None, str | None, str | None]
"""event and text; or None, text and the reason why it is not an event; or three times None for an empty line or a
header"""
Line = tuple[str, int, int, dict[str, Any] | None, str | None, str | None]
"""file, block of the file that a task reads, line number in the block from 1 on, and a `ParsedLine`"""
Reader = Callable[[pa.RecordBatch], list[Line]]

_SHOWN = 200
_COLUMNS = pa.schema(
    [
        ("file", pa.string()),
        ("block", pa.int64()),
        ("line", pa.int64()),
        ("event", pa.string()),
        ("text", pa.string()),
        ("reason", pa.string()),
        ("seconds", pa.float64()),
    ]
)


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


def read_by(rows: DataFrame, reader: Callable[[], Reader], stamper: Stamper | None) -> DataFrame:
    """Parse rows with a reader. Every task has its own."""
    alone = stamper.alone if stamper is not None else None

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stamps, lines = Stamper(alone) if alone is not None else None, reader()
        for batch in batches:
            yield columns_of(lines(batch), stamps)

    return rows.mapInArrow(run, READ)


def columns_of(lines: list[Line], stamper: Stamper | None) -> pa.RecordBatch:
    """Return lines as columns with the time of every event. A line without a time is not an event."""
    files, blocks, numbers, events, texts, reasons = map(list, zip(*lines, strict=True)) if lines else ([],) * 6
    seconds: list[float | None] = [None] * len(lines)
    if stamper is not None:
        present = [row for row, event in enumerate(events) if event is not None]
        for row, time in zip(present, stamper.seconds([events[row] for row in present]), strict=True):
            seconds[row] = time
            if time is None:
                events[row], texts[row], reasons[row] = None, texts[row][:_SHOWN], stamper.complaint
    good = [None if event is None else text for event, text in zip(events, texts, strict=True)]
    bad = [text if event is None else None for event, text in zip(events, texts, strict=True)]
    columns = zip((files, blocks, numbers, good, bad, reasons, seconds), _COLUMNS.types, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(column, kind) for column, kind in columns], schema=_COLUMNS)


def lines_by(header: CsvHeader | None) -> Reader:
    """Return a reader of text: rows of line, file and block, in the order of the block."""
    location, file = LineLocation("", 0, 0), ""

    def lines(batch: pa.RecordBatch) -> list[Line]:
        nonlocal location, file
        found: list[Line] = []
        for text, path, block in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            location = location.next(path, block)
            if location.line == 1:
                file = bare(path)
            is_header = header is not None and location[1:] == (0, 1)
            line = _read_line(text, header) if text.strip() and not is_header else (None, None, None)
            found.append((file, block, location.line, *line))
        return found

    return lines


def bare(file: str) -> str:
    """Return the path of a file without the scheme `file:`.

    >>> bare("file:///data/rooms.jsonl"), bare("s3a://lake/rooms.jsonl")
    ('/data/rooms.jsonl', 's3a://lake/rooms.jsonl')
    """
    return "/" + file.removeprefix("file:").lstrip("/") if file.startswith("file:/") else file


def _read_line(text: str, header: CsvHeader | None) -> ParsedLine:
    try:
        event = event_of(text, header)
    except NoEvent as problem:
        return None, text[:_SHOWN], str(problem)
    return event, text if header is None else kept(event), None


def parsed(spark: SparkSession, paths: Sequence[str], stamper: Stamper | None = None) -> DataFrame:
    """Return the parsed lines and rows of files and folders. Without a stamper they have no time."""
    frames = [_file(spark, path, stamper) for path in paths]
    if not frames:
        raise ConfigError("name at least one file", paths=[])
    found = frames[0]
    for frame in frames[1:]:
        found = found.union(frame)
    return found


def landed(rows: DataFrame, schema: Schema, stamper: Stamper | None = None) -> DataFrame:
    """Return the rows of a topic in the order of its log."""

    def lines(batch: pa.RecordBatch) -> list[Line]:
        places = zip(batch.column("_offset").to_pylist(), batch.column("_ordinal").to_pylist(), strict=True)
        some = zip(events_of(batch, schema), places, strict=True)
        return [(schema.name, offset, line, event, kept(event), None) for event, (offset, line) in some]

    columns = [named(p.name) for p in schema if p.name in rows.columns]
    return read_by(rows.select(*columns, "_offset", "_ordinal"), lambda: lines, stamper)


@contextmanager
def naming_damage() -> Iterator[None]:
    """Raise `ConfigError` with the path of a file that Spark fails to read, such as a damaged gzip file."""
    try:
        yield
    except Exception as problem:  # local and remote sessions raise different classes
        found = re.search(r"FAILED_READ_FILE.*? reading file (\S+)\.\s", str(problem))
        if found is None:
            raise
        raise ConfigError(
            "the file cannot be read: damaged, or not of the type of its name", path=bare(found[1])
        ) from None


def head_of(frame: DataFrame) -> list[dict[str, Any]]:
    """Return the first events."""
    return [again(row.event) for row in frame.where("event is not null").select("event").limit(HEAD).collect()]


def numbered(frame: DataFrame) -> DataFrame:
    """Return the rows with line numbers in files instead of blocks."""
    before = Window.partitionBy("file").orderBy("block").rowsBetween(Window.unboundedPreceding, -1)
    blocks = frame.groupBy("file", "block").agg(F.max("line").alias("lines"))
    starts = blocks.select("file", "block", F.coalesce(F.sum("lines").over(before), F.lit(0)).alias("start"))
    joined = frame.join(F.broadcast(starts), ["file", "block"])
    return joined.withColumn("line", F.col("line") + F.col("start")).withColumn("block", F.lit(0)).drop("start")


def _file(spark: SparkSession, path: str, stamper: Stamper | None) -> DataFrame:
    """The rows of a path. A folder contains Parquet files."""
    name = PurePosixPath(path).name
    kind = kind_of(name) if "." in name else "parquet"
    try:
        if kind == "parquet":
            return _table(spark.read.parquet(path), stamper)
        return _text(spark, path, kind, stamper)
    except AnalysisException as problem:
        if problem.getCondition() == "PATH_NOT_FOUND":
            raise ConfigError("no such file", path=path) from None
        raise ConfigError(f"the file cannot be read: {str(problem).splitlines()[0]}", path=path) from None


def _table(rows: DataFrame, stamper: Stamper | None) -> DataFrame:
    def lines(batch: pa.RecordBatch) -> list[Line]:
        files, numbers = (batch.column(name).to_pylist() for name in (_FILE, _BLOCK))
        events = map(of_row, batch.drop_columns([_FILE, _BLOCK]).to_pylist())
        some = zip(files, numbers, events, strict=True)
        return [(bare(file), 0, number + 1, event, kept(event), None) for file, number, event in some]

    location = (F.col("_metadata.file_path").alias(_FILE), F.col("_metadata.row_index").alias(_BLOCK))
    return read_by(rows.select("*", *location), lambda: lines, stamper)


def _text(spark: SparkSession, path: str, kind: str, stamper: Stamper | None) -> DataFrame:
    lines = spark.read.text(path).select(
        "value", F.col("_metadata.file_path").alias(_FILE), F.col("_metadata.file_block_start").alias(_BLOCK)
    )
    header: CsvHeader | None = None
    if kind == "csv":
        first = lines.where(F.col(_BLOCK) == 0).select("value").first()
        header = header_of(first.value if first is not None else "", path)
    return read_by(lines, lambda: lines_by(header), stamper)


_FILE, _BLOCK = "__file", "__block"
