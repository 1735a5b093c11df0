"""Log tables with checkpoints, versions of a schema and static facts."""

from __future__ import annotations

import asyncio

import pytest
from log_table_setup import TOPIC, LogWriter, MemorySource, expected, in_order, landed, losses_in, readings, rooms

from thinwire.brokers.memory import LocalBroker, LocalServer
from thinwire.codec import StreamDecoder
from thinwire.codec.stream_snapshot import snapshot_decoder
from thinwire.errors import DataLoss
from thinwire.schema import Property, Schema
from thinwire.topics.checkpoint_store import CheckpointStore
from thinwire.topics.log_selection import LogSelection
from thinwire.topics.log_tables.log_table import LogTable
from thinwire.topics.names import CHECKPOINTS, FACTS, log_of, publisher_in
from thinwire.topics.static_properties import Factoring, encode_facts, facts_key

LOG = log_of(TOPIC)


def written(count: int = 500) -> MemorySource:
    """A log whose only key frames are those of its beginning."""
    source, schema = MemorySource(), rooms()
    source.register(schema)
    out = [LogWriter(source, f"p{n}", schema) for n in range(2)]
    for n, event in enumerate(readings(count)):
        out[n % 2].publish(event, n / 100)
    for writing in out:
        writing.flush()
    return source


def store_checkpoint(source: MemorySource, offset: int) -> None:
    """Store a checkpoint as a translator does."""
    links: dict[str, StreamDecoder] = {}
    time = 0.0
    for stored in source.messages[LOG][:offset]:
        name = publisher_in(stored.subject)
        link = links.setdefault(name, StreamDecoder([rooms()], publisher=name))
        link.receive(stored.payload, now=0.0)
        time = stored.time
    parts = {LogSelection(TOPIC).part_name(name): snapshot_decoder(link) for name, link in links.items()}

    async def put() -> dict[str, bytes]:
        async with LocalBroker(LocalServer()) as broker:
            bucket = await broker.bucket(CHECKPOINTS)
            await CheckpointStore(bucket, piece_size=512).put(TOPIC, offset, parts, epoch=1, time=time)
            return {entry.key: entry.value for entry in await bucket.entries() if entry.value is not None}

    source.put(CHECKPOINTS, asyncio.run(put()))


def test_a_seek_starts_at_the_nearest_checkpoint() -> None:
    source = written()
    last = source.span(LOG).last
    store_checkpoint(source, 150)
    landing = LogTable(source, TOPIC)
    rows = landed(landing, 161, last)
    assert in_order(rows) == in_order([row for row in expected(source, [rooms()]) if row[8] > 160])
    assert 0 < landing.counts.replayed <= 10
    assert [one.first for one in landing.split(1, 300, 2)] == [1, 151]


@pytest.mark.parametrize("how", ["of another log", "spoilt"])
def test_an_unusable_checkpoint_is_skipped(how: str, caplog: pytest.LogCaptureFixture) -> None:
    source = written()
    last = source.span(LOG).last
    store_checkpoint(source, 150)
    if how == "spoilt":
        buckets = source.buckets[CHECKPOINTS]
        buckets.update({key: value[:-1] + b"?" for key, value in buckets.items() if key.startswith("part.")})
    else:
        source.messages[LOG] = [stored._replace(time=stored.time + 1_000) for stored in source.messages[LOG]]
    landing = LogTable(source, TOPIC)
    rows = landed(landing, 161, last)
    assert in_order(rows) == in_order([row for row in expected(source, [rooms()]) if row[8] > 160])
    assert landing.counts.replayed >= 150
    assert "skipped checkpoint" in caplog.text


def test_versions_of_a_schema_make_one_table() -> None:
    old = Schema(TOPIC, [Property("room", "string", "dimension"), Property("level", "integer")])
    wider = [old["room"], Property("level", "number", step="0.5"), Property("open", "boolean")]
    new = Schema(TOPIC, wider, version=2)
    source = MemorySource()
    source.register(old, new)
    before, after = LogWriter(source, "p0", old), LogWriter(source, "p0", new, incarnation=2)
    before.publish({"room": "r1", "level": 7}, 0.0)
    before.flush()
    after.publish({"room": "r1", "level": 7.5, "open": True}, 1.0)
    after.flush()
    batches = list(LogTable(source, TOPIC).rows(1, source.span(LOG).last))
    found = [row for batch in batches for row in batch.select(["level", "open", "_bound"]).to_pylist()]
    assert found == [
        {"level": 7.0, "open": None, "_bound": {"level": 0.0}},
        {"level": 7.5, "open": True, "_bound": {"level": 0.0}},
    ]


def test_static_facts_are_columns_of_the_table(caplog: pytest.LogCaptureFixture) -> None:
    schema = rooms(1, Property("make", "string", static=True), Property("height", "number", step="0.1", static=True))
    source = MemorySource()
    source.register(schema)
    factoring = Factoring(schema)
    writing = LogWriter(source, "p0", factoring.wire_schema)
    for n, event in enumerate(readings(20)):
        event |= {"make": f"Acme {event['room']}", "height": 2.5}
        on_wire, key, facts = factoring.split(event)
        if facts is not None:
            source.put(FACTS, {facts_key(TOPIC, key): encode_facts(facts)})
        writing.publish(on_wire, n / 10)
    writing.flush()
    rows = [row for batch in LogTable(source, TOPIC).rows(1, source.span(LOG).last) for row in batch.to_pylist()]
    assert [row["make"] for row in rows] == [f"Acme {row['room']}" for row in rows]
    assert {row["height"] for row in rows} == {2.5}
    assert "facts" not in rows[0]
    assert rows[0]["_bound"]["height"] == 0.0
    source.buckets[FACTS].clear()
    with pytest.raises(DataLoss, match="unknown facts"):
        list(LogTable(source, TOPIC).rows(1, source.span(LOG).last))
    landing = LogTable(source, TOPIC, fail_on_data_loss=False)
    assert not any(batch.num_rows for batch in landing.rows(1, source.span(LOG).last))
    assert losses_in(caplog)
