"""Reconfiguration, loss, late decoders, audits, nested objects and schema versions on a real stream."""

import pytest
from event_strategies import histories, small
from hypothesis import given, settings
from hypothesis import strategies as st
from loopback import Loop

from thinwire.codec import Audit, Demand, EventsMissed, State, StreamConfig, StreamDecoder, StreamEncoder
from thinwire.errors import UnknownSchema
from thinwire.schema import Event, Property, Schema, SchemaProjection, flatten
from thinwire.wire import Request, read

WAYS = pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
ROOMS = Schema(
    "rooms",
    [
        Property("time", "timestamp", "header"),
        Property("id", "string", "dimension"),
        Property("t", "number", step="0.1", period=4),
        Property("note", "string"),
        Property("on", "boolean"),
    ],
)
LOOSE, STRICT = Demand(tolerance={"t": 2}), Demand(tolerance={"t": 0.2})


def walk(count, sources=2):
    return [
        {
            "time": 1000 * k + k % 3,
            "id": f"S{k % sources}",
            "t": (k * 7 % 40) / 10 + k,
            "note": f"n{k // 9}",
            "on": k % 5 == 0,
        }
        for k in range(count)
    ]


def ordinals(deliveries):
    return [(event.source, event.ordinal) for event in deliveries if isinstance(event, Event)]


