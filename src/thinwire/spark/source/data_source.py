"""The Spark data source `thinwire`: batch and stream readers, and the entry point of the writers.

An offset of a stream is a JSON object with an entry for each topic: the next message to read and the identity of its
log. The checkpoint of the query is the only record of progress; nothing is acknowledged to the broker.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cached_property
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from thinwire.brokers.protocol import LogSource, is_same_log
from thinwire.errors import ConfigError, DataLoss, SchemaChanged
from thinwire.spark.source.offset_plan import (
    ReadPartition,
    check_logs,
    limit_batch,
    plan_partitions,
    resolve_ends,
    resolve_starts,
)
from thinwire.spark.source.source_options import (
    EARLIEST,
    LATEST,
    SourceOptions,
    TopicOffsets,
    decode_positions,
    encode_positions,
)
from thinwire.spark.source.source_schema import (
    arrow_of,
    find_checked_topics,
    find_topics,
    fit_columns,
    open_log_source,
    table_columns,
)
from thinwire.spark.source.state_spool import StateSpool
from thinwire.topics.log_tables.log_table import LogTable
from thinwire.topics.log_tables.offset_range import LOG_REPLACED, Range
from thinwire.topics.log_tables.raw_tables import read_frames, read_messages
from thinwire.topics.log_tables.source_broker import read_topic, span_of
from thinwire.topics.names import log_of
from thinwire.topics.position import Position

if TYPE_CHECKING:
    from thinwire.spark.source.sink import TopicWriter


def read_partition(options: SourceOptions, schema: pa.Schema, part: ReadPartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition with the columns of `schema`."""
    with closing(open_log_source(options)) as source:
        if options.columns == "events":
            batches = _read_events(source, options, part, schema.names)
        else:
            read = read_frames if options.columns == "frames" else read_messages
            range_ = Range(part.first, part.last)
            batches = read(source, part.topic, range_, fail_on_data_loss=options.fail_on_data_loss, log_id=part.log_id)
        for batch in batches:
            yield fit_columns(batch, schema)


def _read_events(
    source: LogSource, options: SourceOptions, part: ReadPartition, columns: list[str]
) -> Iterator[pa.RecordBatch]:
    states = StateSpool(options.state_location)
    table = LogTable(
        source,
        part.topic,
        fail_on_data_loss=options.fail_on_data_loss,
        log_id=part.log_id,
        demand=options.demand,
        columns=columns,
    )
    yield from table.rows(part.first, part.last, states.get(part.input_state) if part.input_state else None)
    state = table.state() if part.output_state else None
    if state is not None:
        states.put(part.output_state, state)
    if part.obsolete_state:
        states.delete(part.obsolete_state)
    states.append_counts(repr(part), table.counts)


class BatchReader(DataSourceReader):
    """Reads topics between two offsets, once."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.options = options
        self._schema = arrow_of(schema)

    def partitions(self) -> Sequence[InputPartition]:
        """Return partitions that tasks can read concurrently."""
        with closing(open_log_source(self.options)) as source:
            topics = find_checked_topics(source, self.options, self._schema)
            check_logs(source, self.options, topics)
            first = resolve_starts(source, self.options, topics, EARLIEST)
            return plan_partitions(source, self.options, first, resolve_ends(source, self.options, topics))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition. Spark passes an empty one if there are none."""
        if isinstance(partition, ReadPartition):
            yield from read_partition(self.options, self._schema, partition)


Offsets = dict[str, Any]
"""an offset of the stream as Spark stores it"""

