"""Schemas inferred from sample events: result, reasons and rejected samples."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest
from event_strategies import parts
from hypothesis import given
from hypothesis import strategies as st

from thinwire.errors import ConfigError, SchemaError, WrongType
from thinwire.schema import Kind, Property, Role, Schema
from thinwire.schema.event import flatten, nest
from thinwire.schema.inference import explain, infer
from thinwire.schema.kind_detection import decimal_step, places


def column(values: list[Any], name: str = "p", **options: Any) -> Property:
    return infer([{name: value} for value in values], "s", **options)[name]


def test_a_complete_schema() -> None:
    start = datetime(2024, 5, 1, 10, tzinfo=UTC)
    events = [
        {
            "eventTime": (start + timedelta(seconds=i)).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "sensor": f"T{i % 3}",
            "message_id": f"m{i}",
            "air": {"temperature": 20 + i % 7 / 10, "humidity": None if i % 2 else 40 + i},
            "mode": ["off", "heating"][i % 2],
            "on": i % 2 == 0,
            "note": f"note {i}",
            "location": [round(49.0069 + i / 10_000, 4), 8.4037],
            "scan": [1.5, 2, 2.25],
            "extra": {"a.b": i},
        }
        for i in range(30)
    ]
    found = explain(events, "building.rooms")
    assert found.schema == Schema(
        "building.rooms",
        [
            Property("eventTime", "timestamp", "header", form="iso:T0Z"),
            Property("sensor", "string", "dimension"),
            Property("message_id", "string"),
            Property("air.temperature", "number", step="0.1"),
            Property("air.humidity", "integer"),
            Property("mode", "enum", members=["off", "heating"]),
            Property("on", "boolean"),
            Property("note", "string"),
            Property("location", "geo", step="0.0001"),
            Property("scan", "array", step="0.01", length=3),
            Property("extra", "opaque"),
        ],
    )
    assert found.reasons.keys() == {p.name for p in found.schema}
    assert found.reasons["sensor"] == "string: text; dimension: named like an asset, 3 values in 30 events"
    assert all(flatten(event, found.schema) for event in events)


@pytest.mark.parametrize(
    ("values", "kind", "step"),
    [
        ([79.3366, 79.1], Kind.NUMBER, Fraction(1, 10_000)),
        ([10.0, 20.0], Kind.NUMBER, Fraction(1)),
        ([1, 2.5], Kind.NUMBER, Fraction(1, 10)),
        ([1e-07, 0.5], Kind.NUMBER, Fraction(1, 10**7)),
        ([1.5e-09], Kind.FLOAT, None),
        ([1 / 3, 0.5], Kind.FLOAT, None),
        ([9.1e15, 0.1], Kind.FLOAT, None),
        ([2.0**53], Kind.FLOAT, None),
        ([1e300], Kind.FLOAT, None),
        ([0, 1, 1, 0], Kind.INTEGER, None),
        ([2**62, -5], Kind.INTEGER, None),
        ([2**63], Kind.OPAQUE, None),
        ([2**2000, 0.5], Kind.OPAQUE, None),
        ([2**53 + 1, 0.5], Kind.OPAQUE, None),
        ([True, False], Kind.BOOLEAN, None),
        ([True, 1], Kind.OPAQUE, None),
        (["a", 1], Kind.OPAQUE, None),
        ([None, None], Kind.OPAQUE, None),
        ([None, 3], Kind.INTEGER, None),
        ([float("nan"), 2.5], Kind.NUMBER, Fraction(1, 10)),
        ([b"\x00"], Kind.OPAQUE, None),
        ([{}], Kind.OPAQUE, None),
        ([{"a": 1}, 5], Kind.OPAQUE, None),
        ([[1, 2], [1, 2, 3]], Kind.OPAQUE, None),
        ([[1, None]], Kind.OPAQUE, None),
        ([[1 / 3]], Kind.OPAQUE, None),
        ([[]], Kind.OPAQUE, None),
        ([[True, False]], Kind.OPAQUE, None),
        ([(1, 2), [3, 4]], Kind.ARRAY, Fraction(1)),
        ([[49.5, 8.5]], Kind.ARRAY, Fraction(1, 10)),
        (["a", "b"] * 5, Kind.ENUM, None),
        (["a", "b"] * 4, Kind.STRING, None),
        (["x" * 65] * 9, Kind.STRING, None),
        (["2024-05-01T10:00:00Z", "2024-05-01T10:00:00.5Z"], Kind.STRING, None),
        (["2024-02-30T10:00:00Z"], Kind.STRING, None),
        (["9999-12-31T99:00:00"], Kind.STRING, None),
    ],
)
def test_the_kind_of_a_column(values: list[Any], kind: Kind, step: Fraction | None) -> None:
    found = column(values)
    assert (found.kind, found.step) == (kind, step)


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("location", [[49.5, 8.5]], Kind.GEO),
        ("startPosition", [[49.5, 8.5]], Kind.GEO),
        ("location", [[8.5, 149.5], [99.5, 1.5]], Kind.ARRAY),
        ("location", [[49.5, 8.5, 110.0]], Kind.ARRAY),
        ("location", [[49, 8]], Kind.ARRAY),
        ("ts", [1_700_000_000, 1_700_000_001], Kind.TIMESTAMP),
        ("ts", [1_700_000_000_000], Kind.TIMESTAMP),
        ("ts", [1_700_000_000.25], Kind.TIMESTAMP),
        ("ts", [5, 10, 15], Kind.INTEGER),
        ("bytes", [1_700_000_000], Kind.INTEGER),
        ("whenever", [datetime(2024, 5, 1, tzinfo=UTC)], Kind.TIMESTAMP),
    ],
)
def test_names_affect_the_kind(name: str, values: list[Any], kind: Kind) -> None:
    assert column(values, name).kind is kind


def test_the_reason_shows_the_value_that_decided() -> None:
    reasons = explain([{"p": value} for value in (0.1, 0.2, 0.1 + 0.2)], "s").reasons
    assert reasons == {"p": "float: no decimal step of at most 9 places fits 0.30000000000000004; measurement"}


def test_epoch_seconds_keep_their_decimals() -> None:
    found = column([1_700_000_000.25, 1_700_000_001.5], "time")
    assert (found.role, found.form, found.step) == (Role.HEADER, "epoch", Fraction(1, 100))


def test_the_event_time_has_a_time_name_increases_and_is_never_absent() -> None:
    times = [f"2024-05-01T10:00:{i:02d}" for i in range(20)]
    events = [
        {
            "born_date": times[-i],
            "seen_at": times[i],
            "made_at": times[0],
            "odd": times[i],
            "ts": times[i] if i else None,
        }
        for i in range(20)
    ]
    assert _time(infer(events, "s")) == "seen_at"
    assert _time(infer(events, "s", time="born_date")) == "born_date"
    assert _time(infer([{"odd": e["odd"]} for e in events], "s")) == "odd"
    assert _time(infer([{"odd": e["born_date"]} for e in reversed(events[1:])], "s")) == "odd"
    assert _time(infer([{"odd": e["born_date"]} for e in events[1:]], "s")) is None
    assert _time(infer([{"level": i} for i in range(9)], "s")) is None


def _time(schema: Schema) -> str | None:
    return schema.time.name if schema.time else None


@pytest.mark.parametrize(
    ("name", "values", "role"),
    [
        ("station_id", [1, 2, 1, 2], Role.DIMENSION),
        ("moteid", [1, 1], Role.DIMENSION),
        ("id", ["a", "a"], Role.DIMENSION),
        ("symbol", ["AAPL", "MSFT"] * 2, Role.DIMENSION),
        ("sensor", ["T1", "T2", "T3"], Role.MEASUREMENT),
        ("event_id", ["a", "a"], Role.MEASUREMENT),
        ("sensor", ["T1", "T1", None], Role.MEASUREMENT),
        ("sensor", [1.5, 1.5], Role.MEASUREMENT),
        ("sensor", [True, True], Role.MEASUREMENT),
        ("humid", [1, 1], Role.MEASUREMENT),
    ],
)
def test_dimensions_are_found_by_name_where_values_repeat(name: str, values: list[Any], role: Role) -> None:
    assert column(values, name).role is role


def test_given_dimensions_are_the_only_ones() -> None:
    events = [{"sensor": "T1", "colour": "red", "day": "2024-05-01T00:00:00", "n": 1}] * 10
    schema = infer(events, "s", dimensions=["colour", "day"])
    assert [(p.name, p.kind) for p in schema.dimensions] == [("colour", Kind.STRING), ("day", Kind.STRING)]
    assert infer(events, "s", dimensions=[]).dimensions == ()


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ([3.2, 48.7], 0, 50),
        ([-0.012, 0.034], -0.02, 0.04),
        ([20, 20], 20, 30),
        ([0.0], 0, 1),
        ([-7, -7], -7, -6),
        ([[1, 9], [2, 88]], 0, 90),
    ],
)
def test_ranges_are_widened_outwards(values: list[Any], low: float, high: float) -> None:
    found = column(values, ranges=True)
    assert (found.minimum, found.maximum) == (low, high)
    assert column(values).minimum is None


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_a_range_contains_the_sampled_values(values: list[float]) -> None:
    found = column(values, ranges=True)
    if found.minimum is not None and found.maximum is not None:
        assert found.minimum <= min(values)
        assert max(values) <= found.maximum
        assert found.minimum < found.maximum


@given(st.lists(st.integers(-(10**9), 10**9), min_size=1), st.integers(0, 6))
def test_readings_lie_on_the_step_found(ticks: list[int], digits: int) -> None:
    values = [tick / 10**digits for tick in ticks]
    step = decimal_step(values)
    assert step is not None
    assert all(float(round(Fraction(value) / step) * step) == value for value in values)
    assert max(map(places, values)) <= digits


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(parts | st.just("a.b"), inner, max_size=3),
    max_leaves=5,
)


@given(st.lists(st.dictionaries(parts, JSON, min_size=1, max_size=4), min_size=1, max_size=5))
def test_any_json_objects_give_a_schema_that_accepts_them(events: list[dict[str, Any]]) -> None:
    schema = infer(events, "s", ranges=True)
    for event in events:
        flat = flatten(event, schema)
        assert repr(flatten(nest(flat), schema)) == repr(flat)


def test_the_sample_is_bounded() -> None:
    def endless() -> Any:
        while True:
            yield {"a": 1}

    assert infer(endless(), "s", limit=5)["a"].kind is Kind.INTEGER
    with pytest.raises(ConfigError, match="limit"):
        infer(endless(), "s", limit=0)


def test_objects_that_are_tables_become_one_opaque_property() -> None:
    wide = {f"k{i}": i for i in range(300)}
    deep: dict[str, Any] = {}
    level = deep
    for _ in range(50):
        level["x"] = level = {}
    schema = infer([{"wide": wide, "deep": deep}], "s")
    assert [(p.name, p.kind) for p in schema] == [("wide", Kind.OPAQUE), (".".join(["deep", *"x" * 7]), Kind.OPAQUE)]


@pytest.mark.parametrize(
    ("events", "options", "error", "message"),
    [
        ([], {}, SchemaError, "no sample events"),
        ([{"a": 1}, 5], {}, WrongType, "index=1, given='int'"),
        ([{"a.b": 1}], {}, SchemaError, "without dots"),
        ([{"": 1}], {}, SchemaError, "without dots"),
        ([{1: 1}], {}, SchemaError, "without dots"),
        ([{"a": 1j}], {}, SchemaError, "no JSON value.*complex"),
        ([{"a": datetime(2024, 5, 1)}], {}, SchemaError, "time zone"),
        ([{"a": 1}], {"time": "b"}, SchemaError, "no such property.*'b'"),
        ([{"a": "noon"}], {"time": "a"}, SchemaError, "not a timestamp"),
        ([{"a": 1}, {}], {"dimensions": ["a"]}, SchemaError, "in every event.*missing=1"),
        ([{"a": 1.5}], {"dimensions": ["a"]}, SchemaError, "cannot identify"),
        ([{"a": 1}], {"dimensions": ["a"], "time": "a"}, SchemaError, "both"),
        ([{f"k{i}": 1 for i in range(2000)}], {}, SchemaError, "limit=1024"),
    ],
)
def test_rejected_samples(events: list[Any], options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        infer(events, "s", **options)
