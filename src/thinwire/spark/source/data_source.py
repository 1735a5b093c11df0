"""The source `thinwire`, as Spark knows it.

One part of a query, read: what a task does.

Tables: `spark.read.format("thinwire")`.

Streams: `spark.readStream.format("thinwire")`.

A place in the stream is an object by topic: the offset of the next message to read, and when the log was made that it
is an offset of. The checkpoint of the query is the only truth about what was read; nothing is acknowledged anywhere
else.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from thinwire.brokers.protocol import LogSource
from thinwire.errors import ConfigError, DataLoss, SchemaChanged
from thinwire.spark.source.offset_plan import ReadPartition, admitted, check_logs, ends, parts, starts
from thinwire.spark.source.sink import WriteOptions
from thinwire.spark.source.source_options import (
    EARLIEST,
    LATEST,
    Reached,
    SourceOptions,
    TopicOffsets,
    read_written,
    written,
)
from thinwire.spark.source.source_schema import (
    arrow_of,
    check_columns,
    columns_of,
    fitted,
    open_any,
    opened,
    spark_schema,
    topics_of,
)
from thinwire.spark.source.state_spool import Spool
from thinwire.topics.log_tables import REMADE, LogTable, Range, TopicSchemas, frames, messages, span_of
from thinwire.topics.names import log_of

if TYPE_CHECKING:
    from thinwire.spark.source.sink import BatchWriter, StreamWriter


def read_part(options: SourceOptions, schema: pa.Schema, part: ReadPartition) -> Iterator[pa.RecordBatch]:
    """The rows of a part, with these columns."""
    with opened(options) as source:
        made = (
            _events(source, options, part, schema.names) if options.columns == "events" else _raw(source, options, part)
        )
        for batch in made:
            yield fitted(batch, schema)


def _raw(source: LogSource, options: SourceOptions, part: ReadPartition) -> Iterator[pa.RecordBatch]:
    read = frames if options.columns == "frames" else messages
    wanted = Range(part.first, part.last)
    return read(source, part.topic, wanted, fail_on_data_loss=options.fail_on_data_loss, log=part.log)


def _events(
    source: LogSource, options: SourceOptions, part: ReadPartition, columns: list[str]
) -> Iterator[pa.RecordBatch]:
    spool = Spool(options.state_location)
    landing = LogTable(
        source,
        part.topic,
        fail_on_data_loss=options.fail_on_data_loss,
        log=part.log,
        demand=options.demand,
        columns=columns,
    )
    yield from landing.rows(part.first, part.last, spool.get(part.follows) if part.follows else None)
    state = landing.state() if part.leaves else None
    if state is not None:
        spool.put(part.leaves, state)
    if part.drops:
        spool.forget(part.drops)
    spool.note(repr(part), landing.counted)


class BatchReader(DataSourceReader):
    """Reads what lies between two places of some topics' logs, once."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.options = options
        self._schema = arrow_of(schema)

    def partitions(self) -> Sequence[InputPartition]:
        """Parts that can be read side by side."""
        with opened(self.options) as source:
            topics = topics_of(source, self.options)
            check_columns(self._schema, columns_of(source, self.options, topics))
            check_logs(source, self.options, topics)
            first = starts(source, self.options, topics, EARLIEST)
            return parts(source, self.options, first, ends(source, self.options, topics))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a part; none where there was nothing to divide."""
        if isinstance(partition, ReadPartition):
            yield from read_part(self.options, self._schema, partition)


Offsets = dict[str, Any]
"""a place in the stream, as Spark keeps it"""

_log = logging.getLogger("thinwire.spark")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads on in some topics' logs, batch by batch.

    Spark makes one of these to plan with, which lives as long as the query, and a copy of another for every task.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        if options.ending != TopicOffsets(LATEST):
            raise ConfigError("a stream has no end: leave it out, or use spark.read", option="endingOffsets")
        self.options = options
        self._schema = arrow_of(schema)
        self._run = token_hex(8)
        self._source: LogSource | None = None
        self._topics: list[str] | None = None
        self._target: dict[str, Reached] | None = None
        self._before: dict[str, int] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_source": None}  # a connection stays in the process that made it

    def initialOffset(self) -> Offsets:
        """Where a query begins that has no checkpoint yet."""
        Spool(self.options.state_location).sweep()
        first = starts(self._opened(), self.options, self._read_topics(), LATEST)
        return written({topic: Reached(first[topic], end.log) for topic, end in self._ends().items()})

    def getDefaultReadLimit(self) -> ReadLimit:
        """How much a batch takes at most, as far as that was asked for."""
        limit = self.options.max_offsets
        return ReadMaxRows(limit) if limit is not None else ReadAllAvailable()

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        """How far the next batch goes."""
        before, end = read_written(start), self._target or self._ends()
        self._check_logs(before, end)
        if end != before:
            self._check_schemas()
        first = {topic: self._first(topic, before.get(topic), behind) for topic, behind in end.items()}
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        reached = admitted(first, {topic: behind.offset for topic, behind in end.items()}, most)
        return {**start, **written({topic: Reached(reached[topic], end[topic].log) for topic in end})}

    def reportLatestOffset(self) -> Offsets:
        """How far the logs go now, for the figures of the query."""
        return written(self._ends())

    def prepareForTriggerAvailableNow(self) -> None:
        """Read what is there now, in as many batches as it takes, and end."""
        self._target = self._ends()

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        """The parts of a batch. The first of a topic goes on where the last of the batch before stopped."""
        before, ends = read_written(start), read_written(end)
        first = {topic: self._first(topic, before.get(topic), behind) for topic, behind in ends.items()}
        made = parts(self._opened(), self.options, first, ends)
        if self.options.columns == "events":
            self._hand_on(made)
        return made

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a part."""
        if isinstance(partition, ReadPartition):
            yield from read_part(self.options, self._schema, partition)

    def commit(self, end: Offsets) -> None:
        """Nothing is acknowledged: the last batch of a run is never heard of here, and the checkpoint knows it all."""

    def stop(self) -> None:
        """The query is over; it is not always told so, hence `sweep`."""
        Spool(self.options.state_location).forget_all(self._run)
        if self._source is not None:
            self._source.close()
            self._source = None

    def _hand_on(self, made: list[ReadPartition]) -> None:
        by_topic: dict[str, list[ReadPartition]] = {}
        for part in made:
            by_topic.setdefault(part.topic, []).append(part)
        for topic, mine in by_topic.items():
            mine[0].follows = self._name(topic, mine[0].first)
            mine[-1].leaves = self._name(topic, mine[-1].last + 1)
            before = self._before.get(topic, mine[0].first)
            if before != mine[0].first:
                mine[-1].drops = self._name(topic, before)  # of the batch before this one, which is over
            self._before[topic] = mine[0].first

    def _name(self, topic: str, offset: int) -> str:
        """Under which the state of a topic's links before an offset is left, in this run of the query."""
        return f"{self._run}-{topic}-{offset}"

    def _first(self, topic: str, before: Reached | None, behind: Reached) -> int:
        """The first message of a batch. All of a log that was made again is new."""
        if before is None or _is_another(before, behind):
            return self._earliest(topic)
        return before.offset

    def _check_logs(self, start: dict[str, Reached], end: dict[str, Reached]) -> None:
        """Are the logs those in which the places were reached?"""
        for topic, behind in end.items():
            before = start.get(topic, behind)
            if _is_another(before, behind):
                if self.options.fail_on_data_loss:
                    raise DataLoss(
                        REMADE, topic=topic, offset=before.offset, end=behind.offset, option="failOnDataLoss"
                    )
                _log.warning("%s: %s; it is read from its beginning, not from %d", topic, REMADE, before.offset)

    def _check_schemas(self) -> None:
        """Has a topic got another schema? Asked after its end was: nothing before that end was written with a later."""
        for topic, expected in self.options.schemas.items():
            found = TopicSchemas(self._opened(), topic).current.fingerprint.hex()
            if found != expected:
                raise SchemaChanged(topic=topic, expected=expected, found=found, option="expectSchemas")

    def _earliest(self, topic: str) -> int:
        return span_of(self._opened(), log_of(topic)).first

    def _ends(self) -> dict[str, Reached]:
        spans = {topic: span_of(self._opened(), log_of(topic)) for topic in self._read_topics()}
        return {topic: Reached(span.last + 1, span.made) for topic, span in spans.items()}

    def _read_topics(self) -> list[str]:
        if self._topics is None:
            source = self._opened()
            self._topics = topics_of(source, self.options)
            check_columns(self._schema, columns_of(source, self.options, self._topics))
        return self._topics

    def _opened(self) -> LogSource:
        if self._source is None:
            self._source = open_any(self.options)
        return self._source


