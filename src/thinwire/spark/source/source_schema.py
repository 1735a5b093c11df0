"""The log source, topics and columns of a query.

Columns of several topics are merged by name. A column that a topic does not have is null in its rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from thinwire.brokers.protocol import LogSource
from thinwire.errors import ConfigError, SchemaChanged, UnknownTopic
from thinwire.spark.source.source_options import SourceOptions
from thinwire.topics.log_tables.raw_tables import FRAMES, MESSAGES
from thinwire.topics.log_tables.source_broker import read_topic
from thinwire.topics.log_tables.table_layout import BOUND, METADATA_COLUMNS, table_schema
from thinwire.topics.names import topic_of


def open_log_source(options: SourceOptions) -> LogSource:
    """Open the source of the options. The caller closes it."""
    if options.path is not None:
        from thinwire.brokers.recording import open_recording

        return open_recording(options.path)
    from thinwire.brokers.nats.blocking import open_source

    assert options.servers is not None
    return open_source(options.servers, **options.connection)


def find_topics(source: LogSource, options: SourceOptions) -> list[str]:
    """Return the topics to read. A topic given by name may have no log yet."""
    if options.pattern is None:
        return list(options.topics)
    existing = sorted(topic for topic in map(topic_of, source.logs()) if topic is not None)
    found = [topic for topic in existing if re.fullmatch(options.pattern, topic)]
    if not found:
        raise ConfigError("no topic matches", option="subscribePattern", value=options.pattern, topics=existing[:20])
    return found


def find_checked_topics(source: LogSource, options: SourceOptions, requested: pa.Schema) -> list[str]:
    """Return the topics to read. Raise `ConfigError` if they do not have the requested columns."""
    topics = find_topics(source, options)
    check_columns(requested, table_columns(source, options, topics))
    return topics


def table_columns(source: LogSource, options: SourceOptions, topics: list[str]) -> pa.Schema:
    """Return the columns of the topics together."""
    if options.columns != "events":
        return FRAMES if options.columns == "frames" else MESSAGES
    return merge_schemas({topic: _topic_columns(source, topic) for topic in topics})


def _topic_columns(source: LogSource, topic: str) -> pa.Schema:
    try:
        return table_schema(read_topic(source, topic).schema)
    except UnknownTopic:
        raise UnknownTopic(option="subscribe", topic=topic) from None


def merge_schemas(schemas: Mapping[str, pa.Schema]) -> pa.Schema:
    """Merge the columns of several topics.

    >>> one, other = pa.schema([("t", pa.float64())]), pa.schema([("n", pa.int64())])
    >>> merge_schemas({"rooms": one, "doors": other}).names
    ['t', 'n']
    """
    fields: dict[str, pa.Field] = {}
    for topic, schema in schemas.items():
        for field in schema:
            known = fields.get(field.name)
            fields[field.name] = field if known is None else _merge(topic, known, field)
    metadata = [name for name in fields if name in METADATA_COLUMNS]
    return pa.schema([*(fields[name] for name in fields if name not in metadata), *(fields[name] for name in metadata)])


def arrow_of(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects for these columns."""
    return to_arrow_schema(schema, timezone="UTC")


def fit_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with these columns, in this order. A missing column becomes null."""
    if batch.schema.equals(schema):
        return batch
    return pa.RecordBatch.from_arrays([_column(batch, field) for field in schema], schema=schema)


def check_columns(requested: pa.Schema, available: pa.Schema) -> None:
    """Raise `ConfigError` for a column of the user's `schema()` that the topics do not have."""
    for field in requested:
        index = available.get_field_index(field.name)
        if index < 0:
            raise ConfigError(
                "no such column: leave it out of schema()", column=field.name, choose_from=available.names
            )
        if not available.field(index).type.equals(field.type):
            found = str(available.field(index).type)
            raise ConfigError("another type in schema()", column=field.name, requested=str(field.type), type=found)


def _merge(topic: str, known: pa.Field, field: pa.Field) -> pa.Field:
    """Return a column of two topics: the types are equal, or the bounds are merged."""
    if field.name == BOUND:
        members = {member.name: member for kind in (known.type, field.type) for member in kind}
        return pa.field(BOUND, pa.struct(list(members.values())))
    if not field.type.equals(known.type):
        detail = "topics of one table have columns of one name and different types: read them apart"
        raise ConfigError(
            detail, option="subscribe", topic=topic, column=field.name, type=str(field.type), others=str(known.type)
        )
    return known


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    index = batch.schema.get_field_index(field.name)
    if index < 0:
        return pa.nulls(batch.num_rows, field.type)
    column = batch.column(index)
    if column.type.equals(field.type):
        return column
    if not pa.types.is_struct(field.type):
        raise SchemaChanged(column=field.name, expected=str(field.type), found=str(column.type))
    known = {member.name: column.field(index) for index, member in enumerate(column.type)}
    missing = pa.nulls(batch.num_rows, pa.float64())
    return pa.StructArray.from_arrays(
        [known.get(member.name, missing) for member in field.type], fields=list(field.type)
    )
