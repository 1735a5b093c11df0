"""Suppressed events, absent values and `min_interval`."""

import pytest
from event_strategies import histories
from hypothesis import given, settings
from hypothesis import strategies as st
from loopback import Loop

from thinwire.codec import Demand, StreamConfig, Watermark
from thinwire.schema import Property, Schema
from thinwire.wire import FrameKind, read
from thinwire.wire.control_frames import MAX_SKIP

WAYS = pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
ROOMS = Schema(
    "rooms",
    [
        Property("time", "timestamp", "header"),
        Property("id", "string", "dimension"),
        Property("t", "number", step="0.1", minimum=0, maximum=50),
        Property("fan", "boolean"),
        Property("note", "string"),
        Property("state", "integer", domain="status"),
        Property("x", "float"),
        Property("at", "geo"),
        Property("scan", "array", step="1"),
        Property("blob", "opaque"),
    ],
)
CALM = {
    "id": "a",
    "t": 20.0,
    "fan": False,
    "note": "calm",
    "state": 0,
    "x": 1.0,
    "at": [49.0, 8.0],
    "scan": [1.0],
    "blob": 0,
}


def calm(seconds, **changes):
    return {"time": seconds, **CALM, **changes}


@WAYS
def test_sent_predicted_and_absent_are_three_states(compiled):
    schema = Schema("s", [Property("id", "string", "dimension"), Property("a", "integer"), Property("b", "integer")])
    loop = Loop(schema, StreamConfig(demand=Demand(predictor="last")), compiled=compiled)
    sent = [loop.publish({"id": "x", **values}) for values in ({"a": 1, "b": 2}, {"a": 1, "b": 2}, {"a": 1}, {"a": 1})]
    assert [len(frames) > 0 for frames in sent] == [True, False, True, False]
    seen = loop.run([{"id": "x", "a": None, "b": None}, {"id": "x", "a": 1}])
    assert [(event["a"], event["b"], event.virtual) for event in loop.events] == [
        (1, 2, False),
        (1, 2, True),
        (1, None, False),
        (1, None, True),
        (None, None, False),
        (1, None, False),
    ]
    assert seen[-1]["a"] == 1


@WAYS
@settings(max_examples=20)
@given(data=st.data())
def test_absence_is_never_inferred(compiled, data):
    events = data.draw(histories(ROOMS))
    loop = Loop(ROOMS, StreamConfig(demand=Demand(default_tolerance=1e6, predictor="linear")), compiled=compiled)
    loop.run(events)
    events_of_room = {}
    for event in events:
        events_of_room.setdefault(event["id"], []).append(event)
    for event in loop.events:
        truth = events_of_room[event["id"]][event.ordinal - 1]
        assert [event[p.name] is None for p in ROOMS.wire] == [truth.get(p.name) is None for p in ROOMS.wire]


@WAYS
def test_a_heartbeat_reports_suppressed_events(compiled):
    schema = Schema("s", [Property("id", "string", "dimension"), Property("n", "integer")])
    loop = Loop(schema, StreamConfig(demand=Demand(predictor="linear")), compiled=compiled)
    events = [{"id": str(source), "n": 5 * k} for k in range(6) for source in range(3)]
    for event in events:
        loop.publish(event)
    before = len(loop.events)
    deliveries = loop.pass_on(loop.publisher.heartbeat(now=12.5))
    assert deliveries[-1] == Watermark("p", 12.5)
    silent = deliveries[:-1]
    assert len(silent) == len(events) - before
    assert all(event.virtual for event in silent)
    assert sorted((event["id"], event["n"]) for event in loop.events) == sorted((e["id"], e["n"]) for e in events)


@WAYS
def test_the_number_of_suppressed_events_is_limited(compiled):
    schema = Schema("s", [Property("n", "integer")])
    loop = Loop(schema, StreamConfig(demand=Demand(predictor="last"), max_silence=1e9), compiled=compiled)
    numbered = [number for number in range(1, MAX_SKIP + 3) if loop.publish({"n": 7})]
    assert numbered == [1, MAX_SKIP + 1]
    assert [event.ordinal for event in loop.events] == list(range(1, MAX_SKIP + 2))


def test_events_within_min_interval_have_no_bound():
    config = StreamConfig(demand=Demand(min_interval=10, default_tolerance=0.5, predictor="last"))
    loop = Loop(ROOMS, config)
    seen = loop.run([calm(second, t=20.0 + second) for second in range(25)])
    assert [event["time"] for event in seen if not event.virtual] == [0, 10, 20]
    for event, second in zip(seen, range(25), strict=True):
        if event.virtual:
            assert set(event.bound.values()) == {None}
        else:
            assert abs(event["t"] - (20 + second)) <= event.bound["t"] + 1e-9


