"""Static properties are replaced by a reference and restored."""

import pytest
from event_strategies import events_of
from hypothesis import given, settings
from hypothesis import strategies as st

from thinwire.codec import StreamDecoder, StreamEncoder
from thinwire.errors import EventRejected, RegistryError, SchemaError, UnknownFacts
from thinwire.schema import Event, Property, Schema, changes, compatible, flatten, from_turtle, to_turtle
from thinwire.topics import static_properties as module
from thinwire.topics.static_properties import Factoring, decode_facts, encode_facts, factored, facts_key, key_of

SCHEMA = Schema(
    "plant",
    [
        Property("time", "timestamp", "header"),
        Property("id", "string", "dimension"),
        Property("maker.name", "string", static=True),
        Property("maker.year", "integer", static=True),
        Property("t", "number", step="0.1"),
        Property("weight", "float", static=True),
        Property("class", "enum", "header", members=["a", "b"], static=True),
        Property("outdoors", "boolean", static=True),
        Property("rated", "number", step="0.5", static=True, minimum=0, maximum=10),
    ],
)


@settings(max_examples=60)
@given(st.lists(events_of(SCHEMA), max_size=6))
def test_split_and_join_restore_the_event(raw):
    factoring, stored = Factoring(SCHEMA), {}
    for ordinal, event in enumerate(raw, start=1):
        on_wire, key, facts = factoring.split(event)
        if facts is not None:
            assert key not in stored
            stored[key] = decode_facts(key, encode_facts(facts))
        flat = flatten(on_wire, factoring.wire_schema)
        assert flat["facts"] == key
        bound = {"t": 0.5, "time": 0.0, "facts": 0.0}
        received = Event(
            on_wire, bound=bound, source=("x",), ordinal=ordinal, publisher="p", incarnation=2, flags=("t",)
        )
        joined = factoring.join(received, stored.get)
        before, after = flatten(event, SCHEMA), flatten(joined, SCHEMA)
        assert all(after[name] == before.get(name) for name in after)
        assert all(type(after[name]) is type(before.get(name)) for name in after)
        assert set(before) <= set(after)
        assert joined.bound["t"] == 0.5
        assert joined.bound["maker.name"] == joined.bound["rated"] == 0.0
        assert joined.identity == ("p", 2, ("x",), ordinal)
        assert joined.flags == ("t",)
        assert "facts" not in joined
        assert "facts" not in joined.bound


def test_static_properties_through_a_stream():
    factoring, stored = Factoring(SCHEMA), {}
    publisher = StreamEncoder(factoring.wire_schema, name="p", now=0.0, compiled=False)
    subscriber = StreamDecoder([factoring.wire_schema], publisher="p", compiled=False)
    frames, sizes, truth = publisher.start(0.0), [], []
    for count in range(20):
        event = {"time": count, "id": "m1", "maker": {"name": "Acme", "year": 1999}, "t": 20.5, "weight": 2.5}
        truth.append(event | {"class": None, "outdoors": None, "rated": None})
        on_wire, key, facts = factoring.split(event)
        if facts is not None:
            stored[key] = facts
        new = publisher.publish(on_wire, float(count))
        sizes.append(sum(map(len, new)))
        frames += new
    assert len(stored) == 1
    assert sum(sizes[4:]) == 0, "what never changes costs nothing"
    frames += publisher.heartbeat(20.0)
    received = [event for frame in frames for event in subscriber.receive(frame, now=0) if isinstance(event, Event)]
    assert [dict(factoring.join(event, stored.get)) for event in received] == truth


def test_a_schema_without_static_properties_is_unchanged():
    plain = Schema("rooms", [Property("t", "integer")])
    assert factored(plain) is plain
    assert plain.to_json() == '{"name":"rooms","properties":[{"kind":"integer","name":"t"}],"version":1}'


def test_the_factored_schema_has_one_reference():
    assert [p.name for p in factored(SCHEMA)] == ["time", "id", "t", "facts"]
    assert factored(SCHEMA).version == SCHEMA.version
    assert factored(factored(SCHEMA)) == factored(SCHEMA)


