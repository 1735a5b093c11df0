"""Replay: the target topic of a replayed table has the events of the original topic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ingest_setup import publish_events
from pyspark.sql import SparkSession
from spark_setup import broker, publish, readings, rooms, table

import thinwire as tw
from thinwire.errors import ConfigError, MissingData
from thinwire.spark.jobs.ingest import ingest
from thinwire.spark.jobs.replay import replay

TOPIC, AGAIN = "building.rooms", "test.rooms"
NAMES = ("time", "room", "t", "n", "state")


def by_source(found: list[Any]) -> dict[str, list[tuple[Any, ...]]]:
    """Return the events of every room in log order."""
    ordered = sorted(found, key=lambda row: (row["_offset"], row["_ordinal"]))
    return {
        room: [tuple(row[name] for name in NAMES) for row in ordered if row["room"] == room]
        for room in sorted({row["room"] for row in found})
    }


@pytest.mark.parametrize("publishers", [1, 2])
def test_a_replayed_topic_has_the_same_events(spark: SparkSession, tmp_path: Path, publishers: int) -> None:
    folder = str(tmp_path / "rooms")
    with broker() as url:
        publish_events(url, rooms(TOPIC), readings(400, seed=1))
        ingest(spark, url, [TOPIC], folder, max_offsets=20)
        done = replay(spark, url, folder, AGAIN, publishers=publishers, name="again")
        assert (done.rows, done.refused, done.unheard) == (400, 0, False)
        found = table(spark, url, AGAIN).collect()
        assert by_source(found) == by_source(table(spark, url, TOPIC).collect())
        assert len({row["_publisher"] for row in found}) == publishers
        assert max(bound or 0.0 for row in found for bound in row["_bound"]) == 0.0


def test_the_first_events_are_published_at_the_original_rate(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "rooms")
    with broker() as url:
        publish(url, rooms(TOPIC), 60, publishers=1)  # a thousand seconds from one to the next
        ingest(spark, url, [TOPIC], folder)
        replay(spark, url, folder, AGAIN, speed=20_000.0, limit=41)
        found = sorted(table(spark, url, AGAIN).collect(), key=lambda row: row["time"])
        assert [row["time"] for row in found] == [1_000 * n for n in range(41)]


def test_a_table_that_ingest_did_not_write(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "old")
    made = [(f"2024-05-01T10:00:{n:02d}Z", f"s{n % 2}", {"heat": n / 4}) for n in reversed(range(60))]
    spark.createDataFrame(made, "at string, sensor string, air struct<heat: double>").write.parquet(folder)
    with broker() as url:
        done = replay(spark, url, folder, "plant.air", dimensions=["sensor"], event_time="at")
        assert done.rows == 60
        found = sorted(table(spark, url, "plant.air").collect(), key=lambda row: row["_ordinal"])
        for sensor in ("s0", "s1"):
            assert [row["air.heat"] for row in found if row["sensor"] == sensor] == [
                n / 4 for n in range(60) if f"s{n % 2}" == sensor
            ]


def test_invalid_options_name_the_option(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "rooms")
    doors = tw.Schema("building.doors", [tw.Property("door", "string", "dimension"), tw.Property("open", "boolean")])
    with broker() as url:
        publish_events(url, rooms(TOPIC), readings(10, seed=1))
        publish_events(url, doors, [{"door": "d1", "open": True}])
        ingest(spark, url, [TOPIC, doors.name], folder)
        with pytest.raises(ConfigError, match=r"with --of: topics=\['building.doors', 'building.rooms'\]"):
            replay(spark, url, folder, AGAIN)
        assert replay(spark, url, folder, "test.doors", of=doors.name).rows == 1
        with pytest.raises(ConfigError, match=r"column='n', topic='building.doors'|column='room'|column='time'"):
            replay(spark, url, folder, doors.name, of=TOPIC)
        with pytest.raises(MissingData, match="no Parquet table there"):
            replay(spark, url, str(tmp_path / "nowhere"), AGAIN)
        with pytest.raises(ConfigError, match="speed"):
            replay(spark, url, folder, AGAIN, speed=-1.0)
