"""Events out of files, one at a time: JSON lines, CSV and Parquet, also gzipped. What cannot be read is kept apart."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

import pyarrow as pa

from thinwire.analysis.event_files import MAX_LINE, NoEvent, event_of, header_of, of_row
from thinwire.errors import ConfigError

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


class Read(NamedTuple):
    """An event and where it stood."""

    line: int
    event: dict[str, Any]


def read_events(path: Path, rejects: Rejects) -> Iterator[Read]:
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


def _undamaged(path: Path, found: Iterator[Read]) -> Iterator[Read]:
    """The same; a file that cannot be read through is named."""
    try:
        yield from found
    except (gzip.BadGzipFile, zlib.error, EOFError, pa.ArrowInvalid):
        raise ConfigError("damaged, or not what its name says: this cannot be read", path=str(path)) from None


def _lines(path: Path, rejects: Rejects, *, headed: bool) -> Iterator[Read]:
    with _opened(path) as lines:
        numbered = _numbered(lines, path, rejects)
        header = header_of(next(numbered, (0, ""))[1], str(path)) if headed else None
        for number, line in numbered:
            if not line.strip():
                continue
            try:
                yield Read(number, event_of(line, header))
            except NoEvent as problem:
                rejects.add(str(path), number, line, str(problem))


def _parquet(path: Path) -> Iterator[Read]:
    import pyarrow.parquet as pq

    number = 0
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=8_192):
            for row in batch.to_pylist():
                number += 1
                yield Read(number, of_row(row))


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
