"""Ledgers as files: one row a line, each line one JSON object.

Lines are appended and never changed, so a ledger can be followed while a run writes it, joined with `cat` and read by
anything that reads JSON Lines.

>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     append(Path(folder) / "demo.jsonl", [Row("demo", "building.rooms", events=3)])
...     [row.events for row in read(Path(folder) / "demo.jsonl")]
[3]
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from thinwire.errors import LedgerError
from thinwire.ledger import Row, from_document, to_document

MAX_LINE = 1 << 20
"""bytes of one row"""


def append(path: str | Path, rows: Iterable[Row]) -> None:
    """Add rows at the end of a file, all in one write; the file and its folder are made where they are missing."""
    lines = b"".join(_line(row, path) for row in rows)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    # One write, which the system puts at the end of the file: the lines of two writers do not mix.
    with open(path, "ab") as file:
        # A line that a crash cut short stays one damaged line; what follows it is not lost with it.
        file.write(lines if _ends_cleanly(Path(path)) else b"\n" + lines)


def read(path: str | Path) -> Iterator[Row]:
    """The rows of a file, one at a time; damage is told with the file and the number of the line."""
    with open(path, "rb") as file:
        yield from (_row(line, path, number) for number, line in enumerate(_lines(file), 1))


def _line(row: Row, path: str | Path) -> bytes:
    line = json.dumps(to_document(row), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
    if len(line) > MAX_LINE:
        raise LedgerError(
            "row above the limit of a line", file=str(path), topic=row.topic, size=len(line), limit=MAX_LINE
        )
    return line


def _ends_cleanly(path: Path) -> bool:
    if not path.stat().st_size:
        return True
    with open(path, "rb") as file:
        file.seek(-1, 2)
        return file.read(1) == b"\n"


def _lines(file: BinaryIO) -> Iterator[bytes]:
    while line := file.readline(MAX_LINE + 1):
        yield line


def _row(line: bytes, path: str | Path, number: int) -> Row:
    if len(line) > MAX_LINE:
        raise LedgerError("line above the limit", file=str(path), line=number, limit=MAX_LINE)
    try:
        return from_document(json.loads(line, parse_constant=_refuse))
    except LedgerError as fault:
        raise LedgerError(fault.detail, file=str(path), line=number, **fault.facts) from fault
    except (ValueError, RecursionError) as trouble:
        raise LedgerError(f"not a line of JSON ({trouble})", file=str(path), line=number) from trouble


def _refuse(constant: Any) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
