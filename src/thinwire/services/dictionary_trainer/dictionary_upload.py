"""A dictionary that somebody has, given to a topic: stored first, then told to its publishers.

A service that looks after the topic finds that somebody else wrote, and begins again with what it finds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from thinwire.brokers.protocol import Broker
from thinwire.dictionaries import Dictionary
from thinwire.dictionaries.policies import Keep, Proposal, Replace
from thinwire.errors import ConfigError, CorruptDictionary
from thinwire.topics.dictionary_documents import MAX_SAID, ActiveDictionaries
from thinwire.topics.dictionary_metadata import DictionaryMetadata
from thinwire.topics.dictionary_sampler import Sampler, Terms
from thinwire.topics.names import DICTIONARIES, dictionary_subject


class UploadResult(NamedTuple):
    """What publishers were told; bytes: what it costs to give it to one of them, which may have the parent."""

    topic: str
    hash: str
    expires: int
    parent: str
    bytes: int


class ManualPolicy:
    """A policy that wants one dictionary, because somebody said so."""

    name = "given"

    def __init__(self, dictionary: Dictionary, by: str) -> None:
        self.by = by
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
        return Replace(wanted, None, {"by": self.by, **why})


async def upload_dictionary(
    broker: Broker, topic: str, dictionary: Dictionary, *, now: float, seconds: float, by: str
) -> UploadResult:
    """Store a dictionary and tell the publishers of a topic, who use it from then on for so long; by: whose wish."""
    shelf = DictionaryMetadata(await broker.bucket(DICTIONARIES), topic)
    sampler = await _sampler(shelf, ManualPolicy(dictionary, by), seconds)
    # before its own decision a sampler may withdraw what the store has lost
    while (action := sampler.decide(now)) is not None:
        await shelf.write(action)
        sampler.done(action)
        await shelf.write_decisions(sampler.decisions)
        await broker.send(dictionary_subject(topic), action.in_use.encode())
    said = next((one for one in sampler.in_use.dictionaries if one.name == dictionary.hash), None)
    if said is None:
        raise ConfigError("the store keeps as many dictionaries of this topic as it may", topic=topic, limit=MAX_SAID)
    travels = next((one.travels for one in reversed(sampler.decisions) if one.hash == said.hash), 0)
    return UploadResult(topic, said.hash, said.expires, said.parent, travels)


async def _sampler(shelf: DictionaryMetadata, given: ManualPolicy, seconds: float) -> Sampler:
    """A sampler that stands where the topic stands."""
    in_use = await shelf.in_use() or ActiveDictionaries(shelf.topic)
    terms = Terms(shortest=seconds, longest=seconds)
    kept, present, decisions = await shelf.kept(), await _present(shelf, in_use), await shelf.decisions()
    return Sampler(given, in_use, kept, present, terms=terms, decisions=decisions)


async def _present(shelf: DictionaryMetadata, in_use: ActiveDictionaries) -> Dictionary | None:
    try:
        return await shelf.store.get(in_use.dictionaries[0].name) if in_use.dictionaries else None
    except CorruptDictionary:
        return None
