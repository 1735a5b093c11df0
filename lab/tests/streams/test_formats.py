"""Formats for comparison: their output is read by independent implementations."""

from __future__ import annotations

import gzip
import io
import json
import struct
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.demo import building
from thinwire.errors import NotFinite, UnknownProperty, WrongType
from thinwire.schema import Property, Schema
from thinwire_lab.errors import FullEventsOnly
from thinwire_lab.streams import binary_formats as avro
from thinwire_lab.streams.formats import FORMATS

ALL_KINDS = Schema(
    "everything",
    [
        Property("when", "timestamp", "header", form="datetime"),
        Property("text", "timestamp", "header", form="iso:T3Z"),
        Property("epoch", "timestamp", "header"),
        Property("seconds", "timestamp", "header", step="0.001"),
        Property("sensor", "string", "dimension"),
        Property("on", "boolean"),
        Property("count", "integer"),
        Property("heat", "number", step="0.1"),
        Property("ratio", "float"),
        Property("mode", "enum", members=["ON", "OFF"]),
        Property("state", "enum", members=["RUN", "REST"], closed=True),
        Property("place", "geo"),
        Property("scan", "array", step="0.5", length=3),
        Property("blob", "opaque"),
        Property("engine.oil level", "integer"),
    ],
)

WHEN = datetime(2018, 1, 23, 11, 20, 17, 250_000, tzinfo=UTC)

FINITE = st.floats(allow_nan=False, allow_infinity=False)
LONG = st.integers(-(2**63), 2**63 - 1)
EVENTS = st.fixed_dictionaries(
    {
        "when": st.just(WHEN),
        "text": st.just("2018-01-23T11:20:17.250Z"),
        "epoch": LONG,
        "seconds": FINITE,
        "sensor": st.text(),
        "on": st.booleans(),
        "count": LONG,
        "heat": FINITE,
        "ratio": FINITE,
        "mode": st.sampled_from(["ON", "OFF", "NEW"]),
        "state": st.sampled_from(["RUN", "REST"]),
        "place": st.lists(FINITE, min_size=2, max_size=2),
        "scan": st.lists(FINITE, min_size=3, max_size=3),
        "blob": st.binary(),
        "engine": st.fixed_dictionaries({"oil level": LONG}),
    }
)


def expected(event: dict[str, Any]) -> list[Any]:
    """Return the values in the order of the schema."""
    return [event["engine"]["oil level"] if p.name.startswith("engine") else event[p.name] for p in ALL_KINDS]


def read_struct(data: bytes) -> Iterator[tuple[int, Any]]:
    """Thrift's binary protocol as its specification describes it: field number and value, until the stop byte."""
    stream = io.BytesIO(data)
    while kind := stream.read(1)[0]:
        yield struct.unpack(">h", stream.read(2))[0], _read_value(kind, stream)
    assert stream.read() == b""


def _read_value(kind: int, stream: io.BytesIO) -> Any:
    if kind == 15:
        inner, count = struct.unpack(">bi", stream.read(5))
        return [_read_value(inner, stream) for _ in range(count)]
    if kind == 11:
        return stream.read(struct.unpack(">i", stream.read(4))[0])
    code, width = {2: (">?", 1), 4: (">d", 8), 8: (">i", 4), 10: (">q", 8)}[kind]
    return struct.unpack(code, stream.read(width))[0]


@given(EVENTS)
def test_thrift_reads_back(event: dict[str, Any]) -> None:
    fields = dict(read_struct(FORMATS["thrift"].encode(event, ALL_KINDS)))
    values = dict(zip((p.name for p in ALL_KINDS), expected(event), strict=True))
    values["when"] = int(WHEN.timestamp() * 1_000_000)
    values["state"] = ["RUN", "REST"].index(event["state"])
    for name in ("text", "sensor", "mode"):
        values[name] = values[name].encode()
    assert list(fields) == list(range(1, len(ALL_KINDS.properties) + 1))
    assert list(fields.values()) == list(values.values())


@given(EVENTS)
def test_avro_reads_back(event: dict[str, Any]) -> None:
    data = FORMATS["avro"].encode(event, ALL_KINDS)
    read = fastavro.schemaless_reader(io.BytesIO(data), avro.record_type(ALL_KINDS), None)
    assert list(read.values()) == expected(event)


@given(EVENTS, st.sets(st.sampled_from([p.name for p in ALL_KINDS if "." not in p.name]), min_size=1))
def test_avro_partials_read_back(event: dict[str, Any], missing: set[str]) -> None:
    partial = {name: value for name, value in event.items() if name not in missing}
    data = FORMATS["avro"].encode(partial, ALL_KINDS)
    read = fastavro.schemaless_reader(io.BytesIO(data), avro.record_type(ALL_KINDS, partial=True), None)
    values = [None if p.name in missing else v for p, v in zip(ALL_KINDS, expected(event), strict=True)]
    assert list(read.values()) == values


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=4,
)


