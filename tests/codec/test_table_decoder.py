"""Rows of a table equal the events of a stream decoder: values, order and bounds."""

import json
import math
from base64 import b64encode
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from event_strategies import events_of, histories, moves, schemas, small
from hypothesis import given, settings
from hypothesis import strategies as st

from thinwire.codec import Demand, EventsMissed, State, StreamConfig, StreamDecoder, StreamEncoder, record_batch_builder
from thinwire.codec.arrow_columns import arrow_schema, arrow_type, timestamp_texts
from thinwire.codec.record_batch_builder import value_at
from thinwire.codec.row_snapshot import snapshot_row
from thinwire.codec.table_decoder import TableDecoder
from thinwire.errors import EventRejected, PeerFault
from thinwire.schema import Event, Kind, Property, Schema
from thinwire.schema.kind import TOLERANT_KINDS
from thinwire.schema.timestamps import writer
from thinwire.wire import Request, join

PLAIN = Schema(
    "plain",
    [
        Property("time", "timestamp", "header", form="iso:T3Z"),
        Property("sensor", "string", "dimension"),
        Property("unit", "integer", "dimension"),
        Property("temperature", "number", step="0.1", minimum=-20, maximum=50, period=4),
        Property("plant.count", "integer", period=3),
        Property("plant.thirds", "number", step="1/3"),
        Property("tons", "number", step="5"),
        Property("level", "float"),
        Property("fan", "boolean"),
        Property("mode", "enum", members=["off", "on"]),
        Property("note", "string"),
        Property("seen", "timestamp"),
        Property("at", "timestamp", form="datetime"),
        Property("late", "timestamp", step="0.001"),
        Property("secret", "number", step="0.1", confidential=True),
    ],
)
RICH = Schema(
    "rich",
    [
        Property("time", "timestamp", "header", form="datetime"),
        Property("floor", "integer", "dimension"),
        Property("wing", "enum", "dimension"),
        Property("plant.heat", "number", step="0.01", maximum=3),
        Property("position", "geo"),
        Property("scan", "array", step="0.25", maximum=6),
        Property("extra", "opaque"),
    ],
)
DEMANDS = [
    Demand(predictor="last"),
    Demand(predictor="auto", default_tolerance=1.5),
    Demand(predictor={"temperature": "trend", "plant.count": "seasonal", "tons": "linear"}, default_tolerance=0.5),
    Demand(mode="hold", default_tolerance=2),
    Demand(mode="hold", default_tolerance=2, changes=True),
]
EVENTS = ["event"] * 12
SCRIPT = st.lists(st.sampled_from([*EVENTS, "heartbeat", "key", "restart", "reconfigure"]), max_size=40)
HARM = st.lists(st.tuples(st.sampled_from(["drop", "again", "flip", "cut"]), st.integers(0, 999)), max_size=3)


def encoded_frames(schema, script, history, demand, audit_every=0, compiled=True):
    """Return the frames of a publisher that is reconfigured and restarted by a script."""
    config = StreamConfig(demand=demand, audit_every=audit_every, max_silence=7.0)
    incarnation, now, rest = 1, 0.0, list(history)
    publisher = StreamEncoder(schema, config, name="p", incarnation=incarnation, compiled=compiled)
    frames = publisher.start(now)
    for action in script + ["event"] * len(history):
        now += 1.0
        if action == "event" and rest:
            with suppress(EventRejected):
                frames += publisher.publish(rest.pop(0), now)
        elif action == "heartbeat":
            frames += publisher.heartbeat(now)
        elif action == "key":
            frames += publisher.answer(Request(publisher.incarnation, 0), now)
        elif action == "restart":
            incarnation += 1
            publisher = StreamEncoder(schema, config, name="p", incarnation=incarnation, compiled=compiled)
            frames += publisher.start(now)
        elif action == "reconfigure":
            other = demand if config.version % 2 else Demand(predictor="linear")
            config = StreamConfig(config.version + 1, other, audit_every=audit_every)
            frames += publisher.reconfigure(config, now)
    return frames + publisher.heartbeat(now)


