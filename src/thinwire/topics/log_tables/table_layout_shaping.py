"""From the rows of a publisher's messages to those of a topic's table: one set of columns, whatever version wrote them.

Versions of a schema only ever widen: whole numbers may have become numbers, and properties may have come or gone. What
the version that wrote a row did not have is null. Facts that are told once take the place of the reference to them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from thinwire.codec.arrow_columns import arrow_schema
from thinwire.errors import SchemaError
from thinwire.schema import Schema
from thinwire.topics.log_tables.table_layout import TopicSchemas
from thinwire.topics.static_properties import FACTS_PROPERTY

BOUND = "_bound"
WHO = ("_topic", "_publisher")
ABOUT = (*WHO, "_source", "_ordinal", "_offset", "_time", "_virtual", BOUND)
"""columns that say what is known about an event"""


def table_schema(schema: Schema) -> pa.Schema:
    """The columns of a topic's table: those of its events, then what is known about each.

    >>> from thinwire.schema import Property
    >>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
    >>> table_schema(rooms).names
    ['room', 't', '_topic', '_publisher', '_source', '_ordinal', '_offset', '_time', '_virtual', '_bound']
    """
    taken = next((p.name for p in schema if p.name in ABOUT), None)
    if taken is not None:
        raise SchemaError("a column of every table has this name already: rename the property", property=taken)
    fields = list(arrow_schema(schema))
    who = [pa.field(name, pa.string(), nullable=False) for name in WHO]
    # a table format may have no way to write a group of no columns
    about = [field for field in fields[-6:] if field.name != BOUND or field.type.num_fields]
    return pa.schema([*fields[:-6], *who, *about])


class Shaper:
    """Makes the rows of one topic's table.

    columns: the only ones that are wanted, if not all
    needed: the columns that the rows of publishers must have for that; None for all
    """

    def __init__(self, topic: str, schemas: TopicSchemas, columns: Collection[str] | None = None) -> None:
        whole = table_schema(schemas.current)
        self.schema = pa.schema([field for field in whole if columns is None or field.name in columns])
        self.needed = None if columns is None else frozenset({*columns, FACTS_PROPERTY, "_offset"})
        self._topic = topic
        self._schemas = schemas

    def shaped(self, publisher: str, written: Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a publisher, written with this schema, whose facts are known."""
        columns: dict[str, pa.Array] = dict(zip(batch.schema.names, batch.columns, strict=True))
        columns |= {
            name: pa.repeat(text, batch.num_rows) for name, text in zip(WHO, (self._topic, publisher), strict=True)
        }
        if FACTS_PROPERTY in columns and self._schemas.factoring(written.fingerprint) is not None:
            columns |= self._facts(columns.pop(FACTS_PROPERTY), written)
        made = [_column(field, columns, batch.num_rows) for field in self.schema]
        return pa.RecordBatch.from_arrays(made, schema=self.schema)

    def unknown_facts(self, written: Schema, batch: pa.RecordBatch) -> list[str | None]:
        """The references of these rows that stand for nothing that anybody has told."""
        if self._schemas.factoring(written.fingerprint) is None:
            return []
        keys: list[str | None] = pc.unique(batch.column(FACTS_PROPERTY)).to_pylist()
        return [key for key in keys if key is None or not self._schemas.knows_facts(key)]

    def _facts(self, references: pa.Array, written: Schema) -> dict[str, pa.Array]:
        """The columns that references stand for."""
        coded = references.dictionary_encode()
        told: list[Mapping[str, Any]] = [self._schemas.facts(key) for key in coded.dictionary.to_pylist()]
        original = self._schemas.written(written.fingerprint)
        return {
            p.name: pa.array([facts.get(p.name) for facts in told], type=_type(original, p.name)).take(coded.indices)
            for p in original
            if p.static and not p.confidential
        }


def _type(schema: Schema, name: str) -> pa.DataType:
    return arrow_schema(schema).field(name).type


def _column(field: pa.Field, columns: Mapping[str, pa.Array], rows: int) -> pa.Array:
    column = columns.get(field.name)
    if column is None:
        return pa.nulls(rows, field.type)
    if column.type.equals(field.type):
        return column
    if pa.types.is_struct(field.type):
        return _bounds(field.type, column, columns, rows)
    return column.cast(field.type, safe=False) if _widens(column.type, field.type) else pa.nulls(rows, field.type)


def _widens(written: pa.DataType, read: pa.DataType) -> bool:
    return bool(pa.types.is_integer(written) and pa.types.is_floating(read))


def _bounds(kind: pa.StructType, told: pa.StructArray, columns: Mapping[str, pa.Array], rows: int) -> pa.StructArray:
    """The bounds by property; a fact that is told once is never off."""
    known = {field.name: told.field(place) for place, field in enumerate(told.type)}
    made = [known[field.name] if field.name in known else _unsaid(field, columns, rows) for field in kind]
    return pa.StructArray.from_arrays(made, fields=list(kind))


def _unsaid(field: pa.Field, columns: Mapping[str, pa.Array], rows: int) -> pa.Array:
    column = columns.get(field.name)
    if column is None:
        return pa.nulls(rows, field.type)
    return pc.if_else(column.is_valid(), pa.scalar(0.0, field.type), pa.scalar(None, field.type))
