"""Whoever takes a checkpoint up goes on exactly as the one it was taken of; what cannot be one is refused."""

from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinwire.codec import Demand, EventsMissed, State, StreamConfig, StreamDecoder, StreamEncoder
from thinwire.codec import row_snapshot as snapshots
from thinwire.codec.predictors import predictor as steps
from thinwire.codec.snapshot_sections import seal, unpack, unseal
from thinwire.codec.source_table import COEFFICIENTS, FIELDS, HEAD, MODE, OFFSET, ORDINAL, TOLD, TREND, X1, X2
from thinwire.codec.stream_snapshot import into_subscriber, of_publisher, of_subscriber
from thinwire.codec.ticks import ABSENT, TICK_LIMIT
from thinwire.errors import CorruptCheckpoint, CorruptFrame, UnknownSchema
from thinwire.schema import Event, Property, Schema
from thinwire.testing.strategies import histories
from thinwire.wire import Request, join
from thinwire.wire.stream_state import CAPACITY, LAST_ALIAS, LONGEST, SEQUENCE, SOURCES, WIDE, LinkState, TextTable

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
    into_subscriber(reader, data)
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


def are_the_same(one, other):
    """Both stand at the same place with the same state."""
    here, there = one.decoder_state, other.decoder_state
    assert one.state == other.state
    assert here.link.state() == there.link.state()
    assert here.complete == there.complete
    assert here.expander.keys == there.expander.keys
    assert here.expander.columns.moving == there.expander.columns.moving
    for row in here.expander.known():
        mine, yours = here.expander.columns, there.expander.columns
        about = slice(2 * row, 2 * row + 2)
        assert here.expander.metadata_codes[about] == there.expander.metadata_codes[about]
        assert snapshots.take(mine, row) == snapshots.take(yours, row)
        assert mine.ordinal(row) == yours.ordinal(row)
    assert [described(event) for event in one.peek()] == [described(event) for event in other.peek()]


def go_on_alike(original, other, messages):
    """The same messages bring both the same."""
    before = original.counts.events, other.counts.events
    for message in messages:
        assert receive(original, [message]) == receive(other, [message])
    assert original.counts.events - before[0] == other.counts.events - before[1]
    are_the_same(original, other)


@SCHEMAS
@WAYS
@settings(max_examples=25)
@given(data=st.data())
def test_a_reader_goes_on_where_another_one_stood(schema, compiled, data):
    writer = draw_publisher(data, schema)
    messages = [join(writer.start(0))]
    for now, event in enumerate(data.draw(histories(schema, max_size=40))):
        messages += [join(frames)] if (frames := writer.publish(event, now)) else []
        if now == 20:
            messages.append(join(writer.answer(Request(5, 0), now)))
    messages.append(join(writer.heartbeat(100)))
    cut = data.draw(st.integers(1, len(messages)))
    wanted = data.draw(st.booleans())
    original = reader_of(schema, data.draw(st.booleans()), passed_over=wanted)
    receive(original, messages[:cut])
    other = restored(schema, compiled, of_subscriber(original), passed_over=wanted)
    are_the_same(original, other)
    assert [described(event) for event in original.present()] == [described(event) for event in other.present()]
    repeated = data.draw(st.integers(1, cut))
    lost = data.draw(st.integers(cut, len(messages)))
    go_on_alike(original, other, messages[repeated:lost] + messages[lost + 1 :] + writer.start(101))


@SCHEMAS
@WAYS
@settings(max_examples=25)
@given(data=st.data())
def test_a_reader_goes_on_where_the_publisher_stood(schema, compiled, data):
    writer = draw_publisher(data, schema)
    events = data.draw(histories(schema, max_size=40))
    cut = data.draw(st.integers(0, len(events)))
    original = reader_of(schema, data.draw(st.booleans()))
    receive(original, writer.start(0))
    for now, event in enumerate(events[:cut]):
        receive(original, writer.publish(event, now))
    receive(original, writer.heartbeat(cut))
    other = restored(schema, compiled, of_publisher(writer))
    are_the_same(original, other)
    later = [frame for now, event in enumerate(events[cut:], start=cut) for frame in writer.publish(event, now)]
    lost = data.draw(st.integers(0, len(later)))
    go_on_alike(original, other, later[:lost] + later[lost + 1 :] + writer.start(101))


