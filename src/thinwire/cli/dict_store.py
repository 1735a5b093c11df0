"""Listing, describing and verifying dictionaries in the store and in files.

A binding is the frame with which a publisher assigns a dictionary to a slot. Publishers may use the active dictionaries
of a topic; the store also contains those that frames in the log still need.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
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
from thinwire.topics.dictionary_documents import ActiveDictionaries, Decision, StoredDictionaries
from thinwire.topics.dictionary_metadata import DictionaryMetadata
from thinwire.topics.dictionary_store import DictionaryStore
from thinwire.topics.names import DICTIONARIES, check_topic, log_of
from thinwire.wire import bindings_in

MAX_FILE = MAX_CONTENT + 1024
"""largest dictionary file in bytes"""
MAX_LINEAGE = 32
"""largest number of ancestors shown"""
MAX_LINES, LINE_LENGTH = 8, 100
"""number of lines of content shown, and characters per line"""
READ_TIMEOUT = 30.0
"""seconds to wait for the next message of the log"""
GOOD = "good"
_HASH = re.compile(r"[0-9a-f]{4,32}")
HASH_DIGITS = 32


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


@asynccontextmanager
async def open_dictionaries(access: BrokerAccess) -> AsyncIterator[tuple[Broker, Bucket]]:
    """Connect to a broker; yield it and its bucket of dictionaries."""
    async with access.bus() as bus:
        yield bus.broker, await bus.broker.bucket(DICTIONARIES)


async def list_dictionaries(access: BrokerAccess, topic: str | None) -> list[dict[str, Any]]:
    """List the dictionaries of all topics, or of one, newest first."""
    async with open_dictionaries(access) as (_, bucket):
        topics = await _list_topics(bucket) if topic is None else [topic]
        return [row for name in topics for row in await _list_of_topic(DictionaryMetadata(bucket, name))]


async def _list_topics(bucket: Bucket) -> list[str]:
    entries = [*await bucket.entries("topic.>"), *await bucket.entries("kept.>")]
    return sorted({entry.key.partition(".")[2] for entry in entries if entry.value is not None})


async def _list_of_topic(metadata: DictionaryMetadata) -> list[dict[str, Any]]:
    """Return the dictionaries of a topic as documents.

    state: used (by publishers), ready (publishers may use it next), or kept (the log contains frames that need it)
    there: whether the store has the dictionary, undamaged
    """
    now, rows = time.time(), []
    active = await metadata.read_active() or ActiveDictionaries(metadata.topic)
    ready, used = [ref for ref in active.dictionaries if ref.expires > now], active.last_to_expire(now)
    stored = await metadata.read_stored()
    for ref in reversed({ref.hash: ref for ref in (*stored.dictionaries, *active.dictionaries)}.values()):
        found = await _find(metadata.store, ref.hash)
        facts = dictionary_facts(found) if found is not None else {}
        state = "used" if ref == used else "ready" if ref in ready else "kept"
        reference = {"hash": ref.hash, "expires": ref.expires, "parent": ref.parent}
        rows.append({"topic": metadata.topic, **facts, **reference, "state": state, "there": found is not None})
    return rows


async def describe_dictionary(access: BrokerAccess, hash_or_file: str) -> dict[str, Any]:
    """Return a dictionary from a file or the store as a document.

    packed: transfer size of the complete dictionary in bytes
    changed: transfer size as a difference from the parent in bytes, None without a parent
    lineage: hashes of the ancestors, nearest first
    topics: topics for which the dictionary is stored
    content: see `readable`
    """
    path = Path(hash_or_file)
    if path.is_file():
        return _document(read_dictionary_file(path))
    if not is_hash(hash_or_file):
        raise ConfigError("neither a file nor a hash: `thinwire dict list` lists hashes", which=hash_or_file)
    async with open_dictionaries(access) as (_, bucket):
        hash, store = await _complete_hash(bucket, hash_or_file), DictionaryStore(bucket)
        found = await store.get(bytes.fromhex(hash))
        if found is None:
            raise ConfigError("no such dictionary: `thinwire dict list` lists them", hash=hash)
        entries = await bucket.entries("kept.>")
        documents = [StoredDictionaries.decode(entry.value) for entry in entries if entry.value is not None]
        stored = {
            document.topic: document.lineage(hash)
            for document in documents
            if any(reference.hash == hash for reference in document.dictionaries)
        }
        ancestors = next(iter(stored.values()))[1:] if stored else []
        if not ancestors and found.parent:
            ancestors = [found.parent.hex()]
        parent = await _find(store, ancestors[0]) if ancestors else None
    return _document(found, parent, ancestors, sorted(stored))


def _document(
    found: Dictionary, parent: Dictionary | None = None, ancestors: Sequence[str] = (), topics: Sequence[str] = ()
) -> dict[str, Any]:
    return {
        **dictionary_facts(found),
        "packed": cost(found),
        "changed": cost(found, parent) if parent is not None else None,
        "lineage": ancestors[:MAX_LINEAGE],
        "topics": topics,
        "content": readable(found.content),
    }


async def list_decisions(access: BrokerAccess, topic: str) -> list[Decision]:
    """Return the latest decisions about a topic, newest first."""
    async with open_dictionaries(access) as (_, bucket):
        return (await DictionaryMetadata(bucket, topic).read_decisions())[::-1]


async def verify_dictionaries(access: BrokerAccess, hash_file_or_topic: str) -> list[VerifiedDictionary]:
    """Verify a file, a stored dictionary, or all that a topic needs."""
    path = Path(hash_file_or_topic)
    if path.is_file():
        return [_verify_file(path)]
    async with open_dictionaries(access) as (broker, bucket):
        if is_hash(hash_file_or_topic):
            needed = {await _complete_hash(bucket, hash_file_or_topic): ""}
        else:
            needed = await _find_needed(broker, DictionaryMetadata(bucket, check_topic(hash_file_or_topic)))
        return [await _verify_stored(DictionaryStore(bucket), hash, reason) for hash, reason in needed.items()]


def _verify_file(path: Path) -> VerifiedDictionary:
    try:
        found = read_dictionary_file(path)
    except PeerFault as fault:
        return VerifiedDictionary("", str(path), str(fault))
    named = path.stem.lower()
    other = len(named) == HASH_DIGITS and is_hash(named) and named != found.hash.hex()
    verdict = "the file name is the hash of another dictionary" if other else _test_codec(found)
    return VerifiedDictionary(found.hash.hex(), str(path), verdict)


async def _verify_stored(store: DictionaryStore, hash: str, needed: str) -> VerifiedDictionary:
    try:
        found = await store.get(bytes.fromhex(hash))
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


async def _find_needed(broker: Broker, metadata: DictionaryMetadata) -> dict[str, str]:
    """Return by hash who needs a dictionary: publishers that may use it, and bindings in the log."""
    active = await metadata.read_active()
    needed = {reference.hash: "publishers" for reference in active.dictionaries} if active is not None else {}
    try:
        bindings = await _count_bindings(broker, metadata.topic)
    except UnknownLog:
        if not needed:
            raise UnknownTopic("the broker has no log and no dictionary of it", topic=metadata.topic) from None
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


async def _find(store: DictionaryStore, hash: str) -> Dictionary | None:
    """Return the dictionary with this hash; None if it is missing or damaged."""
    try:
        return await store.get(bytes.fromhex(hash))
    except CorruptDictionary:
        return None


async def _complete_hash(bucket: Bucket, digits: str) -> str:
    """Return the only hash that starts with these digits."""
    if len(digits) == HASH_DIGITS:
        return digits
    entries = await bucket.entries("*")
    keys = sorted(entry.key for entry in entries if entry.value is not None and entry.key.startswith(digits))
    if len(keys) != 1:
        detail = "no hash starts with this" if not keys else "several hashes start with this: give more digits"
        raise ConfigError(f"{detail}; `thinwire dict list` lists them", hash=digits, found=keys[:5])
    return keys[0]


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


def readable(content: bytes, lines: int = MAX_LINES, length: int = LINE_LENGTH) -> list[str]:
    """Return the end of a dictionary as lines of text, the last one first; unprintable characters become dots.

    >>> readable(b"\\x00" * 90 + b'{"room": "11.1", ', lines=2, length=10)
    [': "11.1", ', '···{"room"']
    """
    text = content[-lines * length :].decode("utf-8", "replace")
    printable = "".join(char if char.isprintable() and char != "\ufffd" else "·" for char in text)
    parts = [printable[max(0, end - length) : end] for end in range(len(printable), 0, -length)]
    return [part for part in parts if part.strip("· ")]
