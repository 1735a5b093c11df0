"""Rows that are made already: a source in Python that has nothing to do, which no other can beat.

What it takes is what Spark takes for rows out of Python: carrying Arrow batches to the JVM and making rows of columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from thinwire.brokers.recording import open_recording
from thinwire.spark.source.source_schema_schemas import arrow_of, fitted
from thinwire.topics.log_tables import Landing, span_of
from thinwire.topics.names import log_of


class ReadyDataSource(DataSource):
    """The batches of a file of Arrow: `path`; in so many parts: `parts`."""

    @classmethod
    def name(cls) -> str:
        """What follows `format`."""
        return "ready"

    def schema(self) -> StructType:
        """The columns of the file."""
        with pa.memory_map(self.options["path"]) as file:
            return from_arrow_schema(pa.ipc.open_file(file).schema)

    def reader(self, schema: StructType) -> ReadyReader:
        """Whatever columns are asked for."""
        return ReadyReader(self.options["path"], int(self.options["parts"]), schema.names)


class ReadyReader(DataSourceReader):
    """Hands batches over as they lie there."""

    def __init__(self, path: str, parts: int, names: list[str]) -> None:
        self.path = path
        self.parts = parts
        self.names = names

    def partitions(self) -> Sequence[InputPartition]:
        """By number."""
        return [InputPartition(number) for number in range(self.parts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Every n-th batch."""
        with pa.memory_map(self.path) as file:
            batches = pa.ipc.open_file(file)
            for number in range(partition.value, batches.num_record_batches, self.parts):
                yield batches.get_batch(number).select(self.names)


def make_ready(recording: Path, topic: str, path: Path) -> None:
    """Write the rows of a recorded topic into a file, in the very batches that the source would make."""
    with open_recording(str(recording)) as source:
        landing, span = Landing(source, topic), span_of(source, log_of(topic))
        schema = arrow_of(from_arrow_schema(landing.schema))
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as out:
            for batch in landing.rows(span.first, span.last):
                out.write_batch(fitted(batch, schema))