def in_messages(frames, sizes, harm):
    """Put frames into messages of these sizes, some of them damaged."""
    messages, at, turn = [], 0, 0
    while at < len(frames):
        size = sizes[turn % len(sizes)]
        messages.append(join(frames[at : at + size]))
        at, turn = at + size, turn + 1
    for what, where in harm:
        number = where % len(messages)
        message = messages[number]
        if what == "drop":
            del messages[number]
        elif what == "again":
            messages.insert(number, message)
        elif what == "cut":
            messages[number] = message[: where % len(message)] if message else message
        elif message:
            byte = where % len(message)
            messages[number] = message[:byte] + bytes([message[byte] ^ 1 << where % 8]) + message[byte + 1 :]
        if not messages:
            break
    return messages


def received(subscriber, messages, offsets):
    """Return the events and losses of a stream decoder, each with the offset of its message."""
    events, missed = [], []
    for message, offset in zip(messages, offsets, strict=True):
        try:
            out = subscriber.receive(message, now=0.0)
        except PeerFault:
            out = subscriber.mark_lost("refused")
        events += ((offset, item) for item in out if isinstance(item, Event))
        missed += ((offset, item) for item in out if isinstance(item, EventsMissed))
    return events, missed


def tabled(reader, messages, offsets, cuts):
    """Return the events and losses of a table decoder, in calls with these numbers of messages."""
    rows, missed, unfit, at, turn = [], [], [], 0, 0
    while at < len(messages):
        end = min(at + cuts[turn % len(cuts)], len(messages))
        turn += 1
        try:
            for taken in reader.decode_batches(
                messages[at:end], offsets[at:end], [offset / 8 for offset in offsets[at:end]]
            ):
                assert taken.batch.schema == arrow_schema(reader.schema)
                taken.batch.validate(full=True)
                unfit += ((len(rows) + odd.row, odd.property, odd.value, odd.offset) for odd in taken.unfit)
                rows += map(in_utc, taken.batch.to_pylist())
                missed += taken.missed
        except PeerFault:
            end = offsets.index(reader.offset) + 1
        at = end
    return rows, missed, unfit


def in_utc(row):
    """Arrow represents UTC differently from events."""
    return {name: value.astimezone(UTC) if isinstance(value, datetime) else value for name, value in row.items()}


def shown(p, value):
    """Return a value as its column represents it, or None if it does not fit."""
    if value is None or p.kind in (Kind.ENUM, Kind.STRING, Kind.BOOLEAN, Kind.FLOAT):
        return value
    if p.kind in (Kind.GEO, Kind.ARRAY):
        return [float(number) for number in value]
    if p.kind is Kind.OPAQUE:
        marked = isinstance(value, dict) and len(value) == 1 and next(iter(value)).startswith("$")
        encoded_frames = (
            {"$bytes": b64encode(value).decode()} if isinstance(value, bytes) else {"$": value} if marked else value
        )
        return json.dumps(encoded_frames, separators=(",", ":"), ensure_ascii=False)
    kind = arrow_type(p)
    if kind == pa.float64():
        return float(value) if not isinstance(value, str) and float(value) == value else None
    if kind == pa.int64():
        is_integer = not isinstance(value, str) and value == int(value) and -(2**63) <= value < 2**63
        return int(value) if is_integer else None
    return value if isinstance(value, str if kind == pa.string() else datetime) else None


def row_of(schema, offset, event):
    row = {p.name: shown(p, value_at(event, p.name)) for p in schema if not p.confidential}
    return row | {
        "_source": json.dumps(list(event.source), separators=(",", ":"), ensure_ascii=False),
        "_ordinal": event.ordinal,
        "_offset": offset,
        "_time": datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=offset / 8),
        "_virtual": event.virtual,
        "_bound": {p.name: event.bound.get(p.name) for p in schema.wire if p.kind in TOLERANT_KINDS},
    }


def different(rows, expected):
    """Return where two lists of rows differ, bit for bit."""
    assert len(rows) == len(expected)
    pairs = enumerate(zip(rows, expected, strict=True))
    return [(n, k, a[k], b[k]) for n, (a, b) in pairs for k in b if repr(a[k]) != repr(b[k])]


def where(subscriber):
    """Return the state of a stream decoder that later results depend on."""
    decoder_state = subscriber.decoder_state
    if decoder_state is None or subscriber.state is not State.READY:
        return subscriber.state
    table = decoder_state.expander.table
    states = [(table.ordinal(row), snapshot_row(table, row)) for row in range(table.rows)]
    return (
        states,
        decoder_state.stream.state(),
        decoder_state.sequencer.dedup.hashes(),
        decoder_state.expander.exact_values(),
    )


