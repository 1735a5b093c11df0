"""The base of stored documents: checks, unknown fields, stored names and errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.errors import ConfigError, RegistryError, ThinwireError
from thinwire.topics.document import MAX_DOCUMENT, Document, list_of, nested, stored_fields
from thinwire.topics.document_fields import Count, StoredName, Token, Topic, mapping_of, number, whole


@dataclass(frozen=True)
class Sensor(Document):
    name: Token
    range: Annotated[float, number(most=100.0, above=0.0)] = 1.0


@dataclass(frozen=True)
class Building(Document):
    topic: Topic
    floors: Annotated[int, whole(1, 9)]
    state: Literal["open", "shut"] = "open"
    main: Sensor = field(default_factory=lambda: Sensor("main"))
    spare: Sensor | None = None
    sensors: Annotated[tuple[Sensor, ...], list_of(Sensor, 3)] = ()
    rooms: Annotated[Mapping[str, Sensor], mapping_of(nested(Sensor))] = field(default_factory=dict)
    class_id: Annotated[str, Token.__metadata__[0], StoredName("class")] | None = None


@dataclass(frozen=True)
class Options(Document):
    error: ClassVar[type[ThinwireError]] = ConfigError
    omit_none: ClassVar[bool] = True

    seconds: Count | None = None


def decoded(**values: Any) -> Building:
    return Building.decode(json.dumps({"topic": "a.b", "floors": 2} | values).encode())


def test_values_of_nested_documents_become_documents() -> None:
    building = decoded(main={"name": "m"}, sensors=[{"name": "s"}], rooms={"r": {"name": "r"}}, **{"class": "c"})
    assert building.main == Sensor("m")
    assert (building.sensors, building.rooms) == ((Sensor("s"),), {"r": Sensor("r")})
    assert building.class_id == "c"
    assert Building.decode(building.encode()) == building


def test_unknown_fields_survive_changes_at_every_level() -> None:
    inner = {"name": "s", "colour": "red"}
    building = decoded(main=inner, sensors=[inner], rooms={"r": inner}, spare=inner, age=[1])
    changed = json.loads(replace(building, floors=3).encode())
    assert (changed["floors"], changed["age"], changed["spare"]["colour"]) == (3, [1], "red")
    assert {changed[name]["colour"] for name in ("main", "spare")} == {"red"}
    assert changed["sensors"][0]["colour"] == changed["rooms"]["r"]["colour"] == "red"
    assert building == replace(building, unknown={})


@pytest.mark.parametrize(
    ("values", "name", "limit"),
    [
        ({"floors": 10}, "floors", "1 to 9"),
        ({"floors": True}, "floors", "1 to 9"),
        ({"floors": None}, "floors", "1 to 9"),
        ({"state": "ajar"}, "state", "open, shut"),
        ({"topic": "a b"}, "topic", "at most 200"),
        ({"main": 1}, "main", "at most 1024"),
        ({"main": {}}, "main.name", "given"),
        ({"main": {"name": "m", "range": 0}}, "main.range", "above 0 and at most 100"),
        ({"spare": {"name": ""}}, "spare.name", "1 to 64"),
        ({"sensors": [{"name": "s"}] * 4}, "sensors", "at most 3"),
        ({"sensors": [{"name": 5}]}, "sensors.name", "at most 256"),
        ({"rooms": {"r": {"name": "r", "range": 101}}}, "rooms.r.range", "at most 100"),
        ({"class": ""}, "class", "1 to 64"),
    ],
)
def test_errors_name_key_field_and_limit(values: dict[str, Any], name: str, limit: str) -> None:
    value = json.dumps({"topic": "a.b", "floors": 2} | values).encode()
    with pytest.raises(RegistryError, match=limit) as refused:
        Building.decode(value, key="building.a")
    assert (refused.value.key, refused.value.field) == ("building.a", name)
    assert "building.a" in str(refused.value)


def test_a_document_class_chooses_its_error_and_its_empty_fields() -> None:
    assert Options().encode() == b"{}"
    with pytest.raises(ConfigError) as refused:
        Options(seconds=-1)
    assert refused.value.field == "seconds"


def test_a_document_above_the_limit_is_neither_read_nor_written() -> None:
    building = decoded(age="x" * (MAX_DOCUMENT - 1000))
    with pytest.raises(RegistryError, match="above the limit"):
        replace(building, unknown={"age": "x" * MAX_DOCUMENT}).encode()
    with pytest.raises(RegistryError, match="above the limit"):
        Building.decode(b" " * (MAX_DOCUMENT + 1))


def test_a_field_type_without_a_check_is_a_mistake_of_the_declaration() -> None:
    @dataclass(frozen=True)
    class Loose(Document):
        anything: int = 0

    with pytest.raises(TypeError, match="no check"):
        stored_fields(Loose)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
)


@given(st.dictionaries(st.sampled_from(["topic", "floors", "main", "sensors", "rooms", "class", "x"]), json_values))
def test_stored_objects_are_read_completely_or_refused(document: dict[str, Any]) -> None:
    try:
        building = Building.decode(json.dumps({"topic": "a", "floors": 1} | document).encode())
    except RegistryError:
        return
    written = json.loads(building.encode())
    assert {name: written[name] for name in document if name == "x"} == {
        name: value for name, value in document.items() if name == "x"
    }
    assert Building.decode(building.encode()) == building
