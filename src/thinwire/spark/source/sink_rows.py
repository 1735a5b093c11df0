"""Rows that are to become events: one column a property, or JSON in a single column `value`.

Columns whose names begin with `_` tell about an event and are no part of it; a null is a property that is absent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from thinwire.errors import ConfigError
from thinwire.schema import Kind, Schema
from thinwire.schema.event_paths import nest
from thinwire.wire.json_body import meant

VALUE = "value"
DUE = "_due"
"""a column of seconds since the epoch, before which its row is not published"""


class Events:
    """Makes events of a topic out of rows.

    unreadable: rows so far whose JSON could not be read
    """

    def __init__(self, schema: Schema) -> None:
        self.unreadable = 0
        self._opaque = {p.name for p in schema if p.kind is Kind.OPAQUE}
        self._nested = schema.nested

    def of(self, batch: pa.RecordBatch) -> Iterator[tuple[dict[str, Any], float]]:
        """The events of a batch in its order, each with the instant it is due, 0 for at once."""
        names = event_columns(batch.schema.names)
        dues = batch.column(DUE).to_pylist() if DUE in batch.schema.names else [None] * batch.num_rows
        made = self._parsed(batch) if is_json(batch.schema) else self._columns(batch.select(names))
        for event, due in zip(made, dues, strict=True):
            if event is not None:
                yield event, due or 0.0

    def _columns(self, batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
        opaque = self._opaque.intersection(batch.schema.names)
        for row in batch.to_pylist():
            event = {name: value for name, value in row.items() if value is not None}
            for name in opaque & event.keys():
                event[name] = _opaque(event[name])
            yield nest(event) if self._nested else event

    def _parsed(self, batch: pa.RecordBatch) -> Iterator[dict[str, Any] | None]:
        for text in batch.column(VALUE).to_pylist():
            try:
                event = json.loads(text) if text is not None else None
            except (ValueError, RecursionError):
                event = None
            self.unreadable += not isinstance(event, dict)
            yield event if isinstance(event, dict) else None


def event_columns(names: list[str]) -> list[str]:
    """The columns that are part of the event.

    >>> event_columns(["room", "t", "_offset"])
    ['room', 't']
    """
    return [name for name in names if not name.startswith("_")]


def is_json(schema: pa.Schema) -> bool:
    """Are the rows JSON texts?"""
    return event_columns(schema.names) == [VALUE] and pa.types.is_string(schema.field(VALUE).type)


def check_columns(columns: pa.Schema, schema: Schema) -> None:
    """Refuse columns that the events of the topic do not have: every single row would be."""
    if is_json(columns):
        return
    known: Mapping[str, Any] = {p.name: None for p in schema} | schema.tree
    for name in event_columns(columns.names):
        if name not in known:
            detail = "the topic's events have no such property: drop the column, or begin its name with _"
            raise ConfigError(detail, column=name, topic=schema.name, choose_from=sorted(p.name for p in schema))


def _opaque(value: Any) -> Any:
    """An opaque value out of its text, the inverse of `value_text`; a text that is no JSON stands for itself.

    >>> _opaque('{"$bytes":"aGk="}'), _opaque('[1,null]'), _opaque("[1")
    (b'hi', [1, None], '[1')
    """
    if not isinstance(value, str):
        return value
    try:
        return meant(json.loads(value))
    except (ValueError, TypeError, RecursionError):
        return value