@pytest.mark.parametrize("name", ["facts", "facts.more"])
def test_the_name_of_the_reference_is_reserved(name):
    taken = Schema("rooms", [Property("make", "string", static=True), Property(name, "integer")])
    with pytest.raises(SchemaError) as refused:
        factored(taken)
    assert refused.value.property == name


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("string", {"role": "dimension"}),
        ("timestamp", {"role": "header"}),
        ("opaque", {}),
        ("geo", {}),
        ("array", {"step": 1}),
        ("string", {"confidential": True}),
    ],
)
def test_kinds_and_roles_that_cannot_be_static(kind, fields):
    with pytest.raises(SchemaError, match="static") as refused:
        Property("p", kind, **fields, static=True)
    assert refused.value.property == "p"


def test_static_is_part_of_a_schema_as_turtle_and_as_a_document():
    assert from_turtle(to_turtle(SCHEMA)) == SCHEMA
    assert Schema.from_document(SCHEMA.to_document()) == SCHEMA
    with pytest.raises(SchemaError, match="true or false"):
        Property.from_document({"name": "p", "kind": "string", "static": "yes"})


def test_a_property_may_become_static_and_back():
    old = Schema("r", [Property("make", "string")])
    new = Schema("r", [Property("make", "string", static=True)], version=2)
    compatible(old, new)
    compatible(new, Schema("r", old.properties, version=3))
    assert [change.detail for change in changes(old, new)] == ["now static"]


@pytest.mark.parametrize(
    "values", [{"weight": float("nan")}, {"maker": {"year": "old"}}, {"outdoors": 1}, {"class": ["a"]}, {"more": 1}]
)
def test_a_bad_fact_rejects_its_event(values):
    factoring = Factoring(SCHEMA)
    with pytest.raises(EventRejected):
        factoring.split({"time": 1, "id": "x", **values})
    assert factoring.split({"time": 1, "id": "x"})[2] is not None


def test_facts_above_the_limit_reject_their_event():
    schema = Schema("r", [Property(f"p{i}", "string", static=True) for i in range(5)])
    with pytest.raises(EventRejected, match="above the limit"):
        Factoring(schema).split({f"p{i}": "x" * 60_000 for i in range(5)})


def test_unknown_facts_name_their_key():
    factoring = Factoring(SCHEMA)
    on_wire, key, _ = factoring.split({"time": 1, "id": "x"})
    event = Event(on_wire, bound={}, source=("x",), ordinal=1)
    with pytest.raises(UnknownFacts) as unknown:
        factoring.join(event, {}.get)
    assert (unknown.value.key, unknown.value.topic, unknown.value.retriable) == (key, "plant", True)
    with pytest.raises(UnknownFacts, match="do not match the schema"):
        factoring.join(event, {key: {"other": 1}}.get)


def test_facts_under_a_wrong_key_are_refused():
    facts = {"make": "Acme"}
    assert decode_facts(key_of(facts), b'{ "make" : "Acme" }') == facts
    assert facts_key("plant.hall", key_of(facts)) == f"plant.hall.{key_of(facts)}"
    for value in (encode_facts({"make": "Other"}), b"[]", b"{", b"[" * 100_000, b" " * 300_000):
        with pytest.raises(RegistryError):
            decode_facts(key_of(facts), value)


def test_facts_that_were_not_stored_are_returned_again():
    factoring = Factoring(SCHEMA)
    event = {"time": 1, "id": "x", "weight": 5.0}
    _, key, facts = factoring.split(event)
    factoring.mark_unstored(key)
    assert factoring.split(event)[1:] == (key, facts)
    assert factoring.split(event)[2] is None


def test_caches_are_bounded(monkeypatch):
    monkeypatch.setattr(module, "MAX_CACHED", 3)
    factoring = Factoring(SCHEMA)
    new = [factoring.split({"time": 1, "id": "x", "weight": float(i % 5)})[2] is not None for i in range(10)]
    assert all(new), "five sets of facts alternate in caches of three"
    assert len(factoring._keys) == 3
