"""Client side of the registry: registers schemas, and reads and writes the documents of topics.

Clients write their own documents. The registry service derives configurations from them. Clients can therefore
register, publish and subscribe while no service is running.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import Any

from thinwire.brokers.protocol import NOTHING, Broker, Bucket, BucketEntry
from thinwire.codec import resolve
from thinwire.codec.demand import check_names
from thinwire.errors import Conflict, RegistryError, SchemaError, UnknownTopic
from thinwire.schema import Schema, compatible
from thinwire.topics.demand_class import check_subscription
from thinwire.topics.document import decode_object
from thinwire.topics.names import (
    REGISTRY,
    DocumentKind,
    keys_of,
    parse_registry_key,
    schema_key,
    service_subject,
    subscription_key,
    topic_key,
)
from thinwire.topics.static_properties import factored
from thinwire.topics.topic_documents import SubscriptionDocument, TopicDocument, decode_entry, encode
from thinwire.topics.topic_settings import Settings, demand_for

ATTEMPTS = 20
"""attempts to write a document that others change at the same time"""
MAX_CONCURRENT = 256
"""concurrent writes of documents"""
PING_TIMEOUT = 2.0


async def open_registry(broker: Broker) -> Bucket:
    """The bucket of the registry."""
    return await broker.bucket(REGISTRY)


async def register_schema(bucket: Bucket, schema: Schema, settings: Settings | None = None) -> TopicDocument:
    """Register a schema as the current one of its topic, with new settings or the present ones.

    A version that is incompatible with the present one is refused. An older version is accepted for publishers that
    still write it; the present version stays current.
    """
    _check_settings(schema, settings or Settings())
    for _ in range(ATTEMPTS):
        entry = await bucket.get(topic_key(schema.name))
        present = _read_topic(entry)
        document = await _make_topic(bucket, schema, settings, present)
        await _store_schema(bucket, schema)
        if document == present:
            return document
        try:
            await bucket.put(document.key, encode(document), revision=entry.revision if entry is not None else NOTHING)
            return document
        except Conflict:
            continue
    raise Conflict("the topic is changed by others at the same time", topic=schema.name, attempts=ATTEMPTS)


async def topic_document(bucket: Bucket, topic: str) -> TopicDocument | None:
    """The document of a topic; None if it is not registered."""
    return decode_entry(await bucket.get(topic_key(topic)), TopicDocument)


async def find_schema(bucket: Bucket, topic: str, fingerprint: bytes | str) -> Schema | None:
    """The version of a topic's schema with this fingerprint, as registered or as `factored`; None if there is none."""
    digits = fingerprint if isinstance(fingerprint, str) else fingerprint.hex()
    found = decode_entry(await bucket.get(schema_key(topic, digits)), Schema)
    if found is not None:
        return found
    versions = await schema_versions(bucket, topic)
    return next((schema for schema in versions if factored(schema).fingerprint.hex() == digits), None)


async def schema_versions(bucket: Bucket, topic: str) -> list[Schema]:
    """All versions of a topic's schema."""
    entries = await bucket.entries(keys_of(DocumentKind.SCHEMA, topic))
    return [schema for entry in entries if (schema := decode_entry(entry, Schema)) is not None]


async def current_schema(bucket: Bucket, topic: str) -> Schema:
    """The current schema of a topic; `UnknownTopic` if it is not registered."""
    document = await topic_document(bucket, topic)
    schema = await find_schema(bucket, topic, document.fingerprint) if document is not None else None
    if schema is None:
        raise UnknownTopic(topic=topic)
    return schema


async def put_subscription(bucket: Bucket, document: SubscriptionDocument, schema: Schema | None = None) -> int:
    """Store a subscription and return its revision; `DemandError` if the schema cannot honour it."""
    check_subscription(schema or await current_schema(bucket, document.topic), document)
    return await bucket.put(document.key, encode(document))


async def put_subscriptions(bucket: Bucket, documents: Iterable[SubscriptionDocument], schema: Schema) -> int:
    """Store many subscriptions of one topic and return their number. The first error ends it."""
    count, remaining = 0, iter(documents)
    while batch := list(islice(remaining, MAX_CONCURRENT)):
        await asyncio.gather(*(put_subscription(bucket, document, schema) for document in batch))
        count += len(batch)
    return count


async def remove_subscription(bucket: Bucket, topic: str, identity: str) -> None:
    """Remove a subscription, durable or not."""
    await bucket.delete(subscription_key(topic, identity))


async def publisher_names(bucket: Bucket, topic: str) -> set[str]:
    """The names of a topic's registered publishers."""
    entries = await bucket.entries(keys_of(DocumentKind.PUBLISHER, topic))
    return {parse_registry_key(entry.key).name for entry in entries}


async def ping(broker: Broker) -> dict[str, Any]:
    """Number of topics, subscriptions, publishers and problems of the registry; `ServiceUnavailable` if none runs."""
    return decode_object(await broker.request(service_subject("ping"), b"", timeout=PING_TIMEOUT))


async def _store_schema(bucket: Bucket, schema: Schema) -> None:
    key = schema_key(schema.name, schema.fingerprint)
    try:
        await bucket.put(key, encode(schema), revision=NOTHING)
    except Conflict:
        entry = await bucket.get(key)
        if entry is not None and entry.value != encode(schema):
            # the key is a hash of the content: any other content is damage
            await bucket.put(key, encode(schema), revision=entry.revision)


async def _make_topic(
    bucket: Bucket, schema: Schema, settings: Settings | None, present: TopicDocument | None
) -> TopicDocument:
    """The topic document after the schema is registered."""
    fingerprint = schema.fingerprint.hex()
    if present is None:
        return TopicDocument(schema.name, fingerprint, settings or Settings())
    settings = settings or present.settings
    current = await find_schema(bucket, schema.name, present.fingerprint)
    if current is None or present.fingerprint == fingerprint:
        return replace(present, fingerprint=fingerprint, settings=settings)
    older = schema.version < current.version
    try:
        compatible(*((schema, current) if older else (current, schema)))
    except SchemaError as problem:
        advice = "Or register it under the name of another topic." if "what" in problem.facts else "Increase it."
        raise RegistryError(f"{problem.detail.rstrip('.')}. {advice}", topic=schema.name, **problem.facts) from None
    return replace(present, fingerprint=present.fingerprint if older else fingerprint, settings=settings)


def _check_settings(schema: Schema, settings: Settings) -> None:
    """Refuse settings that publishers of this schema cannot apply."""
    topic_key(schema.name)  # refuses an invalid name
    check_names(schema, settings.demand)
    resolve(factored(schema), demand_for(factored(schema), settings.demand))


def _read_topic(entry: BucketEntry | None) -> TopicDocument | None:
    """The present topic document; None if there is none or it is invalid, which the next write replaces."""
    try:
        return decode_entry(entry, TopicDocument)
    except RegistryError:
        return None
