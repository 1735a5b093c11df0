"""The sink: rows are published in order, refused rows are counted and stored as dead letters."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from ingest_setup import publish_events
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from spark_setup import broker, table

import thinwire as tw
from thinwire.brokers.nats.blocking import open_source
from thinwire.errors import ConfigError
from thinwire.spark.source.sink import WriteOptions, convert_rows, publish_partition
from thinwire.topics.names import DEAD_LOG, log_of, publisher_subjects

TOPIC = "plant.engines"
SCHEMA = tw.Schema(
    TOPIC,
    [
        tw.Property("engine", "string", "dimension"),
        tw.Property("oil.heat", "number", step="0.1"),
        tw.Property("n", "integer"),
        tw.Property("note", "opaque"),
    ],
)


@pytest.fixture
def url() -> Iterator[str]:
    with broker() as found:
        publish_events(found, SCHEMA, [])
        yield found


def rows(spark: SparkSession, count: int) -> DataFrame:
    made = [(f"e{n % 3}", n / 10, n, json.dumps({"n": n}), n * n) for n in range(count)]
    return spark.createDataFrame(made, "engine string, `oil.heat` double, n long, note string, _square long")


def read(spark: SparkSession, url: str) -> list[Any]:
    return table(spark, url, TOPIC).collect()


def values(found: list[Any]) -> list[tuple[Any, ...]]:
    return sorted((row["n"], row["engine"], row["oil.heat"], row["note"]) for row in found)


def dead(url: str) -> list[dict[str, Any]]:
    with open_source(url) as source:
        if DEAD_LOG not in source.logs():
            return []
        last = source.span(DEAD_LOG).last
        return [json.loads(stored.payload) for block in source.read(DEAD_LOG, 1, last) for stored in block]


def test_rows_are_published_in_the_order_of_their_partition(spark: SparkSession, url: str) -> None:
    frame = rows(spark, 300).coalesce(1)
    frame.write.format("thinwire").mode("append").options(servers=url, topic=TOPIC, publisher="spark").save()
    found = read(spark, url)
    assert values(found) == [(n, f"e{n % 3}", n / 10, json.dumps({"n": n}, separators=(",", ":"))) for n in range(300)]
    assert {row["_publisher"] for row in found} == {"spark-0"}
    for engine in ("e0", "e1", "e2"):
        mine = sorted((row for row in found if row["engine"] == engine), key=lambda row: row["_ordinal"])
        assert [row["n"] for row in mine] == sorted(row["n"] for row in mine)


def test_refused_rows_are_dead_letters(spark: SparkSession, url: str) -> None:
    texts = ['{"engine": "e1", "n": 1}', '{"engine": "e1", "n": "one"}', "[1", '{"n": 3}', '{"engine": "e1", "n": 4}']
    frame = spark.createDataFrame([(text,) for text in texts], "value string").coalesce(1)
    frame.write.format("thinwire").mode("append").options(servers=url, topic=TOPIC).save()
    assert sorted(row["n"] for row in read(spark, url)) == [1, 4]
    assert sorted(letter["error"] for letter in dead(url)) == ["MissingProperty", "WrongType"]


def test_a_stream_is_published(spark: SparkSession, url: str, tmp_path: Path) -> None:
    schema = rows(spark, 1).schema
    for part in (1, 2):
        rows(spark, 40).where(f"n % 2 = {part - 1}").write.mode("append").parquet(str(tmp_path / "in"))
        frame = spark.readStream.schema(schema).parquet(str(tmp_path / "in"))
        writer = frame.writeStream.format("thinwire").options(servers=url, topic=TOPIC)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        writer.start().awaitTermination(120)
    found = read(spark, url)
    assert sorted(row["n"] for row in found) == list(range(40))
    begins = {row["_publisher"].rpartition("-")[0] for row in found}
    assert len(begins) == 1, "a query keeps the names of its publishers"


def test_invalid_options_name_the_option(spark: SparkSession, url: str) -> None:
    frame = rows(spark, 3)
    for options, mode, complaint in [
        ({"topic": TOPIC}, "append", r"option='servers'"),
        ({"servers": url}, "append", r"option='topic'"),
        ({"servers": url, "topic": "plant.cellar"}, "append", r"option='topic', topic='plant.cellar'"),
        ({"servers": url, "topic": TOPIC, "speed": "3"}, "append", r"option='speed'"),
        ({"servers": url, "topic": TOPIC}, "overwrite", r"cannot be overwritten"),
    ]:
        with pytest.raises(PySparkException, match=complaint):
            frame.write.format("thinwire").mode(mode).options(**options).save()
    other = frame.withColumnRenamed("n", "speed")
    with pytest.raises(PySparkException, match=r"column='speed', topic='plant.engines'"):
        other.write.format("thinwire").mode("append").options(servers=url, topic=TOPIC).save()
    assert read(spark, url) == []


def test_rows_become_events() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "engine": ["e1", "e2"],
            "oil.heat": [20.5, None],
            "note": ['{"$bytes":"aGk="}', "not json"],
            "_due": [12.5, None],
        }
    )
    assert list(convert_rows(batch, SCHEMA)) == [
        ({"engine": "e1", "oil": {"heat": 20.5}, "note": b"hi"}, 12.5),
        ({"engine": "e2", "note": "not json"}, 0.0),
    ]


def test_no_row_is_published_before_it_is_due(url: str) -> None:
    times = [time.time() + n / 4 for n in range(5)]
    batch = pa.RecordBatch.from_pydict({"engine": ["e1"] * 5, "n": [3 * n * n for n in range(5)], "_due": times})
    done = publish_partition(WriteOptions.read({"servers": url, "topic": TOPIC}), SCHEMA, "late", iter([batch]))
    assert (done.rows, done.refused) == (5, 0)
    with open_source(url) as source:
        last = source.last(log_of(TOPIC), publisher_subjects(TOPIC, "late-0"))
    assert last is not None
    assert last.time >= times[-1] - 0.01


def test_secrets_are_not_shown() -> None:
    options = WriteOptions.read({"servers": "nats://ada:secret@broker:4222", "topic": TOPIC, "token": "hush"})
    assert "secret" not in repr(options)
    assert "hush" not in repr(options)
    with pytest.raises(ConfigError, match="publisher"):
        WriteOptions.read({"servers": "nats://broker:4222", "topic": TOPIC, "publisher": "x" * 60})
