"""Events of files and topics as rows of a DataFrame, with time and location.

Lines are parsed by the same code as without Spark. A line that is not an event has a reason instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from thinwire.analysis.event_columns import to_events
from thinwire.analysis.event_files import (
    HEAD_EVENTS,
    CsvHeader,
    NotAnEvent,
    TimeReader,
    deserialize_event,
    file_format,
    parse_event,
    parse_header,
    row_to_event,
    serialize_event,
    shorten_text,
)
from thinwire.errors import ConfigError
from thinwire.schema import Schema
from thinwire.spark.jobs.input_files import add_line_numbers, read_lines, report_missing_file, strip_scheme
from thinwire.spark.jobs.time_columns import named

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
"""columns of parsed lines; for a line that is not an event, `text` is its start and `reason` the error"""
_FILE, _ROW = "__file", "__row"


class ParsedLine(NamedTuple):
    """A line with its location: the file, the block that a task reads, and the number in the block.

    `text` is the serialized event; without an event, the start of the line, with the reason. Header and empty lines
    have none of the three.
    """

    file: str
    block: int
    line: int
    event: dict[str, Any] | None = None
    text: str | None = None
    reason: str | None = None


Parser = Callable[[Iterator[pa.RecordBatch]], Iterator[list[ParsedLine]]]
"""parses the batches of a task"""


def read_files(spark: SparkSession, paths: Sequence[str], times: TimeReader | None = None) -> DataFrame:
    """Return the parsed lines and rows of files and folders. Without a time reader they have no time."""
    if not paths:
        raise ConfigError("name at least one file", paths=[])
    return reduce(DataFrame.union, [_read_path(spark, path, times) for path in paths])


def read_topic_rows(rows: DataFrame, schema: Schema, times: TimeReader | None = None) -> DataFrame:
    """Return the rows of a topic in the order of its log."""

    def parse(batches: Iterator[pa.RecordBatch]) -> Iterator[list[ParsedLine]]:
        for batch in batches:
            offsets, ordinals = (batch.column(name).to_pylist() for name in ("_offset", "_ordinal"))
            events = zip(offsets, ordinals, to_events(batch, schema), strict=True)
            yield [ParsedLine(schema.name, offset, n, event, serialize_event(event)) for offset, n, event in events]

    columns = [named(p.name) for p in schema if p.name in rows.columns]
    return _parse(rows.select(*columns, "_offset", "_ordinal"), parse, times)


def read_head(frame: DataFrame) -> list[dict[str, Any]]:
    """Return the first events."""
    rows = frame.where("event is not null").select("event").limit(HEAD_EVENTS).collect()
    return [deserialize_event(row.event) for row in rows]


def _read_path(spark: SparkSession, path: str, times: TimeReader | None) -> DataFrame:
    """Return the rows of a path. A folder contains Parquet files."""
    name = PurePosixPath(path).name
    form = file_format(name) if "." in name else "parquet"
    with report_missing_file(path):
        if form == "parquet":
            location = (F.col("_metadata.file_path").alias(_FILE), F.col("_metadata.row_index").alias(_ROW))
            return _parse(spark.read.parquet(path).select("*", *location), _parse_rows, times)
        lines = read_lines(spark, path)
        header: CsvHeader | None = None
        if form == "csv":
            first = lines.where("block = 0").select("value").first()
            header = parse_header(_decode(bytes(first.value), is_first=True) if first else "", path)
        return _parse(lines, _line_parser(header), times)


def _parse_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[list[ParsedLine]]:
    for batch in batches:
        files, indexes = (batch.column(name).to_pylist() for name in (_FILE, _ROW))
        events = map(row_to_event, batch.drop_columns([_FILE, _ROW]).to_pylist())
        rows = zip(files, indexes, events, strict=True)
        yield [ParsedLine(strip_scheme(file), 0, n + 1, event, serialize_event(event)) for file, n, event in rows]


def _line_parser(header: CsvHeader | None) -> Parser:
    def parse(batches: Iterator[pa.RecordBatch]) -> Iterator[list[ParsedLine]]:
        for batch in add_line_numbers(batches):
            rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            yield [_parse_line(ParsedLine(strip_scheme(file), *place), value, header) for value, file, *place in rows]

    return parse


def _parse_line(line: ParsedLine, value: bytes, header: CsvHeader | None) -> ParsedLine:
    is_first = (line.block, line.line) == (0, 1)
    text = _decode(value, is_first=is_first)
    if (is_first and header is not None) or not text.strip():
        return line
    try:
        event = parse_event(text, header)
    except NotAnEvent as problem:
        return line._replace(text=shorten_text(text), reason=str(problem))
    return line._replace(event=event, text=text if header is None else serialize_event(event))


def _decode(value: bytes, *, is_first: bool) -> str:
    """Return the text of a line. A byte order mark is not part of the first line of a file."""
    return value.decode("utf-8-sig" if is_first else "utf-8", errors="surrogateescape")


def _parse(rows: DataFrame, parse: Parser, times: TimeReader | None) -> DataFrame:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for lines in parse(batches):
            yield pa.RecordBatch.from_pylist(list(_add_times(lines, times)), _COLUMNS)

    return rows.mapInArrow(run, from_arrow_schema(_COLUMNS))


def _add_times(lines: list[ParsedLine], times: TimeReader | None) -> Iterator[dict[str, Any]]:
    """Yield the rows of lines, with the time of each event. An event without a time is rejected."""
    events = [line.event for line in lines if line.event is not None]
    seconds = iter(times.seconds(events) if times is not None else [None] * len(events))
    for file, block, line, event, text, reason in lines:
        row = {"file": file, "block": block, "line": line}
        time = next(seconds) if event is not None else None
        if event is None:
            yield {**row, "text": text, "reason": reason}
        elif times is not None and time is None:
            yield {**row, "text": shorten_text(text or ""), "reason": times.reason}
        else:
            yield {**row, "event": text, "seconds": time}
