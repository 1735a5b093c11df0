"""From an expression to its condition and the topics it speaks of, as the registry has them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from thinwire.brokers.protocol_broker import Broker, Bucket
from thinwire.errors import ConfigError, RegistryError, UnknownName
from thinwire.filters.composite import Condition, Expression, Term, parse, resolve
from thinwire.filters.composite.expression import fold
from thinwire.schema import Schema
from thinwire.topics.names import REGISTRY, check_topic
from thinwire.topics.registry_client import find_schema, topic_document
from thinwire.topics.topic import Topic
from thinwire.topics.topic_documents import TopicDocument, decode

MAX_SHOWN = 64
"""topics that are looked at to find a name like one that is unknown"""
AT_ONCE = 32


class Resolved(NamedTuple):
    """A condition, and its topics by name."""

    condition: Condition
    topics: Mapping[str, Topic]


async def resolve_live(broker: Broker, expression: str, given: Iterable[Schema] = ()) -> Resolved:
    """What an expression says over the topics that the registry knows, and those whose schemas are given.

    Raises ExpressionError, with the place, for what cannot be read or does not fit the topics.
    """
    parsed = parse(expression)
    bucket = await broker.bucket(REGISTRY)
    own = {schema.name: schema for schema in given}
    known = own | await _schemas(bucket, [name for name in _candidates(parsed) if name not in own])
    try:
        condition = resolve(parsed, known)
    except UnknownName:
        resolve(parsed, known | await _schemas(bucket, await _some_topics(bucket)))  # knows what it may have meant
        raise
    names = sorted({quantity.topic for quantity in condition.quantities})
    found = [await Topic.find(broker, bucket, name, own.get(name)) for name in names]
    return Resolved(condition, {topic.name: topic for topic in found})


def _candidates(expression: Expression) -> list[str]:
    """The names that may be topics: without brackets every beginning of the path."""
    return sorted(fold(expression.root, _paths, lambda parts: set().union(*parts), lambda parts: set().union(*parts)))


def _paths(term: Term) -> set[str]:
    if term.property is not None:
        return {term.path}
    words = term.path.split(".")
    return {".".join(words[:length]) for length in range(1, len(words))}


async def _schemas(bucket: Bucket, names: Iterable[str]) -> dict[str, Schema]:
    """The current schemas of those names that are topics."""
    places = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> Schema | None:
        async with places:
            with suppress(ConfigError, RegistryError):
                document = await topic_document(bucket, check_topic(name))
                return await find_schema(bucket, name, document.fingerprint) if document is not None else None
            return None

    found = await asyncio.gather(*(one(name) for name in names))
    return {schema.name: schema for schema in found if schema is not None}


async def _some_topics(bucket: Bucket) -> list[str]:
    names: list[str] = []
    for entry in (await bucket.entries("topic.>"))[:MAX_SHOWN]:
        with suppress(RegistryError):
            document = decode(entry.key, entry.value) if entry.value is not None else None
            if isinstance(document, TopicDocument):
                names.append(document.topic)
    return names
