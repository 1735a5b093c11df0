"""A restored decoder continues exactly like the original; invalid snapshots are rejected."""

from hashlib import blake2b

import numpy as np
import pytest
from event_strategies import histories
from hypothesis import given, settings
from hypothesis import strategies as st

from thinwire.codec import Demand, EventsMissed, State, StreamConfig, StreamDecoder, StreamEncoder
from thinwire.codec.predictors import arithmetic
from thinwire.codec.row_snapshot import snapshot_row
from thinwire.codec.snapshot_sections import seal, unpack, unseal
from thinwire.codec.source_table import (
    COEFFICIENTS,
    HEADER_CELLS,
    LAST_SENT,
    MODE,
    OFFSET,
    ORDINAL,
    SLOT_CELLS,
    TREND,
    X1,
    X2,
)
from thinwire.codec.stream_snapshot import restore_decoder, snapshot_decoder, snapshot_encoder
from thinwire.codec.ticks import ABSENT, TICK_LIMIT
from thinwire.errors import CorruptCheckpoint, CorruptFrame, UnknownSchema
from thinwire.schema import Event, Property, Schema
from thinwire.wire import Request, join
from thinwire.wire.stream_state import CAPACITY, LAST_ALIAS, LONGEST, SEQUENCE, SOURCES, WIDE, StreamState, TextTable

WAYS = pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
SIMPLE = Schema(
    "simple",
    [
        Property("time", "timestamp", "header", form="iso:T3Z"),
        Property("sensor", "string", "dimension"),
        Property("temperature", "number", step="0.1", minimum=-20, maximum=50, period=4),
        Property("count", "integer", period=3),
        Property("level", "float"),
        Property("fan", "boolean"),
        Property("mode", "enum", members=["off", "on"]),
        Property("note", "string"),
    ],
)
RICH = Schema(
    "rich",
    [
        Property("time", "timestamp", "header", form="datetime"),
        Property("floor", "integer", "dimension"),
        Property("wing", "enum", "dimension"),
        Property("plant.heat", "number", step="0.01", maximum=3),
        Property("pressure", "float", minimum=0, maximum=9),
        Property("position", "geo"),
        Property("scan", "array", step="0.25", maximum=6),
        Property("extra", "opaque"),
        Property("label", "string"),
        Property("open", "boolean"),
    ],
)
SCHEMAS = pytest.mark.parametrize("schema", [SIMPLE, RICH], ids=["simple", "rich"])
SEASONAL = {"temperature": "seasonal", "count": "seasonal"}


def described(item):
    if not isinstance(item, Event):
        return item
    typed = {name: (type(value), value) for name, value in item.items()}
    return (typed, item.identity, dict(item.bound), item.virtual, item.provisional, item.flags)


def receive(reader, frames):
    return [described(item) for frame in frames for item in reader.receive(frame, now=0)]


def reader_of(schema, compiled, **settings):
    return StreamDecoder([schema], publisher="p", compiled=compiled, **settings)


def restored(schema, compiled, data, **settings):
    reader = reader_of(schema, compiled, **settings)
    restore_decoder(reader, data)
    assert reader.state is State.READY
    return reader


def draw_publisher(data, schema):
    predictors = ["last", "linear", "trend", "auto", *([SEASONAL] if schema is SIMPLE else [])]
    demand = Demand(
        default_tolerance=data.draw(st.sampled_from([0, 2])),
        predictor=data.draw(st.sampled_from(predictors)),
        mode=data.draw(st.sampled_from(["predict", "hold"])),
    )
    form = data.draw(st.sampled_from(["compact", "compact", "json"]))
    config = StreamConfig(demand=demand, audit_every=data.draw(st.sampled_from([0, 5])), max_silence=8, format=form)
    return StreamEncoder(
        schema, config, name="p", incarnation=5, wide=data.draw(st.booleans()), compiled=data.draw(st.booleans())
    )


def check_same_state(one, other):
    """Check that both have the same position and state."""
    here, there = one.decoder_state, other.decoder_state
    assert one.state == other.state
    assert here.stream.state() == there.stream.state()
    assert here.is_complete == there.is_complete
    assert here.expander.keys == there.expander.keys
    assert here.expander.table.moving == there.expander.table.moving
    for row in here.expander.known():
        mine, yours = here.expander.table, there.expander.table
        metadata = slice(2 * row, 2 * row + 2)
        assert here.expander.event_metadata[metadata] == there.expander.event_metadata[metadata]
        assert snapshot_row(mine, row) == snapshot_row(yours, row)
        assert mine.ordinal(row) == yours.ordinal(row)
    assert [described(event) for event in one.peek()] == [described(event) for event in other.peek()]