def _is_another(before: Reached, behind: Reached) -> bool:
    """Is the log, as it is now, another one than that in which a place was reached? Logs do not become shorter."""
    return behind.offset < before.offset or (before.log != behind.log and "" not in (before.log, behind.log))


class ThinwireDataSource(DataSource):
    """Topics as tables: `spark.read.format("thinwire").option("servers", url).option("subscribe", topic).load()`."""

    @classmethod
    def name(cls) -> str:
        """What follows `format`."""
        return "thinwire"

    def schema(self) -> StructType:
        """The columns, as the registry has the topics' schemas."""
        return spark_schema(self._read())

    def reader(self, schema: StructType) -> BatchReader:
        """For `spark.read`."""
        return BatchReader(self._read(), schema)

    def streamReader(self, schema: StructType) -> StreamReader:
        """For `spark.readStream`."""
        return StreamReader(self._read(), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """For `df.write`."""
        from thinwire.spark.source.sink import BatchWriter  # a process that plans a read starts without it

        return BatchWriter(WriteOptions.read(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """For `df.writeStream`."""
        from thinwire.spark.source.sink import StreamWriter

        return StreamWriter(WriteOptions.read(self.options), schema, overwrite=overwrite)

    def _read(self) -> SourceOptions:
        return SourceOptions.read(self.options)
