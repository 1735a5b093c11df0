"""Small tests of failures that the stream worlds found or were built to find."""

import pytest
from stream_observer import chain_after, position_of

from thinwire.codec import Demand, EventsMissed, State, StreamConfig, StreamDecoder, StreamEncoder, Watermark
from thinwire.errors import UnknownSchema
from thinwire.schema import Event, Property, Schema
from thinwire.wire import FrameKind, Request, join, read

ROOM = Property("room", "string", "dimension")
ROOMS = Schema("rooms", [ROOM, Property("t", "number", step="0.1")])
WIDE_FROM = 100
"""incarnations from this number on use wide sequences"""


def encoder_of(schema=ROOMS, incarnation=1, **config):
    demand = Demand(config.pop("tolerance", {}), predictor=config.pop("predictor", "last"))
    config = StreamConfig(demand=demand, max_silence=1e6, key_frame_interval=1e6, **config)
    wide = incarnation >= WIDE_FROM
    return StreamEncoder(schema, config, name="p", incarnation=incarnation, wide=wide, compiled=False)


def decoder_of(*schemas):
    return StreamDecoder(list(schemas or (ROOMS,)), publisher="p", compiled=False)


def decode(decoder, frames):
    return [delivery for frame in frames for delivery in decoder.receive(frame, now=0.0)]


def key_frames(encoder, now=10):
    return encoder.answer(Request(0, 0), now)


def events_in(deliveries):
    return [delivery for delivery in deliveries if isinstance(delivery, Event)]


def test_a_late_subscriber_gets_no_bound_for_a_value_that_is_not_on_a_step():
    encoder, decoder = encoder_of(), decoder_of()
    encoder.start(0)
    encoder.publish({"room": "a", "t": 20.0}, 0)
    encoder.publish({"room": "a", "t": 20.12345}, 0)
    (event,) = events_in(decode(decoder, key_frames(encoder)))
    assert (event.ordinal, event.bound) == (2, {"t": None})
    (event,) = events_in(decode(decoder, encoder.publish({"room": "a", "t": 20.3}, 10)))
    assert (event["t"], event.bound) == (20.3, {"t": 0.0})


@pytest.mark.parametrize("tolerance", [0.1, 2.0])
def test_a_late_subscriber_gets_the_bound_with_which_the_value_was_encoded(tolerance):
    encoder, decoder = encoder_of(tolerance={"t": 1.0}), decoder_of()
    encoder.start(0)
    encoder.publish({"room": "a", "t": 20.0}, 0)
    encoder.publish({"room": "a", "t": 20.9}, 0)
    config = StreamConfig(version=2, demand=Demand({"t": tolerance}, predictor="last"))
    (event,) = events_in(decode(decoder, encoder.reconfigure(config, 1)))
    bound = event.bound["t"]
    assert bound is None if tolerance < 1 else abs(event["t"] - 20.9) <= bound


def test_a_configuration_with_the_same_rules_causes_no_divergence():
    encoder, decoder = encoder_of(predictor="linear"), decoder_of()
    deliveries = decode(decoder, encoder.start(0))
    for step in range(5):
        deliveries += decode(decoder, encoder.publish({"room": "a", "t": step / 2}, 0))
    config = StreamConfig(version=2, demand=Demand(predictor="last"))
    deliveries += decode(decoder, encoder.reconfigure(config, 1))
    deliveries += decode(decoder, encoder.publish({"room": "a", "t": 9.9}, 1))
    assert [event.ordinal for event in events_in(deliveries)] == [1, 2, 3, 4, 5, 6]
    assert not [delivery for delivery in deliveries if isinstance(delivery, EventsMissed)]


def encode_chunks():
    """Return a schema, an encoder whose key frame round takes several chunks, and the chunks of a round."""
    schema = Schema("rooms", [ROOM, Property("note", "string")])
    encoder = encoder_of(schema)
    encoder.start(0)
    for room in "abcdef":
        encoder.publish({"room": room, "note": room * 30_000}, 0)
    return schema, encoder, key_frames(encoder)


def test_no_watermark_is_delivered_before_all_sources_are_known():
    schema, encoder, chunks = encode_chunks()
    assert len(chunks) > 2
    decoder = decoder_of(schema)
    decode(decoder, chunks[-1:])
    assert decoder.state is State.PARTIAL
    assert not [delivery for delivery in decode(decoder, encoder.heartbeat(11)) if isinstance(delivery, Watermark)]
    decode(decoder, key_frames(encoder, 20))
    assert decoder.state is State.READY
    assert decode(decoder, encoder.heartbeat(21)) == [Watermark("p", 21.0)]