def check_same_deliveries(original, other, messages):
    """Check that both deliver the same for the same messages."""
    before = original.counts.events, other.counts.events
    for message in messages:
        assert receive(original, [message]) == receive(other, [message])
    assert original.counts.events - before[0] == other.counts.events - before[1]
    check_same_state(original, other)


@SCHEMAS
@WAYS
@settings(max_examples=25)
@given(data=st.data())
def test_a_restored_decoder_continues_like_the_original(schema, compiled, data):
    writer = draw_publisher(data, schema)
    messages = [join(writer.start(0))]
    for now, event in enumerate(data.draw(histories(schema, max_size=40))):
        messages += [join(frames)] if (frames := writer.publish(event, now)) else []
        if now == 20:
            messages.append(join(writer.answer(Request(5, 0), now)))
    messages.append(join(writer.heartbeat(100)))
    cut = data.draw(st.integers(1, len(messages)))
    wanted = data.draw(st.booleans())
    original = reader_of(schema, data.draw(st.booleans()), include_suppressed=wanted)
    receive(original, messages[:cut])
    other = restored(schema, compiled, snapshot_decoder(original), include_suppressed=wanted)
    check_same_state(original, other)
    assert list(map(described, original.current_events())) == list(map(described, other.current_events()))
    repeated = data.draw(st.integers(1, cut))
    lost = data.draw(st.integers(cut, len(messages)))
    check_same_deliveries(original, other, messages[repeated:lost] + messages[lost + 1 :] + writer.start(101))


@SCHEMAS
@WAYS
@settings(max_examples=25)
@given(data=st.data())
def test_a_decoder_restored_from_an_encoder_continues(schema, compiled, data):
    writer = draw_publisher(data, schema)
    events = data.draw(histories(schema, max_size=40))
    cut = data.draw(st.integers(0, len(events)))
    original = reader_of(schema, data.draw(st.booleans()))
    receive(original, writer.start(0))
    for now, event in enumerate(events[:cut]):
        receive(original, writer.publish(event, now))
    receive(original, writer.heartbeat(cut))
    other = restored(schema, compiled, snapshot_encoder(writer))
    check_same_state(original, other)
    later = [frame for now, event in enumerate(events[cut:], start=cut) for frame in writer.publish(event, now)]
    lost = data.draw(st.integers(0, len(later)))
    check_same_deliveries(original, other, later[:lost] + later[lost + 1 :] + writer.start(101))


@WAYS
def test_text_tables_are_restored(compiled):
    """More texts than a table holds: the oldest have left it when the snapshot is taken."""
    schema = Schema("s", [Property("id", "string", "dimension"), Property("note", "string")])
    config = StreamConfig(demand=Demand(predictor="last"), max_silence=1e9)
    writer = StreamEncoder(schema, config, name="p", compiled=False)
    original = reader_of(schema, compiled)
    receive(original, writer.start(0))
    texts = [f"text {k}" for k in range(CAPACITY + 44)]
    for text in texts:
        receive(original, writer.publish({"id": "a", "note": text}, 0))
    assert writer.frame_encoder.stream.state()[1] == original.decoder_state.stream.state()[1]
    later = [frame for text in texts[100:] * 2 for frame in writer.publish({"id": "a", "note": text}, 0)]
    assert sum(map(len, later)) < 5 * len(later)
    for data in (snapshot_decoder(original), snapshot_after(writer, texts)):
        twin = reader_of(schema, compiled)
        restore_decoder(twin, data)
        assert [event["note"] for frame in later for event in twin.receive(frame, now=0)] == texts[100:] * 2


def snapshot_after(writer, texts):
    """Return a snapshot of another encoder that has sent the same events."""
    other = StreamEncoder(writer.schema, writer.config, name="p", compiled=False)
    other.start(0)
    for text in texts:
        other.publish({"id": "a", "note": text}, 0)
    return snapshot_encoder(other)


NUMBERS = Schema("s", [Property("id", "string", "dimension"), Property("n", "integer"), Property("x", "float")])
QUIET = StreamConfig(demand=Demand(predictor="last"), max_silence=1e9)


def simple_pair(sources="ab", **settings):
    writer = StreamEncoder(NUMBERS, QUIET, name="p", incarnation=3, compiled=False)
    reader = StreamDecoder([NUMBERS], publisher="p", compiled=False, **settings)
    frames = writer.start(0)
    for name in sources:
        frames += writer.publish({"id": name, "n": 4, "x": 0.5}, 0)
    receive(reader, frames)
    return writer, reader, frames


