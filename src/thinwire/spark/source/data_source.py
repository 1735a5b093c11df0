"""The source `thinwire`, as Spark knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from thinwire.spark.source.data_source_reader import BatchReader
from thinwire.spark.source.data_source_stream_reader import StreamReader
from thinwire.spark.source.sink_write_options import WriteOptions
from thinwire.spark.source.source_options_options import Options
from thinwire.spark.source.source_schema_schemas import spark_schema

if TYPE_CHECKING:
    from thinwire.spark.source.sink_writer import BatchWriter, StreamWriter


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
        from thinwire.spark.source.sink_writer import BatchWriter  # a process that plans a read starts without it

        return BatchWriter(WriteOptions.read(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """For `df.writeStream`."""
        from thinwire.spark.source.sink_writer import StreamWriter

        return StreamWriter(WriteOptions.read(self.options), schema, overwrite=overwrite)

    def _read(self) -> Options:
        return Options.read(self.options)