@WAYS
def test_texts_keep_their_places(compiled):
    """More texts than a table holds: the oldest have left it when the checkpoint is taken."""
    schema = Schema("s", [Property("id", "string", "dimension"), Property("note", "string")])
    config = StreamConfig(demand=Demand(predictor="last"), max_silence=1e9)
    writer = StreamEncoder(schema, config, name="p", compiled=False)
    original = reader_of(schema, compiled)
    receive(original, writer.start(0))
    texts = [f"text {k}" for k in range(CAPACITY + 44)]
    for text in texts:
        receive(original, writer.publish({"id": "a", "note": text}, 0))
    assert writer.encoder.link.state()[1] == original.decoder_state.link.state()[1]
    later = [frame for text in texts[100:] * 2 for frame in writer.publish({"id": "a", "note": text}, 0)]
    assert sum(map(len, later)) < 5 * len(later)
    for data in (of_subscriber(original), of_publisher_after(writer, texts)):
        twin = reader_of(schema, compiled)
        into_subscriber(twin, data)
        assert [event["note"] for frame in later for event in twin.receive(frame, now=0)] == texts[100:] * 2


def of_publisher_after(writer, texts):
    """A checkpoint of another publisher that has told the same."""
    other = StreamEncoder(writer.schema, writer.config, name="p", compiled=False)
    other.start(0)
    for text in texts:
        other.publish({"id": "a", "note": text}, 0)
    return of_publisher(other)


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


def test_what_was_told_exactly_is_still_known():
    writer, reader, _ = simple_pair()
    receive(reader, writer.publish({"id": "a", "n": 1 << 62, "x": 0.5}, 0))
    twin = restored(NUMBERS, False, of_subscriber(reader))
    assert [event["n"] for event in twin.present()] == [1 << 62, 4]
    assert [described(event) for event in twin.present()] == [described(event) for event in reader.present()]
    from_writer = restored(NUMBERS, False, of_publisher(writer)).present()[0]
    assert from_writer.bound == {"n": None, "x": None}


def test_frames_that_come_again_are_known_again():
    writer, reader, frames = simple_pair()
    twin = restored(NUMBERS, False, of_subscriber(reader))
    assert receive(twin, frames[1:]) == []
    assert twin.counts.duplicates == len(frames) - 1
    begun = restored(NUMBERS, False, of_publisher(writer))
    assert receive(begun, frames[-1:]) == [EventsMissed("p", None, None, None, "gap")]


def test_what_was_delivered_in_other_lives_is_still_known():
    _, reader, _ = simple_pair("abc")
    second = StreamEncoder(NUMBERS, QUIET, name="p", incarnation=4, compiled=False)
    receive(reader, second.start(0) + second.publish({"id": "a", "n": 1, "x": 0.5}, 0))
    twin = restored(NUMBERS, False, of_subscriber(reader))
    for n in range(3):
        for name in "abc":
            second.publish({"id": name, "n": n, "x": 0.5}, 0)
    found = [receive(end, second.start(1)) for end in (reader, twin)]
    assert found[0] == found[1]
    assert EventsMissed("p", ("b",), 1, 2, "gap") in found[0]


def test_the_place_in_the_transport_is_kept():
    writer, reader, _ = simple_pair()
    reader.receive(writer.heartbeat(1)[0], now=1, position=17)
    twin = restored(NUMBERS, False, of_subscriber(reader))
    (frame,) = writer.publish({"id": "a", "n": 5, "x": 0.5}, 1)
    assert twin.receive(frame, now=1, position=17) == []
    assert [event["n"] for event in twin.receive(frame, now=1, position=18)] == [5]


@WAYS
def test_a_link_without_any_source(compiled):
    writer = StreamEncoder(NUMBERS, QUIET, name="p", compiled=False)
    writer.start(0)
    twin = restored(NUMBERS, compiled, of_publisher(writer))
    frames = writer.publish({"id": "a", "n": 1, "x": 0.5}, 0) + writer.publish({"id": "a", "n": 2, "x": 0.5}, 0)
    found = [item for frame in frames for item in twin.receive(frame, now=0)]
    assert [item["n"] for item in found if isinstance(item, Event)] == [1, 2]


