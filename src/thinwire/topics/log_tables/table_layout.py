"""What a reader of whole stretches knows of a topic: its schemas, facts told once, and dictionaries.

From the rows of a publisher's messages to those of a topic's table: one set of columns, whatever version wrote them.

Versions of a schema only ever widen: whole numbers may have become numbers, and properties may have come or gone. What
the version that wrote a row did not have is null. Facts that are told once take the place of the reference to them.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from thinwire.brokers.protocol import LogSource
from thinwire.codec.arrow_columns import arrow_schema
from thinwire.dictionaries import Dictionary
from thinwire.errors import CorruptDictionary, RegistryError, SchemaError, UnknownFacts, UnknownTopic
from thinwire.schema import Schema
from thinwire.topics.dictionary_store import DictionaryCache, fetched
from thinwire.topics.names import DICTIONARIES, FACTS, REGISTRY, check_topic
from thinwire.topics.static_properties import FACTS_PROPERTY, Factoring, decode_facts, factored, facts_key
from thinwire.topics.topic_documents import TopicDocument, decode
from thinwire.topics.topic_settings import schema_key, topic_key

_ANY = "any"

_log = logging.getLogger("thinwire.landing")


class TopicSchemas:
    """The schemas of one topic, as the registry's documents tell.

    current: the one that its events are read as, whatever version wrote them
    """

    def __init__(self, source: LogSource, topic: str) -> None:
        self.topic = check_topic(topic)
        self._source = source
        self._schemas: dict[bytes, Schema] = {}
        self._originals: dict[bytes, Schema] = {}
        self._facts: dict[str, Mapping[str, Any]] = {}
        self._dictionaries = DictionaryCache()
        self.current = self._load()

    @property
    def travelling(self) -> Schema:
        """What travels of the current one."""
        return factored(self.current)

    def lookup(self, fingerprint: bytes) -> Schema | None:
        """The schema that travels under this fingerprint, as far as it is known."""
        return self._schemas.get(fingerprint)

    def learn(self, fingerprint: bytes) -> bool:
        """Look again, for a version registered meanwhile; False where there is none of this fingerprint."""
        self._load()
        return fingerprint in self._schemas

    def dictionary(self, hash: bytes) -> Dictionary | None:
        """The dictionary with this hash; None where there is none, or another one in its place."""
        found = self._dictionaries.find(hash)
        if found is None:
            try:
                found = fetched(hash, partial(self._source.document, DICTIONARIES), self._dictionaries.find)
            except CorruptDictionary as lie:
                _log.warning("%s: %s", self.topic, lie)
            if found is not None:
                self._dictionaries.keep(found)
        return found

    def written(self, fingerprint: bytes) -> Schema:
        """The schema as it was registered of what travels under this fingerprint."""
        return self._originals.get(fingerprint) or self._schemas[fingerprint]

    def factoring(self, fingerprint: bytes) -> Factoring | None:
        """How events under this fingerprint get their facts back; None where they carry them."""
        original = self._originals.get(fingerprint)
        return Factoring(original) if original is not None else None

    def knows_facts(self, key: str) -> bool:
        """Has somebody told what is under this key, and is it what the key names?"""
        try:
            self.facts(key)
        except (UnknownFacts, RegistryError):
            return False
        return True

    def facts(self, key: str) -> Mapping[str, Any]:
        """The facts under a key; `UnknownFacts` where nobody has told them."""
        if key not in self._facts:
            value = self._source.document(FACTS, facts_key(self.topic, key))
            if value is None:
                raise UnknownFacts(topic=self.topic, key=key)
            self._facts[key] = decode_facts(key, value)
        return self._facts[key]

    def _load(self) -> Schema:
        """All versions there are; the current one."""
        value = self._source.document(REGISTRY, topic_key(self.topic))
        document = decode(topic_key(self.topic), value) if value is not None else None
        if not isinstance(document, TopicDocument):
            raise UnknownTopic(topic=self.topic)
        pattern = schema_key(self.topic, _ANY).removesuffix(_ANY) + "*"
        for key, text in self._source.documents(REGISTRY, pattern).items():
            schema = decode(key, text)
            assert isinstance(schema, Schema)
            self._keep(schema)
        current = self._schemas.get(bytes.fromhex(document.fingerprint))
        if current is None:
            raise RegistryError("the schema of a topic is missing", topic=self.topic, fingerprint=document.fingerprint)
        return current

    def _keep(self, schema: Schema) -> None:
        on_wire = factored(schema)
        self._schemas[schema.fingerprint] = schema
        self._schemas[on_wire.fingerprint] = on_wire
        if on_wire is not schema:
            self._originals[on_wire.fingerprint] = schema


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


class TableProjector:
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
