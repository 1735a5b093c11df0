"""The session that bars run in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TWO = "local[2]"
SHUFFLED = 8
"""parts after a shuffle, for every method alike; the default of 200 is for clusters"""
MEMORY = "4g"


@contextmanager
def running(master: str = TWO) -> Iterator[SparkSession]:
    """A session of one's own, stopped at the end."""
    from thinwire.spark.session import session

    settings = {"spark.driver.memory": MEMORY, "spark.sql.shuffle.partitions": str(SHUFFLED)}
    made = session(master, app="thinwire bench", ship=False, **settings)
    try:
        yield made
    finally:
        made.stop()


def drain(rows: DataFrame) -> None:
    """Make all rows with all their columns, and throw them away."""
    rows.write.format("noop").mode("overwrite").save()