@WAYS
@pytest.mark.parametrize("form", ["compact", "json"])
@pytest.mark.parametrize(("before", "after"), [(LOOSE, STRICT), (STRICT, LOOSE), (LOOSE, LOOSE)])
def test_reconfiguring_loses_and_repeats_nothing(before, after, form, compiled):
    loop = Loop(ROOMS, StreamConfig(demand=before), compiled=compiled)
    events = walk(300)
    for number, event in enumerate(events):
        loop.now = float(number)
        if number in (100, 200):
            demand = after if number == 100 else before
            config = StreamConfig(version=number, demand=demand, format=form, max_silence=3)
            loop.pass_on(loop.publisher.reconfigure(config, loop.now))
            assert loop.subscriber.config_version == number
        loop.publish(event)
        latest = [item for item in loop.deliveries if isinstance(item, Event)][-1]
        assert latest.bound["t"] <= loop.publisher.config.demand.tolerance["t"]
    loop.run([])
    assert [item for item in loop.deliveries if isinstance(item, EventsMissed)] == []
    assert sorted(ordinals(loop.deliveries)) == sorted(((event["id"],), k // 2 + 1) for k, event in enumerate(events))
    for event in loop.events:
        truth = events[(event.ordinal - 1) * 2 + int(event["id"][1:])]
        assert abs(event["t"] - truth["t"]) <= event.bound["t"] + 1e-9
    assert loop.differences() == []


def test_a_late_decoder_has_no_bound_for_an_event_sent_under_wider_tolerances():
    publisher = StreamEncoder(ROOMS, StreamConfig(demand=LOOSE))
    publisher.start(0)
    event = {"time": 0, "id": "a", "t": 20.0, "note": "", "on": True}
    publisher.publish(event, 0)
    publisher.publish({**event, "t": 21.9}, 0)
    frames = publisher.reconfigure(StreamConfig(version=2, demand=STRICT), 1)
    joined = StreamDecoder([ROOMS])
    (seen,) = (item for frame in frames for item in joined.receive(frame, now=1) if isinstance(item, Event))
    assert (seen["t"], seen.bound["t"]) == (20.0, None)
    (after,) = (item for frame in publisher.publish({**event, "t": 21.9}, 1) for item in joined.receive(frame, now=1))
    assert abs(after["t"] - 21.9) <= after.bound["t"] <= 0.2


@WAYS
@pytest.mark.parametrize("resync", ["request", "wait"])
@pytest.mark.parametrize("lost", [range(40, 41), range(40, 60), range(40, 296)])
def test_after_a_loss_the_stream_resumes_and_reports_missed_events(lost, resync, compiled):
    publisher = StreamEncoder(
        ROOMS, StreamConfig(demand=STRICT, key_frame_interval=100, max_silence=20), compiled=compiled
    )
    subscriber = StreamDecoder([ROOMS], resync=resync, compiled=compiled)
    events = walk(600)
    frames, out, sent = publisher.start(0), [], 0
    for now, event in enumerate(events):
        frames += publisher.publish(event, float(now))
        for frame in frames:
            if sent not in lost:
                out += subscriber.receive(frame, now=now)
            sent += 1
        frames = []
        for request in subscriber.poll(now):
            frames += publisher.answer(Request.decode(read(request).body), now)
    for frame in publisher.heartbeat(600.0):
        out += subscriber.receive(frame, now=600)
    assert subscriber.state is State.READY
    gaps = [item for item in out if isinstance(item, EventsMissed) and item.source]
    missed = {(gap.source, ordinal) for gap in gaps for ordinal in range(gap.first, gap.last + 1)}
    received = ordinals(out)
    assert len(set(received)) == len(received)
    assert not missed & set(received)
    assert missed | set(received) == {((event["id"],), k // 2 + 1) for k, event in enumerate(events)}
    assert missed or resync == "request"  # a single lost event may be the one that the key frame contains
    for event in (item for item in out if isinstance(item, Event)):
        truth = events[(event.ordinal - 1) * 2 + int(event["id"][1:])]
        assert abs(event["t"] - truth["t"]) <= 0.2 + 1e-9
        assert event["note"] == truth["note"]


@WAYS
@settings(max_examples=20)
@given(data=st.data())
def test_audits_report_the_true_errors(compiled, data):
    schema = Schema(
        "s",
        [
            Property("id", "string", "dimension"),
            Property("deep.t", "number", step="0.1", minimum=-30, maximum=30, idle_band=0.2),
            Property("x", "float"),
            Property("scan", "array", step="0.25"),
            Property("note", "string"),
        ],
    )
    demand = Demand(default_tolerance=1, predictor="last")
    loop = Loop(schema, StreamConfig(demand=demand, audit_every=1), compiled=compiled)
    events = data.draw(histories(schema))
    loop.run(events)
    seen = {(event.source, event.ordinal): flatten(event, schema) for event in loop.events}
    audits = [item for item in loop.deliveries if isinstance(item, Audit)]
    assert len(audits) == len(events)
    for audit, event in zip(audits, events, strict=True):
        truth, virtual = flatten(event, schema), seen[audit.source, audit.ordinal]
        for p in schema.wire:
            assert audit.errors[p.name] == pytest.approx(apart(virtual[p.name], truth.get(p.name)), abs=1e-9)
            assert audit.errors[p.name] <= audit.bound[p.name]


def apart(seen, truth):
    if isinstance(truth, list):
        return max(abs(a - b) for a, b in zip(seen, truth, strict=True))
    return abs(seen - truth) if isinstance(truth, int | float) else 0.0


def test_a_late_decoder_has_no_bound_for_an_approximated_value():
    publisher = StreamEncoder(ROOMS)
    publisher.start(0)
    event = {"time": 0, "id": "a", "t": 20.04, "note": "", "on": True}
    publisher.publish({**event, "t": 20.0}, 0)
    publisher.publish(event, 0)
    (key,) = publisher.start(1)
    joined = StreamDecoder([ROOMS])
    (seen,) = joined.receive(key, now=1)
    assert (seen["t"], seen.bound["t"]) == (20.0, None)
    (after,) = (item for frame in publisher.publish({**event, "t": 20.1}, 1) for item in joined.receive(frame, now=1))
    assert (after["t"], after.bound["t"]) == (20.1, 0)


@WAYS
def test_nested_objects_are_restored(compiled):
    schema = Schema(
        "plant",
        [
            Property("id", "string", "dimension"),
            Property("engine.oil.level", "integer"),
            Property("engine.oil.heat", "number", step="0.1"),
            Property("engine.on", "boolean"),
        ],
    )
    loop = Loop(schema, compiled=compiled)
    events = [
        {"id": "a", "engine": {"oil": {"level": 3 + k, "heat": 20.5 + (k == 3) * 0.04}, "on": True}} for k in range(5)
    ]
    events += [{"id": "a", "engine": None}, {"id": "a"}, events[0]]
    nothing = {"id": "a", "engine": {"oil": {"level": None, "heat": None}, "on": None}}
    assert loop.run(events) == [*events[:5], nothing, nothing, events[0]]
    assert set(loop.events[0].bound) == {"engine.oil.level", "engine.oil.heat", "engine.on"}


OLD = Schema("rooms", [Property("id", "string", "dimension"), Property("level", "integer"), Property("gone", "string")])
NEW = Schema(
    "rooms",
    [
        Property("id", "string", "dimension"),
        Property("level", "number", step="0.5"),
        Property("gone", "string"),
        Property("fresh", "boolean"),
    ],
    version=2,
)


def test_an_old_decoder_reads_a_new_schema_version():
    view = SchemaProjection(writer=NEW, reader=OLD)
    loop = Loop(NEW, StreamConfig(demand=Demand(tolerance={"level": 1}, predictor="last")))
    written = [{"id": "a", "level": 7.5 + k, "gone": "x", "fresh": True} for k in range(5)]
    for event, truth in zip(loop.run(written), written, strict=True):
        read_ = view(event)
        assert sorted(read_) == ["gone", "id", "level"]
        assert isinstance(read_["level"], int)
        assert abs(read_["level"] - truth["level"]) <= read_.bound["level"] <= 1 + view.loss["level"]


def test_a_new_decoder_reads_an_old_schema_version():
    view = SchemaProjection(writer=OLD, reader=NEW)
    written = [{"id": "a", "level": k, "gone": None} for k in range(5)]
    read_ = [view(event) for event in Loop(OLD).run(written)]
    assert read_ == [{**event, "fresh": None} for event in written]
    assert read_[0].bound["fresh"] is None


def test_an_unknown_schema_is_reported_and_recovered():
    schemas = []
    subscriber = StreamDecoder(lambda fingerprint: next((s for s in schemas if s.fingerprint == fingerprint), None))
    publisher = StreamEncoder(OLD)
    (key,) = publisher.start(0)
    with pytest.raises(UnknownSchema, match="from the registry"):
        subscriber.receive(key, now=0)
    schemas.append(OLD)
    for frame in publisher.start(1):
        subscriber.receive(frame, now=1)
    assert subscriber.state is State.READY


@WAYS
@settings(max_examples=15)
@given(data=st.data())
def test_sources_may_appear_at_any_time(compiled, data):
    events = data.draw(histories(ROOMS, small, sources=40, max_size=60))
    loop = Loop(ROOMS, StreamConfig(demand=STRICT, key_frame_interval=5, max_silence=3), compiled=compiled)
    for number, event in enumerate(events):
        loop.now = number / 2
        loop.publish(event)
    loop.run([])
    assert [item for item in loop.deliveries if isinstance(item, EventsMissed)] == []
    assert len(loop.events) == len(events)
    assert loop.differences() == []
