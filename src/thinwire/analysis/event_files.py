"""Recorded events: parsing of JSON lines, CSV and Parquet, and the times of the events. Text files may be gzipped.

A line or row that cannot be analysed is a reject: it is not an event, or the event has no time or does not fit the
schema. `Rejects` has the number of rejects and the first ones as examples.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, NamedTuple

import pyarrow as pa

from thinwire.analysis.event_columns import EventClock, to_batch
from thinwire.errors import ConfigError
from thinwire.schema import Schema
from thinwire.schema.event import nest

MAX_LINE = 1 << 20
"""largest number of characters of a line"""
MAX_REJECT_TEXT = 200
"""characters of a rejected line that a report shows"""
MAX_EXAMPLES = 100
"""rejects that are stored with their text"""
HEAD_EVENTS = 1_000
"""events at the start of the input from which the time property is inferred"""

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?([eE][+-]?[0-9]{1,3})?")
_CONSTANTS = {"": None, "true": True, "false": False, "null": None}
_DATETIME = "\x00instant"
"""key of a datetime in a serialized event, because JSON has no datetimes"""
_ESCAPED_DATETIME = json.dumps(_DATETIME)


class NotAnEvent(ValueError):
    """A line is not an event. The message of the exception is the reason."""


class CsvHeader(NamedTuple):
    """The first line of a CSV file."""

    delimiter: str
    names: list[str]


class RecordedEvent(NamedTuple):
    """An event with its time and location. Lines are numbered from 1."""

    seconds: float | None
    file: str
    line: int
    event: dict[str, Any]


class Reject(NamedTuple):
    """A line or row that cannot be analysed: its location, the start of its text, and the reason."""

    file: str
    line: int
    text: str
    reason: str


@dataclass
class Rejects:
    """The number of rejects, and the first ones as examples."""

    count: int = 0
    examples: list[Reject] = field(default_factory=list)

    def add(self, file: str, line: int, text: str, reason: str) -> None:
        self.extend(1, [Reject(file, line, shorten_text(text), reason)])

    def extend(self, count: int, examples: Sequence[Reject]) -> None:
        """Count rejects of which `examples` are the first."""
        self.count += count
        self.examples += examples[: MAX_EXAMPLES - len(self.examples)]


def shorten_text(text: str) -> str:
    """Return the start of a rejected line for the report. Bytes that are not UTF-8 are shown as escapes."""
    return text[:MAX_REJECT_TEXT].encode(errors="backslashreplace").decode()


def parse_header(line: str, file: str) -> CsvHeader:
    """Parse the first line of a CSV file. The delimiter is the most frequent of the supported ones."""
    delimiter = max(",;\t|", key=line.count)
    try:
        _check_text(line)
        names = [name.strip() for name in next(csv.reader([line], delimiter=delimiter), [])]
    except (csv.Error, NotAnEvent) as problem:
        raise ConfigError(f"the first line of a CSV file must have the column names: {problem}", file=file) from None
    if not any(names):
        raise ConfigError("the first line of a CSV file must have the column names", file=file)
    if len(set(names)) != len(names) or not all(names):
        raise ConfigError("column names must be unique and not empty", file=file, names=names)
    return CsvHeader(delimiter, names)


def parse_event(line: str, header: CsvHeader | None = None) -> dict[str, Any]:
    """Parse a line of JSON, or of CSV if there is a header.

    >>> parse_event("20.5;007", CsvHeader(";", ["heat", "room"]))
    {'heat': 20.5, 'room': '007'}
    """
    _check_text(line)
    return _parse_json(line) if header is None else _parse_csv(line, header)


def _check_text(line: str) -> None:
    """Raise `NotAnEvent` for a line that is too long or that has bytes decoded with `surrogateescape`."""
    if len(line) > MAX_LINE:
        raise NotAnEvent(f"longer than {MAX_LINE} characters")
    if not line.isascii() and any("\ud800" <= char <= "\udfff" for char in line):
        raise NotAnEvent("not UTF-8 text")


def row_to_event(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the event of a table row. A dot in a column name separates the names of nested objects."""
    return nest({name: _to_event_value(value) for name, value in row.items()})


def serialize_event(event: Mapping[str, Any]) -> str:
    """Return an event as a line for `deserialize_event`, with its datetimes.

    >>> deserialize_event(serialize_event({"at": datetime(2024, 5, 1, tzinfo=UTC)}))
    {'at': datetime.datetime(2024, 5, 1, 0, 0, tzinfo=datetime.timezone.utc)}
    """
    return json.dumps(event, separators=(",", ":"), default=_encode_datetime)


def deserialize_event(line: str) -> dict[str, Any]:
    """Return the event of a line of `serialize_event`."""
    event: dict[str, Any] = json.loads(line, object_hook=_decode_datetime if _ESCAPED_DATETIME in line else None)
    return event


def parse_field(text: str) -> Any:
    """Convert a CSV field to its most likely type; `007` and `1e999` remain text.

    >>> [parse_field(text) for text in ("20", "20.5", "007", "", "true", "T1")]
    [20, 20.5, '007', None, True, 'T1']
    """
    if text.lower() in _CONSTANTS:
        return _CONSTANTS[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text) and abs(float(text)) < float("inf"):
        return float(text)
    return text