def test_exact_values_are_restored():
    writer, reader, _ = simple_pair()
    receive(reader, writer.publish({"id": "a", "n": 1 << 62, "x": 0.5}, 0))
    twin = restored(NUMBERS, False, snapshot_decoder(reader))
    assert [event["n"] for event in twin.current_events()] == [1 << 62, 4]
    assert list(map(described, twin.current_events())) == list(map(described, reader.current_events()))
    from_writer = restored(NUMBERS, False, snapshot_encoder(writer)).current_events()[0]
    assert from_writer.bound == {"n": None, "x": None}


def test_duplicates_are_recognised_after_restoring():
    writer, reader, frames = simple_pair()
    twin = restored(NUMBERS, False, snapshot_decoder(reader))
    assert receive(twin, frames[1:]) == []
    assert twin.counts.duplicates == len(frames) - 1
    begun = restored(NUMBERS, False, snapshot_encoder(writer))
    assert receive(begun, frames[-1:]) == [EventsMissed("p", None, None, None, "gap")]


def test_delivered_ordinals_of_former_incarnations_are_restored():
    _, reader, _ = simple_pair("abc")
    second = StreamEncoder(NUMBERS, QUIET, name="p", incarnation=4, compiled=False)
    receive(reader, second.start(0) + second.publish({"id": "a", "n": 1, "x": 0.5}, 0))
    twin = restored(NUMBERS, False, snapshot_decoder(reader))
    for n in range(3):
        for name in "abc":
            second.publish({"id": name, "n": n, "x": 0.5}, 0)
    found = [receive(end, second.start(1)) for end in (reader, twin)]
    assert found[0] == found[1]
    assert EventsMissed("p", ("b",), 1, 2, "gap") in found[0]


def test_the_transport_position_is_restored():
    writer, reader, _ = simple_pair()
    reader.receive(writer.heartbeat(1)[0], now=1, position=17)
    twin = restored(NUMBERS, False, snapshot_decoder(reader))
    (frame,) = writer.publish({"id": "a", "n": 5, "x": 0.5}, 1)
    assert twin.receive(frame, now=1, position=17) == []
    assert [event["n"] for event in twin.receive(frame, now=1, position=18)] == [5]


@WAYS
def test_a_stream_without_sources(compiled):
    writer = StreamEncoder(NUMBERS, QUIET, name="p", compiled=False)
    writer.start(0)
    twin = restored(NUMBERS, compiled, snapshot_encoder(writer))
    frames = writer.publish({"id": "a", "n": 1, "x": 0.5}, 0) + writer.publish({"id": "a", "n": 2, "x": 0.5}, 0)
    found = [item for frame in frames for item in twin.receive(frame, now=0)]
    assert [item["n"] for item in found if isinstance(item, Event)] == [1, 2]


@WAYS
def test_rows_without_a_source(compiled):
    """A publisher that announces fewer sources than before: some rows have no source."""
    _, reader, _ = simple_pair("abc")
    again = StreamEncoder(NUMBERS, QUIET, name="p", incarnation=3, sequence=100, compiled=False)
    again.publish({"id": "a", "n": 7, "x": 0.5}, 0)
    receive(reader, again.start(0))
    assert reader.state is State.READY
    twin = restored(NUMBERS, compiled, snapshot_decoder(reader))
    check_same_state(reader, twin)
    check_same_deliveries(reader, twin, again.publish({"id": "b", "n": 1, "x": 0.5}, 0))


def test_only_a_ready_decoder_has_a_snapshot():
    reader = StreamDecoder([NUMBERS], publisher="p", compiled=False)
    with pytest.raises(ValueError, match="waiting"):
        snapshot_decoder(reader)


def test_suppressed_events_must_be_sent_before_a_snapshot():
    writer, *_ = simple_pair()
    assert writer.publish({"id": "a", "n": 4, "x": 0.5}, 0) == []
    with pytest.raises(ValueError, match="heartbeat"):
        snapshot_encoder(writer)
    writer.heartbeat(1)
    snapshot_encoder(writer)


def test_only_a_new_decoder_is_restored():
    writer, reader, _ = simple_pair()
    with pytest.raises(ValueError, match="create a new one"):
        restore_decoder(reader, snapshot_encoder(writer))


def test_an_unknown_schema_is_reported():
    writer, *_ = simple_pair()
    with pytest.raises(UnknownSchema):
        restore_decoder(StreamDecoder([SIMPLE], publisher="p"), snapshot_encoder(writer))


