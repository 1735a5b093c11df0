"""What a client knows of a topic: its schemas, its configuration, and the registry's documents where there are any."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from thinwire.brokers.protocol import Broker, Bucket, Retention
from thinwire.codec.demand import tolerance_of
from thinwire.codec.stream_config import StreamConfig
from thinwire.dictionaries import Dictionary
from thinwire.dictionaries.dictionary import HASH_BYTES
from thinwire.errors import RegistryError, UnknownFacts, UnknownTopic
from thinwire.schema import Event, Schema
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.dictionary_documents import ActiveDictionaries
from thinwire.topics.dictionary_metadata import DictionaryMetadata
from thinwire.topics.dictionary_store import DictionaryCache, DictionaryStore
from thinwire.topics.names import DICTIONARIES, FACTS, check_topic, log_of, publisher_subjects
from thinwire.topics.registry_client import (
    find_schema,
    put_publisher,
    put_subscription,
    remove_publisher,
    remove_subscription,
    topic_document,
)
from thinwire.topics.static_properties import Factoring, decode_facts, encode_facts, factored, facts_key
from thinwire.topics.tolerance_budget import budget
from thinwire.topics.topic_documents import PublisherDocument, SubscriptionDocument, TopicDocument, decode
from thinwire.topics.topic_settings import ConfigDocument, config_key, demand_for, schema_key

MAX_FACTS = 65_536
_ANY = "any"

_log = logging.getLogger("thinwire.services")


class TopicMetadata:
    """A topic. `managed` says whether the registry has a document of it; without one a schema must be given.

    document: what the registry has of it; current: the fingerprint (hex) of its schema there, "" where there is none
    """

    def __init__(
        self, broker: Broker, bucket: Bucket, schema: Schema, *, document: TopicDocument | None = None
    ) -> None:
        managed = document is not None
        self.name = schema.name
        self.schema = schema
        self.managed = managed
        self.document = document
        self.current = document.fingerprint if document is not None else ""
        self.factored = managed and any(p.static for p in schema)
        self.travelling = factored(schema) if self.factored else schema
        self.retention: Retention | None = None
        self._broker = broker
        self._bucket = bucket
        self._schemas: dict[bytes, Schema] = {}
        self._originals: dict[bytes, Schema] = {}
        self._classes: list[DemandClass] = []
        self._facts: OrderedDict[str, Mapping[str, Any]] = OrderedDict()
        self._dictionaries = DictionaryCache()
        self._store: DictionaryStore | None = None
        self._keep(schema)

    @classmethod
    async def find(cls, broker: Broker, bucket: Bucket, name: str, schema: Schema | None = None) -> TopicMetadata:
        """The topic as the registry has it, else as the caller declares it."""
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

    def lookup(self, fingerprint: bytes) -> Schema | None:
        """The schema that travels under this fingerprint, if it has been learnt."""
        return self._schemas.get(fingerprint)

    def dictionary(self, hash: bytes) -> Dictionary | None:
        """The dictionary with this hash, if it has been learnt."""
        return self._dictionaries.find(hash)

    async def learn(self, name: bytes) -> bool:
        """Ask for what travels under this name: a schema's fingerprint (8 bytes), a dictionary's hash (16 bytes).

        False where nobody knows it; CorruptDictionary where the store hands out another one.
        """
        return await (self._learn_dictionary(name) if len(name) == HASH_BYTES else self._learn_schema(name))

    async def store_dictionary(self, dictionary: Dictionary) -> None:
        """Store a dictionary, before anybody is told to use it."""
        await (await self._dictionary_store()).put(dictionary)
        self._dictionaries.keep(dictionary)

    async def dictionaries_in_use(self) -> ActiveDictionaries | None:
        """What publishers of the topic may pack with; None where nobody looks after its dictionaries."""
        return await DictionaryMetadata(await self._broker.bucket(DICTIONARIES), self.name).in_use()

    @property
    def dictionary_bytes(self) -> int:
        """Bytes of dictionaries that came from the store."""
        return self._store.received if self._store is not None else 0

    async def _dictionary_store(self) -> DictionaryStore:
        if self._store is None:
            self._store = DictionaryStore(await self._broker.bucket(DICTIONARIES))
        return self._store

    async def _learn_dictionary(self, hash: bytes) -> bool:
        found = await (await self._dictionary_store()).get(hash, self._dictionaries.find)
        if found is not None:
            self._dictionaries.keep(found)
        return found is not None

    async def _learn_schema(self, fingerprint: bytes) -> bool:
        schema = await find_schema(self._bucket, self.name, fingerprint)
        versions = [schema] if schema is not None else await self._versions() if self._classes else []
        for version in versions:
            self._keep(version)
        return fingerprint in self._schemas

    def know_class(self, demand: DemandClass) -> None:
        """Know the schemas under which a class's events travel as well: what it leaves of every version."""
        self._classes.append(demand)
        for schema in list(self._schemas.values()):
            self._keep(schema)

    async def open_log(self) -> None:
        """Make sure that the topic has a log."""
        await self._broker.open_log(log_of(self.name), [publisher_subjects(self.name)], self.retention)

    async def publisher_starts(self, name: str, incarnation: int, since: float) -> None:
        """Enter a publisher into the registry."""
        if self.managed:
            fingerprint = self.schema.fingerprint.hex()
            await put_publisher(self._bucket, PublisherDocument(self.name, name, incarnation, since, fingerprint))

    async def publisher_ends(self, name: str) -> None:
        """Strike a publisher out."""
        if self.managed:
            await remove_publisher(self._bucket, self.name, name)

    async def subscription_starts(self, document: SubscriptionDocument) -> None:
        """Tell the registry what is asked."""
        if self.managed:
            await put_subscription(self._bucket, document, self.schema)

    async def subscription_ends(self, identity: str) -> None:
        """Tell the registry that it is no longer asked."""
        if self.managed:
            await remove_subscription(self._bucket, self.name, identity)

    async def wait_for(self, tolerances: Mapping[str, float], patience: float) -> bool:
        """Wait until the registry has told publishers to serve these tolerances; False if it does not in time."""
        try:
            async with asyncio.timeout(patience), aclosing(self.configurations()) as configurations:
                async for config in configurations:
                    if config.wanted and self._serves(config, tolerances):
                        return True
        except TimeoutError:
            pass
        return not self.managed

    async def configuration(self) -> ConfigDocument | None:
        """What the registry wants publishers to do now; None where it has not said anything."""
        entry = await self._bucket.get(config_key(self.name)) if self.managed else None
        return await self._believed(entry.value) if entry is not None and entry.value is not None else None

    def settled(self, own: StreamConfig) -> StreamConfig:
        """What a publisher does that is earlier than the registry's first word: as the topic's settings say.

        own: what it would do else; it decides how far off values may be where the settings do not
        """
        if self.document is None:
            return own
        settings = self.document.settings
        kept = settings.retain and (settings.tolerance is not None or settings.default_tolerance is not None)
        demand = budget(self.schema, [], settings).demand(self.schema, settings) if kept else own.demand
        return StreamConfig(own.version, demand_for(self.travelling, demand), **settings.link)

    async def configurations(self) -> AsyncGenerator[ConfigDocument, None]:
        """What the registry wants publishers to do: now, and whenever it changes."""
        if not self.managed:
            return
        async with aclosing(self._bucket.watch(config_key(self.name))) as changes:
            async for entry in changes:
                config = await self._believed(entry.value) if entry is not None and entry.value is not None else None
                if config is not None:
                    yield config

    async def _believed(self, told: bytes) -> ConfigDocument | None:
        """A configuration; it does not silence a topic that is to be retained, for then it was made of an earlier
        registration, and the registry's next word is on its way."""
        config = _config(self.name, told)
        if config is None or config.wanted:
            return config
        document = await topic_document(self._bucket, self.name)
        return replace(config, wanted=True) if document is not None and document.settings.retain else config

    async def store_facts(self, factoring: Factoring, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """The event with a reference in place of its static facts, which are stored before it travels."""
        on_wire, key, facts = factoring.split(event)
        if facts is not None:
            try:
                bucket = await self._broker.bucket(FACTS)
                await bucket.put(facts_key(self.name, key), encode_facts(facts))
            except BaseException:
                factoring.mark_unsent(key)
                raise
        return on_wire

    async def join_facts(self, factoring: Factoring, event: Event) -> Event:
        """The event with its static facts in place of the reference."""
        try:
            return factoring.join(event, self._facts.get)
        except UnknownFacts as unknown:
            await self._learn_facts(unknown.key)
        return factoring.join(event, self._facts.get)

    def factoring_of(self, fingerprint: bytes) -> Factoring | None:
        """How events under this fingerprint get their facts back; None where they carry them."""
        original = self._originals.get(fingerprint)
        return Factoring(original) if original is not None else None

    def _serves(self, config: ConfigDocument, tolerances: Mapping[str, float]) -> bool:
        demand = demand_for(self.schema, config.demand)
        told = {p.name: tolerance_of(self.schema, p, demand) for p in self.schema.wire if p.name in tolerances}
        return all(tolerance <= tolerances[name] for name, tolerance in told.items())

    async def _versions(self) -> list[Schema]:
        """All versions of the topic's schema that the registry has."""
        entries = await self._bucket.entries(schema_key(self.name, _ANY).removesuffix(_ANY) + "*")
        found = [decode(entry.key, entry.value) for entry in entries if entry.value is not None]
        return [version for version in found if isinstance(version, Schema)]

    def _keep(self, schema: Schema) -> None:
        on_wire = factored(schema)
        self._schemas[schema.fingerprint] = schema
        for travelling in (on_wire, *(demand.schema(on_wire) for demand in self._classes)):
            self._schemas[travelling.fingerprint] = travelling
            if on_wire is not schema:
                self._originals[travelling.fingerprint] = schema

    async def _learn_facts(self, key: str) -> None:
        bucket = await self._broker.bucket(FACTS)
        entry = await bucket.get(facts_key(self.name, key))
        if entry is None or entry.value is None:
            raise UnknownFacts(topic=self.name, key=key)
        self._facts[key] = decode_facts(key, entry.value)
        while len(self._facts) > MAX_FACTS:
            self._facts.popitem(last=False)


def _config(topic: str, value: bytes) -> ConfigDocument | None:
    try:
        document = decode(config_key(topic), value)
    except RegistryError as problem:
        _log.warning("%s: a configuration that cannot be read was ignored: %s", topic, problem)
        return None
    return document if isinstance(document, ConfigDocument) else None
