"""Listing, describing and verifying dictionaries in the store and in files."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Mapping
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
    DictionaryReference,
    StoredDictionaries,
    active_dictionaries_key,
    decisions_key,
    decode_decisions,
    stored_dictionaries_key,
)
from thinwire.topics.dictionary_store import DictionaryStore
from thinwire.topics.names import DICTIONARIES, check_topic, log_of
from thinwire.wire import bindings_in

MAX_FILE = MAX_CONTENT + 1024
"""largest dictionary file in bytes"""
MAX_LINEAGE = 32
"""largest number of ancestors shown"""
_HASH = re.compile(r"[0-9a-f]{4,32}")
HASH_DIGITS = 32


@dataclass(frozen=True)
class ListedDictionary:
    """A dictionary of a topic.

    state: used, ready (may be used next), or kept for the log
    dictionary: None if it is missing or damaged
    """

    topic: str
    reference: DictionaryReference
    state: str
    dictionary: Dictionary | None


@dataclass(frozen=True)
class DictionaryDescription:
    """A dictionary with its costs and origin.

    packed, changed: transfer size in bytes, alone and as a delta of its parent
    lineage: hashes of its ancestors, nearest first
    topics: topics that it is stored for
    """

    dictionary: Dictionary
    packed: int
    changed: int | None = None
    lineage: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()


class DictionaryBucket:
    """Reads dictionaries and their documents from the bucket of a broker."""

    def __init__(self, bucket: Bucket) -> None:
        self.store = DictionaryStore(bucket)
        self._bucket = bucket

    @classmethod
    async def open(cls, broker: Broker) -> DictionaryBucket:
        return cls(await broker.bucket(DICTIONARIES))

    async def in_use(self, topic: str | None) -> dict[str, ActiveDictionaries]:
        """Return the dictionaries that publishers may use, by topic."""
        found = await self._values(active_dictionaries_key(topic) if topic else "topic.>")
        return {document.topic: document for document in map(ActiveDictionaries.decode, found.values())}

    async def kept(self, topic: str | None = None) -> dict[str, StoredDictionaries]:
        """Return the stored dictionaries, by topic."""
        found = await self._values(stored_dictionaries_key(topic) if topic else "kept.>")
        return {document.topic: document for document in map(StoredDictionaries.decode, found.values())}

    async def decisions(self, topic: str) -> list[Decision]:
        """Return the decisions about a topic, newest last."""
        found = await self._values(decisions_key(topic))
        return [decision for value in found.values() for decision in decode_decisions(value)]

    async def found(self, hash: str) -> Dictionary | None:
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


async def list_dictionaries(broker: BrokerAccess, topic: str | None) -> list[ListedDictionary]:
    """List the dictionaries of all topics, or of one."""
    async with broker.bus() as bus:
        bucket = await DictionaryBucket.open(bus.broker)
        used, kept = await bucket.in_use(topic), await bucket.kept(topic)
        rows = [
            ListedDictionary(name, reference, state, await bucket.found(reference.hash))
            for name in sorted(used.keys() | kept.keys())
            for reference, state in _states(used.get(name), kept.get(name), time.time())
        ]
    return rows


async def describe_dictionary(broker: BrokerAccess, which: str) -> DictionaryDescription:
    """Describe one dictionary from a file or the store."""
    if Path(which).is_file():
        dictionary = read_dictionary_file(Path(which))
        return DictionaryDescription(dictionary, cost(dictionary))
    if not is_hash(which):
        raise ConfigError("neither a file nor a hash: `thinwire dict list` lists hashes", which=which)
    async with broker.bus() as bus:
        bucket = await DictionaryBucket.open(bus.broker)
        hash = await bucket.complete_hash(which)
        found = await bucket.store.get(bytes.fromhex(hash))
        if found is None:
            raise ConfigError("no such dictionary: `thinwire dict list` lists them", hash=hash)
        kept = await bucket.kept()
        return await _described(bucket, found, kept)


async def list_decisions(broker: BrokerAccess, topic: str) -> list[Decision]:
    """Return the latest decisions about a topic."""
    async with broker.bus() as bus:
        return await (await DictionaryBucket.open(bus.broker)).decisions(topic)


async def _described(
    bucket: DictionaryBucket, found: Dictionary, kept: Mapping[str, StoredDictionaries]
) -> DictionaryDescription:
    hash = found.hash.hex()
    topics = tuple(sorted(name for name, stored in kept.items() if hash in {ref.hash for ref in stored.dictionaries}))
    lineage = _lineage(found, kept[topics[0]] if topics else None)
    parent = await bucket.found(lineage[0]) if lineage else None
    return DictionaryDescription(found, cost(found), cost(found, parent) if parent else None, lineage, topics)


def _lineage(found: Dictionary, kept: StoredDictionaries | None) -> tuple[str, ...]:
    line = kept.lineage(found.hash.hex())[1:] if kept is not None else []
    return tuple(line or ([found.parent.hex()] if found.parent else []))[:MAX_LINEAGE]


def _states(
    used: ActiveDictionaries | None, kept: StoredDictionaries | None, now: float
) -> list[tuple[DictionaryReference, str]]:
    """Return the dictionaries of a topic with their states, newest first."""
    ready = {reference.hash: reference for reference in used.dictionaries} if used is not None else {}
    every = {reference.hash: reference for reference in kept.dictionaries} if kept is not None else {}
    best = used.farthest(now) if used is not None else None
    newest_first = reversed((every | ready).values())
    return [
        (reference, _state(reference, best, reference.hash in ready and reference.expires > now))
        for reference in newest_first
    ]


def _state(reference: DictionaryReference, best: DictionaryReference | None, ready: bool) -> str:
    if best is not None and reference.hash == best.hash:
        return "used"
    return "ready" if ready else "kept"


GOOD = "good"
READ_TIMEOUT = 30.0
"""seconds to wait for the next message of the log"""


@dataclass(frozen=True)
class VerifiedDictionary:
    """Result for one dictionary.

    needed: what needs it; verdict: good, or the problem
    """

    hash: str
    needed: str
    verdict: str

    @property
    def good(self) -> bool:
        return self.verdict == GOOD


async def verify_dictionaries(broker: BrokerAccess, which: str) -> list[VerifiedDictionary]:
    """Verify a file, a stored dictionary, or all that a topic needs."""
    path = Path(which)
    if path.is_file():
        return [_verify_file(path)]
    async with broker.bus() as bus:
        bucket = await DictionaryBucket.open(bus.broker)
        if is_hash(which):
            return [await _verify_stored(bucket, await bucket.complete_hash(which), "")]
        needed = await _find_needed(bus.broker, bucket, check_topic(which))
        return [await _verify_stored(bucket, hash, why) for hash, why in needed.items()]


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


async def _find_needed(broker: Broker, bucket: DictionaryBucket, topic: str) -> dict[str, str]:
    """Return by hash what needs a dictionary: publishers that may use it, and bindings in the log."""
    used = (await bucket.in_use(topic)).get(topic)
    needed = {reference.hash: "publishers" for reference in used.dictionaries} if used is not None else {}
    for hash, times in (await _count_bindings(broker, topic, bool(needed))).items():
        log = f"{times:,} bindings of the log"
        needed[hash] = f"{needed[hash]}, {log}" if hash in needed else log
    return needed


async def _count_bindings(broker: Broker, topic: str, known: bool) -> Counter[str]:
    """Count the bindings of slots to each dictionary in the log."""
    found: Counter[str] = Counter()
    try:
        span = await broker.span(log_of(topic))
    except UnknownLog:
        if known:
            return found
        raise UnknownTopic("the broker has no log and no dictionary of it", topic=topic) from None
    reader = await broker.read(log_of(topic), first=span.first)
    try:
        at = span.first - 1
        while at < span.last:
            stored = await reader.next(READ_TIMEOUT)
            if stored is None:
                raise BrokerUnavailable("the log could not be read to its end", topic=topic, offset=at, last=span.last)
            found.update(binding.hash.hex() for binding in bindings_in(stored.payload))
            at = stored.offset
            reader.done(at)
    finally:
        await reader.close()
    return found
