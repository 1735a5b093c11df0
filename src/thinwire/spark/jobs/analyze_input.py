"""Events of files and topics as rows of a DataFrame, with time and location.

Lines are parsed by the same code as without Spark. A line that is not an event has a reason instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from thinwire.analysis.event_columns import to_events
from thinwire.analysis.event_files import (
    HEAD_EVENTS,
    MAX_REJECT_TEXT,
    CsvHeader,
    NotAnEvent,
    TimeReader,
    deserialize_event,
    file_format,
    parse_event,
    parse_header,
    row_to_event,
    serialize_event,
)
from thinwire.errors import ConfigError
from thinwire.schema import Schema
from thinwire.spark.jobs.line_numbers import LineLocation, strip_scheme
from thinwire.spark.jobs.time_columns import named

COLUMNS = "file string, block long, line long, event string, text string, reason string, seconds double"
"""columns of parsed lines; for a line that is not an event, `text` is its start and `reason` the error"""
_ARROW_TYPES = (pa.string(), pa.int64(), pa.int64(), pa.string(), pa.string(), pa.string(), pa.float64())
_FILE, _BLOCK = "__file", "__block"


class ParsedLine(NamedTuple):
    """A line with its location as in `LineLocation`.

    `text` is the serialized event; without an event, the start of the line, with the reason. Header and empty lines
    have none of the three.
    """

    file: str
    block: int
    line: int
    event: dict[str, Any] | None = None
    text: str | None = None
    reason: str | None = None


Parser = Callable[[pa.RecordBatch], list[ParsedLine]]


def read_files(spark: SparkSession, paths: Sequence[str], times: TimeReader | None = None) -> DataFrame:
    """Return the parsed lines and rows of files and folders. Without a time reader they have no time."""
    if not paths:
        raise ConfigError("name at least one file", paths=[])
    return reduce(DataFrame.union, [_read_path(spark, path, times) for path in paths])


def read_topic_rows(rows: DataFrame, schema: Schema, times: TimeReader | None = None) -> DataFrame:
    """Return the rows of a topic in the order of its log."""

    def parse(batch: pa.RecordBatch) -> list[ParsedLine]:
        offsets, ordinals = (batch.column(name).to_pylist() for name in ("_offset", "_ordinal"))
        events = zip(offsets, ordinals, to_events(batch, schema), strict=True)
        return [ParsedLine(schema.name, offset, n, event, serialize_event(event)) for offset, n, event in events]

    columns = [named(p.name) for p in schema if p.name in rows.columns]
    return _parse(rows.select(*columns, "_offset", "_ordinal"), lambda: parse, times)


@contextmanager
def report_unreadable_file() -> Iterator[None]:
    """Raise `ConfigError` with the path of a file that Spark fails to read, such as a damaged gzip file."""
    try:
        yield
    except Exception as problem:  # local and remote sessions raise different classes
        found = re.search(r"FAILED_READ_FILE.*? reading file (\S+)\.\s", str(problem))
        if found is None:
            raise
        path = strip_scheme(found[1])
        raise ConfigError("the file cannot be read: damaged, or not of the type of its name", path=path) from None


def read_head(frame: DataFrame) -> list[dict[str, Any]]:
    """Return the first events."""
    rows = frame.where("event is not null").select("event").limit(HEAD_EVENTS).collect()
    return [deserialize_event(row.event) for row in rows]


def _read_path(spark: SparkSession, path: str, times: TimeReader | None) -> DataFrame:
    """Return the rows of a path. A folder contains Parquet files."""
    name = PurePosixPath(path).name
    form = file_format(name) if "." in name else "parquet"
    try:
        return _read_tables(spark, path, times) if form == "parquet" else _read_lines(spark, path, form, times)
    except AnalysisException as problem:
        if problem.getCondition() == "PATH_NOT_FOUND":
            raise ConfigError("no such file", path=path) from None
        raise ConfigError(f"the file cannot be read: {str(problem).splitlines()[0]}", path=path) from None


def _read_tables(spark: SparkSession, path: str, times: TimeReader | None) -> DataFrame:
    def parse(batch: pa.RecordBatch) -> list[ParsedLine]:
        files, indexes = (batch.column(name).to_pylist() for name in (_FILE, _BLOCK))
        events = map(row_to_event, batch.drop_columns([_FILE, _BLOCK]).to_pylist())
        rows = zip(files, indexes, events, strict=True)
        return [ParsedLine(strip_scheme(file), 0, n + 1, event, serialize_event(event)) for file, n, event in rows]

    location = (F.col("_metadata.file_path").alias(_FILE), F.col("_metadata.row_index").alias(_BLOCK))
    return _parse(spark.read.parquet(path).select("*", *location), lambda: parse, times)


def _read_lines(spark: SparkSession, path: str, form: str, times: TimeReader | None) -> DataFrame:
    location = (F.col("_metadata.file_path").alias(_FILE), F.col("_metadata.file_block_start").alias(_BLOCK))
    lines = spark.read.text(path).select("value", *location)
    header: CsvHeader | None = None
    if form == "csv":
        first = lines.where(F.col(_BLOCK) == 0).select("value").first()
        header = parse_header(first.value if first is not None else "", path)
    return _parse(lines, lambda: line_parser(header), times)


def line_parser(header: CsvHeader | None) -> Parser:
    """Return a parser of rows of text, file and block in the order of the block."""
    location = LineLocation("", 0, 0)

    def parse(batch: pa.RecordBatch) -> list[ParsedLine]:
        nonlocal location
        found: list[ParsedLine] = []
        for text, file, block in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            location = location.next(file, block)
            found.append(_parse_line(location, text, header))
        return found

    return parse


def _parse_line(location: LineLocation, text: str, header: CsvHeader | None) -> ParsedLine:
    line = ParsedLine(strip_scheme(location.file), location.block, location.line)
    is_header = header is not None and location[1:] == (0, 1)
    if is_header or not text.strip():
        return line
    try:
        event = parse_event(text, header)
    except NotAnEvent as problem:
        return line._replace(text=text[:MAX_REJECT_TEXT], reason=str(problem))
    return line._replace(event=event, text=text if header is None else serialize_event(event))


def _parse(rows: DataFrame, create_parser: Callable[[], Parser], times: TimeReader | None) -> DataFrame:
    """Parse rows. Every task has its own parser and time reader, because both have state."""
    schema = times.schema if times is not None else None

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task_times, parser = TimeReader(schema) if schema is not None else None, create_parser()
        for batch in batches:
            yield _to_columns(parser(batch), task_times)

    return rows.mapInArrow(run, COLUMNS)


def _to_columns(lines: list[ParsedLine], times: TimeReader | None) -> pa.RecordBatch:
    """Return lines as columns with the time of every event. An event without a time is rejected."""
    seconds: list[float | None] = [None] * len(lines)
    if times is not None:
        events = [(row, line.event) for row, line in enumerate(lines) if line.event is not None]
        for (row, _), time in zip(events, times.seconds([event for _, event in events]), strict=True):
            seconds[row] = time
            if time is None:
                text = (lines[row].text or "")[:MAX_REJECT_TEXT]
                lines[row] = lines[row]._replace(event=None, text=text, reason=times.reason)
    texts = [(n.text, None) if n.event is not None else (None, n.text) for n in lines]
    rows = [(*line[:3], *pair, line.reason, time) for line, pair, time in zip(lines, texts, seconds, strict=True)]
    columns = zip(*rows, strict=True) if rows else [()] * len(_ARROW_TYPES)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, _ARROW_TYPES, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=[column.split()[0] for column in COLUMNS.split(", ")])
