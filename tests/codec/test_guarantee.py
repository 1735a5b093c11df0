"""The guarantee: for every property and event, |virtual - actual| <= bound <= tolerance; tolerance 0 means equal.

The checks are written once and run for every predictor.
"""

import math
from fractions import Fraction

import pytest
from event_strategies import histories
from hypothesis import given, settings
from hypothesis import strategies as st
from loopback import Loop
from reference_stream import ReferenceStream, tolerance_of

from thinwire.codec import Demand, StreamConfig
from thinwire.codec.predictors import names
from thinwire.schema import Kind, Property, Schema
from thinwire.schema.event import flatten
from thinwire.schema.timestamps import ticks_per_second, to_ticks

PLAIN = Schema(
    "plain",
    [
        Property("time", "timestamp", "header", form="iso:T3Z"),
        Property("sensor", "string", "dimension"),
        Property("temperature", "number", step="0.1", minimum=-20, maximum=50, period=4),
        Property("count", "integer", period=3),
        Property("power", "number", step="0.5", idle_band=2, period=2),
        Property("thirds", "number", step="1/3", period=5),
        Property("tons", "number", step="5", period=5),
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
        Property("plant.pump.state", "integer", domain="status"),
        Property("pressure", "float", minimum=0, maximum=9),
        Property("position", "geo"),
        Property("scan", "array", step="0.25", maximum=6),
        Property("fixed", "array", step="1", length=3),
        Property("extra", "opaque"),
        Property("seen", "timestamp"),
        Property("secret", "number", step="0.1", confidential=True),
    ],
)
SCHEMAS = {"plain": PLAIN, "rich": RICH}
LOOSE = {
    "plain": {"temperature": "1%", "count": 2, "thirds": 1, "tons": 12, "level": 0.5, "time": 0.004},
    "rich": {"plant.heat": 0.03, "pressure": 0.4, "position": 0.3, "scan": 0.5, "fixed": 1, "seen": 2},
}
WAYS = [(True, True), (True, False), (False, True), (False, False)]
EXAMPLES = 12
FIXED = [name for name in names() if name != "seasonal"]


def demand(schema, tolerance, mode="predict", predictor="last"):
    if not tolerance:
        return Demand(mode=mode, predictor=predictor)
    return Demand(tolerance=LOOSE[schema.name], default_tolerance=1.5, mode=mode, predictor=predictor)


def distance(p, seen, actual):
    """Return the error of a value in the unit of its tolerance."""
    if seen is None or actual is None or p.kind in (Kind.BOOLEAN, Kind.ENUM, Kind.STRING, Kind.OPAQUE):
        return 0 if seen == actual else math.inf
    if p.kind is Kind.ARRAY:
        pairs = list(zip(seen, actual, strict=False))
        return max(abs(exactly(a) - exactly(b)) for a, b in pairs) if len(seen) == len(actual) else math.inf
    if p.kind is Kind.TIMESTAMP and p.form not in (None, "epoch"):
        ticks = to_ticks(seen, p.form), to_ticks(actual, p.form)
        return 0 if seen == actual else abs(Fraction(ticks[0] - ticks[1], ticks_per_second(p.form)))
    if p.kind is Kind.GEO:
        return 0 if seen == actual else sum(abs(a - b) % 360 for a, b in zip(seen, actual, strict=True)) * 1e-9
    return abs(exactly(seen) - exactly(actual))


def exactly(number):
    return Fraction(str(number)) if isinstance(number, float) and abs(number) < 2**40 else Fraction(number)


def check_bounds(schema, requested, event, actual):
    seen, actual = flatten(event, schema), flatten(actual, schema)
    for p in schema.wire:
        off, bound = distance(p, seen[p.name], actual.get(p.name)), event.bound[p.name]
        idle = p.idle_band if p.idle_band and p.name not in requested.tolerance else 0
        assert bound <= float(tolerance_of(p, requested)) + idle
        assert off <= bound * (1 + 1e-9), (p.name, seen[p.name], actual.get(p.name))
        if not bound:
            assert seen[p.name] == actual.get(p.name)


def follow(schema, config, events, compiled):
    """Publish events; check the guarantee, the order and both states. Return the deliveries."""
    loop = Loop(schema, config, compiled=compiled)
    for event in events:
        loop.publish(event)
    assert loop.differences() == []
    truth = {}
    for event in events:
        flat = flatten(event, schema)
        truth.setdefault(tuple(flat[p.name] for p in schema.dimensions), []).append(event)
    received = dict.fromkeys(truth, 0)
    for event in loop.events:
        received[event.source] += 1
        assert event.ordinal == received[event.source]
        check_bounds(schema, config.demand, event, truth[event.source][event.ordinal - 1])
    assert received == {source: len(happened) for source, happened in truth.items()}
    return loop


def check_reference(schema, requested, events, loop):
    reference = ReferenceStream(schema, requested)
    expected = {}
    for event in events:
        flat = flatten(event, schema)
        source = tuple(flat[p.name] for p in schema.dimensions)
        expected.setdefault(source, []).append(reference.publish(event))
    for event in loop.events:
        must = expected[event.source][event.ordinal - 1]
        assert event == must.values
        assert event.virtual == must.virtual
        assert set(event.flags) == must.flags