def test_a_lost_chunk_of_a_key_frame_round_is_requested():
    schema, encoder, chunks = encode_chunks()
    decoder = decoder_of(schema)
    deliveries = decode(decoder, [*chunks[:1], *chunks[2:]])
    assert decoder.state is State.PARTIAL
    assert EventsMissed("p", None, None, None, "gap") in deliveries
    (request,) = decoder.poll(11)
    deliveries += decode(decoder, encoder.answer(Request.decode(read(request).body), 12))
    assert decoder.state is State.READY
    assert sorted(event.source for event in events_in(deliveries)) == [(room,) for room in "abcdef"]


def test_a_decoder_with_half_a_round_knows_sources_that_are_introduced():
    schema, encoder, chunks = encode_chunks()
    decoder = decoder_of(schema)
    deliveries = decode(decoder, chunks[-1:])
    deliveries += decode(decoder, encoder.publish({"room": "new", "note": "here"}, 11))
    assert decoder.state is State.PARTIAL
    deliveries += decode(decoder, key_frames(encoder, 20))
    assert decoder.state is State.READY
    sources = [event.source[0] for event in events_in(deliveries)]
    assert sorted(sources) == sorted([*"abcdef", "new"])


def test_an_unknown_schema_does_not_lose_the_events_before_it_in_the_message():
    newer = Schema("rooms", [*ROOMS.properties, Property("on", "boolean")], version=2)
    old, new = encoder_of(), encoder_of(newer, incarnation=2)
    known = {ROOMS.fingerprint: ROOMS}
    decoder = StreamDecoder(known.get, compiled=False)
    deliveries = decode(decoder, old.start(0))
    batch = join([*old.publish({"room": "a", "t": 1.0}, 0), *new.start(0)])
    with pytest.raises(UnknownSchema):
        decoder.receive(batch, now=0.0)
    known[newer.fingerprint] = newer
    deliveries += decode(decoder, key_frames(new))
    assert [event["t"] for event in events_in(deliveries)] == [1.0]
    assert EventsMissed("", None, None, None, "restart") in deliveries


def test_a_prediction_across_the_date_line_has_a_valid_longitude():
    schema = Schema("ships", [Property("place", "geo")])
    encoder, decoder = encoder_of(schema, predictor="linear"), decoder_of(schema)
    deliveries = decode(decoder, encoder.start(0))
    for east in (179.98, 179.99, -180.0, -179.99):
        deliveries += decode(decoder, encoder.publish({"place": [48.0, east]}, 0))
    deliveries += decode(decoder, encoder.heartbeat(1))
    assert [event["place"][1] % 360 for event in events_in(deliveries)] == [179.98, 179.99, 180.0, 180.01]
    assert all(abs(event["place"][1]) <= 180 for event in events_in(deliveries))


def test_an_idle_band_is_part_of_the_bound():
    schema = Schema("machines", [Property("power", "number", step="0.01", idle_band=0.5)])
    config = StreamConfig(demand=Demand(default_tolerance=2, predictor="last"))
    encoder, decoder = StreamEncoder(schema, config, compiled=False), decoder_of(schema)
    deliveries = decode(decoder, encoder.start(0))
    for power in (-2.0, 0.45):
        deliveries += decode(decoder, encoder.publish({"power": power}, 0))
    deliveries += decode(decoder, encoder.heartbeat(1))
    for event, power in zip(events_in(deliveries), (-2.0, 0.45), strict=True):
        assert abs(event["power"] - power) <= event.bound["power"]


@pytest.mark.parametrize(("incarnation", "gap"), [(1, 256), (1, 512), (WIDE_FROM, 65_536)])
def test_the_check_detects_a_gap_after_which_the_sequence_is_the_same(incarnation, gap):
    encoder, decoder = encoder_of(incarnation=incarnation), decoder_of()
    deliveries = decode(decoder, encoder.start(0) + encoder.publish({"room": "a", "t": 0.0}, 0))
    lost = [frame for step in range(gap) for frame in encoder.publish({"room": "a", "t": 5.0 + step % 2}, 0)]
    assert len(lost) == gap
    deliveries += decode(decoder, encoder.publish({"room": "a", "t": 1.5}, 0))
    assert deliveries[-1] == EventsMissed("p", None, None, None, "gap")
    deliveries += decode(decoder, key_frames(encoder))
    assert EventsMissed("p", ("a",), 2, gap + 1, "gap") in deliveries
    assert events_in(deliveries)[-1].ordinal == gap + 2