URGENT = [
    {"fan": True},
    {"note": "storm"},
    {"state": 4},
    {"t": 60.0},
    {"t": 20.04},
    *({name: None} for name in ("t", "fan", "note", "state", "x", "at", "scan", "blob")),
]


@pytest.mark.parametrize("change", URGENT, ids=str)
def test_urgent_changes_ignore_min_interval(change):
    loop = Loop(ROOMS, StreamConfig(demand=Demand(min_interval=10)))
    seen = loop.run([calm(0), calm(1, t=21.0), calm(2, **change), calm(3, **change), calm(4)])
    ((name, value),) = change.items()
    assert seen[1].virtual
    assert not seen[2].virtual
    assert seen[2][name] == value
    assert seen[2].bound[name] is not None
    assert seen[4][name] == CALM[name] or seen[4].virtual


def test_a_clock_set_back_starts_a_new_interval():
    loop = Loop(ROOMS, StreamConfig(demand=Demand(min_interval=10)))
    seen = loop.run([calm(1_000), calm(1_003, t=21.0), calm(500, t=22.0), calm(505, t=23.0), calm(510, t=24.0)])
    assert [event["t"] for event in seen if not event.virtual] == [20.0, 22.0, 24.0]


@WAYS
def test_values_inside_the_idle_band_are_suppressed(compiled):
    schema = Schema("s", [Property("id", "string", "dimension"), Property("power", "number", step="0.5", idle_band=5)])
    loop = Loop(schema, StreamConfig(demand=Demand(predictor="last")), compiled=compiled)
    seen = loop.run([{"id": "m", "power": power} for power in (0.0, 4.5, -5.0, 3.0, 5.5, 100.0, 2.0, 1.0)])
    assert [event["power"] for event in seen] == [0, 0, 0, 0, 5.5, 100.0, 0, 0]
    assert [event.virtual for event in seen] == [False, True, True, True, False, False, False, True]
    assert seen[0].bound["power"] == 5
    exact = Loop(schema, StreamConfig(demand=Demand(tolerance={"power": 0})), compiled=compiled)
    assert [event["power"] for event in exact.run([{"id": "m", "power": 4.5}, {"id": "m", "power": 3.0}])] == [4.5, 3.0]


@WAYS
def test_values_out_of_range_are_sent_and_flagged(compiled):
    schema = Schema(
        "s",
        [
            Property("t", "number", step="0.1", minimum=0, maximum=50),
            Property("x", "float", minimum=0, maximum=1),
            Property("scan", "array", step="1", maximum=9),
        ],
    )
    good = {"t": 20.0, "x": 0.5, "scan": [1.0, 2.0]}
    for form in ("compact", "json"):
        loop = Loop(schema, StreamConfig(demand=Demand(default_tolerance=100), format=form), compiled=compiled)
        bad = {"t": 50.1, "x": 1.5, "scan": [1.0, 10.0]}
        seen = loop.run([bad, good, {**good, "t": -0.1}, {**good, "t": 60.04}, bad, bad, {**good, "x": -2}, good])
        assert [set(event.flags) for event in seen] == [set(bad), set(), {"t"}, {"t"}, set(bad), set(bad), {"x"}, set()]
        assert seen[0] == seen[4] == seen[5] == bad
        assert (seen[2]["t"], seen[3]["t"], seen[6]["x"]) == (-0.1, 60.04, -2)
        assert loop.differences() == []


def test_confidential_values_are_never_sent():
    schema = Schema(
        "s",
        [
            Property("id", "string", "dimension"),
            Property("note", "string"),
            Property("secret", "string", confidential=True),
            Property("pin", "integer", confidential=True),
        ],
    )
    for form in ("compact", "json"):
        loop = Loop(schema, StreamConfig(format=form, audit_every=1))
        seen = loop.run([{"id": "a", "note": f"n{k}", "secret": f"hush{k}", "pin": 7_777_777} for k in range(4)])
        loop.pass_on(loop.publisher.start(1.0))
        assert [sorted(event) for event in seen] == [["id", "note"]] * 4
        everything = b"".join(read(frame).body for frame in loop.frames) + b"".join(loop.frames)
        assert b"hush" not in everything
        assert b"7777777" not in everything
        assert (7_777_777).to_bytes(3, "big") not in everything


def test_repeated_texts_are_sent_once():
    schema = Schema("s", [Property("id", "string", "dimension"), Property("mode", "enum", members=["off"])])
    loop = Loop(schema)
    fault = "a fault that nobody had thought of when the schema was written"
    seen = loop.run([{"id": "a", "mode": mode} for mode in ("off", fault, "off", fault, "off", fault)])
    assert [event["mode"] for event in seen] == ["off", fault] * 3
    sizes = [len(frame) for frame in loop.frames if read(frame).kind == FrameKind.DATA]
    assert sizes[0] > 40
    assert max(sizes[1:]) < 8
