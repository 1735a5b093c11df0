"""A cluster: rows and results equal those of one process, with a shipped package and a killed executor."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import feather
from pyspark.sql import SparkSession
from spark_processes import drive, standalone
from spark_setup import broker, publish, rooms, table

TOPIC = "building.rooms"
DRIVER = Path(__file__).with_name("cluster_driver.py")


@pytest.mark.slow
def test_a_cluster_gives_the_results_of_one_process(spark: SparkSession, tmp_path: Path) -> None:
    with broker() as url:
        live = publish(url, rooms(TOPIC), 600)
        here = table(spark, url, TOPIC).toArrow()
        with standalone(tmp_path / "cluster") as master:
            drive(DRIVER, master, url, TOPIC, tmp_path, folder=tmp_path / "elsewhere")
    there = feather.read_table(tmp_path / "rows.arrow")
    assert there.num_rows == len(live)
    assert in_order(there).equals(in_order(here))
    results = json.loads((tmp_path / "sweep.json").read_text())
    assert [result["error"] for result in results] == [None] * 40
    assert [result["figures"]["square"] for result in results] == [n * n for n in range(40)]
    assert all("/thinwire-" in path and ".zip/" in path for result in results for path in result["figures"]["from"])
    assert len({result["figures"]["executor"] for result in results}) == 2
    assert (tmp_path / "killed").exists()


def in_order(rows: pa.Table) -> pa.Table:
    names = ("_publisher", "_source", "_ordinal")
    return rows.sort_by([(name, "ascending") for name in names]).combine_chunks()
