"""Training on Spark from lines, tables and topics: the same dictionary with any number of tasks."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from client_setup import use_dictionary
from pyspark.sql import SparkSession
from spark_setup import broker

import thinwire as tw
from thinwire.brokers.nats.blocking import open_source
from thinwire.dictionaries import choose, codec_of
from thinwire.dictionaries import train as train_alone
from thinwire.errors import ConfigError, UnknownTopic
from thinwire.spark.jobs.train import TrialSpec, train, train_topic
from thinwire.spark.jobs.training_messages import (
    SlotBinding,
    SlotHistory,
    collect_bindings,
    draw_sample,
    frame_bodies,
    load_dictionaries,
    load_messages,
)
from thinwire.topics.frame_bodies import FrameBodies
from thinwire.topics.names import log_of, publisher_in

LINES = [
    json.dumps({"sensor": f"T{n % 9}", "room": f"11.{n % 7}", "text": "nothing to report", "t": n * 7 % 31, "n": n})
    for n in range(1_500)
]
SPLITS = "spark.sql.files.maxPartitionBytes"


@pytest.fixture
def lines(tmp_path: Path) -> str:
    path = tmp_path / "rooms.jsonl"
    path.write_text("\n".join(LINES) + "\n\n")
    return str(path)


def test_a_sample_does_not_depend_on_the_number_of_tasks(spark: SparkSession, lines: str) -> None:
    before = spark.conf.get(SPLITS)
    drawn = []
    try:
        for split in ("128m", "7k"):
            spark.conf.set(SPLITS, split)
            drawn.append(draw_sample(load_messages(spark, [lines]), seed=3, most=200, size=1 << 20))
    finally:
        spark.conf.set(SPLITS, str(before))
    complete, cut = drawn
    assert complete == cut
    assert (complete.seen, len(complete.messages)) == (1_500, 200)
    numbers = [json.loads(message)["n"] for message in complete.messages]
    assert numbers == sorted(numbers), "in the order in which they were"
    assert max(numbers[:100]) < 1_000 < max(numbers), "from everywhere"
    other = draw_sample(load_messages(spark, [lines]), seed=4, most=200, size=1 << 20)
    assert other.messages != complete.messages
    few = draw_sample(load_messages(spark, [lines]), seed=3, most=200, size=5_000)
    assert sum(map(len, few.messages)) < 8_000


def test_the_best_candidate_is_no_worse_than_that_of_one_process(spark: SparkSession, lines: str) -> None:
    reported: list[tuple[int, int]] = []
    made = train(spark, [lines], TrialSpec((1024, 2048)), progress=lambda *at: reported.append(at))
    messages = [line.encode() for line in LINES]
    alone = choose(messages, sizes=[1024, 2048], budget=0.25)
    assert alone is not None
    assert alone.facts is not None
    assert made.dictionary.facts is not None
    assert made.sample.messages == messages
    assert made.dictionary.facts.messages == 1_500
    assert made.dictionary.facts.ratio >= alone.facts.ratio - 0.5, "judged on all of the later ones, not on some"
    plain = made.candidates[0]
    assert (plain.name, plain.content) == ("deflate", 0)
    assert made.chosen.packed == min(one.packed for one in made.candidates) < plain.packed
    assert all(0 < one.travelling < one.content for one in made.candidates[1:])
    codec = codec_of(made.dictionary)
    assert all(codec.unpack(codec.pack(message), 1_000) == message for message in messages[:20])


def test_messages_of_tables_are_sorted_by_time(spark: SparkSession, tmp_path: Path) -> None:
    rows = [{"at": float(n), "raw": LINES[n].encode(), "secret": "s3cr3t"} for n in range(300)]
    random.Random(1).shuffle(rows)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "raw.parquet")
    path = [str(tmp_path / "raw.parquet")]
    found = draw_sample(load_messages(spark, path, column="raw", time="at"), seed=0, most=1_000, size=1 << 20)
    assert list(found.messages) == [line.encode() for line in LINES[:300]]
    rows_as_json = draw_sample(load_messages(spark, path, time="at"), seed=0, most=1_000, size=1 << 20)
    assert json.loads(rows_as_json.messages[7])["at"] == 7.0
    with pytest.raises(ConfigError, match="no such column"):
        load_messages(spark, path, column="cooked")


def test_confidential_properties_are_not_in_a_dictionary(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "people.jsonl"
    events = [
        {"room": f"11.{n % 7}", "t": n % 31, "who": {"name": "Ada Lovelace"}, "pin": "0815-4711"} for n in range(400)
    ]
    path.write_text("\n".join([*map(json.dumps, events), "Ada Lovelace has the pin 0815-4711"]))
    hidden = [tw.Property(name, "string", confidential=True) for name in ("who.name", "pin")]
    schema = tw.Schema("people", [tw.Property("room", "string", "dimension"), tw.Property("t", "integer"), *hidden])
    made = train(spark, [str(path)], TrialSpec((256, 512)), schema=schema)
    assert made.sample.seen == 400, "what is no JSON object is left out"
    assert b"Ada" not in made.dictionary.content
    assert b"0815" not in made.dictionary.content
    assert b"room" in made.dictionary.content


def notes(topic: str) -> tw.Schema:
    properties = [
        tw.Property("room", "string", "dimension"),
        tw.Property("text", "string"),
        tw.Property("n", "integer"),
    ]
    return tw.Schema(topic, properties)


async def _published(url: str, topic: str) -> None:
    """Publish from two publishers: one binds its slot twice, the other uses deflate."""
    text = [f"the door of the cold store was opened {n} times, and nobody knows why".encode() for n in range(40)]
    first, second = train_alone(text, 512), train_alone(text[::-1], 256, codec="zlib", level=6)
    assert first is not None
    assert second is not None
    async with tw.connect(url) as bus:
        await bus.register(notes(topic), retain=True, format="json")
        async with bus.publisher(topic, name="p1") as one, bus.publisher(topic, name="p2") as other:
            for n in range(60):
                if n in (10, 30):
                    await use_dictionary(one, first if n == 10 else second, 7)
                for out in (one, other):
                    await out.publish({"room": f"11.{n % 3}", "text": text[n % 40].decode(), "n": n})
                if n % 5 == 4:
                    await one.flush()
                    await other.flush()


def test_a_topic_is_trained_on_its_frame_bodies(spark: SparkSession) -> None:
    with broker() as url:
        asyncio.run(_published(url, "train.notes"))
        reader = spark.read.format("thinwire").option("servers", url).option("subscribe", "train.notes")
        frames = reader.option("columns", "frames").option("minPartitions", "4").load()
        with open_source(url) as source:
            slots = collect_bindings(frames)
            dictionaries = load_dictionaries(source, slots.hashes)
            blocks = source.read_blocks(log_of("train.notes"), 1, source.span(log_of("train.notes")).last)
            bodies = FrameBodies(dictionaries.get)
            expected = [
                body
                for block in blocks
                for subject, payload in zip(block.subjects, block.payloads, strict=True)
                for body in bodies.read(publisher_in(subject), payload)
            ]
        assert len(slots.hashes) == len(dictionaries) == 2
        rows = frame_bodies(frames, "train.notes", slots, dictionaries).orderBy("line", "block").collect()
        assert [bytes(row.message) for row in rows] == expected
        assert len(expected) >= 120
        made = train_topic(spark, url, "train.notes", TrialSpec((512,)))
        assert made.sample.seen == len(expected)
        assert made.chosen.saved > 50
        with pytest.raises(UnknownTopic):
            train_topic(spark, url, "train.nothing")


def test_a_slot_has_the_last_binding_before_the_frame() -> None:
    slots = SlotHistory(
        [SlotBinding("p", 9, 2, 7, b"new"), SlotBinding("p", 3, 0, 7, b"old"), SlotBinding("q", 1, 0, 7, b"other")]
    )
    positions = [(1, 0), (3, 0), (3, 1), (9, 2), (9, 3), (10, 0)]
    assert [slots.hash_before("p", 7, *at) for at in positions] == [None, None, b"old", b"old", b"new", b"new"]
    assert slots.hash_before("p", 8, 100, 0) is None


@pytest.mark.parametrize(("count", "sizes", "word"), [(5, (256,), "too few"), (100, (65_536,), "choose a smaller")])
def test_too_few_messages_give_an_error_with_advice(
    spark: SparkSession, tmp_path: Path, count: int, sizes: tuple[int, ...], word: str
) -> None:
    path = tmp_path / "few.jsonl"
    path.write_text("\n".join(LINES[:count]))
    with pytest.raises(ConfigError, match=word):
        train(spark, [str(path)], TrialSpec(sizes))
