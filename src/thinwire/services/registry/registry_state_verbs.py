"""What the registry answers when it is asked: plain JSON values in and out, no I/O.

ping    how it is
get     {"topic": name}: everything about a topic; with "as": "turtle" its schema as Turtle, a "version" of it where
        given. {"key": key}: the document under a key
list    the topics, at most "limit" of them, those "after" a name; and what is wrong with documents
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thinwire.errors import RegistryError, UnknownTopic
from thinwire.schema import Schema, to_turtle
from thinwire.services.registry.document_cache import Topic
from thinwire.services.registry.registry_state import Registry
from thinwire.topics import document_validation as checks
from thinwire.topics.topic_documents import Document, to_document

MAX_LISTED = 1_000
MAX_PROBLEMS = 100


def ping(registry: Registry) -> dict[str, Any]:
    """How many of everything there are."""
    topics = list(registry.shelf)
    return {
        "topics": len(topics),
        "subscriptions": sum(len(topic.subscriptions) for topic in topics),
        "publishers": sum(len(topic.publishers) for topic in topics),
        "problems": len(registry.problems()),
    }


def get(registry: Registry, body: Mapping[str, Any]) -> dict[str, Any]:
    """A topic, or one document."""
    if "key" in body:
        checks.text("key", body["key"])
        document = registry.shelf.document(body["key"])
        if document is None:
            why = registry.shelf.problems.get(body["key"], "there is no document under this key")
            raise RegistryError(why, key=body["key"])
        return {"key": body["key"], "document": _plain(document)}
    checks.topic(body.get("topic"))
    topic = registry.shelf.topics.get(body["topic"])
    if topic is None:
        raise UnknownTopic(topic=body["topic"])
    if body.get("as", "json") == "turtle":
        return {"topic": topic.name, "turtle": to_turtle(_version(topic, body.get("version")))}
    checks.text("as", body.get("as", "json"), "json", "turtle")
    return _described(topic)


def listed(registry: Registry, body: Mapping[str, Any]) -> dict[str, Any]:
    """The topics in the order of their names, in portions."""
    after, limit = body.get("after", ""), body.get("limit", MAX_LISTED)
    checks.text("after", after)
    checks.count("limit", limit, MAX_LISTED)
    names = [topic for topic in registry.shelf if topic.name > after]
    problems = sorted(registry.problems().items())
    return {
        "topics": [_line(topic) for topic in names[:limit]],
        "complete": len(names) <= limit,
        "problems": dict(problems[:MAX_PROBLEMS]),
    }


def _line(topic: Topic) -> dict[str, Any]:
    schema = topic.schema
    return {
        "topic": topic.name,
        "version": schema.version if schema is not None else None,
        "fingerprint": topic.document.fingerprint if topic.document is not None else None,
        "properties": len(schema.properties) if schema is not None else None,
        "subscriptions": len(topic.subscriptions),
        "publishers": len(topic.publishers),
        "wanted": topic.config.wanted if topic.config is not None else None,
    }


def _described(topic: Topic) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "settings": to_document(topic.document)["settings"] if topic.document is not None else None,
        "schema": topic.schema.to_document() if topic.schema is not None else None,
        "config": to_document(topic.config) if topic.config is not None else None,
        "versions": sorted((schema.version, name) for name, schema in topic.schemas.items()),
        "subscriptions": [to_document(asked) for _, asked in sorted(topic.subscriptions.items())],
        "publishers": [to_document(one) for _, one in sorted(topic.publishers.items())],
    }


def _version(topic: Topic, version: Any) -> Schema:
    found = topic.schema if version is None else None
    if version is not None:
        checks.count("version", version)
        found = next((schema for schema in topic.schemas.values() if schema.version == version), None)
    if found is None:
        known = sorted(schema.version for schema in topic.schemas.values())
        raise RegistryError("the topic has no such schema", topic=topic.name, version=version, known=known)
    return found


def _plain(document: Document | Schema) -> dict[str, Any]:
    return document.to_document() if isinstance(document, Schema) else to_document(document)
