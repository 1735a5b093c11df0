"""Bad input gives an error that names the field, the limit and the next step; the stream continues."""

import math
from datetime import datetime

import pytest
from loopback import Loop

from thinwire.codec import Demand, StreamConfig, StreamEncoder, resolve
from thinwire.errors import (
    ConfigError,
    DemandError,
    EventRejected,
    LateEvent,
    MissingProperty,
    NotFinite,
    TooLarge,
    TooManySources,
    UnknownProperty,
    WrongType,
)
from thinwire.schema import Property, Schema

ROOMS = Schema(
    "rooms",
    [
        Property("time", "timestamp", "header", form="iso:T0Z"),
        Property("sensor", "string", "dimension"),
        Property("floor", "integer", "dimension"),
        Property("t", "number", step="0.1", minimum=0, maximum=50),
        Property("n", "integer"),
        Property("x", "float"),
        Property("on", "boolean"),
        Property("mode", "enum", members=["a", "b"], closed=True),
        Property("note", "string"),
        Property("status", "integer", domain="status"),
    ],
)
RICH = Schema(
    "rich",
    [
        Property("id", "string", "dimension"),
        Property("at.place", "geo"),
        Property("scan", "array", step="0.1", length=2),
        Property("blob", "opaque"),
        Property("when", "timestamp", form="datetime"),
        *(Property(f"text{k}", "string") for k in range(9)),
    ],
)
GOOD = {
    "time": "2024-05-01T00:00:00Z",
    "sensor": "T1",
    "floor": 3,
    "t": 20.0,
    "n": 5,
    "x": 0.5,
    "on": True,
    "mode": "a",
    "note": "fine",
    "status": 0,
}
BAD_ROOMS = [
    ("unknown property", {"humidity": 4}, UnknownProperty, ["'humidity'", "known=", "Add it to the schema"]),
    ("no dimension", {"sensor": None}, MissingProperty, ["'sensor'", "must be present"]),
    ("no time", {"time": None}, MissingProperty, ["'time'", "must be present"]),
    ("NaN", {"t": math.nan}, NotFinite, ["'t'", "nan", "Send null"]),
    ("infinity", {"t": math.inf}, NotFinite, ["'t'", "inf", "Send null"]),
    ("NaN in a float", {"x": math.nan}, NotFinite, ["'x'", "Send null"]),
    ("infinity in an integer", {"n": -math.inf}, NotFinite, ["'n'", "Send null"]),
    ("beyond 64 bits", {"n": 1 << 63}, TooLarge, ["'n'", "2^63"]),
    ("beyond counting", {"t": 1e300}, TooLarge, ["'t'", "2^63"]),
    ("10 MB", {"note": "x" * 10_000_000}, TooLarge, ["'note'", "10000000", "65536", "send a reference"]),
    ("text for a number", {"t": "20.0"}, WrongType, ["'t'", "a number is expected"]),
    ("flag for a number", {"t": True}, WrongType, ["'t'", "a number is expected"]),
    ("flag for an integer", {"n": True}, WrongType, ["'n'", "integer"]),
    ("flag for a float", {"x": False}, WrongType, ["'x'", "a number is expected"]),
    ("half for an integer", {"n": 5.5}, WrongType, ["'n'", "an integer is expected"]),
    ("number for a flag", {"on": 1}, WrongType, ["'on'", "true or false"]),
    ("number for a text", {"note": 7}, WrongType, ["'note'", "a text is expected"]),
    ("not a member", {"mode": "c"}, WrongType, ["'mode'", "closed enum", "'a', 'b'"]),
    ("half a surrogate", {"note": "\ud800"}, WrongType, ["'note'", "UTF-8"]),
    ("number for a time", {"time": 7}, WrongType, ["'time'", "iso:T0Z"]),
    ("list as a dimension", {"sensor": ["T1"]}, WrongType, ["'sensor'", "string"]),
    ("dict as a dimension", {"floor": {}}, WrongType, ["'floor'", "integer"]),
    ("fraction as a dimension", {"floor": 3.5}, WrongType, ["'floor'", "integer"]),
    ("float as a new dimension", {"floor": 4.0}, WrongType, ["'floor'", "integer"]),
    ("large dimension", {"sensor": "x" * 5_000}, TooLarge, ["dimension values", "5000", "4096"]),
]
BAD_RICH = [
    ("no object", {"at": 5}, WrongType, ["'at'", "an object is expected"]),
    ("unknown path", {"at": {"time": 5}}, UnknownProperty, ["'at.time'"]),
    ("off the globe", {"at": {"place": [91.0, 0.0]}}, WrongType, ["'at.place'", "-90 to 90"]),
    ("half a position", {"at": {"place": [1.0]}}, WrongType, ["'at.place'", "[latitude, longitude]"]),
    ("NaN in a position", {"at": {"place": [1.0, math.nan]}}, WrongType, ["'at.place'", "finite"]),
    ("another length", {"scan": [1.0]}, WrongType, ["'scan'", "length=1", "declared=2"]),
    ("a hole in an array", {"scan": [1.0, None]}, WrongType, ["'scan'", "missing"]),
    ("no array", {"scan": 5.0}, WrongType, ["'scan'", "list of numbers"]),
    ("no JSON", {"blob": {1, 2}}, WrongType, ["'blob'", "neither bytes nor JSON"]),
    ("no JSON key", {"blob": {1: 2}}, WrongType, ["'blob'", "a key is a text"]),
    ("NaN in JSON", {"blob": [math.nan]}, WrongType, ["'blob'", "neither bytes nor JSON"]),
    ("large blob", {"blob": b"x" * 300_000}, TooLarge, ["'blob'", "300001", "262128"]),
    ("no time zone", {"when": datetime(2024, 5, 1)}, WrongType, ["'when'", "datetime"]),
    ("large together", {f"text{k}": "x" * 65_000 for k in range(9)}, TooLarge, ["together", "585", "524288"]),
]