def rejection_of(data, *, max_sources=100, publisher="p"):
    """Return the error of restoring these bytes; the decoder is unchanged after it."""
    reader = StreamDecoder([NUMBERS], publisher=publisher, compiled=False, max_sources=max_sources)
    with pytest.raises(CorruptCheckpoint) as caught:
        restore_decoder(reader, data)
    assert reader.decoder_state is None
    assert reader.state is State.WAITING
    writer, *_ = simple_pair()
    assert [item.ordinal for frame in writer.start(0) for item in reader.receive(frame, now=0)] in ([1, 1], [])
    return str(caught.value)


def test_any_changed_byte_is_rejected():
    _, reader, _ = simple_pair()
    data = snapshot_decoder(reader)
    for index in range(len(data)):
        spoilt = bytearray(data)
        spoilt[index] ^= 1 << index % 8
        with pytest.raises(CorruptCheckpoint):
            restore_decoder(StreamDecoder([NUMBERS], publisher="p", compiled=False), bytes(spoilt))
    for end in range(len(data)):
        with pytest.raises(CorruptCheckpoint):
            restore_decoder(StreamDecoder([NUMBERS], publisher="p", compiled=False), data[:end])
    assert "Start from key frames" in rejection_of(data + b"\0")


def test_publisher_and_limits_are_checked_first():
    _, reader, _ = simple_pair()
    data = snapshot_decoder(reader)
    assert "limit=1" in rejection_of(data, max_sources=1)
    assert "expected='q'" in rejection_of(data, publisher="q")
    other = bytearray(data[:-16])
    other[0] = 9
    assert "version=9" in rejection_of(bytes(other) + blake2b(other, digest_size=16).digest())


WIDTH = HEADER_CELLS + 2 * SLOT_CELLS
N, X = HEADER_CELLS, HEADER_CELLS + SLOT_CELLS
CELLS = {
    "tick": (N + X1, TICK_LIMIT + 1),
    "tick below": (N + X1, -TICK_LIMIT - 1),
    "former tick": (N + X2, TICK_LIMIT + 1),
    "offset": (N + OFFSET, 1 << 49),
    "trend": (N + TREND, -(1 << 49)),
    "coefficients": (N + COEFFICIENTS, 1 << 27),
    "negative": (N + COEFFICIENTS, -1),
    "mode": (N + MODE, arithmetic.MODES),
    "mode bits": (N + MODE, 32),
    "season without a period": (N + MODE, arithmetic.SEASONAL),
    "infinite": (X + X1, np.float64(np.inf).view(np.int64)),
    "no number": (X + X1, np.float64(np.nan).view(np.int64)),
    "ordinal": (ORDINAL, -1),
    "endless": (ORDINAL, TICK_LIMIT + 1),
    "notes of a publisher": (LAST_SENT, 1),
}


def altered(**changes):
    """Return a valid snapshot, rebuilt after changes to its header and sections."""
    _, reader, _ = simple_pair()
    header, packed = unseal(snapshot_decoder(reader))
    sections = [bytes(s) for s in unpack(packed, header.sizes, len(header.sizes), header.sizes[0])]
    for index, change in changes.pop("sections", {}).items():
        sections[index] = change(sections[index])
    return seal(header._replace(**changes), sections)


def with_cells(changes):
    """Return a change of some cells of both rows."""

    def change(section):
        varies = np.frombuffer(section[-WIDTH:], dtype=bool)
        numbers = iter(np.frombuffer(section[:-WIDTH], dtype=np.int64).tolist())
        constants = [next(numbers) for _ in range(int((~varies).sum()))]
        others = [(next(numbers), next(numbers)) for _ in range(int(varies.sum()))]
        cells = [others.pop(0) if varies[cell] else (constants.pop(0),) * 2 for cell in range(WIDTH)]
        for cell, pair in changes.items():
            cells[cell] = pair
        return np.array(cells, dtype=np.int64).tobytes() + b"\x01" * WIDTH

    return change


@pytest.mark.parametrize(("cell", "value"), CELLS.values(), ids=CELLS)
def test_cells_out_of_range_are_rejected(cell, value):
    rejection_of(altered(sections={0: with_cells({cell: (4, value)})}))


def test_a_linear_predictor_needs_two_values():
    rejection_of(altered(sections={0: with_cells({N + MODE: (0, arithmetic.LINEAR), N + X2: (4, ABSENT)})}))


def test_absent_cells_are_accepted():
    half = int(np.float64(0.5).view(np.int64))
    change = with_cells({N + X1: (ABSENT, 4), X + X1: (ABSENT, half)})
    reader = restored(NUMBERS, False, altered(sections={0: change}))
    assert [(event["n"], event["x"]) for event in reader.current_events()] == [(None, None), (4, 0.5)]


