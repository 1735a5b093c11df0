"""What worlds found or were built to find, one by one and small."""

import pytest

from thinwire.codec import Demand, EventsMissed, State, StreamConfig, StreamDecoder, StreamEncoder, Watermark
from thinwire.errors import UnknownSchema
from thinwire.schema import Event, Property, Schema
from thinwire.testing.worlds.world_observer import chain_after, chain_state
from thinwire.wire import FrameKind, Request, join, read

ROOM = Property("room", "string", "dimension")
ROOMS = Schema("rooms", [ROOM, Property("t", "number", step="0.1")])


def publisher(schema=ROOMS, incarnation=1, **config):
    demand = Demand(config.pop("tolerance", {}), predictor=config.pop("predictor", "last"))
    config = StreamConfig(demand=demand, max_silence=1e6, key_frame_interval=1e6, **config)
    return StreamEncoder(schema, config, name="p", incarnation=incarnation, wide=wide_of(incarnation), compiled=False)


def wide_of(incarnation):
    """Lives from 100 on use wide sequences."""
    return incarnation >= 100


def subscriber(*schemas):
    return StreamDecoder(list(schemas or (ROOMS,)), publisher="p", compiled=False)


def tell(reader, frames):
    return [thing for frame in frames for thing in reader.receive(frame, now=0.0)]


def events(told):
    return [thing for thing in told if isinstance(thing, Event)]


def test_a_late_joiner_is_promised_nothing_of_a_value_off_the_grid():
    writer, reader = publisher(), subscriber()
    writer.start(0)
    writer.publish({"room": "a", "t": 20.0}, 0)
    writer.publish({"room": "a", "t": 20.12345}, 0)
    (event,) = events(tell(reader, writer.answer(Request(0, 0), 10)))
    assert (event.ordinal, event.bound) == (2, {"t": None})
    (event,) = events(tell(reader, writer.publish({"room": "a", "t": 20.3}, 10)))
    assert (event["t"], event.bound) == (20.3, {"t": 0.0})


@pytest.mark.parametrize("tolerance", [0.1, 2.0])
def test_a_late_joiner_gets_the_bound_under_which_the_value_was_told(tolerance):
    writer, reader = publisher(tolerance={"t": 1.0}), subscriber()
    writer.start(0)
    writer.publish({"room": "a", "t": 20.0}, 0)
    writer.publish({"room": "a", "t": 20.9}, 0)
    stricter = StreamConfig(version=2, demand=Demand({"t": tolerance}, predictor="last"))
    (event,) = events(tell(reader, writer.reconfigure(stricter, 1)))
    bound = event.bound["t"]
    assert bound is None if tolerance < 1 else abs(event["t"] - 20.9) <= bound


def test_a_configuration_with_the_same_rules_is_no_divergence():
    writer, reader = publisher(predictor="linear"), subscriber()
    told = tell(reader, writer.start(0))
    for step in range(5):
        told += tell(reader, writer.publish({"room": "a", "t": step / 2}, 0))
    told += tell(reader, writer.reconfigure(StreamConfig(version=2, demand=Demand(predictor="last")), 1))
    told += tell(reader, writer.publish({"room": "a", "t": 9.9}, 1))
    assert [event.ordinal for event in events(told)] == [1, 2, 3, 4, 5, 6]
    assert not [thing for thing in told if isinstance(thing, EventsMissed)]


def chunked():
    """A publisher whose key frame rounds take several chunks, and the frames of the next round."""
    schema = Schema("rooms", [ROOM, Property("note", "string")])
    writer = publisher(schema)
    writer.start(0)
    for room in "abcdef":
        writer.publish({"room": room, "note": room * 30_000}, 0)
    return schema, writer, writer.answer(Request(0, 0), 10)


def test_there_is_no_watermark_before_all_sources_are_known():
    schema, writer, chunks = chunked()
    assert len(chunks) > 2
    reader = subscriber(schema)
    tell(reader, chunks[-1:])
    assert reader.state is State.PARTIAL
    assert not [thing for thing in tell(reader, writer.heartbeat(11)) if isinstance(thing, Watermark)]
    tell(reader, writer.answer(Request(0, 0), 20))
    assert reader.state is State.READY
    assert tell(reader, writer.heartbeat(21)) == [Watermark("p", 21.0)]


