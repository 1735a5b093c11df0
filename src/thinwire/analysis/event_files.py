"""One line of text, or one row of a table, as an event; and events as one line each, on their way between two steps."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from thinwire.errors import ConfigError
from thinwire.schema.event_paths import nest

MAX_LINE = 1 << 20
"""characters of a line, at most"""

_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?([eE][+-]?[0-9]{1,3})?")
_WORDS = {"": None, "true": True, "false": False, "null": None}
_INSTANT = "\x00instant"
"""the name under which an instant travels in a line: JSON has none"""


class NoEvent(ValueError):
    """A line that is no event; its text says why."""


class Header(NamedTuple):
    """The first line of a CSV file: what parts its columns, and their names."""

    mark: str
    names: list[str]


def header_of(line: str, file: str) -> Header:
    """The columns that a file begins with."""
    if not line.strip():
        raise ConfigError("a CSV file begins with the names of its columns", file=file)
    mark = max(",;\t|", key=line.count)
    names = [name.strip() for name in next(csv.reader([line], delimiter=mark))]
    if len(set(names)) != len(names) or not all(names):
        raise ConfigError("the names of the columns must be there, each once", file=file, names=names)
    return Header(mark, names)


def event_of(line: str, header: Header | None = None) -> dict[str, Any]:
    """The event of a line: JSON, or CSV where there is a header.

    >>> event_of("20.5;007", Header(";", ["heat", "room"]))
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


def _of_csv(line: str, header: Header) -> dict[str, Any]:
    row = next(csv.reader([line], delimiter=header.mark), [])
    if len(row) != len(header.names):
        raise NoEvent(f"{len(row)} fields, {len(header.names)} columns")
    return nest({name: typed(text.strip()) for name, text in zip(header.names, row, strict=True)})


_MARK = json.dumps(_INSTANT)


def _tagged(value: object) -> Any:
    return {_INSTANT: value.isoformat()} if isinstance(value, datetime) else str(value)


def _untagged(value: dict[str, Any]) -> Any:
    return datetime.fromisoformat(value[_INSTANT]) if value.keys() == {_INSTANT} else value
