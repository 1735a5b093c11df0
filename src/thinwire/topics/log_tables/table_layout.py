"""What a reader of whole stretches knows of a topic: its schemas, facts told once, and dictionaries."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from thinwire.brokers.protocol_source import LogSource
from thinwire.dictionaries import Dictionary
from thinwire.errors import CorruptDictionary, RegistryError, UnknownFacts, UnknownTopic
from thinwire.schema import Schema
from thinwire.topics.dictionary_store_store import Known, fetched
from thinwire.topics.names import DICTIONARIES, FACTS, REGISTRY, check_topic
from thinwire.topics.static_properties import Factoring, decode_facts, factored, facts_key
from thinwire.topics.topic_documents import TopicDocument, decode
from thinwire.topics.topic_settings import schema_key, topic_key

_ANY = "any"

_log = logging.getLogger("thinwire.landing")


class TopicSchemas:
    """The schemas of one topic, as the registry's documents tell.

    current: the one that its events are read as, whatever version wrote them
    """

    def __init__(self, source: LogSource, topic: str) -> None:
        self.topic = check_topic(topic)
        self._source = source
        self._schemas: dict[bytes, Schema] = {}
        self._originals: dict[bytes, Schema] = {}
        self._facts: dict[str, Mapping[str, Any]] = {}
        self._dictionaries = Known()
        self.current = self._load()

    @property
    def travelling(self) -> Schema:
        """What travels of the current one."""
        return factored(self.current)

    def lookup(self, fingerprint: bytes) -> Schema | None:
        """The schema that travels under this fingerprint, as far as it is known."""
        return self._schemas.get(fingerprint)

    def learn(self, fingerprint: bytes) -> bool:
        """Look again, for a version registered meanwhile; False where there is none of this fingerprint."""
        self._load()
        return fingerprint in self._schemas

    def dictionary(self, hash: bytes) -> Dictionary | None:
        """The dictionary with this hash; None where there is none, or another one in its place."""
        found = self._dictionaries.find(hash)
        if found is None:
            try:
                found = fetched(hash, partial(self._source.document, DICTIONARIES), self._dictionaries.find)
            except CorruptDictionary as lie:
                _log.warning("%s: %s", self.topic, lie)
            if found is not None:
                self._dictionaries.keep(found)
        return found

    def written(self, fingerprint: bytes) -> Schema:
        """The schema as it was registered of what travels under this fingerprint."""
        return self._originals.get(fingerprint) or self._schemas[fingerprint]

    def factoring(self, fingerprint: bytes) -> Factoring | None:
        """How events under this fingerprint get their facts back; None where they carry them."""
        original = self._originals.get(fingerprint)
        return Factoring(original) if original is not None else None

    def knows_facts(self, key: str) -> bool:
        """Has somebody told what is under this key, and is it what the key names?"""
        try:
            self.facts(key)
        except (UnknownFacts, RegistryError):
            return False
        return True

    def facts(self, key: str) -> Mapping[str, Any]:
        """The facts under a key; `UnknownFacts` where nobody has told them."""
        if key not in self._facts:
            value = self._source.document(FACTS, facts_key(self.topic, key))
            if value is None:
                raise UnknownFacts(topic=self.topic, key=key)
            self._facts[key] = decode_facts(key, value)
        return self._facts[key]

    def _load(self) -> Schema:
        """All versions there are; the current one."""
        value = self._source.document(REGISTRY, topic_key(self.topic))
        document = decode(topic_key(self.topic), value) if value is not None else None
        if not isinstance(document, TopicDocument):
            raise UnknownTopic(topic=self.topic)
        pattern = schema_key(self.topic, _ANY).removesuffix(_ANY) + "*"
        for key, text in self._source.documents(REGISTRY, pattern).items():
            schema = decode(key, text)
            assert isinstance(schema, Schema)
            self._keep(schema)
        current = self._schemas.get(bytes.fromhex(document.fingerprint))
        if current is None:
            raise RegistryError("the schema of a topic is missing", topic=self.topic, fingerprint=document.fingerprint)
        return current

    def _keep(self, schema: Schema) -> None:
        on_wire = factored(schema)
        self._schemas[schema.fingerprint] = schema
        self._schemas[on_wire.fingerprint] = on_wire
        if on_wire is not schema:
            self._originals[on_wire.fingerprint] = schema
