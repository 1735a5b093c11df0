"""The columns of a topic's table, and the projection of decoded rows to them.

Versions of a schema only widen: integers may become numbers, properties may be added or removed. A property that the
version of a row does not have is null. Static facts replace the reference to them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from thinwire.brokers.protocol import run_inline
from thinwire.codec.arrow_columns import arrow_schema
from thinwire.errors import RegistryError, SchemaError, UnknownFacts
from thinwire.schema import Schema
from thinwire.topics.static_properties import FACTS_PROPERTY
from thinwire.topics.topic_metadata import TopicMetadata

BOUND = "_bound"
ORIGIN_COLUMNS = ("_topic", "_publisher")
METADATA_COLUMNS = (*ORIGIN_COLUMNS, "_source", "_ordinal", "_offset", "_time", "_virtual", BOUND)
_CODEC_COLUMNS = 6
"""metadata columns that the decoder makes: the last of METADATA_COLUMNS"""


def table_schema(schema: Schema) -> pa.Schema:
    """Return the columns of a topic's table: its properties, then metadata of each event.

    >>> from thinwire.schema import Property
    >>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
    >>> table_schema(rooms).names
    ['room', 't', '_topic', '_publisher', '_source', '_ordinal', '_offset', '_time', '_virtual', '_bound']
    """
    reserved = next((p.name for p in schema if p.name in METADATA_COLUMNS), None)
    if reserved is not None:
        raise SchemaError("the name of a metadata column: rename the property", property=reserved)
    fields = list(arrow_schema(schema))
    origin = [pa.field(name, pa.string(), nullable=False) for name in ORIGIN_COLUMNS]
    # Table formats such as Parquet cannot store a struct without fields.
    metadata = [field for field in fields[-_CODEC_COLUMNS:] if field.name != BOUND or field.type.num_fields]
    return pa.schema([*fields[:-_CODEC_COLUMNS], *origin, *metadata])


class TableProjector:
    """Projects decoded rows to the columns of one topic's table.

    columns: the columns to make, by default all
    needed: the columns that decoded rows must have for that; None for all
    """

    def __init__(self, topic: str, metadata: TopicMetadata, columns: Collection[str] | None = None) -> None:
        complete = table_schema(metadata.schema)
        self.schema = pa.schema([field for field in complete if columns is None or field.name in columns])
        self.needed = None if columns is None else frozenset({*columns, FACTS_PROPERTY, "_offset"})
        self._topic = topic
        self._metadata = metadata

    def project(self, publisher: str, schema: Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a publisher, written with `schema`. Their static facts must be stored."""
        columns: dict[str, pa.Array] = dict(zip(batch.schema.names, batch.columns, strict=True))
        origin = zip(ORIGIN_COLUMNS, (self._topic, publisher), strict=True)
        columns |= {name: pa.repeat(text, batch.num_rows) for name, text in origin}
        if FACTS_PROPERTY in columns and self._metadata.factoring_of(schema.fingerprint) is not None:
            columns |= self._facts(columns.pop(FACTS_PROPERTY), schema)
        arrays = [_column(field, columns, batch.num_rows) for field in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def unknown_facts(self, schema: Schema, batch: pa.RecordBatch) -> list[str | None]:
        """Return the references of these rows whose static facts are not stored, or damaged."""
        if self._metadata.factoring_of(schema.fingerprint) is None:
            return []
        keys: list[str | None] = pc.unique(batch.column(FACTS_PROPERTY)).to_pylist()
        return [key for key in keys if key is None or not self._has_facts(key)]

    def _has_facts(self, key: str) -> bool:
        try:
            run_inline(self._metadata.facts(key))
        except (UnknownFacts, RegistryError):
            return False
        return True

    def _facts(self, references: pa.Array, schema: Schema) -> dict[str, pa.Array]:
        """Return the columns of static properties."""
        coded = references.dictionary_encode()
        facts: list[Mapping[str, Any]] = [run_inline(self._metadata.facts(key)) for key in coded.dictionary.to_pylist()]
        original = self._metadata.original(schema.fingerprint)
        types = arrow_schema(original)
        return {
            p.name: pa.array([row.get(p.name) for row in facts], type=types.field(p.name).type).take(coded.indices)
            for p in original
            if p.static and not p.confidential
        }


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


def _bounds(kind: pa.StructType, bounds: pa.StructArray, columns: Mapping[str, pa.Array], rows: int) -> pa.StructArray:
    """Return the bounds by property. The bound of a static fact is 0."""
    known = {field.name: bounds.field(index) for index, field in enumerate(bounds.type)}
    arrays = [known[field.name] if field.name in known else _exact(field, columns, rows) for field in kind]
    return pa.StructArray.from_arrays(arrays, fields=list(kind))


def _exact(field: pa.Field, columns: Mapping[str, pa.Array], rows: int) -> pa.Array:
    column = columns.get(field.name)
    if column is None:
        return pa.nulls(rows, field.type)
    return pc.if_else(column.is_valid(), pa.scalar(0.0, field.type), pa.scalar(None, field.type))
