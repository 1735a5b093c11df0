"""Ledger files: one row per line, as JSON.

Lines are appended and never changed, so a ledger can be followed while it is written, concatenated with `cat`, and read
by any reader of JSON Lines.

>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     append(Path(folder) / "demo.jsonl", [Row("demo", "building.rooms", events=3)])
...     [row.events for row in read(Path(folder) / "demo.jsonl")]
[3]
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from io import SEEK_END
from pathlib import Path
from typing import Any, NoReturn

from thinwire.errors import LedgerError
from thinwire.ledger import Row, from_document, to_document

MAX_LINE = 1 << 20
"""largest number of bytes of a row"""


def append(path: str | Path, rows: Iterable[Row]) -> None:
    """Append rows to a file in one write. The file and its folder are created if they do not exist."""
    lines = b"".join(_encode_row(row, path) for row in rows)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    # The operating system appends each write as a unit, so the lines of two writers are not mixed.
    with open(path, "ab+") as file:
        size = file.seek(0, SEEK_END)
        file.seek(max(0, size - 1))
        # A newline after a line that a crash cut short keeps the next row readable.
        file.write(lines if file.read(1) in (b"", b"\n") else b"\n" + lines)


def read(path: str | Path) -> Iterator[Row]:
    """Yield the rows of a file. A damaged line raises `LedgerError` with the file and the line number."""
    with open(path, "rb") as file:
        lines = iter(lambda: file.readline(MAX_LINE + 1), b"")
        yield from (_decode_row(line, path, number) for number, line in enumerate(lines, 1))


def _encode_row(row: Row, path: str | Path) -> bytes:
    line = json.dumps(to_document(row), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
    if len(line) > MAX_LINE:
        raise LedgerError(
            "row above the limit of a line", file=str(path), topic=row.topic, size=len(line), limit=MAX_LINE
        )
    return line


def _decode_row(line: bytes, path: str | Path, number: int) -> Row:
    if len(line) > MAX_LINE:
        raise LedgerError("line above the limit", file=str(path), line=number, limit=MAX_LINE)
    try:
        return from_document(json.loads(line, parse_constant=_reject_constant))
    except LedgerError as fault:
        raise LedgerError(fault.detail, file=str(path), line=number, **fault.facts) from fault
    except (ValueError, RecursionError) as problem:
        raise LedgerError(f"not a line of JSON ({problem})", file=str(path), line=number) from problem


def _reject_constant(constant: Any) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
