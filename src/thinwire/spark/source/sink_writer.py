"""Writing: `df.write.format("thinwire")` and `df.writeStream.format("thinwire")`.

Every partition has a publisher of its own, whose name stays the same when a task is tried again: the new one takes the
name over. Rows arrive at least once; what a task told before it failed is told again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from secrets import token_hex

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from thinwire.errors import ConfigError
from thinwire.spark.source.sink import publish_part, summed, topic_schema
from thinwire.spark.source.sink_rows import check_columns
from thinwire.spark.source.sink_write_options import WriteOptions
from thinwire.spark.source.source_schema_schemas import arrow_of

QUERY = "sql.streaming.queryId"
"""under which a task finds out which query it belongs to; the same after a restart"""

_log = logging.getLogger("thinwire.spark")


class _Writing:
    """What both ways of writing share."""

    def __init__(self, options: WriteOptions, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise ConfigError('a topic is only ever added to: use mode("append")', mode="overwrite")
        self.options = options
        self._run = f"spark-{token_hex(8)}"
        self._schema = topic_schema(options)
        check_columns(arrow_of(schema), self._schema)

    def _publish(self, batches: Iterator[pa.RecordBatch], run: str) -> WriterCommitMessage:
        return publish_part(self.options, self._schema, run, batches)

    def _done(self, messages: list[WriterCommitMessage | None]) -> None:
        whole = summed(self.options.topic, messages)
        _log.info("%s: %d rows in %d messages", self.options.topic, whole.rows, whole.messages)

    def _failed(self, messages: list[WriterCommitMessage | None]) -> None:
        whole = summed(self.options.topic, messages)
        _log.warning(
            "%s: not all was written; %d rows are told, and will be again when it is tried again",
            self.options.topic,
            whole.rows,
        )


class BatchWriter(_Writing, DataSourceArrowWriter):
    """Publishes a table once."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish a partition."""
        return self._publish(iterator, self._run)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All partitions are on the topic."""
        self._done(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Some are not."""
        self._failed(messages)


class StreamWriter(_Writing, DataSourceStreamArrowWriter):
    """Publishes the batches of a stream."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish a partition of a batch."""
        context = TaskContext.get()
        query = context.getLocalProperty(QUERY) if context is not None else None
        return self._publish(iterator, query or self._run)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """All partitions of a batch are on the topic."""
        self._done(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Some are not."""
        self._failed(messages)