def test_a_chunk_lost_in_the_middle_of_a_round_is_asked_for():
    schema, writer, chunks = chunked()
    reader = subscriber(schema)
    told = tell(reader, [*chunks[:1], *chunks[2:]])
    assert reader.state is State.PARTIAL
    assert EventsMissed("p", None, None, None, "gap") in told
    (request,) = reader.poll(11)
    told += tell(reader, writer.answer(Request.decode(read(request).body), 12))
    assert reader.state is State.READY
    assert sorted(event.source for event in events(told)) == [(room,) for room in "abcdef"]


def test_sources_introduced_to_a_reader_of_half_a_round_are_known():
    schema, writer, chunks = chunked()
    reader = subscriber(schema)
    told = tell(reader, chunks[-1:])
    told += tell(reader, writer.publish({"room": "new", "note": "here"}, 11))
    assert reader.state is State.PARTIAL
    told += tell(reader, writer.answer(Request(0, 0), 20))
    assert reader.state is State.READY
    found = [event.source[0] for event in events(told)]
    assert sorted(found) == sorted([*"abcdef", "new"])


def test_an_unknown_schema_takes_no_delivery_with_it():
    newer = Schema("rooms", [*ROOMS.properties, Property("on", "boolean")], version=2)
    old, new = publisher(), publisher(newer, incarnation=2)
    lookup = {ROOMS.fingerprint: ROOMS}
    reader = StreamDecoder(lookup.get, compiled=False)
    told = tell(reader, old.start(0))
    batch = join([*old.publish({"room": "a", "t": 1.0}, 0), *new.start(0)])
    with pytest.raises(UnknownSchema):
        reader.receive(batch, now=0.0)
    lookup[newer.fingerprint] = newer
    told += tell(reader, new.answer(Request(0, 0), 10))
    assert [event["t"] for event in events(told)] == [1.0]
    assert EventsMissed("", None, None, None, "restart") in told


def test_a_prediction_past_the_date_line_comes_out_on_the_globe():
    schema = Schema("ships", [Property("place", "geo")])
    writer, reader = publisher(schema, predictor="linear"), subscriber(schema)
    told = tell(reader, writer.start(0))
    for east in (179.98, 179.99, -180.0, -179.99):
        told += tell(reader, writer.publish({"place": [48.0, east]}, 0))
    told += tell(reader, writer.heartbeat(1))
    assert [event["place"][1] % 360 for event in events(told)] == [179.98, 179.99, 180.0, 180.01]
    assert all(abs(event["place"][1]) <= 180 for event in events(told))


def test_an_idle_band_is_part_of_the_bound():
    schema = Schema("machines", [Property("power", "number", step="0.01", idle_band=0.5)])
    writer = StreamEncoder(schema, StreamConfig(demand=Demand(default_tolerance=2, predictor="last")), compiled=False)
    reader = subscriber(schema)
    told = tell(reader, writer.start(0))
    for power in (-2.0, 0.45):
        told += tell(reader, writer.publish({"power": power}, 0))
    told += tell(reader, writer.heartbeat(1))
    for event, power in zip(events(told), (-2.0, 0.45), strict=True):
        assert abs(event["power"] - power) <= event.bound["power"]


@pytest.mark.parametrize(("incarnation", "gap"), [(1, 256), (1, 512), (100, 65_536)])
def test_a_gap_that_the_sequence_cannot_show_is_shown_by_the_check(incarnation, gap):
    writer, reader = publisher(incarnation=incarnation), subscriber()
    told = tell(reader, writer.start(0) + writer.publish({"room": "a", "t": 0.0}, 0))
    lost = [frame for step in range(gap) for frame in writer.publish({"room": "a", "t": 5.0 + step % 2}, 0)]
    assert len(lost) == gap
    told += tell(reader, writer.publish({"room": "a", "t": 1.5}, 0))
    assert told[-1] == EventsMissed("p", None, None, None, "gap")
    told += tell(reader, writer.answer(Request(0, 0), 10))
    assert EventsMissed("p", ("a",), 2, gap + 1, "gap") in told
    assert events(told)[-1].ordinal == gap + 2


