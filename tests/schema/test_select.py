"""A schema with fewer properties is the same schema otherwise."""

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


def test_what_is_left_keeps_its_order_and_the_schema_its_name_and_version():
    chosen = ENGINE.select(["on", "oil.heat", "id", "time"])
    assert (chosen.name, chosen.version) == ("plant.engine", 3)
    assert [p.name for p in chosen] == ["time", "id", "oil.heat", "on"]
    assert [p.name for p in chosen.wire] == ["time", "oil.heat", "on"]
    assert chosen["oil.heat"] is ENGINE["oil.heat"]


def test_it_has_a_fingerprint_of_its_own_which_does_not_depend_on_the_order_of_the_choice():
    chosen = ENGINE.select(["id", "on"])
    assert chosen.fingerprint != ENGINE.fingerprint
    assert chosen.fingerprint == ENGINE.select(iter(["on", "id", "on"])).fingerprint


def test_to_choose_everything_is_to_choose_nothing():
    assert ENGINE.select(p.name for p in ENGINE) is ENGINE


def test_objects_keep_what_was_chosen_of_them():
    chosen = ENGINE.select(["id", "oil.heat"])
    assert chosen.nested
    event = {"id": "e1", "oil": {"heat": 20.5}}
    assert nest(flatten(event, chosen)) == event


def test_a_choice_that_cannot_be_is_refused_by_name():
    with pytest.raises(UnknownProperty, match=r"oil\.age"):
        ENGINE.select(["oil.age"])
    with pytest.raises(SchemaError):
        ENGINE.select([])
