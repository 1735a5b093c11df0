"""Instants of events in SQL: the seconds and the date that a column of any of our forms tells, always in UTC."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, NumericType, StringType, TimestampType

_DAY = 86_400
_FIRST, _LAST = -719_162, 2_932_896
"""the days of the calendar that tables know, counted from 1970"""
_YEAR_2100 = 4_102_444_800
_UNITS = (1, 1_000, 1_000_000)
"""of a count since 1970, whose size says what it counts; what is beyond them counts nanoseconds"""


def named(column: str) -> Column:
    """The column of this very name, dots and all."""
    return F.col("`" + column.replace("`", "``") + "`")


def seconds_of(column: Column, kind: DataType) -> Column:
    """Seconds since the epoch; null where the column tells none."""
    if isinstance(kind, TimestampType):
        return F.unix_micros(column) / F.lit(1e6)
    if isinstance(kind, StringType):
        # a text without a zone is meant in UTC, whatever zone the session is in
        zoned = F.concat(F.regexp_replace(column, r"(Z|\+00:00)$", ""), F.lit("Z"))
        return F.unix_micros(zoned.try_cast("timestamp")) / F.lit(1e6)
    if isinstance(kind, NumericType):
        return _counted(column.cast("double"))
    return F.lit(None).cast("double")


def date_of(seconds: Column) -> Column:
    """The date of an instant, the first or last of the calendar where it lies outside."""
    days = F.floor(seconds / F.lit(float(_DAY)))
    within = F.greatest(F.lit(_FIRST), F.least(F.lit(_LAST), days))
    return F.when(seconds.isNotNull(), F.date_add(F.lit("1970-01-01").cast("date"), within.cast("int")))


def _counted(count: Column) -> Column:
    found = count / F.lit(1e9)
    for unit in reversed(_UNITS):
        found = F.when(F.abs(count) < F.lit(float(_YEAR_2100 * unit)), count / F.lit(float(unit))).otherwise(found)
    return found
