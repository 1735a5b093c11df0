"""Metadata of a topic: schema versions, static facts, dictionaries, configuration, and entries in the registry."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any

from thinwire.brokers.protocol import Broker, Bucket, BucketEntry, Retention
from thinwire.codec.demand import tolerance_of
from thinwire.codec.stream_config import StreamConfig
from thinwire.dictionaries import Dictionary
from thinwire.dictionaries.dictionary import HASH_BYTES
from thinwire.errors import PeerFault, RegistryError, ServiceUnavailable, UnknownFacts, UnknownLog, UnknownTopic
from thinwire.schema import Event, Schema, opaque
from thinwire.topics import registry_client
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.dictionary_documents import ActiveDictionaries
from thinwire.topics.dictionary_metadata import DictionaryMetadata
from thinwire.topics.dictionary_store import DictionaryCache, DictionaryStore
from thinwire.topics.log_selection import LogSelection
from thinwire.topics.names import DICTIONARIES, FACTS, check_topic, config_key, key_subject, log_of, publisher_key
from thinwire.topics.registry_client import find_schema, register_schema, schema_versions, topic_document
from thinwire.topics.static_properties import MAX_CACHED, Factoring, decode_facts, encode_facts, factored, facts_key
from thinwire.topics.tolerance_budget import budget
from thinwire.topics.topic_documents import PublisherDocument, SubscriptionDocument, TopicDocument, decode_entry
from thinwire.topics.topic_settings import ConfigDocument, Settings, demand_for
from thinwire.wire import read
from thinwire.wire.key_frame import read_head

_log = logging.getLogger("thinwire.topics")


class TopicMetadata:
    """Metadata of one topic, from the registry or as declared by the caller.

    schema: the schema of its events; wire_schema: the same with a reference in place of static properties
    document: the registry's document; managed: whether there is one
    current_fingerprint: fingerprint (hex) of the registry's current schema, "" for an unmanaged topic
    """

    def __init__(
        self, broker: Broker, bucket: Bucket, schema: Schema, *, document: TopicDocument | None = None
    ) -> None:
        self.name = schema.name
        self.selection = LogSelection(schema.name)
        self.schema = schema
        self.document = document
        self.managed = document is not None
        self.current_fingerprint = document.fingerprint if document is not None else ""
        self.has_static_properties = self.managed and any(p.static for p in schema)
        self.wire_schema = factored(schema) if self.has_static_properties else schema
        self.retention: Retention | None = None
        self._broker = broker
        self._bucket = bucket
        self._schemas: dict[bytes, Schema] = {}
        self._originals: dict[bytes, Schema] = {}
        self._classes: list[DemandClass] = []
        self._facts: OrderedDict[str, Mapping[str, Any]] = OrderedDict()
        self._dictionaries = DictionaryCache()
        self._store: DictionaryStore | None = None
        self._add_schema(schema)

    @classmethod
    async def find(cls, broker: Broker, bucket: Bucket, name: str, schema: Schema | None = None) -> TopicMetadata:
        """Return the topic as registered, else as declared by `schema`. Raise `UnknownTopic` if there is neither."""
        check_topic(name)
        if schema is not None and schema.name != name:
            raise RegistryError("a topic has the name of its schema", topic=name, schema=schema.name)
        document = await topic_document(bucket, name)
        if document is None:
            if schema is None:
                raise UnknownTopic(topic=name)
            return cls(broker, bucket, schema)
        current = schema or await find_schema(bucket, name, document.fingerprint)
        if current is None:
            raise RegistryError("the schema of a topic is missing", topic=name, fingerprint=document.fingerprint)
        return cls(broker, bucket, current, document=document)

    @classmethod
    async def open(
        cls,
        broker: Broker,
        bucket: Bucket,
        name: str,
        schema: Schema | None = None,
        *,
        register: bool = False,
        dictionaries: bool = False,
    ) -> TopicMetadata:
        """Return a topic. A new topic without a schema contains bytes.

        register: register the topic first if a registry is running
        dictionaries: enable dictionaries in the settings of a topic that is registered now
        """
        is_new = await topic_document(bucket, check_topic(name)) is None
        settings: dict[str, Any] = {"dictionaries": True} if is_new and dictionaries else {}
        if schema is None and is_new:
            if not register and not await _contains_bytes(broker, name):
                raise UnknownTopic(topic=name)
            # Bytes have no state that a later subscriber could receive: without `retain` they would be lost.
            schema, settings = opaque(name), {**settings, "retain": True}
        if register and schema is not None and await is_registry_running(broker):
            await register_schema(bucket, schema, Settings(**settings) if settings else None)
        return await cls.find(broker, bucket, name, schema)

    def lookup(self, fingerprint: bytes) -> Schema | None:
        """Return the schema of messages with this fingerprint, if it was fetched."""
        return self._schemas.get(fingerprint)

    def original(self, fingerprint: bytes) -> Schema:
        """Return the registered schema, static properties included, of messages with this fingerprint."""
        return self._originals.get(fingerprint) or self._schemas[fingerprint]

    def dictionary(self, hash: bytes) -> Dictionary | None:
        """Return the dictionary with this hash, if it was fetched."""
        return self._dictionaries.find(hash)

    async def fetch_definition(self, definition_id: bytes) -> bool:
        """Fetch a schema by fingerprint (8 bytes) or a dictionary by hash (16 bytes). Return False if it is unknown.

        Raises CorruptDictionary if the stored dictionary does not have this hash.
        """
        return await (self._fetch_dictionary if len(definition_id) == HASH_BYTES else self._fetch_schema)(definition_id)

    def add_class(self, demand: DemandClass) -> None:
        """Add the schemas of a demand class: every version of the schema, reduced to the properties of the class."""
        self._classes.append(demand)
        for schema in list(self._schemas.values()):
            self._add_schema(schema)

    async def ensure_log(self) -> None:
        """Create the log of the topic, unless it exists."""
        await self._broker.ensure_log(log_of(self.name), [self.selection.subjects()], self.retention)

    async def put_publisher(self, name: str, incarnation: int, since: float) -> None:
        """Add a publisher to the registry."""
        if self.managed:
            document = PublisherDocument(self.name, name, incarnation, since, self.schema.fingerprint.hex())
            await self._bucket.put(document.key, document.encode())

    async def remove_publisher(self, name: str) -> None:
        """Remove a publisher from the registry."""
        if self.managed:
            await self._bucket.delete(publisher_key(self.name, name))

    async def put_subscription(self, document: SubscriptionDocument) -> None:
        """Add or change a subscription in the registry."""
        if self.managed:
            await registry_client.put_subscription(self._bucket, document, self.schema)

    async def remove_subscription(self, identity: str) -> None:
        """Remove a subscription from the registry."""
        if self.managed:
            await registry_client.remove_subscription(self._bucket, self.name, identity)

    async def store_dictionary(self, dictionary: Dictionary) -> None:
        """Store a dictionary. It must be stored before a publisher uses it."""
        await (await self._dictionary_store()).put(dictionary)
        self._dictionaries.add(dictionary)

    async def active_dictionaries(self) -> ActiveDictionaries | None:
        """Return the dictionaries that publishers may use, or None if no dictionary trainer serves the topic."""
        return await DictionaryMetadata(await self._broker.bucket(DICTIONARIES), self.name).read_active()

    @property
    def dictionary_bytes(self) -> int:
        """Bytes of dictionaries read from the store."""
        return self._store.received if self._store is not None else 0

    async def configuration(self) -> ConfigDocument | None:
        """Return the current configuration of publishers, or None before the registry's first one."""
        return await self._read_config(await self._bucket.get(config_key(self.name))) if self.managed else None

    async def configurations(self) -> AsyncGenerator[ConfigDocument, None]:
        """Yield the current configuration of publishers and every change."""
        if not self.managed:
            return
        async with aclosing(self._bucket.watch(config_key(self.name))) as changes:
            async for entry in changes:
                config = await self._read_config(entry)
                if config is not None:
                    yield config

    async def wait_for_tolerances(self, tolerances: Mapping[str, float], timeout: float) -> bool:
        """Wait until publishers must send within these tolerances. Return False after the timeout, if managed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout), aclosing(self.configurations()) as configurations:
                async for config in configurations:
                    if config.wanted and self._meets(config, tolerances):
                        return True
        return not self.managed

    def initial_config(self, own: StreamConfig) -> StreamConfig:
        """Return the configuration that a publisher uses until the registry has written one.

        own: the configuration of the publisher; its demand is used unless the settings of the topic state a tolerance
        """
        if self.document is None:
            return own
        settings = self.document.settings
        demand = budget(self.schema, [], settings).demand(self.schema, settings) if settings.has_demand else own.demand
        return StreamConfig(own.version, demand_for(self.wire_schema, demand), **settings.stream)

    def factoring_of(self, fingerprint: bytes) -> Factoring | None:
        """Return the `Factoring` of events with this fingerprint; None if they have no static properties."""
        original = self._originals.get(fingerprint)
        return Factoring(original) if original is not None else None

    async def store_facts(self, factoring: Factoring, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """Replace the static facts of an event by a reference. Facts are stored before the event is sent."""
        on_wire, key, facts = factoring.split(event)
        if facts is not None:
            try:
                bucket = await self._broker.bucket(FACTS)
                await bucket.put(facts_key(self.name, key), encode_facts(facts))
            except BaseException:
                factoring.mark_unstored(key)
                raise
        return on_wire

    async def join_facts(self, factoring: Factoring, event: Event) -> Event:
        """Replace the reference of an event by its static facts."""
        try:
            return factoring.join(event, self._facts.get)
        except UnknownFacts as unknown:
            await self.facts(unknown.key)
        return factoring.join(event, self._facts.get)

    async def facts(self, key: str) -> Mapping[str, Any]:
        """Return the static facts under a key. Raise `UnknownFacts` if they are not stored."""
        if key not in self._facts:
            entry = await (await self._broker.bucket(FACTS)).get(facts_key(self.name, key))
            if entry is None or entry.value is None:
                raise UnknownFacts(topic=self.name, key=key)
            self._facts[key] = decode_facts(key, entry.value)
            while len(self._facts) > MAX_CACHED:
                self._facts.popitem(last=False)
        return self._facts[key]

    async def _dictionary_store(self) -> DictionaryStore:
        if self._store is None:
            self._store = DictionaryStore(await self._broker.bucket(DICTIONARIES))
        return self._store

    async def _fetch_dictionary(self, hash: bytes) -> bool:
        found = await (await self._dictionary_store()).get(hash, self._dictionaries.find)
        if found is not None:
            self._dictionaries.add(found)
        return found is not None

    async def _fetch_schema(self, fingerprint: bytes) -> bool:
        schema = await find_schema(self._bucket, self.name, fingerprint)
        if schema is not None:
            self._add_schema(schema)
        elif self._classes:  # a channel contains a projection of one of the versions
            for version in await schema_versions(self._bucket, self.name):
                self._add_schema(version)
        return fingerprint in self._schemas

    def _add_schema(self, schema: Schema) -> None:
        on_wire = factored(schema)
        self._schemas[schema.fingerprint] = schema
        for sent in (on_wire, *(demand.schema(on_wire) for demand in self._classes)):
            self._schemas[sent.fingerprint] = sent
            if on_wire is not schema:
                self._originals[sent.fingerprint] = schema

    async def _read_config(self, entry: BucketEntry | None) -> ConfigDocument | None:
        """Decode a configuration; None if there is none or it is unreadable.

        With the setting `retain`, publishers always send. A configuration that stops them is older than the setting.
        """
        try:
            config = decode_entry(entry, ConfigDocument)
        except RegistryError as problem:
            _log.warning("%s: ignored an unreadable configuration: %s", self.name, problem)
            return None
        if config is None or config.wanted:
            return config
        document = await topic_document(self._bucket, self.name)
        return replace(config, wanted=True) if document is not None and document.settings.retain else config

    def _meets(self, config: ConfigDocument, tolerances: Mapping[str, float]) -> bool:
        demand = demand_for(self.schema, config.demand)
        offered = {p.name: tolerance_of(self.schema, p, demand) for p in self.schema.wire if p.name in tolerances}
        return all(tolerance <= tolerances[name] for name, tolerance in offered.items())


async def is_registry_running(broker: Broker) -> bool:
    """Return whether a registry service answers."""
    try:
        await registry_client.ping(broker)
    except ServiceUnavailable:
        return False
    return True


async def _contains_bytes(broker: Broker, topic: str) -> bool:
    """Whether the log of an unregistered topic contains opaque payloads."""
    try:
        newest = await broker.last(log_of(topic), key_subject(topic, "*"))
        if newest is None:
            return False
        return read_head(read(newest.payload).body)[0].fingerprint == opaque(topic).fingerprint
    except (UnknownLog, PeerFault):
        return False