def agree(schema, messages, cuts, compiled=True, include_suppressed=True):
    """Check that table decoder and stream decoder agree on messages and final state."""
    offsets = list(range(5, 5 + 2 * len(messages), 2))
    ends = [
        StreamDecoder([schema], publisher="p", compiled=compiled, include_suppressed=include_suppressed)
        for _ in range(2)
    ]
    events, lost = received(ends[0], messages, offsets)
    rows, missed, unfit = tabled(TableDecoder(ends[1], schema), messages, offsets, cuts)
    expected = [row_of(schema, offset, event) for offset, event in events]
    assert different(rows, expected) == []
    odd = {
        (number, p.name): repr(value_at(event, p.name))
        for number, (_, event) in enumerate(events)
        for p in schema
        if not p.confidential and expected[number][p.name] is None and value_at(event, p.name) is not None
    }
    assert {(row, name): repr(value) for row, name, value, _ in unfit} == odd
    assert all(offset == events[row][0] for row, _, _, offset in unfit)
    assert missed == lost
    assert ends[1].counts == ends[0].counts
    assert where(ends[1]) == where(ends[0])
    return rows


@pytest.mark.parametrize("demand", DEMANDS, ids=lambda d: f"{d.mode} {d.predictor} {d.changes}")
@given(
    history=histories(PLAIN, moves, max_size=40),
    script=SCRIPT,
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    cuts=st.lists(st.integers(1, 12), min_size=1, max_size=3),
    harm=HARM,
)
@settings(max_examples=25)
def test_rows_equal_the_events_of_a_stream_decoder(demand, history, script, sizes, cuts, harm):
    frames = encoded_frames(PLAIN, script, history, demand, audit_every=9)
    agree(PLAIN, in_messages(frames, sizes, harm), cuts)


@pytest.mark.parametrize("demand", DEMANDS, ids=lambda d: f"{d.mode} {d.predictor} {d.changes}")
@given(history=histories(PLAIN, small, max_size=60), sizes=st.lists(st.integers(1, 30), min_size=1, max_size=3))
@settings(max_examples=20)
def test_quiet_streams_and_small_batches(demand, history, sizes):
    messages = in_messages(encoded_frames(PLAIN, ["event", "heartbeat"] * 9, history, demand), sizes, [])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_batch_builder, "MAX_ROWS", 3)
        agree(PLAIN, messages, [7])
        agree(PLAIN, messages, [len(messages)], include_suppressed=False)


@given(history=histories(RICH, moves), script=SCRIPT, sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4))
@settings(max_examples=25)
def test_positions_arrays_and_opaque_values(history, script, sizes):
    agree(RICH, in_messages(encoded_frames(RICH, script, history, DEMANDS[3]), sizes, []), [5])


@given(data=st.data())
@settings(max_examples=40)
def test_any_schema(data):
    schema = data.draw(schemas())
    history = data.draw(st.lists(events_of(schema), min_size=1, max_size=8))
    demand = data.draw(st.sampled_from([DEMANDS[0], DEMANDS[3]]))
    agree(
        schema,
        in_messages(encoded_frames(schema, [], history, demand), [3], []),
        [2],
        compiled=data.draw(st.booleans()),
    )


def test_long_suppressed_runs_are_split_into_batches():
    schema = Schema("s", [Property("id", "string", "dimension"), Property("t", "number", step="0.1")])
    publisher = StreamEncoder(
        schema, StreamConfig(demand=Demand(mode="hold", default_tolerance=1), max_silence=1e9), name="p"
    )
    frames = publisher.start(0.0)
    for _ in range(3_000):
        for source in "ab":
            frames += publisher.publish({"id": source, "t": 20.0}, 0.0)
    frames += publisher.publish({"id": "a", "t": 30.0}, 0.0) + publisher.heartbeat(0.0)
    reader = TableDecoder(StreamDecoder([schema], publisher="p"), schema)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_batch_builder, "MAX_ROWS", 500)
        parts = list(reader.decode_batches([join(frames)], [1], [0.0]))
    assert max(part.batch.num_rows for part in parts) <= 500
    table = pa.Table.from_batches([part.batch for part in parts])
    for source, last in (("a", 3_001), ("b", 3_000)):
        numbers = table.filter(pa.compute.equal(table["id"], source))["_ordinal"].to_pylist()
        assert numbers == list(range(1, last + 1))