_log = logging.getLogger("thinwire.spark")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics batch by batch.

    Spark uses one object on the driver for the whole query and sends copies to the tasks.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        if options.ending != TopicOffsets(LATEST):
            raise ConfigError("a stream has no end: remove the option, or use spark.read", option="endingOffsets")
        self.options = options
        self._schema = arrow_of(schema)
        self._run_id = token_hex(8)
        self._target: dict[str, Position] | None = None
        self._previous_starts: dict[str, int] = {}

    def __getstate__(self) -> dict[str, Any]:
        # A connection cannot be sent to another process.
        return {name: value for name, value in self.__dict__.items() if name != "_source"}

    @cached_property
    def _source(self) -> LogSource:
        return open_log_source(self.options)

    @cached_property
    def _topics(self) -> list[str]:
        return find_checked_topics(self._source, self.options, self._schema)

    def initialOffset(self) -> Offsets:
        """Return the first offset of a query without a checkpoint."""
        StateSpool(self.options.state_location).delete_stale()
        first = resolve_starts(self._source, self.options, self._topics, LATEST)
        ends = self._ends().items()
        return encode_positions({topic: Position(first[topic], log_id=end.log_id) for topic, end in ends})

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of a batch, from the option maxOffsetsPerTrigger."""
        limit = self.options.max_offsets
        return ReadMaxRows(limit) if limit is not None else ReadAllAvailable()

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        """Return the end of the next batch."""
        starts, ends = decode_positions(start), self._target or self._ends()
        self._check_logs(starts, ends)
        if ends != starts:
            self._check_schemas()
        first = self._first_offsets(starts, ends)
        max_messages = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        offsets = limit_batch(first, {topic: end.offset for topic, end in ends.items()}, max_messages)
        positions = {topic: Position(offsets[topic], log_id=end.log_id) for topic, end in ends.items()}
        return {**start, **encode_positions(positions)}

    def reportLatestOffset(self) -> Offsets:
        """Return the current end of the logs, for the metrics of the query."""
        return encode_positions(self._ends())

    def prepareForTriggerAvailableNow(self) -> None:
        """Read up to the current end of the logs and stop."""
        self._target = self._ends()

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        """Return the partitions of a batch. The first one of a topic continues with the state after the last batch."""
        starts, ends = decode_positions(start), decode_positions(end)
        partitions = plan_partitions(self._source, self.options, self._first_offsets(starts, ends), ends)
        if self.options.columns == "events":
            self._name_states(partitions)
        return partitions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""
        if isinstance(partition, ReadPartition):
            yield from read_partition(self.options, self._schema, partition)

    def commit(self, end: Offsets) -> None:
        """Do nothing: Spark does not commit the last batch of a run, and the checkpoint has the offsets."""

    def stop(self) -> None:
        """Delete the states of this run. Spark may not call this; `delete_stale` then deletes them later."""
        StateSpool(self.options.state_location).delete_run(self._run_id)
        source = self.__dict__.pop("_source", None)
        if source is not None:
            source.close()

    def _name_states(self, partitions: list[ReadPartition]) -> None:
        by_topic: dict[str, list[ReadPartition]] = {}
        for partition in partitions:
            by_topic.setdefault(partition.topic, []).append(partition)
        for topic, batch in by_topic.items():
            start, end = batch[0].first, batch[-1].last + 1
            batch[0].input_state = self._state_name(topic, start)
            batch[-1].output_state = self._state_name(topic, end)
            previous_start = self._previous_starts.get(topic, start)
            if previous_start != start:  # the previous batch is complete, its input state is not needed again
                batch[-1].obsolete_state = self._state_name(topic, previous_start)
            self._previous_starts[topic] = start

    def _state_name(self, topic: str, offset: int) -> str:
        return f"{self._run_id}-{topic}-{offset}"

    def _first_offsets(self, starts: dict[str, Position], ends: dict[str, Position]) -> dict[str, int]:
        """Return the first offsets of a batch. A log that was created again is read from its start."""
        return {
            topic: span_of(self._source, log_of(topic)).first
            if topic not in starts or _is_replaced(starts[topic], end)
            else starts[topic].offset
            for topic, end in ends.items()
        }

    def _check_logs(self, starts: dict[str, Position], ends: dict[str, Position]) -> None:
        """Raise `DataLoss` if a log was deleted and created again."""
        for topic, end in ends.items():
            offset = starts.get(topic, end).offset
            if _is_replaced(starts.get(topic, end), end):
                if self.options.fail_on_data_loss:
                    raise DataLoss(LOG_REPLACED, topic=topic, offset=offset, end=end.offset, option="failOnDataLoss")
                _log.warning("%s: %s; reading it from the start, not from %d", topic, LOG_REPLACED, offset)

    def _check_schemas(self) -> None:
        """Raise `SchemaChanged` if the schema of a topic is not the one of the option `expectSchemas`.

        Call it after the ends of the logs were read: messages before the ends cannot have a newer schema than is found.
        """
        for topic, expected in self.options.schemas.items():
            found = read_topic(self._source, topic).schema.fingerprint.hex()
            if found != expected:
                raise SchemaChanged(topic=topic, expected=expected, found=found, option="expectSchemas")

    def _ends(self) -> dict[str, Position]:
        spans = {topic: span_of(self._source, log_of(topic)) for topic in self._topics}
        return {topic: Position(span.last + 1, log_id=span.log_id) for topic, span in spans.items()}


def _is_replaced(start: Position, end: Position) -> bool:
    """Return whether the log was created again after `start`. The end of a log never decreases."""
    return end.offset < start.offset or not is_same_log(start.log_id, end.log_id)


class ThinwireDataSource(DataSource):
    """Topics as tables: `spark.read.format("thinwire").option("servers", url).option("subscribe", topic).load()`."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "thinwire"

    def schema(self) -> StructType:
        """Return the columns, from the registered schemas of the topics."""
        options = self._parse_options()
        with closing(open_log_source(options)) as source:
            return from_arrow_schema(table_columns(source, options, find_topics(source, options)))

    def reader(self, schema: StructType) -> BatchReader:
        """Return the reader of `spark.read`."""
        return BatchReader(self._parse_options(), schema)

    def streamReader(self, schema: StructType) -> StreamReader:
        """Return the reader of `spark.readStream`."""
        return StreamReader(self._parse_options(), schema)

    def writer(self, schema: StructType, overwrite: bool) -> TopicWriter:
        """Return the writer of `df.write`."""
        from thinwire.spark.source.sink import TopicWriter, WriteOptions  # imports the client, not needed by readers

        return TopicWriter(WriteOptions.read(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> TopicWriter:
        """Return the writer of `df.writeStream`."""
        return self.writer(schema, overwrite)

    def _parse_options(self) -> SourceOptions:
        return SourceOptions.read(self.options)