@pytest.mark.parametrize("name", ["plain", "rich"])
@pytest.mark.parametrize("tolerance", [0, 1], ids=["exact", "loose"])
@pytest.mark.parametrize("predictor", FIXED)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_each_predictor_keeps_both_ends_equal_and_within_the_bound(predictor, tolerance, name, data):
    schema = SCHEMAS[name]
    events = data.draw(histories(schema))
    requested = demand(schema, tolerance, predictor=predictor)
    loop = follow(schema, StreamConfig(demand=requested), events, data.draw(st.sampled_from(WAYS)))
    check_reference(schema, requested, events, loop)


@pytest.mark.parametrize("tolerance", [0, 1], ids=["exact", "loose"])
@settings(max_examples=2 * EXAMPLES)
@given(data=st.data())
def test_the_seasonal_predictor_keeps_both_ends_equal_and_within_the_bound(tolerance, data):
    events = data.draw(histories(PLAIN, max_size=30))
    numbers = ("temperature", "count", "power", "thirds", "tons")
    requested = demand(PLAIN, tolerance, predictor=dict.fromkeys(numbers, "seasonal"))
    loop = follow(PLAIN, StreamConfig(demand=requested), events, data.draw(st.sampled_from(WAYS)))
    check_reference(PLAIN, requested, events, loop)


@pytest.mark.parametrize("name", ["plain", "rich"])
@pytest.mark.parametrize("tolerance", [0, 1], ids=["exact", "loose"])
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_hold_carries_exact_source_values(tolerance, name, data):
    schema = SCHEMAS[name]
    events = data.draw(histories(schema))
    requested = demand(schema, tolerance, mode="hold")
    loop = follow(schema, StreamConfig(demand=requested), events, data.draw(st.sampled_from(WAYS)))
    check_reference(schema, requested, events, loop)


@pytest.mark.parametrize("name", ["plain", "rich"])
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_auto_keeps_the_bound(name, data):
    schema = SCHEMAS[name]
    events = data.draw(histories(schema, sources=2, max_size=40))
    config = StreamConfig(demand=demand(schema, data.draw(st.booleans()), predictor="auto"))
    follow(schema, config, events, data.draw(st.sampled_from(WAYS)))


@pytest.mark.parametrize("name", ["plain", "rich"])
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_compiled_and_scalar_code_give_the_same_frames_and_events(name, data):
    schema = SCHEMAS[name]
    events = data.draw(histories(schema, max_size=40))
    config = StreamConfig(demand=demand(schema, data.draw(st.booleans()), predictor="auto"), audit_every=7)
    loops = [Loop(schema, config, compiled=way, wide=True) for way in WAYS]
    for loop in loops:
        loop.run(events)
    for other in loops[1:]:
        assert other.frames == loops[0].frames
        assert [described(item) for item in other.deliveries] == [described(item) for item in loops[0].deliveries]


@pytest.mark.parametrize("name", ["plain", "rich"])
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_json_and_compact_give_the_same_events(name, data):
    schema = SCHEMAS[name]
    events = data.draw(histories(schema))
    requested = demand(
        schema, data.draw(st.booleans()), predictor=data.draw(st.sampled_from(["last", "linear", "trend"]))
    )
    loops = [Loop(schema, StreamConfig(demand=requested, format=form), compiled=False) for form in ("compact", "json")]
    for loop in loops:
        loop.run(events)
        assert loop.differences() == []
    compact, json = (
        [(dict(event), event.source, event.ordinal, event.virtual) for event in loop.events] for loop in loops
    )
    assert json == compact


@pytest.mark.parametrize("form", [None, "epoch", "datetime", "iso:T0", "iso: 6", "iso:T3Z", "iso:T9+00:00"])
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_timestamps_of_every_form_keep_the_bound(form, data):
    schema = Schema(
        "stamps", [Property("time", "timestamp", "header", form=form), Property("id", "string", "dimension")]
    )
    requested = Demand(tolerance={"time": data.draw(st.sampled_from([0, 0.25, 3]))}, predictor="last")
    events = data.draw(histories(schema))
    loop = follow(schema, StreamConfig(demand=requested), events, data.draw(st.sampled_from(WAYS)))
    check_reference(schema, requested, events, loop)


@pytest.mark.slow
@settings(max_examples=400)
@given(data=st.data())
def test_any_stream_keeps_the_bound_under_any_demand(data):
    schema = SCHEMAS[data.draw(st.sampled_from(["plain", "rich"]))]
    mode, predictor = data.draw(st.sampled_from(["predict", "hold"])), data.draw(st.sampled_from([*FIXED, "auto"]))
    requested = demand(schema, data.draw(st.booleans()), mode, predictor)
    events = data.draw(histories(schema, max_size=80))
    loop = follow(schema, StreamConfig(demand=requested), events, data.draw(st.sampled_from(WAYS)))
    if predictor != "auto" or mode == "hold":
        check_reference(schema, requested, events, loop)


def described(item):
    return (dict(item), item._about, item.ordinal) if isinstance(item, dict) else item
