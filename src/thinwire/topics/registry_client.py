"""What clients do with the registry's bucket themselves, and how they ask its service.

Clients write their own documents; the service only draws conclusions from them. So a topic can be registered, published
and subscribed while no service runs.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from itertools import islice
from typing import Any

from thinwire.brokers.protocol import NOTHING, Broker, Bucket, BucketEntry
from thinwire.codec import Demand, resolve
from thinwire.codec.demand import check_names
from thinwire.errors import Conflict, RegistryError, SchemaError, UnknownTopic
from thinwire.schema import Schema, compatible, from_turtle
from thinwire.topics import topic_settings as keys
from thinwire.topics.names import REGISTRY, service_subject
from thinwire.topics.static_properties import factored
from thinwire.topics.tolerance_budget import check_subscription
from thinwire.topics.topic_documents import PublisherDocument, SubscriptionDocument, TopicDocument, decode, encode
from thinwire.topics.topic_settings import Settings, demand_for

ATTEMPTS = 20
"""how often a write is tried again because somebody else wrote in between"""
AT_ONCE = 256
"""documents that are on their way at the same time"""
_WILDCARD = "*"


async def open_registry(broker: Broker) -> Bucket:
    """The bucket of the registry."""
    return await broker.bucket(REGISTRY)


async def register_schema(bucket: Bucket, schema: Schema, settings: Settings | None = None) -> TopicDocument:
    """Make a schema the current one of its topic; with settings, or those the topic has.

    A version that readers or writers of the present one could not live with is refused. An older version is accepted
    as one that some publisher still writes; the present one stays current.
    """
    _check_settings(schema, settings or Settings())
    for _ in range(ATTEMPTS):
        entry = await bucket.get(keys.topic_key(schema.name))
        present = _topic(entry)
        wanted = await _next_topic(bucket, schema, settings, present)
        await _store_schema(bucket, schema)
        if wanted == present:
            return wanted
        try:
            await bucket.put(wanted.key, encode(wanted), revision=entry.revision if entry is not None else NOTHING)
            return wanted
        except Conflict:
            continue
    raise Conflict("others keep changing the topic", topic=schema.name, attempts=ATTEMPTS)


async def register_turtle(bucket: Bucket, text: str, settings: Settings | None = None) -> TopicDocument:
    """Register the schema that a Turtle document describes."""
    return await register_schema(bucket, from_turtle(text), settings)


async def topic_document(bucket: Bucket, topic: str) -> TopicDocument | None:
    """The topic, or None if it is unknown."""
    entry = await bucket.get(keys.topic_key(topic))
    if entry is None or entry.value is None:
        return None
    document = decode(entry.key, entry.value)
    assert isinstance(document, TopicDocument)
    return document


async def find_schema(bucket: Bucket, topic: str, fingerprint: bytes | str) -> Schema | None:
    """The version of a topic's schema with this fingerprint, or whose factored form has it; None if it is unknown."""
    wanted = fingerprint if isinstance(fingerprint, str) else fingerprint.hex()
    entry = await bucket.get(keys.schema_key(topic, wanted))
    if entry is not None and entry.value is not None:
        return _schema(entry)
    listed = await bucket.entries(keys.schema_key(topic, "any").removesuffix("any") + _WILDCARD)
    known = (_schema(entry) for entry in listed if entry.value is not None)
    return next((schema for schema in known if factored(schema).fingerprint.hex() == wanted), None)


async def current_schema(bucket: Bucket, topic: str) -> Schema:
    """The current schema of a topic; `UnknownTopic` if there is none."""
    document = await topic_document(bucket, topic)
    schema = await find_schema(bucket, topic, document.fingerprint) if document is not None else None
    if schema is None:
        raise UnknownTopic(topic=topic)
    return schema


async def put_subscription(bucket: Bucket, asked: SubscriptionDocument, schema: Schema | None = None) -> int:
    """Ask; refused by name where the schema, the topic's current one by default, cannot honour it. The revision."""
    check_subscription(schema or await current_schema(bucket, asked.topic), asked)
    return await bucket.put(asked.key, encode(asked))