@pytest.mark.parametrize("lives", [1, 2, 3, 4, 8])
def test_a_restart_whose_key_frame_is_lost_is_noticed(lives):
    old, new = publisher(), publisher(incarnation=1 + lives)
    reader = subscriber()
    tell(reader, old.start(0) + old.publish({"room": "a", "t": 0.0}, 0))
    new.start(0)
    told = tell(reader, new.publish({"room": "a", "t": 7.0}, 0) + new.publish({"room": "a", "t": 9.0}, 0))
    assert [type(thing) for thing in told] == [EventsMissed]
    told = tell(reader, new.answer(Request(0, 0), 10))
    assert [(event["t"], event.ordinal) for event in events(told)] == [(9.0, 2)]
    assert EventsMissed("p", ("a",), 1, 1, "gap") in told


@pytest.mark.parametrize("between", [0, 1, 300])
def test_a_frame_that_comes_again_much_later_is_never_taken_twice(between):
    writer, reader = publisher(), subscriber()
    tell(reader, writer.start(0) + writer.publish({"room": "a", "t": 0.0}, 0))
    again = writer.publish({"room": "a", "t": 3.0}, 0)
    told = tell(reader, again)
    for step in range(between):
        told += tell(reader, writer.publish({"room": "a", "t": 5.0 + step % 2}, 0))
    told += tell(reader, again) + tell(reader, writer.answer(Request(0, 0), 10))
    ordinals = [event.ordinal for event in events(told)]
    assert ordinals == sorted(set(ordinals))
    assert reader.state is State.READY


def altered(reader, frame):
    """A frame with one bit changed and a check that fits all the same."""
    spoilt = bytearray(frame)
    spoilt[-1] ^= 0x10
    spoilt[2] = chain_after(bytes(spoilt), chain_state(reader)[2]) & 0xFF
    return bytes(spoilt)


@pytest.mark.parametrize("known", [True, False])
def test_an_event_that_cannot_be_read_does_not_count_as_delivered(known):
    schema = Schema("rooms", [ROOM, Property("raw", "opaque")])
    writer, reader = publisher(schema), subscriber(schema)
    told = tell(reader, writer.start(0))
    values = [{"k": 1}, {"k": 2}] if known else [{"k": 2}]
    frames = [frame for raw in values for frame in writer.publish({"room": "a", "raw": raw}, 0)]
    last = next(place for place, frame in enumerate(frames) if b'{"k":2}' in frame)
    told += tell(reader, frames[:last])
    spoilt = frames[last].replace(b'{"k"', b"{[k]")
    spoilt = spoilt[:2] + bytes([chain_after(spoilt, chain_state(reader)[2]) & 0xFF]) + spoilt[3:]
    told += tell(reader, [spoilt])
    assert told[-1] == EventsMissed("p", None, None, None, "corrupt")
    told += tell(reader, writer.answer(Request(0, 0), 10))
    assert [event["raw"] for event in events(told)] == values


def test_an_altered_frame_that_meets_the_check_is_told_by_the_next_frame():
    writer, reader = publisher(), subscriber()
    tell(reader, writer.start(0) + writer.publish({"room": "a", "t": 0.0}, 0))
    (frame,) = writer.publish({"room": "a", "t": 3.0}, 0)
    assert read(frame).kind == FrameKind.DATA
    wrong = altered(reader, frame)
    assert events(tell(reader, [wrong]))[0]["t"] != 3.0
    assert tell(reader, writer.publish({"room": "a", "t": 4.0}, 0)) == [EventsMissed("p", None, None, None, "gap")]


def test_an_altered_frame_that_meets_the_check_is_told_by_the_next_key_frame():
    writer, reader = publisher(), subscriber()
    tell(reader, writer.start(0) + writer.publish({"room": "a", "t": 0.0}, 0))
    (frame,) = writer.publish({"room": "a", "t": 3.0}, 0)
    tell(reader, [altered(reader, frame)])
    assert tell(reader, writer.answer(Request(0, 0), 10)) == [EventsMissed("p", ("a",), None, 2, "diverged")]
    (event,) = events(tell(reader, writer.publish({"room": "a", "t": 4.0}, 10)))
    assert event["t"] == 4.0
