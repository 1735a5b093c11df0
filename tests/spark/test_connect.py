"""Spark Connect: a driver without a JVM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyarrow import feather
from pyspark.sql import Row
from spark_processes import connect_server, drive
from spark_setup import as_events, as_rows, broker, publish, rooms

from thinwire.spark.session import MIN_JAVA, java_version

TOPIC = "building.rooms"
DRIVER = Path(__file__).with_name("connect_driver.py")


@pytest.mark.slow
@pytest.mark.skipif(java_version() < MIN_JAVA, reason="the server needs Java")
def test_a_complete_job_over_a_connection(tmp_path: Path) -> None:
    with broker() as url, connect_server(tmp_path / "server") as remote:
        live = publish(url, rooms(TOPIC), 1_200)
        drive(DRIVER, remote, url, TOPIC, tmp_path, folder=tmp_path / "elsewhere")
    rows = feather.read_table(tmp_path / "rows.arrow")
    assert rows.num_rows == len(live)
    assert as_rows([as_row(row) for row in rows.to_pylist()]) == as_events(live)
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert [figures["square"] for figures in facts["sweep"]["figures"]] == [n * n for n in range(20)]
    assert all("/thinwire-" in figures["from"] for figures in facts["sweep"]["figures"])
    reported = facts["sweep"]["reported"]
    assert reported[-1] != [0, 0]
    assert all(done <= total for done, total in reported)
    assert facts["cancelled_after"] < 600
    assert facts["filled"] == [20.5, 20.5, 21.0, 7.0, 7.0]


def as_row(row: dict[str, Any]) -> Row:
    """Return a row of an Arrow table in the form of a Spark row."""
    return Row(**{**row, "_bound": Row(**row["_bound"])})
