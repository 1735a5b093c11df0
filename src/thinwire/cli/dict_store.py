"""Are dictionaries what their hashes say, and is every one there that a log needs?"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from thinwire.brokers.protocol_broker import Broker
from thinwire.cli.connection_options_live import Access
from thinwire.cli.dict_store_dict_reading import HASH_DIGITS, Shelves, is_hash, of_file
from thinwire.dictionaries import Dictionary, codec_of
from thinwire.errors import BrokerUnavailable, PeerFault, UnknownLog, UnknownTopic
from thinwire.topics.names import check_topic, log_of
from thinwire.wire import bindings_in

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
