"""One line of text, or one row of a table, as an event; and events as one line each, on their way between two steps.

Events out of files, one at a time: JSON lines, CSV and Parquet, also gzipped. What cannot be read is kept apart.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, NamedTuple

import pyarrow as pa

from thinwire.errors import ConfigError
from thinwire.schema.event import nest

MAX_LINE = 1 << 20
"""characters of a line, at most"""

_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?([eE][+-]?[0-9]{1,3})?")
_WORDS = {"": None, "true": True, "false": False, "null": None}
_INSTANT = "\x00instant"
"""the name under which an instant travels in a line: JSON has none"""


class NoEvent(ValueError):
    """A line that is no event; its text says why."""


class CsvHeader(NamedTuple):
    """The first line of a CSV file: what parts its columns, and their names."""

    mark: str
    names: list[str]


def header_of(line: str, file: str) -> CsvHeader:
    """The columns that a file begins with."""
    if not line.strip():
        raise ConfigError("a CSV file begins with the names of its columns", file=file)
    mark = max(",;\t|", key=line.count)
    names = [name.strip() for name in next(csv.reader([line], delimiter=mark))]
    if len(set(names)) != len(names) or not all(names):
        raise ConfigError("the names of the columns must be there, each once", file=file, names=names)
    return CsvHeader(mark, names)


def event_of(line: str, header: CsvHeader | None = None) -> dict[str, Any]:
    """The event of a line: JSON, or CSV where there is a header.

    >>> event_of("20.5;007", CsvHeader(";", ["heat", "room"]))
    {'heat': 20.5, 'room': '007'}
    """
    if len(line) > MAX_LINE:
        raise NoEvent(f"longer than {MAX_LINE} characters")
    return _of_json(line) if header is None else _of_csv(line, header)


def of_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """The event of a table's row; a dot in a name leads into an object."""
    return nest({name: plain(value) for name, value in row.items()})


def kept(event: Mapping[str, Any]) -> str:
    """An event as a line that `again` reads, instants included.

    >>> again(kept({"at": datetime(2024, 5, 1, tzinfo=UTC)}))
    {'at': datetime.datetime(2024, 5, 1, 0, 0, tzinfo=datetime.timezone.utc)}
    """
    return json.dumps(event, separators=(",", ":"), default=_tagged)


def again(line: str) -> dict[str, Any]:
    """The event that was kept."""
    event: dict[str, Any] = json.loads(line, object_hook=_untagged if _MARK in line else None)
    return event


def typed(text: str) -> Any:
    """A field as the value it most likely is; `007` and `1e999` stay text.

    >>> [typed(text) for text in ("20", "20.5", "007", "", "true", "T1")]
    [20, 20.5, '007', None, True, 'T1']
    """
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _WHOLE.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text) and abs(float(text)) < float("inf"):
        return float(text)
    return text


def plain(value: Any) -> Any:
    """A value of a table as one of JSON; instants without a zone are taken as UTC."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    return {name: plain(item) for name, item in value.items()} if isinstance(value, dict) else value


def _of_json(line: str) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise NoEvent(f"not JSON: {problem}") from None
    if not isinstance(event, dict):
        raise NoEvent(f"not an object but {type(event).__name__}")
    return event


def _of_csv(line: str, header: CsvHeader) -> dict[str, Any]:
    row = next(csv.reader([line], delimiter=header.mark), [])
    if len(row) != len(header.names):
        raise NoEvent(f"{len(row)} fields, {len(header.names)} columns")
    return nest({name: typed(text.strip()) for name, text in zip(header.names, row, strict=True)})


_MARK = json.dumps(_INSTANT)


def _tagged(value: object) -> Any:
    return {_INSTANT: value.isoformat()} if isinstance(value, datetime) else str(value)


def _untagged(value: dict[str, Any]) -> Any:
    return datetime.fromisoformat(value[_INSTANT]) if value.keys() == {_INSTANT} else value


SAMPLED = 100
"""rejects that are kept with their text"""
_SHOWN = 200


class Reject(NamedTuple):
    """A line (or row) that is no event: its number in the file from 1 on, the beginning of its text, and why."""

    file: str
    line: int
    text: str
    reason: str


@dataclass
class Rejects:
    """How many there are, and the first of them."""

    count: int = 0
    sample: list[Reject] = field(default_factory=list)

    def add(self, file: str, line: int, text: str, reason: str) -> None:
        """Count one."""
        self.count += 1
        if len(self.sample) < SAMPLED:
            self.sample.append(Reject(file, line, text[:_SHOWN], reason))


class LocatedEvent(NamedTuple):
    """An event and where it stood."""

    line: int
    event: dict[str, Any]


def read_events(path: Path, rejects: Rejects) -> Iterator[LocatedEvent]:
    """The events of a file, by the end of its name: .jsonl, .ndjson, .json, .csv, .parquet, with .gz where packed."""
    kind = kind_of(path.name)
    return _undamaged(path, _parquet(path) if kind == "parquet" else _lines(path, rejects, headed=kind == "csv"))


def kind_of(name: str) -> str:
    """What a file of this name holds.

    >>> kind_of("rooms.jsonl.gz"), kind_of("rooms.CSV")
    ('json', 'csv')
    """
    bare = name.removesuffix(".gz")
    kind = bare[bare.rfind(".") + 1 :].lower()
    if kind not in ("jsonl", "ndjson", "json", "csv", "parquet"):
        raise ConfigError("what is in it? names end in .jsonl, .ndjson, .json, .csv or .parquet", file=name)
    return "json" if kind.endswith("json") or kind == "jsonl" else kind


def _undamaged(path: Path, found: Iterator[LocatedEvent]) -> Iterator[LocatedEvent]:
    """The same; a file that cannot be read through is named."""
    try:
        yield from found
    except (gzip.BadGzipFile, zlib.error, EOFError, pa.ArrowInvalid):
        raise ConfigError("damaged, or not what its name says: this cannot be read", path=str(path)) from None


def _lines(path: Path, rejects: Rejects, *, headed: bool) -> Iterator[LocatedEvent]:
    with _opened(path) as lines:
        numbered = _numbered(lines, path, rejects)
        header = header_of(next(numbered, (0, ""))[1], str(path)) if headed else None
        for number, line in numbered:
            if not line.strip():
                continue
            try:
                yield LocatedEvent(number, event_of(line, header))
            except NoEvent as problem:
                rejects.add(str(path), number, line, str(problem))


def _parquet(path: Path) -> Iterator[LocatedEvent]:
    import pyarrow.parquet as pq

    number = 0
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=8_192):
            for row in batch.to_pylist():
                number += 1
                yield LocatedEvent(number, of_row(row))


def _opened(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", errors="surrogateescape", newline="\n")
    return path.open(encoding="utf-8", errors="surrogateescape", newline="\n")


def _numbered(lines: IO[str], path: Path, rejects: Rejects) -> Iterator[tuple[int, str]]:
    """Lines with their numbers; one that is too long is refused without being held in memory."""
    number = 0
    while line := lines.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            rejects.add(str(path), number, line, f"longer than {MAX_LINE} characters")
            while line and not line.endswith("\n"):
                line = lines.readline(MAX_LINE + 1)
        elif not _is_text(line):
            rejects.add(str(path), number, ascii(line[:_SHOWN]), "not a text in UTF-8")
        else:
            yield number, line.rstrip("\r\n")


def _is_text(line: str) -> bool:
    return line.isascii() or not any("\ud800" <= sign <= "\udfff" for sign in line)
