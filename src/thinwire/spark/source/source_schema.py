"""From options to a source of logs, and to the topics that are read from it.

The columns of a table: of events of one or several topics, or of frames or messages as they are.

Columns of several topics are joined by name. What only some of them have is null for the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from thinwire.brokers.protocol import LogSource
from thinwire.errors import ConfigError, SchemaChanged, UnknownTopic
from thinwire.spark.source.source_options import SourceOptions
from thinwire.topics.log_tables import ABOUT, BOUND, FRAMES, MESSAGES, TopicSchemas, table_schema
from thinwire.topics.names import topic_of


@contextmanager
def opened(options: SourceOptions) -> Iterator[LogSource]:
    """The source that the options name, closed at the end."""
    source = open_any(options)
    try:
        yield source
    finally:
        source.close()


def open_any(options: SourceOptions) -> LogSource:
    """The source that the options name; whoever asks for it closes it."""
    if options.path is not None:
        from thinwire.brokers.recording import open_recording

        return open_recording(options.path)
    from thinwire.brokers.nats.blocking import open_source

    assert options.servers is not None
    return open_source(options.servers, **options.connection)


def topics_of(source: LogSource, options: SourceOptions) -> list[str]:
    """The topics that are read; one that was named need not have a log yet."""
    if options.pattern is None:
        return list(options.topics)
    there = sorted(topic for topic in map(topic_of, source.logs()) if topic is not None)
    found = [topic for topic in there if re.fullmatch(options.pattern, topic)]
    if not found:
        raise ConfigError("no topic matches", option="subscribePattern", value=options.pattern, topics=there[:20])
    return found


def spark_schema(options: SourceOptions) -> StructType:
    """The columns of what the options ask for."""
    with opened(options) as source:
        return from_arrow_schema(columns_of(source, options, topics_of(source, options)))


def columns_of(source: LogSource, options: SourceOptions, topics: list[str]) -> pa.Schema:
    """The columns that these topics have together."""
    if options.columns != "events":
        return FRAMES if options.columns == "frames" else MESSAGES
    return joined({topic: _table_of(source, topic) for topic in topics})


def _table_of(source: LogSource, topic: str) -> pa.Schema:
    try:
        return table_schema(TopicSchemas(source, topic).current)
    except UnknownTopic:
        raise UnknownTopic(option="subscribe", topic=topic) from None


def joined(schemas: Mapping[str, pa.Schema]) -> pa.Schema:
    """The columns of several topics in one table.

    >>> one, other = pa.schema([("t", pa.float64())]), pa.schema([("n", pa.int64())])
    >>> joined({"rooms": one, "doors": other}).names
    ['t', 'n']
    """
    fields: dict[str, pa.Field] = {}
    for topic, schema in schemas.items():
        for field in schema:
            known = fields.get(field.name)
            fields[field.name] = field if known is None else _both(topic, known, field)
    about = [name for name in fields if name in ABOUT]
    return pa.schema([*(fields[name] for name in fields if name not in about), *(fields[name] for name in about)])


def arrow_of(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark expects of batches with these columns."""
    return to_arrow_schema(schema, timezone="UTC")


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with these columns, in this order; null where it has none."""
    if batch.schema.equals(schema):
        return batch
    return pa.RecordBatch.from_arrays([_column(batch, field) for field in schema], schema=schema)


def check_columns(asked: pa.Schema, given: pa.Schema) -> None:
    """Refuse columns that the topics do not have: the user may have said which to read, with `schema`."""
    for field in asked:
        index = given.get_field_index(field.name)
        if index < 0:
            raise ConfigError("no such column: leave it out of schema()", column=field.name, choose_from=given.names)
        if not given.field(index).type.equals(field.type):
            found = str(given.field(index).type)
            raise ConfigError("another type in schema()", column=field.name, asked=str(field.type), type=found)


def _both(topic: str, known: pa.Field, field: pa.Field) -> pa.Field:
    """A column that two topics have: the same, or bounds of either."""
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
    known = {member.name: column.field(place) for place, member in enumerate(column.type)}
    missing = pa.nulls(batch.num_rows, pa.float64())
    return pa.StructArray.from_arrays(
        [known.get(member.name, missing) for member in field.type], fields=list(field.type)
    )