@WAYS
def test_rows_that_are_no_longer_told(compiled):
    """A publisher that says it has fewer sources than before: rows remain that belong to nobody."""
    _, reader, _ = simple_pair("abc")
    again = StreamEncoder(NUMBERS, QUIET, name="p", incarnation=3, sequence=100, compiled=False)
    again.publish({"id": "a", "n": 7, "x": 0.5}, 0)
    receive(reader, again.start(0))
    assert reader.state is State.READY
    twin = restored(NUMBERS, compiled, of_subscriber(reader))
    are_the_same(reader, twin)
    go_on_alike(reader, twin, again.publish({"id": "b", "n": 1, "x": 0.5}, 0))


def test_only_one_that_is_ready_has_a_checkpoint():
    reader = StreamDecoder([NUMBERS], publisher="p", compiled=False)
    with pytest.raises(ValueError, match="waiting"):
        of_subscriber(reader)


def test_silence_must_have_been_told():
    writer, *_ = simple_pair()
    assert writer.publish({"id": "a", "n": 4, "x": 0.5}, 0) == []
    with pytest.raises(ValueError, match="heartbeat"):
        of_publisher(writer)
    writer.heartbeat(1)
    of_publisher(writer)


def test_only_a_new_subscriber_takes_one_up():
    writer, reader, _ = simple_pair()
    with pytest.raises(ValueError, match="make a new one"):
        into_subscriber(reader, of_publisher(writer))


def test_the_schema_must_be_known():
    writer, *_ = simple_pair()
    with pytest.raises(UnknownSchema):
        into_subscriber(StreamDecoder([SIMPLE], publisher="p"), of_publisher(writer))


def refused(data, *, max_sources=100, publisher="p"):
    """The error of taking up these bytes, after which the subscriber is as new."""
    reader = StreamDecoder([NUMBERS], publisher=publisher, compiled=False, max_sources=max_sources)
    with pytest.raises(CorruptCheckpoint) as caught:
        into_subscriber(reader, data)
    assert reader.decoder_state is None
    assert reader.state is State.WAITING
    writer, *_ = simple_pair()
    assert [item.ordinal for frame in writer.start(0) for item in reader.receive(frame, now=0)] in ([1, 1], [])
    return str(caught.value)


def test_no_byte_may_change():
    _, reader, _ = simple_pair()
    data = of_subscriber(reader)
    for place in range(len(data)):
        spoilt = bytearray(data)
        spoilt[place] ^= 1 << place % 8
        with pytest.raises(CorruptCheckpoint):
            into_subscriber(StreamDecoder([NUMBERS], publisher="p", compiled=False), bytes(spoilt))
    for end in range(len(data)):
        with pytest.raises(CorruptCheckpoint):
            into_subscriber(StreamDecoder([NUMBERS], publisher="p", compiled=False), data[:end])
    assert "Start from key frames" in refused(data + b"\0")


def test_limits_and_names_are_looked_at_first():
    _, reader, _ = simple_pair()
    data = of_subscriber(reader)
    assert "limit=1" in refused(data, max_sources=1)
    assert "expected='q'" in refused(data, publisher="q")
    other = bytearray(data[:-16])
    other[0] = 9
    assert "version=9" in refused(bytes(other) + blake2b(other, digest_size=16).digest())


WIDTH = HEAD + 2 * FIELDS
N, X = HEAD, HEAD + FIELDS
CELLS = {
    "tick": (N + X1, TICK_LIMIT + 1),
    "tick below": (N + X1, -TICK_LIMIT - 1),
    "former tick": (N + X2, TICK_LIMIT + 1),
    "offset": (N + OFFSET, 1 << 49),
    "trend": (N + TREND, -(1 << 49)),
    "coefficients": (N + COEFFICIENTS, 1 << 27),
    "negative": (N + COEFFICIENTS, -1),
    "mode": (N + MODE, steps.MODES),
    "mode bits": (N + MODE, 32),
    "season without a period": (N + MODE, steps.SEASONAL),
    "infinite": (X + X1, np.float64(np.inf).view(np.int64)),
    "no number": (X + X1, np.float64(np.nan).view(np.int64)),
    "ordinal": (ORDINAL, -1),
    "endless": (ORDINAL, TICK_LIMIT + 1),
    "notes of a publisher": (TOLD, 1),
}


