"""A dictionary that somebody trained, given to a topic: stored first, then told to its publishers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from thinwire.cli.live import Access
from thinwire.control.dictionaries.documents import MAX_SAID, InUse
from thinwire.control.dictionaries.sampling import Sampler, Terms
from thinwire.control.dictionaries.shelf import TopicShelf
from thinwire.control.names import DICTIONARIES, dictionary_subject
from thinwire.control.registry import current_schema, open_registry
from thinwire.dictionaries import Dictionary
from thinwire.dictionaries.maintenance import Keep, Proposal, Replace
from thinwire.errors import ConfigError, CorruptDictionary, UnknownTopic
from thinwire.events import Schema

DAY = 86_400.0


class Told(NamedTuple):
    """What publishers were told; bytes: what it costs to give it to one of them, which may have the parent."""

    topic: str
    hash: str
    expires: int
    parent: str
    bytes: int


class Given:
    """A policy that wants one dictionary, because somebody said so."""

    name = "given"

    def __init__(self, dictionary: Dictionary) -> None:
        self._wanted: Dictionary | None = dictionary

    def offer(self, message: bytes) -> None:
        """Messages change nothing."""

    def offer_all(self, messages: Sequence[bytes]) -> None:
        """Messages change nothing."""

    def propose(self) -> Proposal:
        wanted, self._wanted = self._wanted, None
        if wanted is None:
            return Keep()
        facts = wanted.facts
        why = {"trained on": facts.messages, "saved %": round(facts.ratio, 2)} if facts is not None else {}
        return Replace(wanted, None, {"by": "thinwire dict train", **why})


async def registered(access: Access, topic: str) -> Schema | None:
    """The schema of a topic; None where it has none there."""
    async with access.bus() as bus:
        try:
            return await current_schema(await open_registry(bus.broker), topic)
        except UnknownTopic:
            return None


async def publish(access: Access, topic: str, dictionary: Dictionary, days: float) -> Told:
    """Store a dictionary and tell the publishers of a topic, who use it from then on for so many days.

    A service that looks after the topic finds that somebody else wrote, and begins again with what it finds.
    """
    async with access.bus() as bus:
        shelf = TopicShelf(await bus.broker.bucket(DICTIONARIES), topic)
        sampler = await _sampler(shelf, dictionary, days)
        # before its own decision a sampler may withdraw what the store has lost
        while (action := sampler.decide(time.time())) is not None:
            await shelf.write(action)
            sampler.done(action)
            await shelf.write_decisions(sampler.decisions)
            await bus.broker.send(dictionary_subject(topic), action.in_use.encode())
    said = next((one for one in sampler.in_use.dictionaries if one.name == dictionary.hash), None)
    if said is None:
        raise ConfigError("the store keeps as many dictionaries of this topic as it may", topic=topic, limit=MAX_SAID)
    travels = next((one.travels for one in reversed(sampler.decisions) if one.hash == said.hash), 0)
    return Told(topic, said.hash, said.expires, said.parent, travels)


async def _sampler(shelf: TopicShelf, dictionary: Dictionary, days: float) -> Sampler:
    """A sampler that stands where the topic stands."""
    in_use = await shelf.in_use() or InUse(shelf.topic)
    terms = Terms(shortest=days * DAY, longest=days * DAY)
    kept, present, decisions = await shelf.kept(), await _present(shelf, in_use), await shelf.decisions()
    return Sampler(Given(dictionary), in_use, kept, present, terms=terms, decisions=decisions)


async def _present(shelf: TopicShelf, in_use: InUse) -> Dictionary | None:
    try:
        return await shelf.store.get(in_use.dictionaries[0].name) if in_use.dictionaries else None
    except CorruptDictionary:
        return None