def test_long_texts_are_split_into_batches():
    schema = Schema("s", [Property("id", "string", "dimension"), Property("n", "integer"), Property("note", "string")])
    publisher = StreamEncoder(schema, StreamConfig(demand=Demand(predictor="last")), name="p")
    frames = publisher.start(0.0)
    for n in range(50):
        frames += publisher.publish({"id": "a", "n": n, "note": "x" * 1_000}, 0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_batch_builder, "MAX_CHARACTERS", 10_000)
        rows = agree(schema, frames, [len(frames)])
        reader = TableDecoder(StreamDecoder([schema], publisher="p"), schema)
        parts = list(reader.decode_batches(frames, range(len(frames)), [0.0] * len(frames)))
    assert len(rows) == 50
    assert max(part.batch.num_rows for part in parts) <= 11


def test_another_schema_version_fills_the_common_columns():
    old = Schema("s", [Property("id", "string", "dimension"), Property("n", "integer"), Property("gone", "float")])
    new = Schema("s", [Property("id", "string", "dimension"), Property("n", "integer"), Property("note", "string")], 2)
    rows = []
    reader = TableDecoder(StreamDecoder([old, new], publisher="p"), new)
    for run, schema, more in ((1, old, {"gone": 0.5}), (2, new, {"note": "calm"})):
        publisher = StreamEncoder(schema, StreamConfig(demand=Demand(predictor="last")), name="p", incarnation=run)
        frames = publisher.start(0.0)
        for n in range(4):
            frames += publisher.publish({"id": "a", "n": n, **more}, 0.0)
        rows += reader.decode([join(frames)], [run], [0.0]).batch.to_pylist()
    assert [(row["n"], row["note"]) for row in rows] == [(n, None) for n in range(4)] + [(n, "calm") for n in range(4)]


def test_an_error_is_raised_after_the_rows_before_it():
    schema = Schema("s", [Property("id", "string", "dimension"), Property("n", "integer")])
    strange = Schema("strange", [Property("id", "string", "dimension"), Property("m", "integer")])
    first = StreamEncoder(schema, StreamConfig(demand=Demand(predictor="last")), name="p")
    frames = first.start(0.0) + first.publish({"id": "a", "n": 1}, 0.0) + first.publish({"id": "a", "n": 2}, 0.0)
    unknown = StreamEncoder(strange, name="p", incarnation=2).start(0.0)
    reader = TableDecoder(StreamDecoder([schema], publisher="p"), schema)
    taking = reader.decode_batches(
        [join(frames), *unknown], [3, 4, *range(5, 4 + len(unknown))], [0.0] * (1 + len(unknown))
    )
    taken = next(taking)
    assert taken.batch["n"].to_pylist() == [1, 2]
    with pytest.raises(PeerFault):
        next(taking)
    assert reader.offset == 4


def test_offsets_and_times_need_one_entry_per_message():
    reader = TableDecoder(StreamDecoder([PLAIN]), PLAIN)
    with pytest.raises(ValueError, match="2 messages, 1 offsets and 0 times"):
        reader.decode([b"", b""], [1], [])
    assert reader.decode([], [], []).batch.num_rows == 0


@given(
    form=st.sampled_from(["iso:T3Z", "iso:T0", "iso: 6", "iso:T9+00:00", "iso:T4Z"]),
    ticks=st.lists(st.integers(-(2**61), 2**61) | st.integers(0, 2**41), max_size=20),
)
def test_timestamp_texts_equal_those_of_events(form, ticks):
    absent = np.array([number % 3 == 0 for number in range(len(ticks))], dtype=np.bool_)
    written = [None if is_absent else writer(form)(tick) for tick, is_absent in zip(ticks, absent, strict=True)]
    assert timestamp_texts(form, np.array(ticks, dtype=np.int64), absent).to_pylist() == written


def test_doubles_equal_those_of_events():
    schema = Schema("s", [Property("id", "string", "dimension"), Property("x", "number", step="0.001")])
    publisher = StreamEncoder(schema, StreamConfig(demand=Demand(predictor="last")), name="p")
    values = [n * 7919 / 1000 for n in range(2_000)] + [None, float(2**52) / 1000, -0.5, math.pi]
    frames = publisher.start(0.0)
    for value in values:
        frames += publisher.publish({"id": "a", "x": value}, 0.0)
    assert [row["x"] for row in agree(schema, frames, [100])] == values
