"""Tables of recorded events as they come: Parquet, CSV with a header, JSON lines."""

from __future__ import annotations

from pathlib import PurePosixPath

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from thinwire.analysis import kind_of
from thinwire.errors import ConfigError


def table_at(spark: SparkSession, path: str) -> DataFrame:
    """The rows at a path; a folder holds Parquet."""
    name = PurePosixPath(path).name
    kind = kind_of(name) if "." in name else "parquet"
    try:
        if kind == "csv":
            return spark.read.csv(path, header=True, inferSchema=True)
        return spark.read.json(path) if kind == "json" else spark.read.option("mergeSchema", "true").parquet(path)
    except AnalysisException as problem:
        if problem.getCondition() == "PATH_NOT_FOUND":
            raise ConfigError("there is no such file", path=path) from None
        raise ConfigError(f"this cannot be read: {str(problem).splitlines()[0]}", path=path) from None
