"""Nested objects as paths, and back."""

from collections import OrderedDict
from types import MappingProxyType

import pytest
from event_strategies import events_of, schemas
from hypothesis import given
from hypothesis import strategies as st

from thinwire.errors import UnknownProperty, WrongType
from thinwire.schema import Property, Schema
from thinwire.schema.event import flatten, nest

FLAT = Schema("flat", [Property("a", "integer"), Property("b", "opaque")])
DEEP = Schema("deep", [Property("a", "integer"), Property("x.y.z", "integer"), Property("x.free", "opaque")])


@given(st.data(), schemas())
def test_flatten_and_nest_are_inverse(data: st.DataObject, schema: Schema) -> None:
    event = data.draw(events_of(schema))
    flat = flatten(event, schema)
    assert set(flat) <= {p.name for p in schema}
    assert nest(flat) == event


def test_an_opaque_object_is_not_split() -> None:
    assert flatten({"b": {"c": {"d": 1}}}, FLAT) == {"b": {"c": {"d": 1}}}
    assert flatten({"x": {"free": {"y": 1}}}, DEEP) == {"x.free": {"y": 1}}


def test_a_flat_event_is_copied() -> None:
    event = {"a": 1}
    assert flatten(event, FLAT) == event
    assert flatten(event, FLAT) is not event


def test_null_and_empty_objects_leave_their_properties_absent() -> None:
    assert flatten({"a": 1, "x": None}, DEEP) == {"a": 1}
    assert flatten({"a": 1, "x": {"y": {}}}, DEEP) == {"a": 1}


def test_any_mapping_is_accepted() -> None:
    event = OrderedDict(x=MappingProxyType({"y": {"z": 3}}))
    assert flatten(event, DEEP) == {"x.y.z": 3}


@pytest.mark.parametrize(
    ("event", "path"),
    [({"q": 1}, "q"), ({"x": {"q": 1}}, "x.q"), ({"x": {"y": {"q": None}}}, "x.y.q"), ({"x.y.z": 1}, "x.y.z")],
)
def test_an_unknown_leaf_is_named_by_its_path(event: dict[str, object], path: str) -> None:
    with pytest.raises(UnknownProperty) as caught:
        flatten(event, DEEP)
    assert caught.value.property == path


def test_a_value_in_place_of_an_object_is_named() -> None:
    with pytest.raises(WrongType) as caught:
        flatten({"x": {"y": 5}}, DEEP)
    assert (caught.value.property, caught.value.given) == ("x.y", "int")
    with pytest.raises(WrongType, match="an event is a mapping"):
        flatten([1], FLAT)  # type: ignore[arg-type]
    with pytest.raises(UnknownProperty):
        flatten({"a": 1, "c": 1}, FLAT)
