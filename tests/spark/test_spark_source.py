"""The source `thinwire`: tables and streams have the events of a live subscriber, each once."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from spark_setup import as_events, as_rows, broker, delete, publish, purge, record, rooms, table

import thinwire as tw
from thinwire.schema import Event
from thinwire.wire import split

TOPIC = "building.rooms"


@pytest.fixture(scope="module")
def site() -> Iterator[tuple[str, list[Event]]]:
    """A broker with a topic, and the events of a live subscriber."""
    with broker() as url:
        yield url, publish(url, rooms(TOPIC), 1_200)


def stream(spark: SparkSession, url: str, topic: str, **options: Any) -> DataFrame:
    reader = spark.readStream.format("thinwire").option("servers", url).option("subscribe", topic)
    return reader.options(startingOffsets="earliest", **options).load()


def land(frame: DataFrame, folder: Path) -> Any:
    """Write a stream to a table up to the end of the log."""
    query = writer(frame, folder).trigger(availableNow=True).start()
    query.awaitTermination(120)
    return query


def follow(frame: DataFrame, folder: Path) -> Any:
    """Start a query that writes a stream to a table."""
    return writer(frame, folder).trigger(processingTime="0 seconds").start()


def writer(frame: DataFrame, folder: Path) -> Any:
    made = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    return made.option("path", str(folder / "table"))


@pytest.mark.parametrize("parts", [1, 3])
def test_a_table_has_the_rows_of_a_live_subscriber(spark: SparkSession, site: Any, parts: int) -> None:
    url, live = site
    frame = table(spark, url, TOPIC, minPartitions=parts)
    rows = frame.collect()
    assert len(rows) == len(live)
    assert as_rows(rows) == as_events(live)
    assert {row["_topic"] for row in rows} == {TOPIC}


def test_a_range_of_offsets_has_its_rows(spark: SparkSession, site: Any) -> None:
    url, _ = site
    rows = table(spark, url, TOPIC).collect()
    ends = {"startingOffsets": json.dumps({TOPIC: 40}), "endingOffsets": json.dumps({TOPIC: 90})}
    some = table(spark, url, TOPIC, **ends).collect()
    assert some
    assert as_rows(some) == as_rows([row for row in rows if 40 <= row["_offset"] < 90])


def test_a_stream_in_several_batches_has_every_event_once(spark: SparkSession, site: Any, tmp_path: Path) -> None:
    url, live = site
    spool = tmp_path / "spool"
    frame = stream(spark, url, TOPIC, maxOffsetsPerTrigger=60, stateLocation=str(spool))
    query = land(frame, tmp_path)
    rows = spark.read.parquet(str(tmp_path / "table")).collect()
    assert len(rows) == len(live)
    assert as_rows(rows) == as_events(live)
    counted = [json.loads(line) for line in (spool / "reading.jsonl").read_text().splitlines()]
    assert len(counted) > 3
    assert all(one["requested"] <= 60 for one in counted)
    requested, read = sum(one["requested"] for one in counted), sum(one["read"] + one["replayed"] for one in counted)
    assert read <= 1.3 * requested
    assert query.exception() is None


def test_a_stream_resumes_from_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    topic = "building.later"
    with broker() as url:
        first = publish(url, rooms(topic), 300, seed=1)
        query = follow(stream(spark, url, topic, maxOffsetsPerTrigger=25), tmp_path)
        while not query.recentProgress or query.recentProgress[-1]["batchId"] < 1:
            assert query.exception() is None
            time.sleep(0.2)  # polling without a pause would slow down the query
        query.stop()
        begun = spark.read.parquet(str(tmp_path / "table")).count()
        assert begun > 0
        more = publish(url, rooms(topic), 200, seed=2)
        land(stream(spark, url, topic, maxOffsetsPerTrigger=25), tmp_path)
        rows = spark.read.parquet(str(tmp_path / "table")).collect()
        assert len(rows) == len(first) + len(more)
        assert as_rows(rows) == as_events(first) | as_events(more)
        land(stream(spark, url, topic), tmp_path)
        assert spark.read.parquet(str(tmp_path / "table")).count() == len(rows)


def test_a_log_that_is_deleted_while_a_stream_runs(spark: SparkSession, tmp_path: Path) -> None:
    topic = "building.deleted"
    with broker() as url:
        first = publish(url, rooms(topic), 200, seed=1)
        query = follow(stream(spark, url, topic), tmp_path)
        query.processAllAvailable()
        delete(url, topic)
        with pytest.raises(
            StreamingQueryException, match=r"the log was deleted.*topic='building.deleted'.*'failOnDataLoss'"
        ):
            query.awaitTermination(120)
        query = follow(stream(spark, url, topic, failOnDataLoss="false"), tmp_path)
        query.processAllAvailable()
        more = publish(url, rooms(topic), 60, seed=2)
        query.processAllAvailable()
        query.stop()
        delete(url, topic)
        last = publish(url, rooms(topic), 300, seed=3)  # a log that is longer than the one before
        with pytest.raises(StreamingQueryException, match=r"the log was deleted.*offset=\d+, end=\d+, option='failOn"):
            land(stream(spark, url, topic), tmp_path)
        land(stream(spark, url, topic, failOnDataLoss="false"), tmp_path)
    rows = spark.read.parquet(str(tmp_path / "table")).collect()
    assert len(rows) == len(first) + len(more) + len(last)
    assert as_rows(rows) == as_events(first) | as_events(more) | as_events(last)


def test_several_topics_make_one_table(spark: SparkSession) -> None:
    doors = tw.Schema("building.doors", [tw.Property("door", "string", "dimension"), tw.Property("n", "integer")])
    clash = tw.Schema("plant.doors", [tw.Property("n", "string", "dimension"), tw.Property("w", "float")])
    with broker() as url:
        publish(url, rooms(TOPIC), 60)
        _publish_doors(url, doors)
        _publish_doors(url, clash)
        frame = table(spark, url, f"{TOPIC},building.doors")
        assert frame.columns[:6] == ["time", "room", "t", "n", "state", "door"]
        counts = {row["_topic"]: row["count"] for row in frame.groupBy("_topic").count().collect()}
        assert counts == {TOPIC: 60, "building.doors": 3}
        assert [row["door"] for row in frame.where("_topic != 'building.rooms'").collect()] == ["d0", "d1", "d2"]
        matching = spark.read.format("thinwire").option("servers", url)
        assert matching.option("subscribePattern", r"building\..*").load().count() == 63
        with pytest.raises(PySparkException, match=r"topic='plant.doors', column='n'"):
            matching.option("subscribePattern", r".*\.doors").load()


def _publish_doors(url: str, schema: tw.Schema) -> None:
    import asyncio

    async def story() -> None:
        async with tw.connect(url) as bus:
            await bus.register(schema, retain=True)
            async with bus.publisher(schema.name, name="p", schema=schema) as out:
                for n in range(3):
                    first, second = schema
                    await out.publish({first.name: f"d{n}", second.name: n})

    asyncio.run(story())


def test_rows_of_messages_and_frames(spark: SparkSession, site: Any) -> None:
    url, _ = site
    messages = table(spark, url, TOPIC, columns="messages", minPartitions=4)
    assert messages.columns == ["_topic", "_publisher", "_offset", "_time", "_kind", "payload"]
    rows_by_offset = {row["_offset"]: row for row in messages.collect()}
    assert sorted(rows_by_offset) == list(range(1, len(rows_by_offset) + 1))
    assert {row["_kind"] for row in rows_by_offset.values()} == {"data", "key"}
    frames = table(spark, url, TOPIC, columns="frames", minPartitions=4)
    assert frames.columns == ["_topic", "_publisher", "_offset", "_frame", "_time", "_kind", "payload"]
    found: dict[int, list[bytes]] = {}
    for row in sorted(frames.collect(), key=lambda row: (row["_offset"], row["_frame"])):
        assert (row["_publisher"], row["_time"]) == (
            rows_by_offset[row["_offset"]]["_publisher"],
            rows_by_offset[row["_offset"]]["_time"],
        )
        found.setdefault(row["_offset"], []).append(bytes(row["payload"]))
    assert found == {offset: split(bytes(row["payload"])) for offset, row in rows_by_offset.items()}


def test_a_recording_is_read_without_a_broker(spark: SparkSession, site: Any, tmp_path: Path) -> None:
    url, live = site
    record(url, TOPIC, str(tmp_path / "recording"))
    reader = spark.read.format("thinwire").option("path", str(tmp_path / "recording")).option("subscribe", TOPIC)
    assert as_rows(reader.load().collect()) == as_events(live)


def test_columns_that_are_not_selected_are_left_out(spark: SparkSession, site: Any) -> None:
    url, live = site
    reader = spark.read.format("thinwire").option("servers", url).option("subscribe", TOPIC)
    some = reader.load(schema="_bound struct<time: double, t: double, n: double>, t double, room string")
    assert some.columns == ["_bound", "t", "room"]
    assert sorted((row.room, row.t) for row in some.collect()) == sorted((event["room"], event["t"]) for event in live)


def test_a_log_with_too_large_bounds_is_refused(spark: SparkSession, site: Any) -> None:
    url, live = site
    assert table(spark, url, TOPIC, tolerance='{"t": 0.5}').count() == len(live)
    with pytest.raises(PySparkException, match=r"coarser than requested: .*offset=\d+, property='t'"):
        table(spark, url, TOPIC, tolerance='{"t": 0.2}').count()


def test_messages_removed_by_retention(spark: SparkSession, tmp_path: Path) -> None:
    topic = "building.short"
    with broker() as url:
        live = publish(url, rooms(topic), 300)
        purge(url, topic, 31)
        begun = json.dumps({topic: 1})
        with pytest.raises(PySparkException, match=r"offset=1, last=30, option='failOnDataLoss'"):
            table(spark, url, topic, startingOffsets=begun).count()
        rows = table(spark, url, topic, startingOffsets=begun, failOnDataLoss="false").collect()
        assert rows == table(spark, url, topic).collect()
        assert as_rows(rows).items() <= as_events(live).items()


def test_invalid_options_name_the_option(spark: SparkSession, site: Any) -> None:
    url, _ = site
    for options, complaint in [
        ({"subscribe": "building.cellar"}, r"option='subscribe', topic='building.cellar'"),
        ({"columns": "rows"}, r"option='columns'"),
        ({"startingOffsets": '{"plant": 3}'}, r"option='startingOffsets', topic='plant'"),
        ({"endingOffsets": json.dumps({TOPIC: 1 << 40})}, r"option='endingOffsets', topic='building.rooms'"),
        ({"tolerance": '{"humidity": 1}'}, r"property='humidity'.*option='tolerance'"),
    ]:
        given = {"subscribe": TOPIC, **options}
        with pytest.raises(PySparkException, match=complaint):
            spark.read.format("thinwire").option("servers", url).options(**given).load().count()
