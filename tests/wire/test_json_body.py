"""The JSON format: readable and exact."""

import json
from datetime import UTC, datetime

import pytest
from event_strategies import texts
from hypothesis import given
from hypothesis import strategies as st

from thinwire.errors import CorruptFrame
from thinwire.schema import Property, Schema
from thinwire.wire import ExplicitValues
from thinwire.wire.json_body import JsonFormat

names = st.lists(st.sampled_from(["t", "@", "@@", "$", "$bytes", "ü", "a b"]), min_size=1, max_size=5, unique=True)
marks = st.sampled_from(["$", "$bytes", "$time", "$else", "a"])
finite = st.floats(allow_nan=False, allow_infinity=False)
leaves = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | finite | texts
documents = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(marks, inner, max_size=2))
instants = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
values = documents | st.binary(max_size=8) | instants


def schema_of(listed):
    return Schema("any", [Property(name, "opaque") for name in listed])


@given(names, st.integers(0, 99), st.integers(0, 99), st.data())
def test_any_values_round_trip(listed, source, skip, data):
    schema = schema_of(listed)
    explicit = data.draw(st.dictionaries(st.integers(0, len(listed) - 1), values))
    body = JsonFormat(schema).encode(source, skip, explicit)
    assert JsonFormat(schema).decode(body, sources=100) == ExplicitValues(source, skip, explicit)
    assert isinstance(json.loads(body), dict)


def test_the_body_is_readable_json():
    schema = Schema("rooms", [Property("time", "timestamp", form="iso:T0"), Property("t", "number", step="0.1")])
    body = JsonFormat(schema).encode(3, 0, {0: "2018-01-23T11:20:17", 1: 10.1})
    assert body == b'{"@":[3,0],"time":"2018-01-23T11:20:17","t":10.1}'


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"1",
        b"{}",
        b'{"@":[0]}',
        b'{"@":[0,-1]}',
        b'{"@":[true,0]}',
        b'{"@":[9,0]}',
        b'{"@":[0,0],"other":1}',
        b'{"@":[0,0],"t":NaN}',
        b'{"@":[0,0],"t":{"$bytes":"no base64!"}}',
        b'{"@":[0,0],"t":{"$time":"yesterday"}}',
        b'{"@":[0,0],"t":{"$later":1}}',
        b'{"@":[0,0],"t":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
        b'{"@":[0,0],"t":' + b"9" * 5_000 + b"}",
        b"\xff\xfe",
    ],
)
def test_anything_else_is_corrupt(body):
    with pytest.raises(CorruptFrame):
        JsonFormat(schema_of(["t"])).decode(body, sources=1)


@given(st.binary(max_size=40) | texts.map(str.encode))
def test_any_other_bytes_are_corrupt(body):
    with pytest.raises(CorruptFrame):
        JsonFormat(schema_of(["t"])).decode(body, sources=1)
