"""Tables: `spark.read.format("thinwire")`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from thinwire.spark.source.data_source_reading import read_part
from thinwire.spark.source.offset_plan_planning import Part, check_logs, ends, parts, starts
from thinwire.spark.source.source_options import EARLIEST
from thinwire.spark.source.source_options_options import Options
from thinwire.spark.source.source_schema import opened, topics_of
from thinwire.spark.source.source_schema_schemas import arrow_of, check_columns, columns_of


class BatchReader(DataSourceReader):
    """Reads what lies between two places of some topics' logs, once."""

    def __init__(self, options: Options, schema: StructType) -> None:
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
        if isinstance(partition, Part):
            yield from read_part(self.options, self._schema, partition)
