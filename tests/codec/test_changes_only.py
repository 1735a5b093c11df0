"""`changes`: headers never trigger a frame, and are sent exactly with one."""

import pyarrow as pa
import pytest
from event_strategies import histories
from hypothesis import given, settings
from hypothesis import strategies as st
from loopback import Loop
from reference_stream import tolerance_of
from test_guarantee import EXAMPLES, LOOSE, SCHEMAS, WAYS, check_reference, described, distance

from thinwire.codec import Demand, StreamConfig, StreamDecoder, StreamEncoder
from thinwire.codec.batch_encoder import publish_batch
from thinwire.errors import DemandError
from thinwire.schema import Event, Property, Role, Schema, flatten
from thinwire.wire import Request
from thinwire.wire.control_frames import MAX_SKIP

BOTH = pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
ROOMS = Schema(
    "rooms",
    [
        Property("time", "timestamp", "header"),
        Property("batch", "string", "header"),
        Property("quality", "integer", "header"),
        Property("id", "string", "dimension"),
        Property("t", "number", step="0.1", minimum=0, maximum=50),
        Property("x", "float"),
        Property("fan", "boolean"),
        Property("note", "string"),
        Property("state", "integer", domain="status"),
    ],
)
CALM = {"batch": "a", "quality": 7, "id": "a", "t": 20.0, "x": 1.0, "fan": False, "note": "calm", "state": 0}
HALF = Demand(mode="hold", tolerance={"t": 0.5}, changes=True)


def only_changes(schema, tolerance, **more):
    loose = {"tolerance": LOOSE[schema.name], "default_tolerance": 1.5} if tolerance else {}
    return Demand(mode="hold", changes=True, **loose, **more)


def calm(seconds, **changes):
    return {"time": seconds * 1000 + seconds % 7, **CALM, **changes}


def test_changes_need_mode_hold():
    with pytest.raises(DemandError, match="hold"):
        Demand(changes=True)


@BOTH
def test_headers_alone_trigger_no_frame(compiled):
    loop = Loop(ROOMS, StreamConfig(demand=HALF), compiled=compiled)
    sent = [
        bool(loop.publish(event))
        for event in (
            calm(0),
            calm(1, batch="b"),
            calm(9, quality=3, t=20.5),
            calm(10, quality=None),
            calm(12, t=20.6),
            calm(13, t=20.2),
        )
    ]
    assert sent == [True, False, False, False, True, False]
    first, *silent, second = loop.events
    assert all(event.virtual and event["batch"] == "a" and event["quality"] == 7 for event in silent)
    assert (second["time"], second["batch"], second["t"]) == (12_005, "a", 20.6)
    assert [event.bound["time"] for event in loop.events] == [0, None, None, None, 0]
    assert [event.bound["batch"] for event in loop.events] == [0, None, None, None, 0]
    assert {event.bound["t"] for event in loop.events} == {0.5}
    assert loop.differences() == []
    assert first.ordinal == 1


FIRING = [{"t": 20.6}, {"t": 50.1}, {"t": 20.04}, {"x": 1.5}, {"fan": True}, {"note": "storm"}, {"state": 1}]


@BOTH
@pytest.mark.parametrize("change", [*FIRING, *({name: None} for name in ("t", "x", "fan", "note", "state"))], ids=str)
def test_every_other_property_triggers_a_frame(change, compiled):
    loop = Loop(ROOMS, StreamConfig(demand=HALF), compiled=compiled)
    events = [calm(0), calm(3), calm(5, batch="z", quality=1, **change), calm(8, **change), calm(9)]
    sent = [bool(loop.publish(event)) for event in events]
    outside = change in ({"t": 50.1}, {"t": 20.04})
    assert sent == [True, False, True, outside, True]
    assert loop.events[2] == events[2]
    assert set(loop.events[2].bound.values()) == {0, 0.5}


@BOTH
def test_the_number_of_suppressed_events_is_limited(compiled):
    schema = Schema("s", [Property("time", "timestamp", "header"), Property("n", "integer")])
    config = StreamConfig(demand=Demand(mode="hold", changes=True), max_silence=1e9)
    loop = Loop(schema, config, compiled=(compiled, True))
    sent = [k for k in range(1, MAX_SKIP + 3) if loop.publish({"time": k * k, "n": 7})]
    assert sent == [1, MAX_SKIP + 1]
    assert [event.ordinal for event in loop.events] == list(range(1, MAX_SKIP + 2))
    assert loop.events[-1]["time"] == (MAX_SKIP + 1) ** 2


@pytest.mark.parametrize("name", ["plain", "rich"])
@pytest.mark.parametrize("tolerance", [0, 1], ids=["exact", "loose"])
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_decoded_events_equal_the_reference_model(tolerance, name, data):
    schema = SCHEMAS[name]
    events = data.draw(histories(schema))
    requested = only_changes(schema, tolerance)
    loop = Loop(schema, StreamConfig(demand=requested), compiled=data.draw(st.sampled_from(WAYS)))
    for event in events:
        loop.publish(event)
    assert loop.differences() == []
    check_reference(schema, requested, events, loop)
    assert len(loop.events) == len(events)


