"""Upload of a dictionary by a user: it is stored first, then announced to the publishers of the topic.

A dictionary trainer that maintains the topic is superseded by the upload and resumes from the stored documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from thinwire.brokers.protocol import Broker
from thinwire.dictionaries import Dictionary
from thinwire.dictionaries.policies import Keep, Proposal, Replace
from thinwire.errors import ConfigError, CorruptDictionary
from thinwire.topics.dictionary_documents import MAX_REFERENCES, ActiveDictionaries
from thinwire.topics.dictionary_metadata import DictionaryMetadata
from thinwire.topics.dictionary_sampler import DictionaryLifetimes, Sampler
from thinwire.topics.names import DICTIONARIES, dictionary_subject


class UploadResult(NamedTuple):
    """An announced dictionary; `bytes` is its transfer size to a publisher that has the parent, if there is one."""

    topic: str
    hash: str
    expires: int
    parent: str
    bytes: int


class ManualPolicy:
    """A policy that proposes one given dictionary once.

    by: who uploaded it
    """

    name = "given"

    def __init__(self, dictionary: Dictionary, by: str) -> None:
        self.by = by
        self._dictionary: Dictionary | None = dictionary

    def offer(self, message: bytes) -> None:
        """Ignore the message."""

    def offer_all(self, messages: Sequence[bytes]) -> None:
        """Ignore the messages."""

    def propose(self) -> Proposal:
        dictionary, self._dictionary = self._dictionary, None
        if dictionary is None:
            return Keep()
        facts = dictionary.facts
        why = {"trained on": facts.messages, "saved %": round(facts.ratio, 2)} if facts is not None else {}
        return Replace(dictionary, None, {"by": self.by, **why})


async def upload_dictionary(
    broker: Broker, topic: str, dictionary: Dictionary, *, now: float, seconds: float, by: str
) -> UploadResult:
    """Store a dictionary and announce it to the publishers of a topic for `seconds`; `by` names the uploader."""
    metadata = DictionaryMetadata(await broker.bucket(DICTIONARIES), topic)
    sampler = await _restore_sampler(metadata, ManualPolicy(dictionary, by), seconds)
    # Before its own decision a sampler may withdraw dictionaries that the store has lost.
    while (update := sampler.decide(now)) is not None:
        await metadata.write_update(update)
        sampler.mark_written(update)
        await metadata.write_decisions(sampler.decisions)
        await broker.send(dictionary_subject(topic), update.active.encode())
    announced = next((ref for ref in sampler.active.dictionaries if ref.hash_bytes == dictionary.hash), None)
    if announced is None:
        raise ConfigError("the topic already has the maximum number of dictionaries", topic=topic, limit=MAX_REFERENCES)
    size = next((one.transfer_size for one in reversed(sampler.decisions) if one.hash == announced.hash), 0)
    return UploadResult(topic, announced.hash, announced.expires, announced.parent, size)


async def _restore_sampler(metadata: DictionaryMetadata, policy: ManualPolicy, seconds: float) -> Sampler:
    active = await metadata.read_active() or ActiveDictionaries(metadata.topic)
    stored, decisions = await metadata.read_stored(), await metadata.read_decisions()
    dictionary = await _find_active_dictionary(metadata, active)
    lifetimes = DictionaryLifetimes(shortest=seconds, longest=seconds)
    return Sampler(policy, active, stored, dictionary, lifetimes=lifetimes, decisions=decisions)


async def _find_active_dictionary(metadata: DictionaryMetadata, active: ActiveDictionaries) -> Dictionary | None:
    try:
        return await metadata.store.get(active.dictionaries[0].hash_bytes) if active.dictionaries else None
    except CorruptDictionary:
        return None