@pytest.mark.parametrize(
    ("index", "section"),
    [
        (0, b""),
        (0, bytes(8)),
        *((index, b"") for index in (1, 2, 6)),
        *((index, b"[") for index in range(1, 8)),
        *((index, b'{"a":1}') for index in (1, 2, 6)),
        *((index, b"[1,2]") for index in (1, 2, 6)),
        (0, bytes(100)),
        (0, bytes(8 * WIDTH) + b"\x02" * WIDTH),
        (1, b"[]"),
        (1, b"[[]]"),
        (1, b'[[],["a"]]'),
        (1, b'[[],["a","b"],["c","d"]]'),
        (1, b'[[],["a",null]]'),
        (1, b'[[],["a",["b"]]]'),
        (1, b'[[],["a",1.5]]'),
        (1, b'[[1],["a"]]'),
        (1, b'[[2],["a","b"]]'),
        (1, b'[[-1,2],["a","b"]]'),
        (1, b'[["b"],["a"]]'),
        (1, b'[[["b"]],["a"]]'),
        (1, b"[" * 100_000),
        (1, b'[[],["a",' + b"9" * 5_000 + b"]]"),
        (2, b"[null]"),
        (2, b'[null,[["a"],1]]'),
        (3, b"\x05\x00"),
        (4, b"\x02\x00\x00\x00"),
        (5, b"\x02\x00"),
        (5, b"\x00\x01\x02\x00"),
        (5, b"\x00\x01\x01\x03\x01a"),
        (5, b"\x00\x7f"),
        (6, b'[[["a"],-1,2]]'),
        (6, b'[[["a"],1,2.5]]'),
        (6, b"[[[null],1,2]]"),
        (7, b"\x01" * 10),
    ],
)
def test_invalid_sections_are_rejected(index, section):
    rejection_of(altered(sections={index: lambda _: section}))


@pytest.mark.parametrize(
    "change",
    [
        {"rows": 3},
        {"rows": 1},
        {"cells": []},
        {"cells": [0] * 11},
        {"cells": [0] * 12},
        {"cells": [1 << 70] * 12},
        {"cells": [-1] * 12},
        {"cells": "cells"},
        {"incarnation": 2},
        {"incarnation": -1},
        {"incarnation": 3.0},
        {"config_version": None},
        {"position": "here"},
        {"position": ""},
        {"publisher": 7},
        {"rules": b""},
        {"rules": b"\xff" * 12},
    ],
    ids=str,
)
def test_invalid_headers_are_rejected(change):
    rejection_of(altered(**change))


def test_a_decompression_bomb_is_rejected():
    _, reader, _ = simple_pair()
    header, _ = unseal(snapshot_decoder(reader))
    bomb = [bytes(header.sizes[0]), bytes(50_000_000), *(b"" for _ in header.sizes[2:])]
    snapshot = seal(header, bomb)
    opened, packed = unseal(snapshot)
    assert len(snapshot) < 300_000
    with pytest.raises(CorruptFrame, match="longer than declared"):
        unpack(packed, [opened.sizes[0], 1_000, *opened.sizes[2:]], len(opened.sizes), opened.sizes[0])
    with pytest.raises(CorruptFrame, match="sizes out of range"):
        unpack(packed, [opened.sizes[0], 1 << 40, *opened.sizes[2:]], len(opened.sizes), opened.sizes[0])


def test_a_state_above_the_limit_is_not_written(monkeypatch):
    monkeypatch.setattr("thinwire.codec.snapshot_sections.MAX_SECTION", 10)
    _, reader, _ = simple_pair()
    with pytest.raises(ValueError, match="too large"):
        snapshot_decoder(reader)


@pytest.mark.parametrize(
    ("texts", "following"),
    [(["a"], 0), (["a"], 2), (["a", "a"], 2), (["on"], 1), (["x" * (LONGEST + 1)], 1), (["a"] * (CAPACITY + 1), 0)],
)
def test_invalid_text_tables_are_rejected(texts, following):
    table = TextTable(("off", "on"))
    with pytest.raises(CorruptFrame):
        table.restore(texts, following)
    table.remember("fault")
    assert table.text(2) == "fault"


@pytest.mark.parametrize(
    ("cell", "value"), [(SEQUENCE, 1 << 63), (SOURCES, -1), (LAST_ALIAS, 2), (WIDE, 1), (WIDE, 2), (-1, 1 << 60)]
)
def test_invalid_stream_states_are_rejected(cell, value):
    link = StreamState(NUMBERS)
    link.sources = 2
    cells, tables = link.state()
    cells[cell] = value
    with pytest.raises(CorruptFrame):
        StreamState(NUMBERS).restore(cells, tables)
