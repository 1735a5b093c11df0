"""What a verb prints: tables for people, or with `--json` one JSON document and nothing else on stdout.

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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
"""the type of a verb's `json` parameter"""

_PIPED_WIDTH = 160


class Output:
    """Where a verb writes. Both forms are always offered; the one that was not asked for stays off stdout.

    json: the document goes to stdout, and everything meant for people to stderr
    """

    def __init__(self, json: bool = False) -> None:
        self.json = json
        self.console = _console(to_stderr=json)

    def note(self, text: str) -> None:
        """A line for people."""
        self.console.print(text, markup=False, highlight=False)

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """A table for people; columns of numbers are set flush right."""
        cells = [list(row) for row in rows]
        table = Table(title=title, title_justify="left")
        for place, column in enumerate(columns):
            numbers = any(_is_number(row[place]) for row in cells)
            table.add_column(column, justify="right" if numbers else "left", overflow="fold")
        for row in cells:
            table.add_row(*map(shown, row))
        self.console.print(table, markup=False)

    def document(self, value: Any) -> None:
        """The JSON document of this run; call it once."""
        if self.json:
            print(json_text.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False))


def shown(value: Any) -> str:
    """A cell as people read it.

    >>> shown(1234567), shown(0.123456), shown(None), shown("T1")
    ('1,234,567', '0.1235', '-', 'T1')
    """
    if value is None:
        return "-"
    if _is_number(value):
        return f"{value:,}" if isinstance(value, int) else f"{float(value):,.4g}"
    return str(value)


def plain(value: Any) -> Any:
    """The same value in JSON's own types; what is not a finite number is null.

    >>> plain({"room": ("11.1", 2.0), "gap": float("inf")})
    {'room': ['11.1', 2.0], 'gap': None}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | None) else str(value)


def _is_number(value: Any) -> bool:
    return (isinstance(value, int | float) and not isinstance(value, bool)) or hasattr(value, "__float__")


def _console(to_stderr: bool) -> Console:
    stream = sys.stderr if to_stderr else sys.stdout
    # Without a terminal rich assumes 80 columns and folds a table that a file or a pager could hold.
    return Console(file=stream, width=None if stream.isatty() else _PIPED_WIDTH)
