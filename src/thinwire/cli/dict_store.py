"""Are dictionaries what their hashes say, and is every one there that a log needs?

Dictionaries as the store and files have them: which there are, what one is, and why it was decided so.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from thinwire.brokers.protocol import Broker, Bucket
from thinwire.cli.connection_options import Access
from thinwire.dictionaries import Dictionary, codec_of
from thinwire.dictionaries.dictionary import MAX_CONTENT
from thinwire.dictionaries.dictionary_transfer import cost
from thinwire.errors import BrokerUnavailable, ConfigError, CorruptDictionary, PeerFault, UnknownLog, UnknownTopic
from thinwire.topics.dictionary_documents import (
    ActiveDictionaries,
    Decision,
    DictionaryReference,
    StoredDictionaries,
    decode_decisions,
    in_use_key,
    kept_key,
    why_key,
)
from thinwire.topics.dictionary_store import DictionaryStore
from thinwire.topics.names import DICTIONARIES, check_topic, log_of
from thinwire.wire import bindings_in

MAX_FILE = MAX_CONTENT + 1024
"""bytes of a dictionary's file"""
MAX_LINE = 32
"""dictionaries of a lineage that are shown"""
_HASH = re.compile(r"[0-9a-f]{4,32}")
HASH_DIGITS = 32


@dataclass(frozen=True)
class Listed:
    """A dictionary of a topic; `state`: used, ready (may be used next), or kept for the log.

    dictionary: None where the store has none of this hash, or another one
    """

    topic: str
    said: DictionaryReference
    state: str
    dictionary: Dictionary | None


@dataclass(frozen=True)
class Described:
    """One dictionary; packed, changed: bytes to one receiver, by itself and as a change of its parent.

    lineage: hashes of those it came from, the nearest first; topics: where it is kept for
    """

    dictionary: Dictionary
    packed: int
    changed: int | None = None
    lineage: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()


class Shelves:
    """The dictionaries of a broker, and what is said about them."""

    def __init__(self, bucket: Bucket) -> None:
        self.store = DictionaryStore(bucket)
        self._bucket = bucket

    @classmethod
    async def of(cls, broker: Broker) -> Shelves:
        return cls(await broker.bucket(DICTIONARIES))

    async def in_use(self, topic: str | None) -> dict[str, ActiveDictionaries]:
        """What publishers may use, by topic."""
        found = await self._values(in_use_key(topic) if topic else "topic.>")
        return {document.topic: document for document in map(ActiveDictionaries.decode, found.values())}

    async def kept(self, topic: str | None = None) -> dict[str, StoredDictionaries]:
        """What the store keeps, by topic."""
        found = await self._values(kept_key(topic) if topic else "kept.>")
        return {document.topic: document for document in map(StoredDictionaries.decode, found.values())}

    async def decisions(self, topic: str) -> list[Decision]:
        """What was decided, the newest last."""
        found = await self._values(why_key(topic))
        return [decision for value in found.values() for decision in decode_decisions(value)]

    async def found(self, hash: str) -> Dictionary | None:
        """The dictionary with this hash; None where there is none, or another one."""
        try:
            return await self.store.get(bytes.fromhex(hash))
        except CorruptDictionary:
            return None

    async def whole(self, digits: str) -> str:
        """The hash that begins with these digits."""
        if len(digits) == HASH_DIGITS:
            return digits
        keys = sorted(key for key in await self._values("*") if key.startswith(digits))
        if len(keys) != 1:
            detail = "no dictionary has a hash that begins so" if not keys else "several hashes begin so: write more"
            raise ConfigError(f"{detail}; `thinwire dict list` shows them", hash=digits, found=keys[:5])
        return keys[0]

    async def _values(self, pattern: str) -> dict[str, bytes]:
        return {e.key: e.value for e in await self._bucket.entries(pattern) if e.value is not None}


def is_hash(text: str) -> bool:
    """May this be a hash, or the beginning of one?

    >>> is_hash("9f2c51"), is_hash("rooms")
    (True, False)
    """
    return _HASH.fullmatch(text) is not None


def of_file(path: Path) -> Dictionary:
    """The dictionary in a file; the size is checked before it is read."""
    if path.stat().st_size > MAX_FILE:
        raise CorruptDictionary("the file is larger than a dictionary may be", file=str(path), limit=MAX_FILE)
    return Dictionary.decode(path.read_bytes())


async def listed(access: Access, topic: str | None) -> list[Listed]:
    """All dictionaries of all topics, or of one."""
    async with access.bus() as bus:
        shelves = await Shelves.of(bus.broker)
        used, kept = await shelves.in_use(topic), await shelves.kept(topic)
        rows = [
            Listed(name, said, state, await shelves.found(said.hash))
            for name in sorted(used.keys() | kept.keys())
            for said, state in _states(used.get(name), kept.get(name), time.time())
        ]
    return rows


