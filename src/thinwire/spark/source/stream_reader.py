"""Streams: `spark.readStream.format("thinwire")`.

A place in the stream is an object of offsets by topic, each that of the next message to read. The checkpoint of the
query is the only truth about what was read; nothing is acknowledged anywhere else.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from secrets import token_hex
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from thinwire.control.landing import TopicSchemas, span_of
from thinwire.control.names import log_of
from thinwire.errors import ConfigError, DataLoss, SchemaChanged
from thinwire.spark.source.admission import admitted
from thinwire.spark.source.offsets import LATEST, Place
from thinwire.spark.source.opening import open_any, topics_of
from thinwire.spark.source.options import Options
from thinwire.spark.source.planning import Part, parts, starts
from thinwire.spark.source.reading import read_part
from thinwire.spark.source.schemas import arrow_of, check_columns, columns_of
from thinwire.spark.source.spool import Spool
from thinwire.transports.source import LogSource

Offsets = dict[str, int]

_log = logging.getLogger("thinwire.spark")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads on in some topics' logs, batch by batch.

    Spark makes one of these to plan with, which lives as long as the query, and a copy of another for every task.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        if options.ending != Place(LATEST):
            raise ConfigError("a stream has no end: leave it out, or use spark.read", option="endingOffsets")
        self.options = options
        self._schema = arrow_of(schema)
        self._run = token_hex(8)
        self._source: LogSource | None = None
        self._topics: list[str] | None = None
        self._target: Offsets | None = None
        self._before: Offsets = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_source": None}  # a connection stays in the process that made it

    def initialOffset(self) -> Offsets:
        """Where a query begins that has no checkpoint yet."""
        Spool(self.options.state_location).sweep()
        return starts(self._opened(), self.options, self._read_topics(), LATEST)

    def getDefaultReadLimit(self) -> ReadLimit:
        """How much a batch takes at most, as far as that was asked for."""
        limit = self.options.max_offsets
        return ReadMaxRows(limit) if limit is not None else ReadAllAvailable()

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        """How far the next batch goes."""
        end = self._target or self._ends()
        self._check_ends(start, end)
        if end != start:
            self._check_schemas()
        first = {topic: start.get(topic) or self._earliest(topic) for topic in end}
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return {**start, **admitted(first, end, most)}

    def reportLatestOffset(self) -> Offsets:
        """How far the logs go now, for the figures of the query."""
        return self._ends()

    def prepareForTriggerAvailableNow(self) -> None:
        """Read what is there now, in as many batches as it takes, and end."""
        self._target = self._ends()

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        """The parts of a batch. The first of a topic goes on where the last of the batch before stopped."""
        source = self._opened()
        first = {topic: self._first(topic, start.get(topic), behind) for topic, behind in end.items()}
        made = parts(source, self.options, first, end)
        if self.options.columns == "events":
            self._hand_on(made)
        return made

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a part."""
        if isinstance(partition, Part):
            yield from read_part(self.options, self._schema, partition)

    def commit(self, end: Offsets) -> None:
        """Nothing is acknowledged: the last batch of a run is never heard of here, and the checkpoint knows it all."""

    def stop(self) -> None:
        """The query is over; it is not always told so, hence `sweep`."""
        Spool(self.options.state_location).forget_all(self._run)
        if self._source is not None:
            self._source.close()
            self._source = None

    def _hand_on(self, made: list[Part]) -> None:
        by_topic: dict[str, list[Part]] = {}
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

    def _first(self, topic: str, start: int | None, behind: int) -> int:
        """The first message of a batch. A log that ends before the place was made again: all of it is new."""
        if start is None:
            return self._earliest(topic)
        if behind >= start:
            return start
        _log.warning("%s: the log ends at %d, before %d: it was made again", topic, behind, start)
        return self._earliest(topic)

    def _check_ends(self, start: Offsets, end: Offsets) -> None:
        shorter = [topic for topic, behind in end.items() if behind < start.get(topic, behind)]
        if shorter and self.options.fail_on_data_loss:
            topic = shorter[0]
            detail = "the log ends before the place that was reached: it was deleted, and perhaps made again"
            raise DataLoss(detail, topic=topic, offset=start[topic], end=end[topic], option="failOnDataLoss")

    def _check_schemas(self) -> None:
        """Has a topic got another schema? Asked after its end was: nothing before that end was written with a later."""
        for topic, expected in self.options.schemas.items():
            found = TopicSchemas(self._opened(), topic).current.fingerprint.hex()
            if found != expected:
                raise SchemaChanged(topic=topic, expected=expected, found=found, option="expectSchemas")

    def _earliest(self, topic: str) -> int:
        return span_of(self._opened(), log_of(topic)).first

    def _ends(self) -> Offsets:
        source = self._opened()
        return {topic: span_of(source, log_of(topic)).last + 1 for topic in self._read_topics()}

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