def deep(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


def cases():
    for name, wrong, error, parts in BAD_ROOMS:
        yield pytest.param(ROOMS, GOOD, wrong, error, parts, id=name)
    for name, wrong, error, parts in [*BAD_RICH, ("deep", {"blob": deep(5_000)}, TooLarge, ["'blob'", "limit=64"])]:
        yield pytest.param(RICH, {"id": "a", "scan": [0.5, 1.0]}, wrong, error, parts, id=name)


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
@pytest.mark.parametrize("form", ["compact", "json"])
@pytest.mark.parametrize(("schema", "good", "wrong", "error", "parts"), list(cases()))
def test_a_bad_event_is_rejected_with_its_field_and_the_stream_continues(
    schema, good, wrong, error, parts, form, compiled
):
    config = StreamConfig(format=form)
    loop, untouched = (Loop(schema, config, compiled=compiled) for _ in range(2))
    for each in (loop, untouched):
        each.publish(good)
        each.publish(good)
    with pytest.raises(error) as caught:
        loop.publish({**good, **wrong})
    assert [part for part in parts if part not in str(caught.value)] == []
    with pytest.raises(error):
        Loop(schema, config, compiled=compiled).publish({**good, **wrong})
    change = {"note": "after", "text0": "after"}
    after = [{**good, **{name: value for name, value in change.items() if name in schema}}, good, good]
    for each in (loop, untouched):
        each.run(after)
    assert loop.frames == untouched.frames
    assert loop.events == untouched.events
    assert loop.publisher.counts.rejected == 1


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
@pytest.mark.parametrize("nonsense", [None, 7, [1, 2], "event"], ids=repr)
def test_values_that_are_not_events_are_rejected(nonsense, compiled):
    publisher = StreamEncoder(ROOMS, compiled=compiled)
    for _ in range(2):
        with pytest.raises(WrongType, match="an event is a mapping"):
            publisher.publish(nonsense, 0)
        publisher.publish(GOOD, 0)


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
def test_an_unknown_property_in_place_of_a_confidential_one_is_rejected(compiled):
    schema = Schema(
        "s",
        [Property("id", "string", "dimension"), Property("n", "integer"), Property("k", "integer", confidential=True)],
    )
    publisher = StreamEncoder(schema, compiled=compiled)
    for n in range(3):
        publisher.publish({"id": "a", "n": n, "k": n}, 0)
    with pytest.raises(UnknownProperty, match="'stranger'"):
        publisher.publish({"id": "a", "n": 3, "stranger": 3}, 0)


def test_late_events_are_rejected_under_the_reject_policy():
    config = StreamConfig(late_policy="reject")
    loop, untouched = Loop(ROOMS, config), Loop(ROOMS, config)
    first, second, late = ({**GOOD, "time": f"2024-05-01T00:00:0{s}Z"} for s in (1, 3, 2))
    loop.run([first, second])
    untouched.run([first, second])
    with pytest.raises(LateEvent) as caught:
        loop.publish(late)
    message = str(caught.value)
    assert "'time'" in message
    assert "2024-05-01T00:00:02Z" in message
    assert "2024-05-01T00:00:03Z" in message
    assert "late_policy='accept'" in message
    loop.run([second, {**second, "sensor": "T2"}])
    untouched.run([second, {**second, "sensor": "T2"}])
    assert loop.frames == untouched.frames
    accepting = Loop(ROOMS)
    assert [event["time"] for event in accepting.run([first, second, late])] == [
        e["time"] for e in (first, second, late)
    ]


def test_an_unreadable_timestamp_does_not_affect_the_latest_time():
    loop = Loop(ROOMS, StreamConfig(late_policy="reject", demand=Demand(min_interval=2)))
    odd = {**GOOD, "time": "May the first"}
    events = [odd, *({**GOOD, "time": f"2024-05-01T00:00:{s:02}Z", "n": s} for s in range(8)), odd]
    seen = loop.run(events)
    assert [event["time"] for event in seen if not event.virtual] == [
        "May the first",
        "2024-05-01T00:00:00Z",
        "2024-05-01T00:00:02Z",
        "2024-05-01T00:00:04Z",
        "2024-05-01T00:00:06Z",
        "May the first",
    ]


def test_sources_above_the_limit_are_rejected():
    loop, untouched = (Loop(ROOMS, StreamConfig(max_sources=2)) for _ in range(2))
    good = [{**GOOD, "sensor": f"T{k}"} for k in range(2)]
    loop.run(good)
    untouched.run(good)
    with pytest.raises(TooManySources, match=r"limit=2\. Raise max_sources"):
        loop.publish({**GOOD, "sensor": "T2"})
    loop.run(good)
    untouched.run(good)
    assert loop.frames == untouched.frames


DEMANDS = [
    ({"tolerance": {"humidity": 1}}, DemandError, ["'humidity'", "is not sent", "choose_from="]),
    ({"tolerance": {"sensor": 1}}, DemandError, ["'sensor'", "is not sent"]),
    ({"tolerance": {"t": -0.5}}, DemandError, ["'t'", "zero or more"]),
    ({"tolerance": {"n": "5%"}}, DemandError, ["'n'", "declared range", "set minimum and maximum"]),
    ({"tolerance": {"t": "much"}}, DemandError, ["'t'", "a number or a percentage"]),
    ({"tolerance": {"t": "1e999999999"}}, DemandError, ["'t'", "a number or a percentage"]),
    ({"tolerance": {"t": "1/0"}}, DemandError, ["'t'", "a number or a percentage"]),
    ({"tolerance": {"t": math.nan}}, DemandError, ["'t'", "a number or a percentage"]),
    ({"tolerance": {"note": 1}}, DemandError, ["'note'", "kind string has no tolerance", "use 0"]),
    ({"tolerance": {"on": 1}}, DemandError, ["'on'", "kind boolean has no tolerance"]),
    ({"tolerance": {"mode": 1}}, DemandError, ["'mode'", "kind enum has no tolerance"]),
    ({"tolerance": {"status": 1}}, DemandError, ["'status'", "a status is always sent exactly", "use 0"]),
    ({"predictor": "oracle"}, ConfigError, ["'oracle'", "known=", "names()"]),
    ({"predictor": "oracle", "mode": "hold"}, ConfigError, ["'oracle'"]),
    ({"predictor": {"t": "oracle"}}, ConfigError, ["'oracle'"]),
    ({"predictor": {"x": "linear"}}, DemandError, ["'x'", "never predicted"]),
    ({"predictor": {"t": "seasonal"}}, ConfigError, ["'t'", "period"]),
    ({"predictor": {"humidity": "last"}}, DemandError, ["'humidity'", "is not sent"]),
]


@pytest.mark.parametrize(("requested", "error", "parts"), DEMANDS, ids=lambda case: str(case)[:50])
def test_a_bad_demand_is_rejected_with_its_property(requested, error, parts):
    with pytest.raises(error) as caught:
        resolve(ROOMS, Demand(**requested))
    assert [part for part in parts if part not in str(caught.value)] == []
    publisher = StreamEncoder(ROOMS, compiled=False)
    publisher.publish(GOOD, 0)
    with pytest.raises(error):
        publisher.reconfigure(StreamConfig(version=2, demand=Demand(**requested)), 1)
    assert publisher.config.version == 1
    assert publisher.publish(GOOD, 1) == []


@pytest.mark.parametrize(
    ("make", "error", "parts"),
    [
        (lambda: Demand(mode="guess"), DemandError, ["'predict' or 'hold'", "guess"]),
        (lambda: Demand(default_tolerance=-1), DemandError, ["default_tolerance", "zero or more", "-1"]),
        (lambda: Demand(default_tolerance="1%"), DemandError, ["default_tolerance", "1%"]),
        (lambda: Demand(min_interval=math.inf), DemandError, ["min_interval", "inf"]),
        (lambda: Demand(min_interval=None), DemandError, ["min_interval", "None"]),
        (lambda: StreamConfig(format="xml"), ConfigError, ["'compact' or 'json'", "xml"]),
        (lambda: StreamConfig(late_policy="ask"), ConfigError, ["'accept' or 'reject'", "ask"]),
        (lambda: StreamConfig(max_silence=0), ConfigError, ["max_silence", "above zero", "0"]),
        (lambda: StreamConfig(key_frame_interval="soon"), ConfigError, ["key_frame_interval", "soon"]),
        (lambda: StreamConfig(audit_every=-1), ConfigError, ["audit_every", "-1"]),
        (lambda: StreamConfig(audit_every=1.5), ConfigError, ["audit_every", "1.5"]),
        (lambda: StreamConfig(version=-1), ConfigError, ["version", "-1"]),
        (lambda: StreamConfig(max_sources=0), ConfigError, ["max_sources", "1000000", "value=0"]),
    ],
)
def test_a_bad_setting_is_rejected_with_its_name(make, error, parts):
    with pytest.raises(error) as caught:
        make()
    assert [part for part in parts if part not in str(caught.value)] == []


def test_min_interval_needs_a_timestamp():
    schema = Schema("s", [Property("n", "integer")])
    with pytest.raises(DemandError, match="min_interval needs a timestamp"):
        resolve(schema, Demand(min_interval=1))


def test_a_seasonal_predictor_for_positions_is_rejected():
    schema = Schema("s", [Property("at", "geo", period=4)])
    with pytest.raises(DemandError, match=r"a position has no season.*'at'"):
        resolve(schema, Demand(predictor={"at": "seasonal"}))


def test_all_rejections_share_a_base_class():
    assert all(issubclass(error, EventRejected) for *_, error, _ in (*BAD_ROOMS, *BAD_RICH))
