"""Another process continues a publisher's stream: nothing is lost or repeated, and every bound holds."""

from fractions import Fraction

import pytest
from event_strategies import histories, moves, small
from hypothesis import given, settings
from hypothesis import strategies as st

from thinwire.codec import Demand, EventsMissed, State, StreamConfig, StreamDecoder, StreamEncoder
from thinwire.codec.row_snapshot import snapshot_row
from thinwire.schema import Event, Property, Schema
from thinwire.wire import FrameKind

WAYS = pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
SCHEMA = Schema(
    "rooms",
    [
        Property("time", "timestamp", "header"),
        Property("id", "string", "dimension"),
        Property("t", "number", step="0.1", period=3),
        Property("n", "integer"),
        Property("x", "float"),
        Property("on", "boolean"),
        Property("note", "string"),
    ],
)
PREDICTORS = st.sampled_from(["last", "linear", "trend", "auto", {"t": "seasonal"}])
QUIET = {"max_silence": 1e12, "key_frame_interval": 1e9}
EPOCH = 1 << 32


def encoder_of(number, demand=None, events=(), name="p"):
    """Return an encoder of incarnation 7 in epoch `number`, which has encoded these events."""
    config = StreamConfig(demand=demand or Demand(predictor="last"), **QUIET)
    publisher = StreamEncoder(SCHEMA, config, name=name, incarnation=7, sequence=number * EPOCH, compiled=False)
    publisher.heartbeat(0)
    for event in events:
        publisher.publish(event, 0)
    return publisher


def event_of(name="a", n=0, **values):
    return {"time": 5, "id": name, "t": 20.0, "n": n, "x": 0.5, "on": False, "note": "calm"} | values


def key_frame_round(publisher):
    """Return the first key frame round in chunks of one source each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("thinwire.codec.stream_encoder.CHUNK_BYTES", 1)
        return publisher.start(0)


def reader_of(compiled=False, **settings):
    return StreamDecoder([SCHEMA], publisher="p", compiled=compiled, **settings)


def pass_on(reader, frames):
    return [item for frame in frames for item in reader.receive(frame, now=0)]


def numbers(found):
    return [(event.source[0], event.ordinal) for event in found if isinstance(event, Event)]


def exactly(number):
    return Fraction(str(number))


def check_bounds(event, actual):
    for name in ("time", "t", "n", "x"):
        seen, truth = event[name], actual[name]
        if seen is None or truth is None or event.bound[name] == 0:
            assert seen == truth
        else:
            assert abs(exactly(seen) - exactly(truth)) <= exactly(event.bound[name]) * (1 + Fraction(1, 10**9))
    assert (event["on"], event["note"]) == (actual["on"], actual["note"])


def check_complete(found, events):
    """Check that all events of every source are delivered once, in order and within their bounds, and nothing else."""
    truth, received = {}, {}
    for event in events:
        truth.setdefault((event["id"],), []).append(event)
    for event in found:
        assert isinstance(event, Event)
        received[event.source] = received.get(event.source, 0) + 1
        assert event.ordinal == received[event.source]
        check_bounds(event, truth[event.source][event.ordinal - 1])
    assert received == {source: len(happened) for source, happened in truth.items()}


def without_watermarks(found):
    return [item for item in found if isinstance(item, Event | EventsMissed)]


@WAYS
@settings(max_examples=25)
@given(data=st.data())
def test_succession_loses_and_repeats_nothing(compiled, data):
    kind = data.draw(st.sampled_from([small, moves.filter(lambda move: move not in ("odd", "huge"))]))
    events = data.draw(histories(SCHEMA, kind, max_size=50))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), min_size=1, max_size=3)))
    reader, found, before = reader_of(compiled), [], 0
    for epoch, cut in enumerate([*cuts, len(events)]):
        demand = Demand(default_tolerance=data.draw(st.sampled_from([0, 3, 40])), predictor=data.draw(PREDICTORS))
        writer = encoder_of(epoch, demand, events[:before])
        reader.expect_successor()
        found += pass_on(reader, key_frame_round(writer) if data.draw(st.booleans()) else writer.start(0))
        assert reader.state is State.READY
        found += [item for event in events[before:cut] for item in pass_on(reader, writer.publish(event, 0))]
        before = cut
    found += pass_on(reader, writer.heartbeat(1))
    check_complete(without_watermarks(found), events)
    assert reader.counts.resyncs == reader.counts.missed == 0
    assert reader.counts.events == len(events)
    here, there = writer.frame_encoder.reducer, reader.decoder_state.expander
    for row, key in enumerate(here.keys):
        assert snapshot_row(here.table, row) == snapshot_row(there.table, there.keys.index(key))


@WAYS
@settings(max_examples=15)
@given(data=st.data())
def test_a_successor_that_starts_from_sent_events(compiled, data):
    """As in production: events reach the encoders through a decoder, and a new encoder adopts the decoder's state."""
    events = data.draw(histories(SCHEMA, small, max_size=40))
    cut = data.draw(st.integers(0, len(events)))
    log = Demand(default_tolerance=data.draw(st.sampled_from([0, 2])), predictor=data.draw(PREDICTORS))
    own = StreamConfig(demand=Demand(default_tolerance=3, predictor=data.draw(PREDICTORS)), **QUIET)
    origin = StreamEncoder(SCHEMA, StreamConfig(demand=log, **QUIET), name="p", incarnation=7, compiled=False)
    decoder, reader, found = reader_of(), reader_of(compiled), []
    pass_on(decoder, origin.start(0))
    for epoch, part in enumerate([events[:cut], events[cut:]]):
        over = decoder.decoder_state.rules
        link = StreamEncoder(
            SCHEMA, own, name="p", incarnation=7, compiled=False, over=over, sequence=epoch * EPOCH, validated=True
        )
        link.adopt(decoder.decoder_state)
        reader.expect_successor()
        found += pass_on(reader, link.start(0))
        frames = [frame for event in part for frame in origin.publish(event, 0)] + origin.heartbeat(1)
        for event in pass_on(decoder, frames):
            if isinstance(event, Event):
                found += pass_on(reader, link.publish(event, 0))
    found += pass_on(reader, link.heartbeat(1))
    check_complete(without_watermarks(found), events)


