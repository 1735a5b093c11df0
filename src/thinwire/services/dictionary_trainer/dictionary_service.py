"""What a dictionary service knows: which topics shall have dictionaries, how many share each, and who holds it.

The dictionary service at a broker: it samples the topics that are its share, and looks after their dictionaries.

Several may run, and any of them may be killed at any time: see `thinwire.services.leased_service`. While none runs,
publishers go on with the dictionaries they have until these expire, and without after that.
"""

from __future__ import annotations

import logging
import secrets
from functools import partial

from thinwire.brokers.protocol import Broker, BucketEntry
from thinwire.clock import Clock, WallClock
from thinwire.dictionaries.byte_account import Topology
from thinwire.services.dictionary_trainer.topic_sampler import SamplerSettings, TopicSampling
from thinwire.services.leased_service import HeldTopic, LeasedService
from thinwire.services.registry.document_cache import DocumentCache
from thinwire.topics.bucket_follower import BucketFollower, BucketHandler, leased
from thinwire.topics.leases import Lease, Leases
from thinwire.topics.names import REGISTRY, SAMPLERS, check_name_token

_log = logging.getLogger("thinwire.dictionaries")


class DictionaryServiceState(BucketFollower):
    """Read along in two buckets; see `BucketFollower`."""

    def __init__(self, broker: Broker, leases: Leases) -> None:
        readings = {REGISTRY: self._registered, SAMPLERS: lambda: leased(leases)}
        super().__init__(broker, readings, _log, quiet=(SAMPLERS,))
        self._shelf = DocumentCache()
        self._needed: set[str] = set()

    def needed(self) -> set[str]:
        """The topics whose owners want dictionaries."""
        return set(self._needed)

    def needs(self, topic: str) -> bool:
        """Is this one of them?"""
        return topic in self._needed

    def topology(self, topic: str) -> Topology:
        """How many publishers and subscribers a topic has."""
        known = self._shelf.topics.get(topic)
        return Topology(max(1, len(known.publishers)), len(known.subscriptions)) if known is not None else Topology()

    def _registered(self) -> BucketHandler:
        shelf = DocumentCache()
        needed: set[str] = set()

        def take(entry: BucketEntry) -> None:
            name = shelf.put(entry)
            if name is not None:
                (needed.add if _wants(shelf, name) else needed.discard)(name)

        def complete() -> None:
            self._shelf, self._needed = shelf, needed

        return BucketHandler(take, complete)


def _wants(shelf: DocumentCache, topic: str) -> bool:
    known = shelf.topics.get(topic)
    return known is not None and known.document is not None and known.document.settings.dictionaries


class DictionaryService(LeasedService[TopicSampling]):
    """One dictionary service at one connection; `run` it as a task and cancel that to end it.

    name: its own among them; lease: seconds without a sign of life after which others take its topics over
    handover: seconds that a topic stays where it is, at least, before it goes to the one that it is meant for
    settings: how topics are sampled
    """

    def __init__(
        self,
        broker: Broker,
        clock: Clock | None = None,
        *,
        name: str = "",
        lease: float = 2.5,
        handover: float = 10.0,
        settings: SamplerSettings | None = None,
    ) -> None:
        name = check_name_token(name or f"d{secrets.token_hex(4)}", "name")
        leases = Leases(lease, kind="sampler")
        self._state = DictionaryServiceState(broker, leases)
        super().__init__(broker, name, leases, SAMPLERS, self._state, handover, _log)
        self.clock = clock or WallClock()
        self.settings = settings or SamplerSettings()

    def _needed(self) -> set[str]:
        return self._state.needed()

    def _begin(self, lease: Lease) -> TopicSampling:
        topology = partial(self._state.topology, lease.topic)
        return TopicSampling(self.broker, self.clock, lease, self.settings, topology)

    async def _maintain(self, topic: str, held: HeldTopic[TopicSampling]) -> None:
        if not self._state.needs(topic) or self._should_hand_over(topic, held):
            held.work.stop()
