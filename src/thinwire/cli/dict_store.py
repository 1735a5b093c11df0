"""Listing, describing and verifying dictionaries in the store and in files.

A binding is the frame with which a publisher assigns a dictionary to a slot. Publishers may use the active dictionaries
of a topic; the store also contains those that frames in the log still need.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thinwire.brokers.protocol import Broker, Bucket
from thinwire.cli.connection_options import BrokerAccess
from thinwire.dictionaries import Dictionary, codec_of
from thinwire.dictionaries.dictionary import MAX_CONTENT
from thinwire.dictionaries.dictionary_transfer import cost
from thinwire.errors import BrokerUnavailable, ConfigError, CorruptDictionary, PeerFault, UnknownLog, UnknownTopic
from thinwire.topics.dictionary_documents import (
    ActiveDictionaries,
    Decision,
    Decisions,
    DictionaryReference,
    StoredDictionaries,
    active_dictionaries_key,
    decisions_key,
    stored_dictionaries_key,
)
from thinwire.topics.dictionary_store import DictionaryStore
from thinwire.topics.names import DICTIONARIES, check_topic, log_of
from thinwire.wire import bindings_in

MAX_FILE = MAX_CONTENT + 1024
"""largest dictionary file in bytes"""
MAX_LINEAGE = 32
"""largest number of ancestors shown"""
READ_TIMEOUT = 30.0
"""seconds to wait for the next message of the log"""
GOOD = "good"
_HASH = re.compile(r"[0-9a-f]{4,32}")
HASH_DIGITS = 32


@dataclass(frozen=True)
class ListedDictionary:
    """A dictionary of a topic.

    state: used (by publishers), ready (publishers may use it next), or kept (the log contains frames that need it)
    dictionary: None if it is missing or damaged
    """

    topic: str
    reference: DictionaryReference
    state: str
    dictionary: Dictionary | None


@dataclass(frozen=True)
class DictionaryDescription:
    """A dictionary with its costs and origin.

    packed: transfer size of the complete dictionary in bytes
    changed: transfer size as a difference from the parent in bytes, None without a parent
    lineage: hashes of the ancestors, nearest first
    topics: topics for which the dictionary is stored
    """

    dictionary: Dictionary
    packed: int
    changed: int | None = None
    lineage: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()


@dataclass(frozen=True)
class VerifiedDictionary:
    """Result of the verification of one dictionary.

    needed: who needs the dictionary: publishers, bindings of the log
    verdict: `GOOD`, or the problem
    """

    hash: str
    needed: str
    verdict: str

    @property
    def is_good(self) -> bool:
        return self.verdict == GOOD


class DictionaryBucket:
    """Reads dictionaries and their documents from a broker."""

    def __init__(self, broker: Broker, bucket: Bucket) -> None:
        self.broker = broker
        self.store = DictionaryStore(bucket)
        self._bucket = bucket

    async def active(self, topic: str | None) -> dict[str, ActiveDictionaries]:
        """Return the dictionaries that publishers may use, by topic."""
        values = await self._values(active_dictionaries_key(topic) if topic else "topic.>")
        return {document.topic: document for document in map(ActiveDictionaries.decode, values.values())}

    async def stored(self, topic: str | None = None) -> dict[str, StoredDictionaries]:
        """Return the stored dictionaries, by topic."""
        values = await self._values(stored_dictionaries_key(topic) if topic else "kept.>")
        return {document.topic: document for document in map(StoredDictionaries.decode, values.values())}

    async def decisions(self, topic: str) -> list[Decision]:
        """Return the decisions about a topic, newest last."""
        values = await self._values(decisions_key(topic))
        return [decision for value in values.values() for decision in Decisions.decode(value).decisions]

    async def find(self, hash: str) -> Dictionary | None:
        """Return the dictionary with this hash; None if it is missing or damaged."""
        try:
            return await self.store.get(bytes.fromhex(hash))
        except CorruptDictionary:
            return None

    async def complete_hash(self, digits: str) -> str:
        """Return the only hash that starts with these digits."""
        if len(digits) == HASH_DIGITS:
            return digits
        keys = sorted(key for key in await self._values("*") if key.startswith(digits))
        if len(keys) != 1:
            detail = "no hash starts with this" if not keys else "several hashes start with this: give more digits"
            raise ConfigError(f"{detail}; `thinwire dict list` lists them", hash=digits, found=keys[:5])
        return keys[0]

    async def _values(self, pattern: str) -> dict[str, bytes]:
        return {e.key: e.value for e in await self._bucket.entries(pattern) if e.value is not None}


@asynccontextmanager
async def open_dictionaries(access: BrokerAccess) -> AsyncIterator[DictionaryBucket]:
    """Connect to a broker and yield its dictionaries."""
    async with access.bus() as bus:
        yield DictionaryBucket(bus.broker, await bus.broker.bucket(DICTIONARIES))


def is_hash(text: str) -> bool:
    """Return whether a text can be a hash or the start of one.

    >>> is_hash("9f2c51"), is_hash("rooms")
    (True, False)
    """
    return _HASH.fullmatch(text) is not None


def read_dictionary_file(path: Path) -> Dictionary:
    """Read a dictionary file; the size is checked first."""
    if path.stat().st_size > MAX_FILE:
        raise CorruptDictionary("the file is larger than a dictionary may be", file=str(path), limit=MAX_FILE)
    return Dictionary.decode(path.read_bytes())


def dictionary_facts(dictionary: Dictionary) -> dict[str, Any]:
    """Return a dictionary as a document without its content."""
    facts = dictionary.facts
    return {
        "hash": dictionary.hash.hex(),
        "codec": dictionary.codec,
        "level": dictionary.level,
        "largest": dictionary.largest,
        "bytes": len(dictionary.content),
        "trained_messages": facts.messages if facts else None,
        "trained_bytes": facts.bytes if facts else None,
        "saved": facts.ratio if facts else None,
    }


async def list_dictionaries(access: BrokerAccess, topic: str | None) -> list[ListedDictionary]:
    """List the dictionaries of all topics, or of one."""
    async with open_dictionaries(access) as bucket:
        active, stored = await bucket.active(topic), await bucket.stored(topic)
        return [
            ListedDictionary(name, reference, state, await bucket.find(reference.hash))
            for name in sorted(active.keys() | stored.keys())
            for reference, state in _states(active.get(name), stored.get(name), time.time())
        ]


async def describe_dictionary(access: BrokerAccess, hash_or_file: str) -> DictionaryDescription:
    """Describe one dictionary from a file or the store."""
    path = Path(hash_or_file)
    if path.is_file():
        dictionary = read_dictionary_file(path)
        return DictionaryDescription(dictionary, cost(dictionary))
    if not is_hash(hash_or_file):
        raise ConfigError("neither a file nor a hash: `thinwire dict list` lists hashes", which=hash_or_file)
    async with open_dictionaries(access) as bucket:
        hash = await bucket.complete_hash(hash_or_file)
        found = await bucket.store.get(bytes.fromhex(hash))
        if found is None:
            raise ConfigError("no such dictionary: `thinwire dict list` lists them", hash=hash)
        stored = {
            topic: document
            for topic, document in sorted((await bucket.stored()).items())
            if any(reference.hash == hash for reference in document.dictionaries)
        }
        ancestors = next(iter(stored.values())).lineage(hash)[1:] if stored else []
        if not ancestors and found.parent:
            ancestors = [found.parent.hex()]
        parent = await bucket.find(ancestors[0]) if ancestors else None
    changed = cost(found, parent) if parent else None
    return DictionaryDescription(found, cost(found), changed, tuple(ancestors[:MAX_LINEAGE]), tuple(stored))


async def list_decisions(access: BrokerAccess, topic: str) -> list[Decision]:
    """Return the latest decisions about a topic."""
    async with open_dictionaries(access) as bucket:
        return await bucket.decisions(topic)


def _states(
    active: ActiveDictionaries | None, stored: StoredDictionaries | None, now: float
) -> list[tuple[DictionaryReference, str]]:
    """Return the dictionaries of a topic with their states, newest first."""
    references = {ref.hash: ref for document in (stored, active) if document for ref in document.dictionaries}
    ready = {ref.hash for ref in active.dictionaries if ref.expires > now} if active else set()
    used = active.farthest(now) if active else None
    used_hash = used.hash if used else ""
    return [
        (ref, "used" if ref.hash == used_hash else "ready" if ref.hash in ready else "kept")
        for ref in reversed(references.values())
    ]


async def verify_dictionaries(access: BrokerAccess, hash_file_or_topic: str) -> list[VerifiedDictionary]:
    """Verify a file, a stored dictionary, or all that a topic needs."""
    path = Path(hash_file_or_topic)
    if path.is_file():
        return [_verify_file(path)]
    async with open_dictionaries(access) as bucket:
        if is_hash(hash_file_or_topic):
            return [await _verify_stored(bucket, await bucket.complete_hash(hash_file_or_topic), "")]
        needed = await _find_needed(bucket, check_topic(hash_file_or_topic))
        return [await _verify_stored(bucket, hash, reason) for hash, reason in needed.items()]


def _verify_file(path: Path) -> VerifiedDictionary:
    try:
        found = read_dictionary_file(path)
    except PeerFault as fault:
        return VerifiedDictionary("", str(path), str(fault))
    named = path.stem.lower()
    other = len(named) == HASH_DIGITS and is_hash(named) and named != found.hash.hex()
    verdict = "the file name is the hash of another dictionary" if other else _test_codec(found)
    return VerifiedDictionary(found.hash.hex(), str(path), verdict)


async def _verify_stored(bucket: DictionaryBucket, hash: str, needed: str) -> VerifiedDictionary:
    try:
        found = await bucket.store.get(bytes.fromhex(hash))
    except PeerFault as fault:
        return VerifiedDictionary(hash, needed, str(fault))
    return VerifiedDictionary(hash, needed, _test_codec(found) if found is not None else "missing in the store")


def _test_codec(found: Dictionary) -> str:
    """Pack and unpack a sample with the dictionary."""
    sample = found.content[-64:] + bytes(range(64))
    try:
        codec = codec_of(found)
        same = codec.unpack(codec.pack(sample), len(sample)) == sample
    except PeerFault as fault:
        return str(fault)
    return GOOD if same else "unpacking does not return the packed bytes"


async def _find_needed(bucket: DictionaryBucket, topic: str) -> dict[str, str]:
    """Return by hash who needs a dictionary: publishers that may use it, and bindings in the log."""
    active = (await bucket.active(topic)).get(topic)
    needed = {reference.hash: "publishers" for reference in active.dictionaries} if active is not None else {}
    try:
        bindings = await _count_bindings(bucket.broker, topic)
    except UnknownLog:
        if not needed:
            raise UnknownTopic("the broker has no log and no dictionary of it", topic=topic) from None
        return needed
    for hash, count in bindings.items():
        log = f"{count:,} bindings of the log"
        needed[hash] = f"{needed[hash]}, {log}" if hash in needed else log
    return needed


async def _count_bindings(broker: Broker, topic: str) -> Counter[str]:
    """Count by hash the bindings of a slot to a dictionary in the log."""
    bindings: Counter[str] = Counter()
    span = await broker.span(log_of(topic))
    reader = await broker.read(log_of(topic), first=span.first)
    try:
        offset = span.first - 1
        while offset < span.last:
            message = await reader.next(READ_TIMEOUT)
            if message is None:
                detail = "the log could not be read to its end: repeat the command"
                raise BrokerUnavailable(detail, topic=topic, offset=offset, last=span.last)
            bindings.update(binding.hash.hex() for binding in bindings_in(message.payload))
            offset = message.offset
            reader.done(offset)
    finally:
        await reader.close()
    return bindings