@WAYS
@settings(max_examples=20)
@given(data=st.data())
def test_a_successor_that_stops_within_its_key_frame_round(compiled, data):
    events = data.draw(histories(SCHEMA, small, sources=5, max_size=40))
    cut = data.draw(st.integers(1, len(events)))
    first, second, third = (
        encoder_of(epoch, Demand(default_tolerance=2), events[: epoch and cut]) for epoch in range(3)
    )
    reader = reader_of(compiled)
    found = pass_on(reader, first.start(0))
    found += [item for event in events[:cut] for item in pass_on(reader, first.publish(event, 0))]
    chunks = key_frame_round(second)
    reader.expect_successor()
    found += pass_on(reader, chunks[: data.draw(st.integers(0, len(chunks) - 1))])
    reader.expect_successor()
    found += pass_on(reader, key_frame_round(third))
    found += [item for event in events[cut:] for item in pass_on(reader, third.publish(event, 0))]
    found += pass_on(reader, third.heartbeat(1))
    check_complete(without_watermarks(found), events)


@WAYS
def test_suppressed_events_keep_the_bounds_of_the_predecessor(compiled):
    wide, narrow = (Demand(tolerance={"n": bound}, predictor="last") for bound in (5, 1))
    events = [event_of(n=n) for n in (10, 12, 14)]
    first, second = encoder_of(0, wide), encoder_of(1, narrow, events)
    reader = reader_of(compiled)
    pass_on(reader, first.start(0))
    sent = [item for event in events for item in pass_on(reader, first.publish(event, 0))]
    reader.expect_successor()
    silent = pass_on(reader, second.start(0))
    assert [(e.ordinal, e["n"], e.bound["n"], e.virtual) for e in sent + silent] == [
        (1, 10, 5, False),
        (2, 10, 5, True),
        (3, 10, 5, True),
    ]
    assert reader.bound["n"] == 1
    (after,) = pass_on(reader, second.publish(event_of(n=16), 0))
    assert (after.ordinal, after["n"], after.bound["n"]) == (4, 16, 1)


