"""Output of commands: tables for people, or with `--json` one JSON document on stdout.

>>> Output(json=False).document({"bytes": 12})
>>> Output(json=True).document({"bytes": 12, "ratio": float("nan")})
{
  "bytes": 12,
  "ratio": null
}
"""

from __future__ import annotations

import json as json_text
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
Column = str | Callable[[Any], Any]

_PIPED_WIDTH = 160


@dataclass
class Output:
    """Destination of a command's results, and a group of options.

    json: print the JSON document to stdout and everything else to stderr
    """

    json: JsonOption = False

    def __post_init__(self) -> None:
        stream = sys.stderr if self.json else sys.stdout
        # Without a terminal rich assumes 80 columns and folds tables that a file or a pager could hold.
        self.console = Console(file=stream, width=None if stream.isatty() else _PIPED_WIDTH)

    def note(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False)

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Print a table; columns of numbers are right-aligned."""
        cells = [list(row) for row in rows]
        table = Table(title=title, title_justify="left")
        for index, column in enumerate(columns):
            numeric = any(_is_number(row[index]) for row in cells)
            table.add_column(column, justify="right" if numeric else "left", overflow="fold")
        for row in cells:
            table.add_row(*map(format_cell, row))
        self.console.print(table, markup=False)

    def records(self, title: str, columns: Sequence[str] | Mapping[str, Column], records: Iterable[Any]) -> None:
        """Print a table with one row per record.

        columns: names of fields; or by heading the field, or a function that returns the value of the cell
        """
        fields = list(columns.values()) if isinstance(columns, Mapping) else columns
        self.table(title, list(columns), [[_value(record, field) for field in fields] for record in records])

    def facts(self, title: str, facts: Mapping[str, Any]) -> None:
        self.table(title, ("name", "value"), list(facts.items()))

    def document(self, value: Any) -> None:
        """Print the JSON document of the command; call it once."""
        if self.json:
            print(json_text.dumps(to_json(value), indent=2, ensure_ascii=False, allow_nan=False))


def format_cell(value: Any) -> str:
    """Format a value for a table.

    >>> format_cell(1234567), format_cell(0.123456), format_cell(None), format_cell("T1")
    ('1,234,567', '0.1235', '-', 'T1')
    """
    if value is None:
        return "-"
    if _is_number(value):
        return f"{value:,}" if isinstance(value, int) else f"{float(value):,.4g}"
    return str(value)


def format_time(seconds: float) -> str:
    """Format a time in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def format_percent(ratio: float | None) -> str | None:
    """Format a ratio given in percent."""
    return None if ratio is None else f"{ratio:.1f} %"


def to_json(value: Any) -> Any:
    """Convert a value to JSON types; numbers that are not finite become null.

    >>> to_json({"room": ("11.1", 2.0), "gap": float("inf")})
    {'room': ['11.1', 2.0], 'gap': None}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return to_json(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(item) for item in value]
    if hasattr(value, "tolist"):
        return to_json(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | None) else str(value)


def print_status(text: str) -> None:
    """Print a line about the progress of a command to stderr."""
    print(f"thinwire: {text}", file=sys.stderr, flush=True)


def write_atomically(path: Path, data: str | bytes) -> None:
    """Write a file so that a reader sees the old content or all of the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.write_bytes(data if isinstance(data, bytes) else data.encode())
    unfinished.replace(path)


def _value(record: Any, field: Column) -> Any:
    if callable(field):
        return field(record)
    return record[field] if isinstance(record, Mapping) else getattr(record, field)


def _is_number(value: Any) -> bool:
    return (isinstance(value, int | float) and not isinstance(value, bool)) or hasattr(value, "__float__")