def altered(**changes):
    """A good checkpoint, put together again after changes to its header and sections."""
    _, reader, _ = simple_pair()
    header, packed = unseal(of_subscriber(reader))
    sections = [bytes(s) for s in unpack(packed, header.sizes, len(header.sizes), header.sizes[0])]
    for place, change in changes.pop("sections", {}).items():
        sections[place] = change(sections[place])
    return seal(header._replace(**changes), sections)


def with_cells(changes):
    """A change of the rows: some cells of both."""

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
def test_no_cell_may_be_out_of_range(cell, value):
    refused(altered(sections={0: with_cells({cell: (4, value)})}))


def test_a_line_needs_two_points():
    refused(altered(sections={0: with_cells({N + MODE: (0, steps.LINEAR), N + X2: (4, ABSENT)})}))


def test_cells_that_are_absent_are_fine():
    half = int(np.float64(0.5).view(np.int64))
    change = with_cells({N + X1: (ABSENT, 4), X + X1: (ABSENT, half)})
    reader = restored(NUMBERS, False, altered(sections={0: change}))
    assert [(event["n"], event["x"]) for event in reader.present()] == [(None, None), (4, 0.5)]


@pytest.mark.parametrize(
    ("place", "section"),
    [
        (0, b""),
        (0, bytes(8)),
        *((place, b"") for place in (1, 2, 6)),
        *((place, b"[") for place in range(1, 8)),
        *((place, b'{"a":1}') for place in (1, 2, 6)),
        *((place, b"[1,2]") for place in (1, 2, 6)),
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
def test_no_section_may_say_something_else(place, section):
    refused(altered(sections={place: lambda _: section}))


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
def test_no_header_may_say_something_else(change):
    refused(altered(**change))


def test_a_bomb_is_defused():
    _, reader, _ = simple_pair()
    header, _ = unseal(of_subscriber(reader))
    bomb = [bytes(header.sizes[0]), bytes(50_000_000), *(b"" for _ in header.sizes[2:])]
    whole = seal(header, bomb)
    told, packed = unseal(whole)
    assert len(whole) < 300_000
    with pytest.raises(CorruptFrame, match="longer than told"):
        unpack(packed, [told.sizes[0], 1_000, *told.sizes[2:]], len(told.sizes), told.sizes[0])
    with pytest.raises(CorruptFrame, match="other sizes"):
        unpack(packed, [told.sizes[0], 1 << 40, *told.sizes[2:]], len(told.sizes), told.sizes[0])


def test_a_state_too_large_is_not_written(monkeypatch):
    monkeypatch.setattr("thinwire.codec.snapshot_sections.MAX_SECTION", 10)
    _, reader, _ = simple_pair()
    with pytest.raises(ValueError, match="too large"):
        of_subscriber(reader)


@pytest.mark.parametrize(
    ("texts", "following"),
    [(["a"], 0), (["a"], 2), (["a", "a"], 2), (["on"], 1), (["x" * (LONGEST + 1)], 1), (["a"] * (CAPACITY + 1), 0)],
)
def test_a_table_that_cannot_be(texts, following):
    table = TextTable(("off", "on"))
    with pytest.raises(CorruptFrame):
        table.restore(texts, following)
    table.remember("fault")
    assert table.text(2) == "fault"


@pytest.mark.parametrize(
    ("cell", "value"), [(SEQUENCE, 1 << 63), (SOURCES, -1), (LAST_ALIAS, 2), (WIDE, 1), (WIDE, 2), (-1, 1 << 60)]
)
def test_a_place_in_the_stream_that_cannot_be(cell, value):
    link = LinkState(NUMBERS)
    link.sources = 2
    cells, tables = link.state()
    cells[cell] = value
    with pytest.raises(CorruptFrame):
        LinkState(NUMBERS).restore(cells, tables)
