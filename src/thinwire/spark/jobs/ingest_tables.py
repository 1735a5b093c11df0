"""A table that a stream writes: Parquet files, and beside them Spark's own log of those that count.

The log makes every batch visible at once or not at all. It also remembers the numbers of batches: a query whose
checkpoint is gone would begin to count anew, and its first batches would be taken for ones that are there already.
Such a query must not run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from thinwire.errors import TableMismatch

SINK_LOG = "_spark_metadata"
MISSING = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")
"""what Spark calls a folder that is not there, or that has no files"""


class Table:
    """A table at a place that Spark reaches.

    by: the columns that name its folders
    """

    def __init__(self, spark: SparkSession, place: str, by: Sequence[str]) -> None:
        self.place = place.rstrip("/")
        self.by = tuple(by)
        self._spark = spark

    def rows(self) -> DataFrame | None:
        """What it holds, with all columns it ever had; None where there is nothing yet."""
        try:
            return self._spark.read.option("mergeSchema", "true").parquet(self.place)
        except AnalysisException as problem:
            _expect_missing(problem)
            return None

    def check(self, columns: StructType, checkpoint: str) -> None:
        """Refuse a table that cannot take rows with these columns; nothing is written."""
        begun = bool(_listed(self._spark, f"{checkpoint}/offsets"))
        if _listed(self._spark, f"{self.place}/{SINK_LOG}") is None:
            if not begun and _listed(self._spark, self.place):
                detail = "its files are not a stream's: new ones would hide them. Name another folder"
                raise TableMismatch(detail, table=self.place)
            return
        rows = self.rows()
        if rows is None:
            return
        self._check_columns(rows.schema, columns)
        if not begun:
            self._refuse_to_double(rows, checkpoint)

    def _check_columns(self, known: StructType, columns: StructType) -> None:
        for name in (*self.by, "_topic", "_offset"):
            if name not in known.names:
                detail = "it was not made by `thinwire ingest` with these folders: name another folder"
                raise TableMismatch(detail, table=self.place, missing=name)
        for field in columns:
            if field.name not in known.names or field.name in self.by:
                continue
            there = known[field.name].dataType
            if not _takes(there, field.dataType):
                detail = "a column has another type there: land the topic in another table"
                types = {"table_type": there.simpleString(), "topic_type": field.dataType.simpleString()}
                raise TableMismatch(detail, table=self.place, column=field.name, **types)

    def _refuse_to_double(self, rows: DataFrame, checkpoint: str) -> None:
        reached = rows.groupBy("_topic").agg(F.max("_offset").alias("last")).collect()
        ahead = json.dumps({row["_topic"]: row["last"] + 1 for row in reached})
        detail = f"it has rows, but its checkpoint is gone. Land what follows in another table, with --from '{ahead}'"
        raise TableMismatch(detail, table=self.place, checkpoint=checkpoint)


def _listed(spark: SparkSession, place: str) -> list[str] | None:
    """The files in a folder and below it; None where there is none of this name."""
    try:
        return spark.read.option("recursiveFileLookup", "true").text(place).inputFiles()
    except AnalysisException as problem:
        _expect_missing(problem)
        return None


def _expect_missing(problem: AnalysisException) -> None:
    """That nothing is there is an answer; any other problem is raised again."""
    if problem.getCondition() not in MISSING:
        raise problem


def _takes(there: DataType, given: DataType) -> bool:
    """Can both be read as one column? Groups may have different members; one that both have is of one type."""
    if isinstance(there, StructType) and isinstance(given, StructType):
        known = {field.name: field.dataType for field in there}
        return all(_takes(known.get(field.name, field.dataType), field.dataType) for field in given)
    return there.simpleString() == given.simpleString()
