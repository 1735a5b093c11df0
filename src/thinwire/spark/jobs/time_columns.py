"""Event times in SQL: seconds and date of time columns in any supported form, in UTC."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, NumericType, StringType, TimestampType

from thinwire.analysis.event_columns import TIME_UNITS, YEAR_2100

_DAY = 86_400
_FIRST, _LAST = -719_162, 2_932_896
"""first and last day of the calendar of Parquet and Spark, relative to 1970-01-01"""


def named(column: str) -> Column:
    """Return the column with this name, which may contain dots."""
    return F.col("`" + column.replace("`", "``") + "`")


def seconds_of(column: Column, kind: DataType) -> Column:
    """Return seconds since the epoch; null without a valid time."""
    if isinstance(kind, TimestampType):
        return F.unix_micros(column) / F.lit(1e6)
    if isinstance(kind, StringType):
        # A text without a zone is UTC, also in a session with another time zone.
        zoned = F.concat(F.regexp_replace(column, r"(Z|\+00:00)$", ""), F.lit("Z"))
        return F.unix_micros(zoned.try_cast("timestamp")) / F.lit(1e6)
    if isinstance(kind, NumericType):
        return _counted(column.cast("double"))
    return F.lit(None).cast("double")


def date_of(seconds: Column) -> Column:
    """Return the date of a time, limited to the first and last day that Parquet and Spark support."""
    days = F.floor(seconds / F.lit(float(_DAY)))
    within = F.greatest(F.lit(_FIRST), F.least(F.lit(_LAST), days))
    return F.when(seconds.isNotNull(), F.date_add(F.lit("1970-01-01").cast("date"), within.cast("int")))


def _counted(count: Column) -> Column:
    """Return the seconds of a count since 1970, whose unit follows from its size."""
    *units, largest = TIME_UNITS
    found = count / F.lit(float(largest))
    for unit in reversed(units):
        found = F.when(F.abs(count) < F.lit(float(YEAR_2100 * unit)), count / F.lit(float(unit))).otherwise(found)
    return found