@given(st.dictionaries(st.text(), JSON_VALUES, max_size=4))
def test_json_and_gzip_read_back(event: dict[str, Any]) -> None:
    data = FORMATS["json"].encode(event, ALL_KINDS)
    assert json.loads(data) == event
    assert gzip.decompress(FORMATS["gzip-json"].encode(event, ALL_KINDS)) == data


XML_TEXT = st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0xD7FF) | st.sampled_from("\t\n\r<>&\"'"), min_size=1
)


@given(st.dictionaries(XML_TEXT, XML_TEXT | LONG | FINITE | st.none(), max_size=5))
def test_xml_reads_back(event: dict[str, Any]) -> None:
    root = ET.fromstring(FORMATS["xml"].encode(event, ALL_KINDS).decode())
    read = {e.get("name", e.tag): None if e.get("nil") else e.text for e in root}
    assert read == {name: None if value is None else _as_text(value) for name, value in event.items()}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def test_xml_nests() -> None:
    written = FORMATS["xml"].encode({"engine": {"oil": 3}, "scan": [0.5, 1.0], "on": True}, ALL_KINDS)
    assert written == (
        b"<event><engine><oil>3</oil></engine><scan><item>0.5</item><item>1.0</item></scan><on>true</on></event>"
    )


def test_xml_rejects_values_it_cannot_represent() -> None:
    with pytest.raises(WrongType, match="control character"):
        FORMATS["xml"].encode({"sensor": "a\x00b"}, ALL_KINDS)


@pytest.mark.parametrize("name", FORMATS)
def test_partials_where_supported(name: str) -> None:
    schema = building.schema()
    partial = {"timestamp": "2018-07-02T05:00:01.000Z", "solar_flow": 31.4}
    if FORMATS[name].supports_partial:
        full = next(building.events(1))
        assert len(FORMATS[name].encode(partial, schema)) < len(FORMATS[name].encode(full, schema))
    else:
        with pytest.raises(FullEventsOnly, match="plant"):
            FORMATS[name].encode(partial, schema)


@pytest.mark.parametrize("name", FORMATS)
def test_equal_events_give_equal_bytes(name: str) -> None:
    event = next(building.events(1))
    assert FORMATS[name].encode(event, building.schema()) == FORMATS[name].encode(dict(event), building.schema())


def test_sizes_of_the_typed_formats_add_up() -> None:
    """Avro: eight bytes a double, a byte a boolean, texts behind one byte. Thrift: three more a field, and the rest."""
    schema = building.schema()
    event = next(building.events(1))
    texts = [len(value) for value in event.values() if isinstance(value, str)]
    plain = 32 * 8 + 2 + sum(texts)
    assert len(FORMATS["avro"].encode(event, schema)) == plain + len(texts)
    assert len(FORMATS["thrift"].encode(event, schema)) == plain + 4 * len(texts) + 3 * len(event) + 1
    nulls = {**event, "alarm": None}
    assert len(FORMATS["avro"].encode(nulls, schema)) == plain + len(texts) + len(event) - len(event["alarm"]) - 1


ROOM = Schema("room", [Property("sensor", "string", "dimension"), Property("heat", "number", step="0.1")])


@pytest.mark.parametrize("name", ["avro", "thrift"])
def test_wrong_types_are_named(name: str) -> None:
    with pytest.raises(WrongType):
        FORMATS[name].encode({"sensor": "T1", "heat": "warm"}, ROOM)
    with pytest.raises(UnknownProperty):
        FORMATS[name].encode({"sensor": "T1", "heat": 20.5, "cold": 1.0}, ROOM)


@pytest.mark.parametrize("name", ["json", "gzip-json", "xml"])
def test_not_a_number_is_refused(name: str) -> None:
    with pytest.raises(NotFinite):
        FORMATS[name].encode({"heat": float("nan")}, ROOM)
    with pytest.raises(WrongType):
        FORMATS[name].encode({"heat": object()}, ROOM)


def test_avro_names_stay_distinct() -> None:
    schema = Schema("odd", [Property("a b", "integer"), Property("a-b", "integer"), Property("1", "integer")])
    data = FORMATS["avro"].encode({"a b": 1, "a-b": 2, "1": 3}, schema)
    read = fastavro.schemaless_reader(io.BytesIO(data), avro.record_type(schema), None)
    assert list(read.values()) == [1, 2, 3]