@WAYS
def test_suppressed_events_are_left_out_on_request(compiled):
    events = [event_of(n=1)] * 4
    first, second = encoder_of(0), encoder_of(1, events=events)
    reader = reader_of(compiled, include_suppressed=False)
    assert numbers(pass_on(reader, first.start(0) + first.publish(events[0], 0))) == [("a", 1)]
    reader.expect_successor()
    assert pass_on(reader, second.start(0)) == []
    assert numbers(pass_on(reader, second.publish(event_of(n=2), 0))) == [("a", 5)]


@WAYS
def test_a_new_source_of_a_successor_delivers_its_current_state(compiled):
    events = [event_of("a"), event_of("b"), event_of("b")]
    first, second = encoder_of(0), encoder_of(1, events=events)
    reader = reader_of(compiled)
    pass_on(reader, first.start(0) + first.publish(events[0], 0))
    reader.expect_successor()
    assert numbers(pass_on(reader, second.start(0))) == [("b", 2)]
    assert reader.state is State.READY


@WAYS
def test_a_successor_with_an_older_ordinal_has_diverged(compiled):
    first, second = encoder_of(0), encoder_of(1, events=[event_of(n=0)])
    reader = reader_of(compiled)
    pass_on(reader, first.start(0) + [f for n in range(3) for f in first.publish(event_of(n=n), 0)])
    reader.expect_successor()
    assert pass_on(reader, second.start(0)) == [EventsMissed("p", ("a",), None, 1, "diverged")]


@WAYS
def test_too_many_suppressed_events_are_a_loss(compiled):
    first, second = encoder_of(0), encoder_of(1, events=[event_of()])
    reader = reader_of(compiled)
    pass_on(reader, first.start(0) + first.publish(event_of(), 0))
    second.frame_encoder.reducer.table.cells[0] = 70_001
    reader.expect_successor()
    missed, current = pass_on(reader, second.start(0))
    assert missed == EventsMissed("p", ("a",), 2, 70_000, "gap")
    assert current.ordinal == 70_001


@WAYS
def test_an_event_within_the_round_ends_the_succession(compiled):
    """A source without state advances; the predictions of the predecessor do not apply to it."""
    events = [event_of(name, n=1) for name in "abab"]
    first, second = encoder_of(0), encoder_of(1, events=events)
    reader = reader_of(compiled)
    pass_on(reader, first.start(0) + [frame for event in events[:2] for frame in first.publish(event, 0)])
    reader.expect_successor()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("thinwire.codec.stream_encoder.CHUNK_BYTES", 1)
        assert numbers(pass_on(reader, second.poll(1e9))) == [("a", 2)]
        assert pass_on(reader, second.publish(event_of("b", n=9), 1e9)) == []
        missed, current = pass_on(reader, second.poll(2e9))
    assert missed == EventsMissed("p", ("b",), 2, 2, "gap")
    assert (current.ordinal, current["n"]) == (3, 9)
    assert reader.state is State.READY


@WAYS
def test_a_waiting_decoder_ignores_the_succession(compiled):
    events = [event_of(n=n) for n in range(4)]
    first, second = encoder_of(0), encoder_of(1, events=events)
    reader = reader_of(compiled)
    pass_on(reader, first.start(0) + first.publish(events[0], 0))
    reader.mark_lost("gap")
    reader.expect_successor()
    missed, current = pass_on(reader, second.start(0))
    assert missed == EventsMissed("p", ("a",), 2, 3, "gap")
    assert current.ordinal == 4
    assert pass_on(reader, encoder_of(2, events=events).start(0))[0].reason == "gap"


@WAYS
def test_another_incarnation_is_a_restart(compiled):
    first = encoder_of(0)
    second = StreamEncoder(SCHEMA, StreamConfig(**QUIET), name="p", incarnation=8, compiled=False)
    reader = reader_of(compiled)
    pass_on(reader, first.start(0) + first.publish(event_of(), 0))
    reader.expect_successor()
    assert pass_on(reader, second.start(0)) == [EventsMissed("p", None, None, None, "restart")]


@WAYS
def test_a_frame_out_of_order_is_a_gap(compiled):
    first, second = encoder_of(0), encoder_of(1, events=[event_of()])
    reader = reader_of(compiled)
    pass_on(reader, first.start(0) + first.publish(event_of(), 0))
    second.start(0)
    reader.expect_successor()
    (stray,) = second.publish(event_of(n=3), 0)
    assert pass_on(reader, [stray]) == [EventsMissed("p", None, None, None, "gap")]
    assert reader.state is State.WAITING


