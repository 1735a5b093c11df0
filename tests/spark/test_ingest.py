"""Writing topics to tables: every event once, in its partition, after stops and failures too."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from ingest_setup import publish_events
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from spark_setup import as_events, as_rows, broker, publish, rooms
from spark_setup import table as read

import thinwire as tw
from thinwire.brokers.nats.blocking import open_source
from thinwire.errors import ConfigError, DemandError, TableMismatch, UnknownTopic
from thinwire.spark.jobs.ingest import forget, ingest, subscription_name
from thinwire.spark.jobs.stream_progress import JobProgress
from thinwire.spark.jobs.time_columns import date_of, seconds_of
from thinwire.topics.names import REGISTRY, subscription_key
from thinwire.topics.topic_documents import SubscriptionDocument, decode

TOPIC = "building.rooms"


def subscription(url: str, table: str) -> SubscriptionDocument | None:
    key = subscription_key(TOPIC, subscription_name(table))
    with open_source(url) as source:
        value = source.document(REGISTRY, key)
    document = decode(key, value) if value else None
    assert document is None or isinstance(document, SubscriptionDocument)
    return document


def test_a_table_has_the_events_of_a_live_subscriber(spark: SparkSession, tmp_path: Path) -> None:
    table = str(tmp_path / "rooms")
    with broker() as url:
        live = publish(url, rooms(TOPIC), 300, seed=1)
        done = ingest(spark, url, [TOPIC], table, max_offsets=30, tolerance={"t": 0.5})
        rows = spark.read.parquet(table).collect()
        assert (done.rows, len(rows)) == (300, 300)
        assert done.batches > 1
        assert as_rows(rows) == as_events(live)
        assert {row["topic"] for row in rows} == {TOPIC}
        assert all(row["date"] == date.fromordinal(719_163 + row["time"] // 86_400) for row in rows)
        options = subscription(url, table)
        assert options is not None
        assert (options.durable, dict(options.tolerance)) == (subscription_name(table), {"t": 0.5})

        assert ingest(spark, url, [TOPIC], table, tolerance={"t": 0.5}).rows == 0
        publish(url, rooms(TOPIC), 100, seed=2)
        again = ingest(spark, url, [TOPIC], table, tolerance={"t": 0.5})
        assert again.rows == 100
        assert again.offsets[TOPIC] > done.offsets[TOPIC]
        assert as_rows(spark.read.parquet(table).collect()) == as_rows(read(spark, url, TOPIC).collect())
        forget(url, [TOPIC], table)
        assert subscription(url, table) is None


def test_stopping_between_batches_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table, stop = str(tmp_path / "rooms"), Event()

    def enough(progress: JobProgress) -> None:
        if progress.batches >= 2:
            stop.set()

    with broker() as url:
        live = publish(url, rooms(TOPIC), 300, seed=3)
        begun = ingest(spark, url, [TOPIC], table, trigger=0.0, max_offsets=10, stop=stop, progress=enough)
        assert 0 < begun.rows < 300
        rest = ingest(spark, url, [TOPIC], table)
        rows = spark.read.parquet(table).collect()
        assert len(rows) == 300
        assert as_rows(rows) == as_events(live)
        assert rest.rows > 0


def test_a_new_schema_in_the_middle(spark: SparkSession, tmp_path: Path) -> None:
    table, stop, reported = str(tmp_path / "rooms"), Event(), []
    first = tw.Schema(TOPIC, [tw.Property("room", "string", "dimension"), tw.Property("t", "number", step="0.1")])
    second = tw.Schema(TOPIC, [*first, tw.Property("light", "integer")], version=2)

    def story(progress: JobProgress) -> None:
        if progress.rows == 20 and not reported:
            reported.append(progress.rows)
            publish_events(url, second, [{"room": "a", "t": n / 10, "light": n} for n in range(20, 50)])
        if progress.rows == 50:
            stop.set()

    with broker() as url:
        publish_events(url, first, [{"room": "a", "t": n / 10} for n in range(20)])
        done = ingest(spark, url, [TOPIC], table, trigger=0.2, seconds=200, stop=stop, progress=story)
        assert done.rows == 50
        rows = spark.read.option("mergeSchema", "true").parquet(table).orderBy("t").collect()
        assert [row["t"] for row in rows] == [n / 10 for n in range(50)]
        assert [row["light"] for row in rows] == [None] * 20 + list(range(20, 50))


def test_a_table_that_does_not_match_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "rooms"
    room = tw.Property("room", "string", "dimension")
    numbers = tw.Schema("plant.numbers", [room, tw.Property("t", "number", step="0.1")])
    texts = tw.Schema("plant.texts", [room, tw.Property("t", "string")])
    with broker() as url:
        publish_events(url, numbers, [{"room": "a", "t": 1.5}])
        publish_events(url, texts, [{"room": "a", "t": "warm"}])
        ingest(spark, url, ["plant.numbers"], str(table))
        before = sorted(table.rglob("*"))
        with pytest.raises(TableMismatch, match=r"column='t', table_type='double', topic_type='string'"):
            ingest(spark, url, ["plant.texts"], str(table))
        assert sorted(table.rglob("*")) == before

        spark.range(3).write.parquet(str(tmp_path / "other"))
        with pytest.raises(TableMismatch, match="would be hidden"):
            ingest(spark, url, ["plant.numbers"], str(tmp_path / "other"))


def test_a_lost_checkpoint_gives_no_duplicates(spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "rooms"
    with broker() as url:
        publish(url, rooms(TOPIC), 60, seed=4)
        done = ingest(spark, url, [TOPIC], str(table))
        (table / "_checkpoint").rename(tmp_path / "gone")
        with pytest.raises(TableMismatch, match="but no checkpoint") as refused:
            ingest(spark, url, [TOPIC], str(table))
        assert spark.read.parquet(str(table)).count() == 60

        publish(url, rooms(TOPIC), 40, seed=5)
        start = str(refused.value).split("'")[1]
        assert 1 < json.loads(start)[TOPIC] <= done.offsets[TOPIC]
        follows = ingest(spark, url, [TOPIC], str(tmp_path / "next"), start=start)
        assert follows.rows == 40
        both = [row for place in (table, tmp_path / "next") for row in spark.read.parquet(str(place)).collect()]
        assert len(both) == 100
        assert as_rows(both) == as_rows(read(spark, url, TOPIC).collect())


def test_invalid_options_name_the_option(spark: SparkSession, tmp_path: Path) -> None:
    dated = tw.Schema("plant.dated", [tw.Property("room", "string", "dimension"), tw.Property("Date", "integer")])
    table = str(tmp_path / "rooms")
    with broker() as url:
        publish_events(url, dated, [{"room": "a", "Date": 7}])
        with pytest.raises(ConfigError, match=r"--by TOPIC,DATE: property='Date'"):
            ingest(spark, url, ["plant.dated"], table)
        with pytest.raises(UnknownTopic, match=r"topic='plant.cellar'"):
            ingest(spark, url, ["plant.cellar"], table)
        with pytest.raises(DemandError, match=r"property='heat'"):
            ingest(spark, url, ["plant.dated"], table, by=("what", "day"), tolerance={"heat": 1})
        assert not Path(table).exists()
        done = ingest(spark, url, ["plant.dated"], table, by=("what", "day"))
        assert done.rows == 1
        assert spark.read.parquet(table).select("what", "Date").collect() == [("plant.dated", 7)]


def test_instants_of_every_form_in_any_zone(spark: SparkSession) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    forms: dict[str, Any] = {
        "timestamp'2024-05-01 23:30:00.5Z'": 1714606200.5,
        "'2024-05-01T23:30:00.500Z'": 1714606200.5,
        "'2024-05-01 23:30:00'": 1714606200.0,
        "'2024-05-01T23:30:00+00:00'": 1714606200.0,
        "1714606200": 1714606200.0,
        "1714606200500": 1714606200.5,
        "1714606200500000": 1714606200.5,
        "1714606200500000000": 1714606200.5,
        "'soon'": None,
        "9e18": 9e9,
    }
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        frame = spark.range(1).select(*(F.expr(form).alias(f"c{n}") for n, form in enumerate(forms)))
        found = [seconds_of(F.col(name), frame.schema[name].dataType) for name in frame.columns]
        row = frame.select(*found, *(date_of(seconds) for seconds in found)).collect()[0]
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert list(row[: len(forms)]) == list(forms.values())
    assert list(row[len(forms) :]) == [*[date(2024, 5, 1)] * 8, None, date(2255, 3, 14)]