@pytest.mark.parametrize("restarts", [1, 2, 3, 4, 8])
def test_a_restart_is_detected_if_its_key_frame_is_lost(restarts):
    old, new = encoder_of(), encoder_of(incarnation=1 + restarts)
    decoder = decoder_of()
    decode(decoder, old.start(0) + old.publish({"room": "a", "t": 0.0}, 0))
    new.start(0)
    frames = new.publish({"room": "a", "t": 7.0}, 0) + new.publish({"room": "a", "t": 9.0}, 0)
    assert [type(delivery) for delivery in decode(decoder, frames)] == [EventsMissed]
    deliveries = decode(decoder, key_frames(new))
    assert [(event["t"], event.ordinal) for event in events_in(deliveries)] == [(9.0, 2)]
    assert EventsMissed("p", ("a",), 1, 1, "gap") in deliveries


@pytest.mark.parametrize("between", [0, 1, 300])
def test_a_late_duplicate_of_a_frame_is_not_delivered_again(between):
    encoder, decoder = encoder_of(), decoder_of()
    decode(decoder, encoder.start(0) + encoder.publish({"room": "a", "t": 0.0}, 0))
    repeated = encoder.publish({"room": "a", "t": 3.0}, 0)
    deliveries = decode(decoder, repeated)
    for step in range(between):
        deliveries += decode(decoder, encoder.publish({"room": "a", "t": 5.0 + step % 2}, 0))
    deliveries += decode(decoder, repeated) + decode(decoder, key_frames(encoder))
    ordinals = [event.ordinal for event in events_in(deliveries)]
    assert ordinals == sorted(set(ordinals))
    assert decoder.state is State.READY


def with_valid_check(decoder, frame):
    """Return a frame with a narrow sequence with the check that the decoder expects."""
    check = chain_after(frame, position_of(decoder).chain) & 0xFF
    return frame[:2] + bytes([check]) + frame[3:]


def flip_bit(decoder, frame):
    """Return a frame with one bit changed and a valid check."""
    return with_valid_check(decoder, frame[:-1] + bytes([frame[-1] ^ 0x10]))


@pytest.mark.parametrize("is_known", [True, False])
def test_an_event_with_an_invalid_value_does_not_count_as_delivered(is_known):
    schema = Schema("rooms", [ROOM, Property("raw", "opaque")])
    encoder, decoder = encoder_of(schema), decoder_of(schema)
    deliveries = decode(decoder, encoder.start(0))
    values = [{"k": 1}, {"k": 2}] if is_known else [{"k": 2}]
    frames = [frame for raw in values for frame in encoder.publish({"room": "a", "raw": raw}, 0)]
    last = next(index for index, frame in enumerate(frames) if b'{"k":2}' in frame)
    deliveries += decode(decoder, frames[:last])
    deliveries += decode(decoder, [with_valid_check(decoder, frames[last].replace(b'{"k"', b"{[k]"))])
    assert deliveries[-1] == EventsMissed("p", None, None, None, "corrupt")
    deliveries += decode(decoder, key_frames(encoder))
    assert [event["raw"] for event in events_in(deliveries)] == values


def test_the_next_frame_detects_an_altered_frame_with_a_valid_check():
    encoder, decoder = encoder_of(), decoder_of()
    decode(decoder, encoder.start(0) + encoder.publish({"room": "a", "t": 0.0}, 0))
    (frame,) = encoder.publish({"room": "a", "t": 3.0}, 0)
    assert read(frame).kind == FrameKind.DATA
    altered = flip_bit(decoder, frame)
    assert events_in(decode(decoder, [altered]))[0]["t"] != 3.0
    deliveries = decode(decoder, encoder.publish({"room": "a", "t": 4.0}, 0))
    assert deliveries == [EventsMissed("p", None, None, None, "gap")]


def test_the_next_key_frame_detects_an_altered_frame_with_a_valid_check():
    encoder, decoder = encoder_of(), decoder_of()
    decode(decoder, encoder.start(0) + encoder.publish({"room": "a", "t": 0.0}, 0))
    (frame,) = encoder.publish({"room": "a", "t": 3.0}, 0)
    decode(decoder, [flip_bit(decoder, frame)])
    assert decode(decoder, key_frames(encoder)) == [EventsMissed("p", ("a",), None, 2, "diverged")]
    (event,) = events_in(decode(decoder, encoder.publish({"room": "a", "t": 4.0}, 10)))
    assert event["t"] == 4.0