@pytest.mark.parametrize("name", ["plain", "rich"])
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_compiled_and_scalar_code_give_the_same_frames_and_events(name, data):
    schema = SCHEMAS[name]
    events = data.draw(histories(schema, max_size=40))
    config = StreamConfig(demand=only_changes(schema, data.draw(st.booleans())), audit_every=7)
    loops = [Loop(schema, config, compiled=way, wide=True) for way in WAYS]
    for loop in loops:
        loop.run(events)
    for other in loops[1:]:
        assert other.frames == loops[0].frames
        assert [described(item) for item in other.deliveries] == [described(item) for item in loops[0].deliveries]


@pytest.mark.parametrize("name", ["plain", "rich"])
@pytest.mark.parametrize("form", ["compact", "json"])
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_the_last_sent_event_is_within_tolerance_and_its_headers_are_exact(form, name, data):
    schema = SCHEMAS[name]
    requested = only_changes(schema, True)
    writer = StreamEncoder(schema, StreamConfig(demand=requested, format=form))
    reader = StreamDecoder([schema], include_suppressed=False)
    last = {}
    for frame in writer.start(0):
        reader.receive(frame, now=0)
    for truth in data.draw(histories(schema, max_size=40)):
        flat = flatten(truth, schema)
        source = tuple(flat[p.name] for p in schema.dimensions)
        for frame in writer.publish(truth, 0):
            for event in reader.receive(frame, now=0):
                if isinstance(event, Event):
                    assert not event.virtual
                    last[event.source] = flatten(event, schema)
                    assert all(
                        event[p.name] == flat.get(p.name) or p.name in requested.tolerance
                        for p in schema.wire
                        if p.role is Role.HEADER
                    )
        for p in schema.wire:
            if p.role is Role.MEASUREMENT:
                idle = p.idle_band if p.idle_band and p.name not in requested.tolerance else 0
                off = distance(p, last[source][p.name], flat.get(p.name))
                assert off <= (float(tolerance_of(p, requested)) + idle) * (1 + 1e-9), p.name


def test_headers_of_suppressed_events_have_no_bound_for_a_late_decoder():
    writer = StreamEncoder(ROOMS, StreamConfig(demand=HALF))
    writer.start(0)
    writer.publish(calm(0), 0)
    writer.publish(calm(5, batch="b"), 0)
    reader = StreamDecoder([ROOMS])
    (event,) = (item for frame in writer.answer(Request(0, 0), 9) for item in reader.receive(frame, now=9) if item)
    assert (event.ordinal, event["batch"], event.bound["batch"], event.bound["t"]) == (2, "a", None, 0.5)


@pytest.mark.parametrize("left_out", ["batch", "quality"])
def test_a_batch_gives_the_frames_of_its_rows(left_out):
    """Also with a text header, which stays in the state although rows have others."""
    schema = Schema("rooms", [p for p in ROOMS if p.name != left_out])
    sent = [calm(k, batch=f"b{k // 3}", t=20.0 + (k * 7 % 12) / 10, x=float(k // 40)) for k in range(400)]
    events = [{name: value for name, value in event.items() if name != left_out} for event in sent]
    singly, batched = (StreamEncoder(schema, StreamConfig(demand=HALF)) for _ in range(2))
    frames = [frame for event in events for frame in singly.publish(event, 1.0)]
    assert publish_batch(batched, pa.RecordBatch.from_pylist(events), 1.0).frames == frames
    assert batched.counts == singly.counts
    assert batched.suppressed_values == singly.suppressed_values
    assert len(frames) < 300


def test_min_interval_and_changes_together():
    demand = Demand(mode="hold", tolerance={"t": 0.5}, changes=True, min_interval=10_000)
    loop = Loop(ROOMS, StreamConfig(demand=demand))
    seen = loop.run([calm(0), calm(12), calm(24, t=21.0), calm(29, t=22.0), calm(40, t=22.0)])
    assert [event.virtual for event in seen] == [False, True, False, True, False]
    assert set(seen[1].bound.values()) == {None}


@BOTH
def test_a_measured_timestamp_is_held_under_changes(compiled):
    schema = Schema("s", [Property("time", "timestamp", "header"), Property("seen", "timestamp")])
    loop = Loop(
        schema, StreamConfig(demand=Demand(mode="hold", tolerance={"seen": 25}, changes=True)), compiled=compiled
    )
    sent = [bool(loop.publish({"time": 10 * k, "seen": 10 * k})) for k in range(10)]
    assert sent == [True, False, False, True, False, False, True, False, False, True]
