"""Registry documents: encoding, keys, and errors that name the key and the field."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import settings as settings_of
from hypothesis import strategies as st

from thinwire.codec import Demand
from thinwire.errors import RegistryError
from thinwire.schema import Property, Schema
from thinwire.topics.names import parse_registry_key, schema_key
from thinwire.topics.topic_documents import PublisherDocument, SubscriptionDocument, TopicDocument, decode, encode
from thinwire.topics.topic_settings import ConfigDocument, Settings, demand_for

ROOMS = Schema("building.rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
FINGERPRINT = ROOMS.fingerprint.hex()
tokens = st.from_regex(r"[A-Za-z0-9_-]{1,12}", fullmatch=True)
topics = st.lists(tokens, min_size=1, max_size=4).map(".".join)
amounts = st.floats(0, 1e9) | st.integers(0, 10**6) | st.just("1%")
seconds = st.floats(0.001, 1e6)
settings = st.builds(
    Settings,
    retain=st.booleans(),
    format=st.sampled_from(["compact", "json"]),
    key_frame_interval=seconds,
    max_silence=seconds,
    audit_every=st.integers(0, 1000),
    late_policy=st.sampled_from(["accept", "reject"]),
    mode=st.sampled_from(["predict", "hold"]),
    predictor=st.sampled_from(["auto", "last", "seasonal"]) | st.dictionaries(tokens, st.just("linear"), max_size=3),
    tolerance=st.none() | st.dictionaries(tokens, amounts, max_size=3),
    default_tolerance=st.none() | st.floats(0, 10),
)
subscriptions = st.builds(
    SubscriptionDocument,
    topics,
    tokens,
    st.dictionaries(tokens, amounts, max_size=3),
    st.floats(0, 10),
    exact=st.booleans() | st.lists(tokens, max_size=3).map(tuple),
    properties=st.none() | st.lists(tokens, max_size=3).map(tuple),
    sources=st.none() | st.dictionaries(tokens, st.text(max_size=5) | st.integers(), max_size=2),
    durable=st.none() | tokens,
    emit=st.sampled_from(["all", "changes"]),
    since=st.floats(0, 1e10),
)
publishers = st.builds(PublisherDocument, topics, tokens, st.integers(0, 2**63 - 1), st.floats(0, 1e10))
configs = st.builds(
    ConfigDocument,
    topics,
    st.integers(0, 2**63 - 1),
    st.booleans(),
    st.builds(Demand, st.dictionaries(tokens, amounts, max_size=3), st.floats(0, 10)),
    audit_every=st.integers(0, 1000),
)


@given(st.one_of(st.builds(TopicDocument, topics, st.just(FINGERPRINT), settings), subscriptions, publishers, configs))
def test_documents_round_trip(document):
    assert decode(document.key, encode(document)) == document


@given(subscriptions)
def test_unknown_fields_are_kept_and_not_compared(document):
    more = json.loads(encode(document)) | {"colour": "green", "nested": {"a": [1]}}
    decoded = decode(document.key, json.dumps(more).encode())
    assert decoded == document
    assert json.loads(encode(decoded)) == more


@given(configs)
def test_configuration_becomes_a_stream_configuration(document):
    config = document.stream_config(ROOMS)
    assert {name: getattr(config, name) for name in document.stream} == document.stream
    assert (config.version, config.demand) == (document.version, demand_for(ROOMS, document.demand))
    assert ConfigDocument.decode(encode(document)) == document


@given(st.sampled_from(["schema", "topic", "config", "subscription", "publisher"]), topics, tokens)
def test_keys_are_parsed_into_their_parts(kind, topic, name):
    key = f"{kind}.{topic}" if kind in ("topic", "config") else f"{kind}.{topic}.{name}"
    found = parse_registry_key(key)
    assert (found.kind, found.topic) == (kind, topic)
    assert ".".join(part for part in found if part) == key


def test_schema_under_the_key_of_another_is_refused():
    key = schema_key(ROOMS.name, ROOMS.fingerprint)
    assert decode(key, encode(ROOMS)) == ROOMS
    other = Schema(ROOMS.name, ROOMS.properties, version=2)
    with pytest.raises(RegistryError, match="not the one in its key") as refused:
        decode(key, encode(other))
    assert refused.value.key == key


GOOD = {"topic": "rooms", "identity": "a"}
TOPIC = {"topic": "rooms", "fingerprint": FINGERPRINT}
CONFIG = {"topic": "rooms", "version": 1}


@pytest.mark.parametrize(
    ("key", "document", "field"),
    [
        ("subscription.rooms.a", {"topic": "rooms"}, "identity"),
        ("subscription.rooms.a", GOOD | {"topic": 7}, "topic"),
        ("subscription.rooms.a", GOOD | {"topic": "a b"}, "topic"),
        ("subscription.rooms.a", GOOD | {"identity": ["a"]}, "identity"),
        ("subscription.rooms.a", GOOD | {"tolerance": [1]}, "tolerance"),
        ("subscription.rooms.a", GOOD | {"tolerance": {"t": None}}, "tolerance.t"),
        ("subscription.rooms.a", GOOD | {"tolerance": {"t": "1" * 300}}, "tolerance.t"),
        ("subscription.rooms.a", GOOD | {"tolerance": {"t": True}}, "tolerance.t"),
        ("subscription.rooms.a", GOOD | {"default_tolerance": -1}, "default_tolerance"),
        ("subscription.rooms.a", GOOD | {"default_tolerance": "1"}, "default_tolerance"),
        ("subscription.rooms.a", GOOD | {"exact": "yes"}, "exact"),
        ("subscription.rooms.a", GOOD | {"properties": "t"}, "properties"),
        ("subscription.rooms.a", GOOD | {"properties": ["t"] * 2000}, "properties"),
        ("subscription.rooms.a", GOOD | {"sources": ["t"]}, "sources"),
        ("subscription.rooms.a", GOOD | {"durable": True}, "durable"),
        ("subscription.rooms.a", GOOD | {"emit": "some"}, "emit"),
        ("subscription.rooms.a", GOOD | {"since": None}, "since"),
        ("subscription.rooms.b", GOOD, "topic"),
        ("publisher.rooms.p", {"topic": "rooms", "name": "p", "incarnation": 1.5}, "incarnation"),
        ("publisher.rooms.p", {"topic": "rooms", "name": "p", "incarnation": 1, "fingerprint": "xyz"}, "fingerprint"),
        ("topic.rooms", {"topic": "rooms", "fingerprint": "00FF00FF00FF00FF"}, "fingerprint"),
        ("topic.rooms", TOPIC | {"settings": []}, "settings"),
        ("topic.rooms", TOPIC | {"settings": {"retain": 1}}, "settings.retain"),
        ("topic.rooms", TOPIC | {"settings": {"max_silence": 0}}, "settings.max_silence"),
        ("topic.rooms", TOPIC | {"settings": {"format": ["json"]}}, "settings.format"),
        ("topic.rooms", TOPIC | {"settings": {"audit_every": -1}}, "settings.audit_every"),
        ("topic.rooms", TOPIC | {"settings": {"late_policy": "drop"}}, "settings.late_policy"),
        ("topic.rooms", TOPIC | {"settings": {"predictor": "oracle"}}, "settings.predictor"),
        ("topic.rooms", TOPIC | {"settings": {"predictor": {"t": 5}}}, "settings.predictor.t"),
        ("config.rooms", CONFIG | {"version": -1}, "version"),
        ("config.rooms", CONFIG | {"wanted": "yes"}, "wanted"),
        ("config.rooms", CONFIG | {"demand": 5}, "demand"),
        ("config.rooms", CONFIG | {"demand": {"mode": "guess"}}, "demand.mode"),
        ("config.rooms", CONFIG | {"demand": {"tolerance": {"t": []}}}, "demand.tolerance.t"),
        ("config.rooms", CONFIG | {"key_frame_interval": "long"}, "key_frame_interval"),
    ],
)
def test_error_names_key_and_field(key, document, field):
    with pytest.raises(RegistryError) as refused:
        decode(key, json.dumps(document).encode())
    assert refused.value.key == key
    assert refused.value.field == field
    assert key in str(refused.value)


@pytest.mark.parametrize(
    "value", [b"", b"[]", b"{", b"[" * 100_000, b'{"a": NaN}', b"\xff", b" " * 1_000_001, b"1" * 9999]
)
def test_invalid_json_is_refused(value):
    with pytest.raises(RegistryError, match=r"topic\.rooms"):
        decode("topic.rooms", value)


@pytest.mark.parametrize("key", ["", "topic", "topic.", "schema.rooms", "subscription..a", "other.rooms", "topic.a b"])
def test_invalid_key_is_refused(key):
    with pytest.raises(RegistryError):
        decode(key, b"{}")


@settings_of(max_examples=60)
@given(
    st.sampled_from(["schema.r.0011223344556677", "topic.r", "config.r", "subscription.r.a", "publisher.r.p"]),
    st.data(),
)
def test_arbitrary_values_raise_registry_errors_only(key, data):
    plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
    values = st.recursive(
        plain, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner)
    )
    fields = ["topic", "identity", "name", "version", "properties", "tolerance", "settings", "demand", "fingerprint"]
    document = data.draw(st.dictionaries(st.sampled_from([*fields, "exact", "kind"]), values, max_size=6))
    with suppress(RegistryError):
        decode(key, json.dumps(document | data.draw(st.sampled_from([{}, {"topic": "r"}]))).encode())
