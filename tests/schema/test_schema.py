"""Properties, schemas and timestamps: documents round trip, contradictions are reported."""

import json
import pickle
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pytest
from event_strategies import schemas
from hypothesis import given
from hypothesis import strategies as st

import thinwire.schema
from thinwire.errors import SchemaError, UnknownProperty
from thinwire.schema import Property, Schema
from thinwire.schema.timestamps import form_of, to_ticks, writer


@given(schemas())
def test_a_schema_round_trips_through_its_document(schema: Schema) -> None:
    back = Schema.from_document(json.loads(schema.to_json()))
    assert back == schema
    assert back.fingerprint == schema.fingerprint
    assert pickle.loads(pickle.dumps(schema)) == schema


@given(schemas(), schemas())
def test_different_schemas_have_different_fingerprints(one: Schema, other: Schema) -> None:
    assert (one.to_json() == other.to_json()) == (one.fingerprint == other.fingerprint)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": ""}, "1 to 256"),
        ({"name": "a..b"}, "path parts"),
        ({"name": "x" * 257}, "limit=256"),
        ({"name": "\ud800"}, "name must be a text"),
        ({"name": 5}, "name must be a text"),
        ({"kind": "colour"}, "unknown kind 'colour'"),
        ({"role": "boss"}, "unknown role 'boss'"),
        ({"kind": "number"}, "needs a step"),
        ({"step": 0}, "above zero"),
        ({"step": "-0.1"}, "above zero"),
        ({"step": "1/0"}, "not a number"),
        ({"step": "nan"}, "not a number"),
        ({"step": "1e-999999999"}, "not a number"),
        ({"minimum": float("nan")}, "finite"),
        ({"maximum": float("inf")}, "finite"),
        ({"maximum": "5"}, "finite"),
        ({"minimum": 10**400}, "finite"),
        ({"minimum": 5, "maximum": 4}, "range is empty"),
        ({"unit": 5}, "unit must be a text"),
        ({"members": ["a", 1]}, "list of texts"),
        ({"members": ["a", "a"]}, "distinct"),
        ({"closed": True}, "needs members"),
        ({"closed": "yes"}, "true or false"),
        ({"length": 0}, "limit=32768"),
        ({"length": 2.5}, "whole number"),
        ({"period": 1}, "limit=4096"),
        ({"idle_band": -1}, "negative"),
        ({"idle_band": 1}, "numbers that have a step"),
        ({"kind": "array", "step": 1, "idle_band": 1}, "numbers that have a step"),
        ({"kind": "timestamp", "form": "iso:X3"}, "unknown form"),
        ({"role": "header", "confidential": True}, "only measurements"),
        ({"colour": "red"}, "unknown field 'colour'"),
    ],
)
def test_invalid_properties_are_rejected(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Property.from_document({"name": "p", "kind": "float", **fields})


@pytest.mark.parametrize("document", [{"name": "p"}, {"kind": "float"}])
def test_a_property_needs_name_and_kind(document: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="a name and a kind"):
        Property.from_document(document)


@pytest.mark.parametrize("step", [0.1, "0.1", Fraction(1, 10), "1/10", "1e-1"])
def test_a_step_is_the_decimal_that_was_written(step: Any) -> None:
    assert Property("p", "number", step=step).step == Fraction(1, 10)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"name": "", "properties": [{"name": "p", "kind": "float"}]}, "needs a name"),
        ({"name": "s", "properties": []}, "limit=1024"),
        ({"name": "s", "properties": [{"name": "p", "kind": "float"}] * 2}, "twice"),
        (
            {"name": "s", "properties": [{"name": n, "kind": "float"} for n in ("a", "a.b.c")]},
            "an object that contains",
        ),
        ({"name": "s", "properties": [{"name": n, "kind": "float"} for n in ("a.b", "a.b.c")]}, "property='a.b'"),
        ({"name": "s", "properties": [{"name": "p", "kind": "float", "role": "dimension"}]}, "cannot identify"),
        ({"name": "s", "properties": [{"name": "p", "kind": "float"}], "version": 0}, "whole number, 1 or larger"),
        ({"name": "s"}, "not a schema document"),
        ({"name": "s", "properties": 5}, "not a schema document"),
    ],
)
def test_invalid_schema_documents_are_rejected(document: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Schema.from_document(document)


def test_an_unknown_property_names_the_known_ones() -> None:
    with pytest.raises(UnknownProperty) as caught:
        Schema("s", [Property("a.b", "float")])["b"]
    assert caught.value.known == ["a.b"]


FORMS = st.builds("iso:{}{}{}".format, st.sampled_from("T "), st.integers(0, 9), st.sampled_from(["", "Z", "+00:00"]))


@given(FORMS, st.integers(-(10**9), 10**11))
def test_instants_round_trip_in_every_form(form: str, seconds: int) -> None:
    ticks = seconds * 10 ** int(form[5]) + 5 % 10 ** int(form[5])
    text = writer(form)(ticks)
    assert to_ticks(text, form) == ticks
    assert form_of(str(text)) == form


@given(st.datetimes(timezones=st.just(UTC)))
def test_datetimes_round_trip(instant: datetime) -> None:
    ticks = to_ticks(instant, "datetime")
    assert ticks is not None
    assert writer("datetime")(ticks) == instant


@pytest.mark.parametrize(
    "text", ["", "noon", "2024-05-01", "2024-13-01T00:00:00", "2024-05-01T24:00:00", "9999-12-31T99:00:00Z"]
)
def test_other_texts_have_no_form(text: str) -> None:
    assert form_of(text) is None
    assert to_ticks(text, "iso:T0") is None


@given(st.text())
def test_any_text_is_classified_without_an_error(text: str) -> None:
    assert to_ticks(text, "iso:T3Z") is None or form_of(text) == "iso:T3Z"


def test_the_exported_names_exist() -> None:
    assert all(hasattr(thinwire.schema, name) for name in thinwire.schema.__all__)
    assert thinwire.schema.__all__ == sorted(thinwire.schema.__all__)