async def described(access: Access, which: str) -> Described:
    """One dictionary, out of a file or the store."""
    if Path(which).is_file():
        dictionary = of_file(Path(which))
        return Described(dictionary, cost(dictionary))
    if not is_hash(which):
        raise ConfigError("neither a file nor a hash: `thinwire dict list` shows hashes", which=which)
    async with access.bus() as bus:
        shelves = await Shelves.of(bus.broker)
        hash = await shelves.whole(which)
        found = await shelves.store.get(bytes.fromhex(hash))
        if found is None:
            raise ConfigError("the store has no such dictionary: `thinwire dict list` shows them", hash=hash)
        kept = await shelves.kept()
        return await _described(shelves, found, kept)


async def list_decisions(access: Access, topic: str) -> list[Decision]:
    """The last decisions about a topic."""
    async with access.bus() as bus:
        return await (await Shelves.of(bus.broker)).decisions(topic)


async def _described(shelves: Shelves, found: Dictionary, kept: Mapping[str, StoredDictionaries]) -> Described:
    hash = found.hash.hex()
    topics = tuple(sorted(name for name, one in kept.items() if hash in {said.hash for said in one.dictionaries}))
    lineage = _lineage(found, kept[topics[0]] if topics else None)
    parent = await shelves.found(lineage[0]) if lineage else None
    return Described(found, cost(found), cost(found, parent) if parent else None, lineage, topics)


def _lineage(found: Dictionary, kept: StoredDictionaries | None) -> tuple[str, ...]:
    line = kept.lineage(found.hash.hex())[1:] if kept is not None else []
    return tuple(line or ([found.parent.hex()] if found.parent else []))[:MAX_LINE]


def _states(
    used: ActiveDictionaries | None, kept: StoredDictionaries | None, now: float
) -> list[tuple[DictionaryReference, str]]:
    """The dictionaries of a topic, the newest first."""
    ready = {said.hash: said for said in used.dictionaries} if used is not None else {}
    every = {said.hash: said for said in kept.dictionaries} if kept is not None else {}
    best = used.farthest(now) if used is not None else None
    newest_first = reversed((every | ready).values())
    return [(said, _state(said, best, said.hash in ready and said.expires > now)) for said in newest_first]


def _state(said: DictionaryReference, best: DictionaryReference | None, ready: bool) -> str:
    if best is not None and said.hash == best.hash:
        return "used"
    return "ready" if ready else "kept"


GOOD = "good"
PATIENCE = 30.0
"""seconds without a message of the log, after which it cannot be read"""


@dataclass(frozen=True)
class Checked:
    """A dictionary; needed: who needs it; verdict: good, or what is wrong."""

    hash: str
    needed: str
    verdict: str

    @property
    def good(self) -> bool:
        return self.verdict == GOOD


async def check(access: Access, which: str) -> list[Checked]:
    """A file, a dictionary of the store, or all that a topic needs."""
    path = Path(which)
    if path.is_file():
        return [_of_file(path)]
    async with access.bus() as bus:
        shelves = await Shelves.of(bus.broker)
        if is_hash(which):
            return [await _of_store(shelves, await shelves.whole(which), "")]
        needed = await _needed(bus.broker, shelves, check_topic(which))
        return [await _of_store(shelves, hash, why) for hash, why in needed.items()]


def _of_file(path: Path) -> Checked:
    try:
        found = of_file(path)
    except PeerFault as fault:
        return Checked("", str(path), str(fault))
    named = path.stem.lower()
    other = len(named) == HASH_DIGITS and is_hash(named) and named != found.hash.hex()
    verdict = "the file has the name of another one" if other else _works(found)
    return Checked(found.hash.hex(), str(path), verdict)


async def _of_store(shelves: Shelves, hash: str, needed: str) -> Checked:
    try:
        found = await shelves.store.get(bytes.fromhex(hash))
    except PeerFault as fault:
        return Checked(hash, needed, str(fault))
    return Checked(hash, needed, _works(found) if found is not None else "missing: the store has none of this hash")


def _works(found: Dictionary) -> str:
    """Does its codec take it? What it packs it must read again."""
    said = found.content[-64:] + bytes(range(64))
    try:
        codec = codec_of(found)
        same = codec.unpack(codec.pack(said), len(said)) == said
    except PeerFault as fault:
        return str(fault)
    return GOOD if same else "it does not read what it packed"


async def _needed(broker: Broker, shelves: Shelves, topic: str) -> dict[str, str]:
    """By hash, who needs it: publishers that may use it, and places of the log that bind a slot to it."""
    used = (await shelves.in_use(topic)).get(topic)
    needed = {said.hash: "publishers" for said in used.dictionaries} if used is not None else {}
    for hash, times in (await _bound(broker, topic, bool(needed))).items():
        log = f"{times:,} bindings of the log"
        needed[hash] = f"{needed[hash]}, {log}" if hash in needed else log
    return needed


async def _bound(broker: Broker, topic: str, known: bool) -> Counter[str]:
    """How often the log binds a slot to each dictionary."""
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
            stored = await reader.next(PATIENCE)
            if stored is None:
                raise BrokerUnavailable("the log was not told to its end", topic=topic, offset=at, last=span.last)
            found.update(one.hash.hex() for one in bindings_in(stored.payload))
            at = stored.offset
            reader.done(at)
    finally:
        await reader.close()
    return found