async def put_subscriptions(bucket: Bucket, asked: Iterable[SubscriptionDocument], schema: Schema) -> int:
    """Ask for many, of one topic, some at a time; how many. The first that is refused ends it."""
    count, waiting = 0, iter(asked)
    while documents := list(islice(waiting, AT_ONCE)):
        await asyncio.gather(*(put_subscription(bucket, document, schema) for document in documents))
        count += len(documents)
    return count


async def remove_subscription(bucket: Bucket, topic: str, identity: str) -> None:
    """Ask no more; this is also how a durable subscription is forgotten."""
    await bucket.delete(keys.subscription_key(topic, identity))


async def put_publisher(bucket: Bucket, publisher: PublisherDocument) -> int:
    """Say who publishes. Returns the revision."""
    return await bucket.put(publisher.key, encode(publisher))


async def remove_publisher(bucket: Bucket, topic: str, name: str) -> None:
    """Say that a publisher has left."""
    await bucket.delete(keys.publisher_key(topic, name))


async def ping(broker: Broker, *, timeout: float = 2.0) -> dict[str, Any]:
    """How the registry is; `NobodyAnswers` if none runs."""
    return await ask(broker, "ping", timeout=timeout)


async def ask(broker: Broker, verb: str, body: Any = None, *, timeout: float = 20.0) -> dict[str, Any]:
    """Ask the registry (ping, get, list, query); a refusal comes back as `RegistryError`."""
    answer = await broker.request(service_subject(verb), json.dumps(body or {}).encode(), timeout=timeout)
    try:
        document = json.loads(answer)
    except ValueError as problem:
        raise RegistryError(f"the answer is not JSON: {problem}", verb=verb) from None
    if not isinstance(document, dict):
        raise RegistryError("the answer is not an object", verb=verb)
    if "error" in document:
        raise RegistryError(str(document["error"]), verb=verb)
    return document


async def _store_schema(bucket: Bucket, schema: Schema) -> None:
    key = keys.schema_key(schema.name, schema.fingerprint)
    try:
        await bucket.put(key, encode(schema), revision=NOTHING)
    except Conflict:
        entry = await bucket.get(key)
        if entry is not None and entry.value != encode(schema):
            # somebody damaged what must not change: this is what it was
            await bucket.put(key, encode(schema), revision=entry.revision)


async def _next_topic(
    bucket: Bucket, schema: Schema, settings: Settings | None, present: TopicDocument | None
) -> TopicDocument:
    """What the topic shall be, once the schema is registered."""
    fingerprint = schema.fingerprint.hex()
    if present is None:
        return TopicDocument(schema.name, fingerprint, settings or Settings())
    settings = settings or present.settings
    current = await find_schema(bucket, schema.name, present.fingerprint)
    if current is None or present.fingerprint == fingerprint:
        return TopicDocument(schema.name, fingerprint, settings)
    older = schema.version < current.version
    try:
        compatible(*((schema, current) if older else (current, schema)))
    except SchemaError as problem:
        advice = "Or register it under the name of another topic." if "what" in problem.facts else "Raise it."
        raise RegistryError(f"{problem.detail.rstrip('.')}. {advice}", topic=schema.name, **problem.facts) from None
    return TopicDocument(schema.name, present.fingerprint if older else fingerprint, settings)


def _check_settings(schema: Schema, settings: Settings) -> None:
    """Refuse settings that no publisher of this schema could follow."""
    keys.topic_key(schema.name)
    kept = Demand(settings.tolerance or {}, settings.default_tolerance or 0, **settings.way)
    check_names(schema, kept)
    resolve(factored(schema), demand_for(factored(schema), kept))


def _topic(entry: BucketEntry | None) -> TopicDocument | None:
    """The topic as it stands; None where there is none, or one that nobody can read and that is best replaced."""
    try:
        document = decode(entry.key, entry.value) if entry is not None and entry.value is not None else None
    except RegistryError:
        return None
    return document if isinstance(document, TopicDocument) else None


def _schema(entry: BucketEntry) -> Schema:
    document = decode(entry.key, entry.value or b"")
    assert isinstance(document, Schema)
    return document
