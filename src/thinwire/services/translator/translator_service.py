"""The translator service: translates the topics whose leases it holds.

Several instances may run; see `thinwire.services.leased_service`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import suppress
from functools import partial

from thinwire.brokers.protocol import Broker, BucketEntry
from thinwire.clock import Clock, WallClock
from thinwire.errors import Superseded
from thinwire.services.leased_service import BACKOFF, HeldTopic, LeasedService
from thinwire.services.registry.document_cache import DocumentCache, TopicRecord
from thinwire.services.service_base import loop_time
from thinwire.services.translator.channel_plan import ChannelDecider, ServingDecision
from thinwire.services.translator.topic_translation import TopicTranslation, TranslationSettings
from thinwire.services.translator.translator_recovery import delete_channels
from thinwire.topics.bucket_follower import BucketFollower, BucketHandler, lease_handler
from thinwire.topics.channel_documents import read_channel_document
from thinwire.topics.leases import Lease, Leases
from thinwire.topics.names import CHANNELS, LEASES, REGISTRY

DECISION_PAUSE = 9.0
"""pause after a decision, as a multiple of the time it took: decisions use a tenth of the time at most"""

_log = logging.getLogger("thinwire.translator")


class _TopicDecisions:
    """The decisions on the classes of a topic.

    changed: names of the documents that changed since the last decision; None if all may have changed
    """

    def __init__(self) -> None:
        self.changed: set[str] | None = None
        self._decider = ChannelDecider()
        self._paused_until = 0.0

    def update(self, record: TopicRecord) -> dict[str, ServingDecision]:
        """Return how the classes are to be served.

        With very many subscriptions a decision takes long; later changes are then applied after a pause.
        """
        started = loop_time()
        if self.changed is None or (self.changed and started >= self._paused_until):
            changed, self.changed = self.changed, set()
            self._decider.decide(record, changed)
            self._paused_until = loop_time() + DECISION_PAUSE * (loop_time() - started)
        return self._decider.decisions


class TranslatorService(LeasedService[TopicTranslation]):
    """One translator. Run `run` as a task and cancel it to stop the service.

    name: unique among the translators; a random one by default
    lease: lease term in seconds; without renewal for that long another translator takes a topic over
    linger: seconds for which frames are collected before they are stored
    checkpoint_messages, checkpoint_seconds: interval between two checkpoints of a topic, whichever is over first
    grace: seconds that a channel stays open after its last subscription left
    handover: seconds that an instance holds a topic, at least, before it may hand it over to another instance
    """

    def __init__(
        self,
        broker: Broker,
        clock: Clock | None = None,
        *,
        name: str = "",
        lease: float = 2.5,
        linger: float = 0.005,
        checkpoint_messages: int = 20_000,
        checkpoint_seconds: float = 60.0,
        grace: float = 10.0,
        handover: float = 10.0,
    ) -> None:
        leases = Leases(lease)
        handlers = {REGISTRY: self._registry_handler, LEASES: lease_handler(leases), CHANNELS: self._channel_handler}
        follower = BucketFollower(broker, handlers, _log, quiet=(LEASES,))
        super().__init__(broker, name, leases, LEASES, follower, handover, _log)
        self.clock = clock or WallClock()
        self.settings = TranslationSettings(linger, checkpoint_messages, checkpoint_seconds, grace)
        self._documents = DocumentCache()
        self._decisions: dict[str, _TopicDecisions] = {}
        self._open_channels = Counter[str]()
        self._removed_topics: set[str] = set()

    def _needed_topics(self) -> set[str]:
        """Return the topics to translate: a class needs a channel, or a document states that it has one."""
        registered = (record.name for record in self._documents if record.document is not None)
        wanted = {name for name in registered if any(one.state == "open" for one in self._decide(name).values())}
        return wanted | self._open_channels.keys()

    def _create_work(self, lease: Lease) -> TopicTranslation:
        return TopicTranslation(self.broker, self.clock, lease, self.settings, self._decide(lease.topic))

    async def _update_work(self, topic: str, held: HeldTopic[TopicTranslation]) -> None:
        record = self._documents.topics.get(topic)
        if record is None or record.document is None:
            held.task.cancel()
            await asyncio.gather(held.task, return_exceptions=True)
            await self._release_deleted(topic, held, "it is not registered any more")
            return
        held.work.update_decisions(self._decide(topic))
        if self._should_hand_over(topic, held):
            held.work.stop()

    async def _release_deleted(self, topic: str, held: HeldTopic[TopicTranslation], reason: str) -> None:
        level = logging.INFO if topic in self._removed_topics else logging.WARNING
        self._removed_topics.add(topic)
        _log.log(level, "stopped translating topic %s: %s", topic, reason)
        with suppress(Superseded):
            await self._call(topic, partial(delete_channels, self.broker, topic, held.lease.epoch))
        await self._release(topic, held, BACKOFF)

    def _decide(self, topic: str) -> dict[str, ServingDecision]:
        """Return how the classes of a topic are to be served."""
        record = self._documents.topics.get(topic)
        if record is None:
            self._decisions.pop(topic, None)
            return {}
        return self._decisions.setdefault(topic, _TopicDecisions()).update(record)

    def _registry_handler(self) -> BucketHandler:
        documents = DocumentCache()

        def on_entry(entry: BucketEntry) -> None:
            name = documents.put(entry)
            topic = self._decisions.get(name) if name is not None else None
            if topic is not None and topic.changed is not None:
                topic.changed.add(entry.key.rpartition(".")[2])

        def on_complete() -> None:
            self._documents = documents
            self._decisions.clear()

        return BucketHandler(on_entry, on_complete)

    def _channel_handler(self) -> BucketHandler:
        """Count the open channels per topic. A document without a channel must be corrected by a translator."""
        topics: dict[str, str] = {}
        count = Counter[str]()

        def on_entry(entry: BucketEntry) -> None:
            before = topics.pop(entry.key, None)
            if before is not None:
                count[before] -= 1
            document = read_channel_document(entry.value)
            if document is not None and document.state == "open":
                topics[entry.key] = document.topic
                count[document.topic] += 1
            if before is not None and not count[before]:
                del count[before]

        def on_complete() -> None:
            self._open_channels = count

        return BucketHandler(on_entry, on_complete)