def _to_event_value(value: Any) -> Any:
    """Convert a value of a table. Datetimes without a zone are UTC."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list):
        return [_to_event_value(item) for item in value]
    return {name: _to_event_value(item) for name, item in value.items()} if isinstance(value, dict) else value


def _parse_json(line: str) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise NotAnEvent(f"not JSON: {problem}") from None
    if not isinstance(event, dict):
        raise NotAnEvent(f"not an object but {type(event).__name__}")
    return event


def _parse_csv(line: str, header: CsvHeader) -> dict[str, Any]:
    try:
        row = next(csv.reader([line], delimiter=header.delimiter), [])
    except csv.Error as problem:
        raise NotAnEvent(f"not CSV: {problem}") from None
    if len(row) != len(header.names):
        raise NotAnEvent(f"{len(row)} fields, {len(header.names)} columns")
    return nest({name: parse_field(text.strip()) for name, text in zip(header.names, row, strict=True)})


def _encode_datetime(value: object) -> Any:
    return {_DATETIME: value.isoformat()} if isinstance(value, datetime) else str(value)


def _decode_datetime(value: dict[str, Any]) -> Any:
    return datetime.fromisoformat(value[_DATETIME]) if value.keys() == {_DATETIME} else value


def file_format(name: str) -> str:
    """Return the format of a file with this name: json, csv or parquet.

    >>> file_format("rooms.jsonl.gz"), file_format("rooms.CSV")
    ('json', 'csv')
    """
    suffix = name.removesuffix(".gz").rpartition(".")[2].lower()
    if suffix not in ("jsonl", "ndjson", "json", "csv", "parquet"):
        raise ConfigError("unknown file format: names end in .jsonl, .ndjson, .json, .csv or .parquet", file=name)
    if suffix == "parquet" and name.endswith(".gz"):
        raise ConfigError("a Parquet file is compressed inside: unpack it and name it .parquet", file=name)
    return suffix if suffix in ("csv", "parquet") else "json"


def read_events(path: Path, rejects: Rejects) -> Iterator[RecordedEvent]:
    """Read the events of a file without their times."""
    form = file_format(path.name)
    if not path.is_file():
        raise ConfigError("no such file", path=str(path))
    try:
        yield from _read_parquet(path) if form == "parquet" else _read_text(path, rejects, form)
    except (gzip.BadGzipFile, zlib.error, EOFError, pa.ArrowInvalid):
        raise ConfigError("the file cannot be read: damaged, or not of the type of its name", path=str(path)) from None


def _read_text(path: Path, rejects: Rejects, form: str) -> Iterator[RecordedEvent]:
    file = str(path.resolve())
    open_file = gzip.open if path.suffix == ".gz" else open
    # utf-8-sig: a byte order mark is not part of the first line.
    with open_file(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="\n") as lines:
        numbered = _numbered_lines(lines)
        header = parse_header(next(numbered, (0, ""))[1], file) if form == "csv" else None
        for number, line in numbered:
            if not line.strip():
                continue
            try:
                yield RecordedEvent(None, file, number, parse_event(line, header))
            except NotAnEvent as problem:
                rejects.add(file, number, line, str(problem))


def _read_parquet(path: Path) -> Iterator[RecordedEvent]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        rows = (row for batch in file.iter_batches(batch_size=8_192) for row in batch.to_pylist())
        for number, row in enumerate(rows, 1):
            yield RecordedEvent(None, str(path.resolve()), number, row_to_event(row))


def _numbered_lines(lines: IO[str]) -> Iterator[tuple[int, str]]:
    """Yield lines with their numbers. Of a line that is too long, only the start is kept in memory."""
    number = 0
    while line := lines.readline(MAX_LINE + 2):  # the end of a line is up to two characters
        number += 1
        yield number, line.rstrip("\r\n")
        while line and not line.endswith("\n"):
            line = lines.readline(MAX_LINE + 2)


class TimeReader:
    """Reads the times of events before they are converted to columns.

    name: name of the time property
    reason: reason of the reject for an event without a time

    >>> from thinwire.schema import infer
    >>> reader = TimeReader(infer([{"time": 60, "t": 1.5}, {"time": 61, "t": 1.5}], "rooms", time="time"))
    >>> reader.seconds([{"time": 60}, {"time": "soon"}, {}])
    [60.0, None, None]
    """

    def __init__(self, schema: Schema) -> None:
        self._clock = EventClock(schema)
        assert self._clock.property is not None
        self.name = self._clock.property.name
        self.schema = schema.select([self.name])
        self.reason = f"no time: {self.name} is missing or of another type"

    def seconds(self, events: Sequence[Mapping[str, Any]]) -> list[float | None]:
        """Return the time of each event, or None if it cannot be read."""
        converted = to_batch([nest({self.name: self._find(event)}) for event in events], self.schema)
        rejected = {index for index, _ in converted.rejected}
        times = iter(self._clock.event_times(converted.batch).tolist())
        seconds = (None if index in rejected else next(times) for index in range(len(events)))
        return [time if time is not None and math.isfinite(time) else None for time in seconds]

    def _find(self, event: Mapping[str, Any]) -> Any:
        value: Any = event
        for name in self.name.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        return value
