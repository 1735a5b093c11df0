"""Descriptions of topics and documents as JSON values, for the command line and for tools."""

from __future__ import annotations

from typing import Any

from thinwire.errors import RegistryError, UnknownTopic
from thinwire.schema import Schema, to_turtle
from thinwire.services.registry.document_cache import TopicRecord
from thinwire.services.registry.registry import Registry
from thinwire.topics.names import check_topic


def count_documents(registry: Registry) -> dict[str, int]:
    """Return the number of topics, subscriptions, publishers and problems."""
    topics = list(registry.documents)
    return {
        "topics": len(topics),
        "subscriptions": sum(len(topic.subscriptions) for topic in topics),
        "publishers": sum(len(topic.publishers) for topic in topics),
        "problems": len(registry.problems()),
    }


def list_topics(registry: Registry) -> dict[str, Any]:
    """Return one summary per topic, sorted by name, and the problems by key."""
    topics = [_summarise(topic) for topic in registry.documents]
    return {"topics": topics, "problems": dict(sorted(registry.problems().items()))}


def describe_document(registry: Registry, key: str) -> dict[str, Any]:
    """Return the document under a key; `RegistryError` if there is none or it is invalid."""
    document = registry.documents.find(key)
    if document is None:
        reason = registry.documents.problems.get(key, "there is no document under this key")
        raise RegistryError(reason, key=key)
    return {"key": key, "document": document.to_document()}


def describe_topic(registry: Registry, name: str) -> dict[str, Any]:
    """Return all documents of a topic."""
    topic = _find_topic(registry, name)
    return {
        "topic": topic.name,
        "settings": topic.document.settings.to_document() if topic.document is not None else None,
        "schema": topic.schema.to_document() if topic.schema is not None else None,
        "config": topic.config.to_document() if topic.config is not None else None,
        "versions": sorted((schema.version, fingerprint) for fingerprint, schema in topic.schemas.items()),
        "subscriptions": [document.to_document() for _, document in sorted(topic.subscriptions.items())],
        "publishers": [document.to_document() for _, document in sorted(topic.publishers.items())],
    }


def describe_schema(registry: Registry, name: str, version: int | None = None) -> dict[str, Any]:
    """Return a version of a topic's schema, the current one by default, as Turtle."""
    topic = _find_topic(registry, name)
    return {"topic": topic.name, "turtle": to_turtle(_find_version(topic, version))}


def _find_topic(registry: Registry, name: str) -> TopicRecord:
    topic = registry.documents.topics.get(check_topic(name))
    if topic is None:
        raise UnknownTopic(topic=name)
    return topic


def _find_version(topic: TopicRecord, version: int | None) -> Schema:
    versions = {schema.version: schema for schema in topic.schemas.values()}
    found = topic.schema if version is None else versions.get(version)
    if found is None:
        detail = "the topic has no such schema"
        raise RegistryError(detail, topic=topic.name, version=version, known=sorted(versions))
    return found


def _summarise(topic: TopicRecord) -> dict[str, Any]:
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
