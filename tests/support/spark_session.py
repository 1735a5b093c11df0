"""One Spark session for all tests of a process, because starting one takes longer than most tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("pyspark", reason="extra spark")

from pyspark.sql import SparkSession

from thinwire.errors import SparkUnavailable
from thinwire.spark.session import check, session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    try:
        check()
    except SparkUnavailable as problem:
        pytest.skip(str(problem))
    made = session(
        "local[2]",
        app="thinwire tests",
        **{
            "spark.sql.shuffle.partitions": 2,
            "spark.driver.memory": "1g",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        },
    )
    yield made
    made.stop()
