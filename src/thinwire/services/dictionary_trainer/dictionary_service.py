"""The dictionary trainer as a service: samples the topics whose leases it holds and maintains their dictionaries.

Several instances may run; see `thinwire.services.leased_service`. While none runs, publishers use the announced
dictionaries until they expire, and no dictionary after that.
"""

from __future__ import annotations

import logging
from functools import partial

from thinwire.brokers.protocol import Broker, BucketEntry
from thinwire.clock import Clock, WallClock
from thinwire.dictionaries.topology import Topology
from thinwire.services.dictionary_trainer.topic_sampler import SamplerSettings, TopicSampling
from thinwire.services.leased_service import HeldTopic, LeasedService
from thinwire.services.registry.document_cache import DocumentCache
from thinwire.topics.bucket_follower import BucketFollower, BucketHandler, lease_handler
from thinwire.topics.leases import Lease, Leases
from thinwire.topics.names import REGISTRY, SAMPLERS

_log = logging.getLogger("thinwire.dictionaries")


class DictionaryService(LeasedService[TopicSampling]):
    """One instance of the dictionary trainer. Run `run` as a task and cancel it to stop the service.

    name: unique among the instances; a random one by default
    lease: lease term in seconds; without renewal for that long another instance takes a topic over
    handover: seconds that an instance holds a topic, at least, before it may hand it over to another instance
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
        leases = Leases(lease, kind="sampler")
        handlers = {REGISTRY: self._registry_handler, SAMPLERS: lease_handler(leases)}
        follower = BucketFollower(broker, handlers, _log, quiet=(SAMPLERS,))
        super().__init__(broker, name, leases, SAMPLERS, follower, handover, _log)
        self.clock = clock or WallClock()
        self.settings = settings or SamplerSettings()
        self._documents = DocumentCache()
        self._enabled: set[str] = set()

    def _needed_topics(self) -> set[str]:
        """Return the topics whose settings enable dictionaries."""
        return self._enabled

    def _create_work(self, lease: Lease) -> TopicSampling:
        return TopicSampling(self.broker, self.clock, lease, self.settings, partial(self._topology, lease.topic))

    async def _update_work(self, topic: str, held: HeldTopic[TopicSampling]) -> None:
        if topic not in self._enabled or self._should_hand_over(topic, held):
            held.work.stop()

    def _topology(self, topic: str) -> Topology:
        """Return the number of publishers and subscriptions of a topic."""
        record = self._documents.topics.get(topic)
        return Topology(max(1, len(record.publishers)), len(record.subscriptions)) if record is not None else Topology()

    def _registry_handler(self) -> BucketHandler:
        documents = DocumentCache()
        enabled: set[str] = set()

        def on_entry(entry: BucketEntry) -> None:
            name = documents.put(entry)
            if name is not None:
                (enabled.add if _has_dictionaries(documents, name) else enabled.discard)(name)

        def on_complete() -> None:
            self._documents, self._enabled = documents, enabled

        return BucketHandler(on_entry, on_complete)


def _has_dictionaries(documents: DocumentCache, topic: str) -> bool:
    record = documents.topics.get(topic)
    return record is not None and record.document is not None and record.document.settings.dictionaries
