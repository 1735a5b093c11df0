"""What there is of a topic, looked up when a publisher or subscription opens; a publisher may make a new one known."""

from __future__ import annotations

from typing import Any

from thinwire.brokers.protocol_broker import Broker, Bucket
from thinwire.client.event_rejection_payloads import carries_payloads
from thinwire.errors import NobodyAnswers, UnknownTopic
from thinwire.schema import Schema, opaque
from thinwire.topics.names import check_topic
from thinwire.topics.registry_client import ping, register_schema, topic_document
from thinwire.topics.topic import Topic
from thinwire.topics.topic_documents import TopicDocument
from thinwire.topics.topic_settings_settings import Settings


class TopicFinder:
    """Finds topics at a broker, and registers them there."""

    def __init__(self, broker: Broker, registry: Bucket) -> None:
        self._broker = broker
        self._registry = registry

    async def served(self) -> bool:
        """Does a registry answer?"""
        try:
            await ping(self._broker)
        except NobodyAnswers:
            return False
        return True

    async def register(self, schema: Schema, **settings: Any) -> TopicDocument:
        """Make a topic known, or a new version of its schema."""
        check_topic(schema.name)
        return await register_schema(self._registry, schema, Settings(**settings) if settings else None)

    async def find(self, name: str, schema: Schema | None, *, register: bool, dictionaries: bool = False) -> Topic:
        """What there is of a topic; a new one may be registered, with dictionaries where its publisher wants them."""
        fresh = await topic_document(self._registry, check_topic(name)) is None
        settings = {"dictionaries": True} if fresh and dictionaries else {}
        if schema is None and fresh:
            return await self._find_payloads(name, register=register, **settings)
        if register and schema is not None and await self.served():
            await self.register(schema, **settings)
        return await Topic.find(self._broker, self._registry, name, schema)

    async def _find_payloads(self, name: str, *, register: bool, **settings: Any) -> Topic:
        """A topic without a schema: what nobody was there to take is kept in the log all the same, for no state tells
        of it later."""
        if not register and not await carries_payloads(self._broker, name):
            raise UnknownTopic(topic=name)
        if register and await self.served():
            await self.register(opaque(name), retain=True, **settings)
        return await Topic.find(self._broker, self._registry, name, opaque(name))