def test_a_round_without_its_first_key_frame_is_a_gap():
    first, second = encoder_of(0), encoder_of(1, events=[event_of("a"), event_of("b")])
    reader = reader_of()
    pass_on(reader, first.start(0) + first.publish(event_of("a"), 0))
    reader.expect_successor()
    found = pass_on(reader, key_frame_round(second)[1:])
    assert found[0] == EventsMissed("p", None, None, None, "gap")
    assert numbers(found) == [("b", 1)]


def test_an_outdated_key_frame_does_not_start_the_succession():
    first, second = encoder_of(1), encoder_of(2, events=[event_of()])
    old = encoder_of(0).start(0)
    reader = reader_of()
    pass_on(reader, first.start(0) + first.publish(event_of(), 0))
    reader.expect_successor()
    assert pass_on(reader, old) == []
    assert reader.counts.duplicates == 1
    assert pass_on(reader, second.start(0)) == []
    assert reader.state is State.READY


def test_sources_missing_from_an_incomplete_round_keep_their_ordinals():
    """Lost in the middle of its round: sources not sent yet continue from their last delivered event."""
    events = [event_of(name) for name in "ab"]
    first, second = encoder_of(0), encoder_of(1, events=events)
    reader = reader_of()
    pass_on(reader, first.start(0) + [frame for event in events for frame in first.publish(event, 0)])
    reader.expect_successor()
    assert pass_on(reader, key_frame_round(second)[:1]) == []
    assert reader.state is State.PARTIAL
    reader.mark_lost("gap")
    third = encoder_of(2, events=[*events, *events])
    found = pass_on(reader, third.start(0))
    assert numbers(found) == [("a", 2), ("b", 2)]
    assert [item for item in found if isinstance(item, EventsMissed)] == []


def test_suppressed_events_that_fail_to_decode_do_not_count_as_delivered():
    schema = Schema("s", [Property("id", "string", "dimension"), Property("extra", "opaque")])
    config = StreamConfig(demand=Demand(predictor="last"), **QUIET)
    tellers = [StreamEncoder(schema, config, name="p", sequence=k * EPOCH, compiled=False) for k in range(3)]
    for number, publisher in enumerate(tellers):
        for _ in range(3 if number else 0):
            publisher.publish({"id": "a", "extra": [1]}, 0)
    reader = StreamDecoder([schema], publisher="p", compiled=False)
    pass_on(reader, tellers[0].start(0) + tellers[0].publish({"id": "a", "extra": [1]}, 0))
    reader.decoder_state.expander.table.objects[0][0] = b"\x01{"
    reader.expect_successor()
    assert pass_on(reader, tellers[1].start(0)) == [EventsMissed("p", None, None, None, "corrupt")]
    missed, current = pass_on(reader, tellers[2].start(0))
    assert missed == EventsMissed("p", ("a",), 2, 2, "gap")
    assert (current.ordinal, current["extra"]) == (3, [1])


@WAYS
def test_one_succession_covers_one_gap(compiled):
    events = [event_of(n=n) for n in range(4)]
    first, second, third = encoder_of(0), encoder_of(1, events=events[:1]), encoder_of(2, events=events)
    reader = reader_of(compiled)
    pass_on(reader, first.start(0) + first.publish(events[0], 0))
    reader.expect_successor()
    assert pass_on(reader, second.start(0)) == []
    lost, missed, current = pass_on(reader, third.start(0))
    assert lost == EventsMissed("p", None, None, None, "gap")
    assert missed == EventsMissed("p", ("a",), 2, 3, "gap")
    assert current.ordinal == 4


def test_a_successor_may_use_other_rows():
    events = [event_of("a", n=1), event_of("b", n=2)]
    first, second = encoder_of(0), encoder_of(1, events=events[::-1])
    reader = reader_of()
    frames = first.start(0) + [frame for event in events for frame in first.publish(event, 0)]
    assert frames[0][0] & 0x0F == FrameKind.KEY
    pass_on(reader, frames)
    reader.expect_successor()
    assert pass_on(reader, second.start(0)) == []
    assert {event.source: event["n"] for event in reader.current_events()} == {("a",): 1, ("b",): 2}
