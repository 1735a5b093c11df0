"""A selection of properties leaves the rest of the schema unchanged."""

import pytest

from thinwire.errors import SchemaError, UnknownProperty
from thinwire.schema import Property, Schema, flatten, nest

ENGINE = Schema(
    "plant.engine",
    [
        Property("time", "timestamp", "header"),
        Property("id", "string", "dimension"),
        Property("oil.level", "number", step="0.1"),
        Property("oil.heat", "number", step="0.5"),
        Property("on", "boolean"),
    ],
    version=3,
)


def test_a_selection_keeps_order_name_and_version():
    chosen = ENGINE.select(["on", "oil.heat", "id", "time"])
    assert (chosen.name, chosen.version) == ("plant.engine", 3)
    assert [p.name for p in chosen] == ["time", "id", "oil.heat", "on"]
    assert [p.name for p in chosen.wire] == ["time", "oil.heat", "on"]
    assert chosen["oil.heat"] is ENGINE["oil.heat"]


def test_the_fingerprint_of_a_selection_does_not_depend_on_its_order():
    chosen = ENGINE.select(["id", "on"])
    assert chosen.fingerprint != ENGINE.fingerprint
    assert chosen.fingerprint == ENGINE.select(iter(["on", "id", "on"])).fingerprint


def test_selecting_all_properties_changes_nothing():
    assert ENGINE.select(p.name for p in ENGINE) is ENGINE


def test_nested_objects_keep_their_selected_properties():
    chosen = ENGINE.select(["id", "oil.heat"])
    assert chosen.nested
    event = {"id": "e1", "oil": {"heat": 20.5}}
    assert nest(flatten(event, chosen)) == event


def test_an_invalid_selection_is_rejected_by_name():
    with pytest.raises(UnknownProperty, match=r"oil\.age"):
        ENGINE.select(["oil.age"])
    with pytest.raises(SchemaError):
        ENGINE.select([])
