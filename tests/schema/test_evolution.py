"""Two versions of a schema: changes, compatibility, and the events that each side receives from the other."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from event_strategies import events_of, schemas
from hypothesis import assume, given
from hypothesis import strategies as st

from thinwire.errors import SchemaError
from thinwire.schema import Event, Property, Schema
from thinwire.schema.evolution import SchemaProjection, changes, compatible

TIME = Property("time", "timestamp", "header", form="iso:T0")
SENSOR = Property("sensor", "string", "dimension")


def version(number: int, *properties: Property) -> Schema:
    return Schema("rooms", [TIME, SENSOR, *properties], number)


def written(value: Any, bound: float | None = 0.25, flags: Sequence[str] = ()) -> Event:
    values = {"time": "2024-05-01T10:00:00", "sensor": "T1", "p": value}
    return Event(values, bound={"p": bound}, source=("T1",), ordinal=7, publisher="a", flags=tuple(flags))


def enum(*members: str, closed: bool = True) -> Property:
    return Property("p", "enum", members=members, closed=closed)


def number(step: str, **fields: Any) -> Property:
    return Property("p", "number", step=step, **fields)


INTEGER = Property("p", "integer")
FLOAT = Property("p", "float")
STRING = Property("p", "string")

ALLOWED = [
    # old, new, what; a value of the old writer as the new reader sees it; a value of the new writer for the old reader
    pytest.param(INTEGER, number("0.5"), "widened", (7, 7.0), (7.5, 8), id="integer to number"),
    pytest.param(INTEGER, FLOAT, "widened", (7, 7.0), (6.5, 6), id="integer to float"),
    pytest.param(number("0.1"), FLOAT, "widened", (7.1, 7.1), (7.123456, 7.123456), id="number to float"),
    pytest.param(number("0.1"), number("0.01"), "widened", (7.1, 7.1), (7.12, 7.12), id="finer step"),
    pytest.param(enum("a"), enum("a", "b"), "widened", ("a", "a"), ("b", "b"), id="more members"),
    pytest.param(enum("a"), enum("a", closed=False), "widened", ("a", "a"), ("z", "z"), id="enum opened"),
    pytest.param(enum("a"), STRING, "widened", ("a", "a"), ("text", "text"), id="enum to string"),
    pytest.param(number("1", maximum=5), number("1", maximum=9), "widened", (5.0, 5.0), (9.0, 9.0), id="wider range"),
    pytest.param(number("1"), number("1", minimum=0), "narrowed", (-1.0, -1.0), (1.0, 1.0), id="narrower range"),
    pytest.param(number("1"), number("1", unit="qudt:W"), "tuned", (1.0, 1.0), (1.0, 1.0), id="unit declared"),
    pytest.param(number("1"), number("1", idle_band=2), "tuned", (1.0, 1.0), (1.0, 1.0), id="idle band"),
    pytest.param(number("1"), number("1", period=24), "tuned", (1.0, 1.0), (1.0, 1.0), id="period"),
    pytest.param(STRING, Property("p", "string", confidential=True), "hidden", ("a", None), (None, None), id="hidden"),
    pytest.param(Property("p", "string", confidential=True), STRING, "revealed", (None, None), ("a", None), id="shown"),
    pytest.param(
        Property("p", "array", step="0.1", length=2),
        Property("p", "array", step="0.05", length=2),
        "widened",
        ([0.1, 0.2], [0.1, 0.2]),
        ([0.15, 0.2], [0.15, 0.2]),
        id="array with a finer step",
    ),
    pytest.param(
        Property("p", "timestamp", step="1"),
        Property("p", "timestamp", step="0.001"),
        "widened",
        (1700000000, 1700000000),
        (1700000000.123, 1700000000.123),
        id="timestamp with a finer step",
    ),
    pytest.param(
        enum("a", "b", closed=False), enum("b", "a", closed=False), "tuned", ("a", "a"), ("b", "b"), id="members listed"
    ),
]


@pytest.mark.parametrize(("old", "new", "what", "forward", "backward"), ALLOWED)
def test_compatible_changes_are_accepted(
    old: Property, new: Property, what: str, forward: tuple[Any, Any], backward: tuple[Any, Any]
) -> None:
    before, after = version(1, old), version(2, new)
    compatible(before, after)
    assert [(change.name, change.what) for change in changes(before, after)] == [("p", what)]
    for writer, reader, (value, expected) in ((before, after, forward), (after, before, backward)):
        seen = SchemaProjection(writer, reader)(written(value))
        assert seen["p"] == expected
        assert type(seen["p"]) is type(expected)
        assert (seen["sensor"], seen.source, seen.ordinal, seen.publisher) == ("T1", ("T1",), 7, "a")


def test_an_added_property_is_null_for_its_reader_and_dropped_for_the_old_one() -> None:
    old, new = version(1), version(2, FLOAT)
    compatible(old, new)
    assert [change.what for change in changes(old, new)] == ["added"]
    assert "p" not in SchemaProjection(writer=new, reader=old)(written(1.5))
    without = Event({"time": "2024-05-01T10:00:00", "sensor": "T1"}, bound={}, source=("T1",), ordinal=1)
    seen = SchemaProjection(writer=old, reader=new)(without)
    assert seen["p"] is None
    assert seen.bound == {"p": None}


def test_a_removed_property_is_null_for_the_old_reader() -> None:
    old, new = version(1, FLOAT), version(2)
    compatible(old, new)
    assert [change.what for change in changes(old, new)] == ["removed"]
    assert "p" not in SchemaProjection(writer=old, reader=new)(written(1.5))
    without = Event({"time": "2024-05-01T10:00:00", "sensor": "T1"}, bound={}, source=("T1",), ordinal=1)
    assert SchemaProjection(writer=new, reader=old)(without)["p"] is None


def test_the_order_of_properties_does_not_matter() -> None:
    old = version(1, INTEGER, Property("q", "boolean"))
    new = version(2, Property("q", "boolean"), INTEGER)
    compatible(old, new)
    assert [change.what for change in changes(old, new)] == ["reordered"]
    assert list(SchemaProjection(writer=old, reader=new)(written(1))) == ["time", "sensor", "q", "p"]


FORBIDDEN = [
    pytest.param([number("0.5")], [INTEGER], "narrowed", "Keep the old", id="number to integer"),
    pytest.param([FLOAT], [number("0.5")], "narrowed", "Keep the old", id="float to number"),
    pytest.param([number("0.1")], [number("0.2")], "narrowed", "between the new steps", id="coarser step"),
    pytest.param([number("0.1")], [number("0.03")], "narrowed", "between the new steps", id="other step"),
    pytest.param([INTEGER], [number("0.3")], "narrowed", "between the new steps", id="integer off the grid"),
    pytest.param([enum("a", "b")], [enum("a")], "narrowed", "Keep the old", id="fewer members"),
    pytest.param([enum("a", closed=False)], [enum("a")], "narrowed", "closed", id="enum closed"),
    pytest.param([STRING], [enum("a")], "narrowed", "Keep the old", id="string to enum"),
    pytest.param([STRING], [INTEGER], "replaced", "another property", id="other kind"),
    pytest.param([number("1", unit="a")], [number("1", unit="b")], "replaced", "another property", id="unit"),
    pytest.param([number("1", domain="a")], [number("1", domain="b")], "replaced", "another property", id="domain"),
    pytest.param([INTEGER], [Property("p", "integer", "header")], "replaced", "Keep the old", id="role"),
    pytest.param([INTEGER], [Property("p", "integer", "dimension")], "replaced", "Keep the old", id="to dimension"),
    pytest.param([INTEGER], [Property("q", "integer")], "renamed", "two versions", id="renamed"),
    pytest.param([], [Property("p", "integer", "dimension")], "added", "another name", id="dimension added"),
    pytest.param([Property("p", "integer", "dimension")], [], "removed", "another name", id="dimension removed"),
    pytest.param(
        [Property("p", "array", step=1, length=2)],
        [Property("p", "array", step=1, length=3)],
        "replaced",
        "another property",
        id="length",
    ),
    pytest.param(
        [Property("p", "timestamp", form="iso:T0")],
        [Property("p", "timestamp", form="iso:T3")],
        "replaced",
        "another property",
        id="form",
    ),
]


@pytest.mark.parametrize(("old", "new", "what", "remedy"), FORBIDDEN)
def test_incompatible_changes_are_rejected(old: list[Property], new: list[Property], what: str, remedy: str) -> None:
    before, after = version(1, *old), version(2, *new)
    with pytest.raises(SchemaError, match=remedy) as caught:
        compatible(before, after)
    assert caught.value.what == what
    for writer, reader in ((before, after), (after, before)):
        with pytest.raises(SchemaError, match=remedy):
            SchemaProjection(writer, reader)


def test_the_event_timestamp_may_not_change() -> None:
    received = Property("received", "timestamp", "header", form="iso:T0")
    level = Property("level", "integer")
    old = Schema("rooms", [TIME, level], 1)
    compatible(old, Schema("rooms", [TIME, received, level], 2))
    for properties in ([received, TIME, level], [level], [received, level]):
        with pytest.raises(SchemaError, match="timestamp of the event"):
            compatible(old, Schema("rooms", properties, 2))
    with pytest.raises(SchemaError, match="timestamp of the event was added"):
        compatible(Schema("rooms", [level], 1), Schema("rooms", [TIME, level], 2))


def test_the_order_of_dimensions_names_the_source() -> None:
    room = Property("room", "string", "dimension")
    with pytest.raises(SchemaError, match="identifies the source"):
        compatible(Schema("rooms", [SENSOR, room]), Schema("rooms", [room, SENSOR], 2))


def test_another_schema_and_an_unraised_version_are_refused() -> None:
    with pytest.raises(SchemaError, match="versions of one schema"):
        compatible(Schema("a", [FLOAT]), Schema("b", [FLOAT], 2))
    with pytest.raises(SchemaError, match="higher version"):
        compatible(version(2, INTEGER), version(2, FLOAT))
    compatible(version(2, INTEGER), version(2, INTEGER))


def test_rounding_increases_the_bound_and_is_reported() -> None:
    view = SchemaProjection(writer=version(2, FLOAT), reader=version(1, INTEGER))
    assert view.loss["p"] == 0.5
    assert view(written(7.25)).bound["p"] == 0.5
    assert view(written(7.0)).bound["p"] == 0.25
    assert view(written(7.25, bound=None)).bound["p"] is None
    assert SchemaProjection(writer=version(1, INTEGER), reader=version(2, FLOAT)).loss["p"] == 0
    assert view(written(None)).bound["p"] == 0.25


def test_values_outside_the_reader_schema_are_flagged() -> None:
    wide, narrow = version(2, number("1", maximum=9)), version(1, number("1", maximum=5))
    assert SchemaProjection(writer=wide, reader=narrow)(written(7.0)).flags == ("p",)
    assert SchemaProjection(writer=wide, reader=narrow)(written(4.0)).flags == ()
    assert SchemaProjection(writer=narrow, reader=wide)(written(7.0, flags=["p"])).flags == ()
    assert SchemaProjection(writer=narrow, reader=narrow)(written(7.0, flags=["p"])).flags == ("p",)
    assert SchemaProjection(writer=version(2, enum("a", "b")), reader=version(1, enum("a")))(written("b")).flags == (
        "p",
    )


@given(schemas(), schemas())
def test_every_change_is_detected(old: Schema, new: Schema) -> None:
    new = Schema(old.name, new.properties, old.version + 1)
    assert bool(changes(old, new)) == (old.properties != new.properties)
    assert changes(old, old) == []


@given(st.data(), schemas())
def test_the_same_version_reads_the_written_events(data: st.DataObject, schema: Schema) -> None:
    values = data.draw(events_of(schema, flat=True))
    event = Event(values, bound=dict.fromkeys(values, 0.0), source=(), ordinal=0)
    seen = SchemaProjection(schema, schema)(event)
    for p in schema:
        expected = None if p.confidential else values.get(p.name)
        assert seen[p.name] == expected


@given(st.floats(-1e9, 1e9), st.floats(-1e3, 1e3), st.sampled_from(["number", "float"]))
def test_the_bound_holds_for_the_rounded_value(truth: float, error: float, kind: str) -> None:
    value = truth + error
    bound = abs(Fraction(value) - Fraction(truth))
    assume(Fraction(float(bound)) == bound)
    writer = version(2, Property("p", kind, step="0.001" if kind == "number" else None))
    seen = SchemaProjection(writer, version(1, INTEGER))(written(value, float(bound)))
    claimed = seen.bound["p"]
    assert claimed is not None
    assert (
        abs(Fraction(seen["p"]) - Fraction(truth)) <= Fraction(claimed) <= bound + Fraction(1, 2) + Fraction(1, 2**40)
    )
