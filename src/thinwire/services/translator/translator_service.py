"""The translator service: translates the topics whose leases it holds.

Several instances may run; see `thinwire.services.leased_service`.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

from thinwire.brokers.protocol import Broker, BucketEntry
from thinwire.clock import Clock, WallClock
from thinwire.errors import Superseded
from thinwire.services.leased_service import BACKOFF, HeldTopic, LeasedService
from thinwire.services.registry.document_cache import DocumentCache
from thinwire.services.translator.channel_plan import ChannelDecider, ServingDecision
from thinwire.services.translator.topic_translation import TopicTranslation, TranslationSettings
from thinwire.services.translator.translator_recovery import delete_channels
from thinwire.topics.bucket_follower import BucketFollower, BucketHandler, lease_handler
from thinwire.topics.channel_documents import read_channel_document
from thinwire.topics.leases import Lease, Leases
from thinwire.topics.names import CHANNELS, LEASES, REGISTRY, check_name_token

DECISION_PAUSE = 9.0
"""pause after a decision, as a multiple of the time it took: decisions use a tenth of the time at most"""

_log = logging.getLogger("thinwire.translator")


@dataclass(slots=True)
class _TopicDecisions:
    """The decisions on the classes of a topic.

    changed: keys of documents that changed since; None if all may have changed
    paused_until: time before which no new decision is made
    """

    decider: ChannelDecider = field(default_factory=ChannelDecider)
    decisions: dict[str, ServingDecision] = field(default_factory=dict)
    changed: set[str] | None = None
    paused_until: float = 0.0


class TranslatorState(BucketFollower):
    """The demands, leases and channels of all topics, as stored in the buckets."""

    def __init__(self, broker: Broker, leases: Leases) -> None:
        handlers = {REGISTRY: self._registry_handler, LEASES: lease_handler(leases), CHANNELS: self._channel_handler}
        super().__init__(broker, handlers, _log, quiet=(LEASES,))
        self.leases = leases
        self._documents = DocumentCache()
        self._topics: dict[str, _TopicDecisions] = {}
        self._open_channels = Counter[str]()

    def is_registered(self, topic: str) -> bool:
        record = self._documents.topics.get(topic)
        return record is not None and record.document is not None

    def decisions(self, name: str) -> dict[str, ServingDecision]:
        """Return how the classes of a topic are to be served.

        With very many subscriptions a decision takes long; later changes are then applied after a pause.
        """
        record = self._documents.topics.get(name)
        if record is None:
            self._topics.pop(name, None)
            return {}
        topic = self._topics.setdefault(name, _TopicDecisions())
        now = asyncio.get_running_loop().time
        started = now()
        if topic.changed is None or (topic.changed and started >= topic.paused_until):
            changed, topic.changed = topic.changed, set()
            topic.decisions = topic.decider.decide(record, changed)
            topic.paused_until = now() + DECISION_PAUSE * (now() - started)
        return topic.decisions

    def needed(self) -> set[str]:
        """Return the topics to translate: a class needs a channel, or a document states that it has one."""
        registered = (record.name for record in self._documents if record.document is not None)
        wanted = {name for name in registered if any(one.state == "open" for one in self.decisions(name).values())}
        return wanted | self._open_channels.keys()

    def _registry_handler(self) -> BucketHandler:
        documents = DocumentCache()

        def take(entry: BucketEntry) -> None:
            name = documents.put(entry)
            topic = self._topics.get(name) if name is not None else None
            if topic is not None and topic.changed is not None:
                topic.changed.add(entry.key.rpartition(".")[2])

        def complete() -> None:
            self._documents = documents
            self._topics.clear()

        return BucketHandler(take, complete)

    def _channel_handler(self) -> BucketHandler:
        """Count the open channels per topic. A document without a channel must be corrected by a translator."""
        channels: dict[str, str] = {}
        topics = Counter[str]()

        def take(entry: BucketEntry) -> None:
            before = channels.pop(entry.key, None)
            if before is not None:
                topics[before] -= 1
            document = read_channel_document(entry.value)
            if document is not None and document.state == "open":
                channels[entry.key] = document.topic
                topics[document.topic] += 1
            if before is not None and not topics[before]:
                del topics[before]

        def complete() -> None:
            self._open_channels = topics

        return BucketHandler(take, complete)


class TranslatorService(LeasedService[TopicTranslation]):
    """One translator. Run `run` as a task and cancel it to stop the service.

    name: unique among the translators; a random one by default
    lease: lease term in seconds; without renewal for that long another translator takes a topic over
    linger: seconds for which frames are collected before they are stored
    checkpoint_messages, checkpoint_seconds: interval between two checkpoints of a topic, whichever is over first
    grace: seconds that a channel stays open after its last subscription left
    handover: seconds that a topic is held at least before it is handed over
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
        name = check_name_token(name or f"t{secrets.token_hex(4)}", "name")
        leases = Leases(lease)
        self._state = TranslatorState(broker, leases)
        super().__init__(broker, name, leases, LEASES, self._state, handover, _log)
        self.clock = clock or WallClock()
        self.settings = TranslationSettings(linger, checkpoint_messages, checkpoint_seconds, grace)
        self._removed_topics: set[str] = set()

    def _needed_topics(self) -> set[str]:
        return self._state.needed()

    def _create_work(self, lease: Lease) -> TopicTranslation:
        decisions = self._state.decisions(lease.topic)
        return TopicTranslation(self.broker, self.clock, lease, self.settings, decisions)

    async def _update_work(self, topic: str, held: HeldTopic[TopicTranslation]) -> None:
        if not self._state.is_registered(topic):
            held.task.cancel()
            await asyncio.gather(held.task, return_exceptions=True)
            await self._release_deleted(topic, held, "it is not registered any more")
            return
        held.work.update_decisions(self._state.decisions(topic))
        if self._should_hand_over(topic, held):
            held.work.stop()

    async def _release_deleted(self, topic: str, held: HeldTopic[TopicTranslation], reason: str) -> None:
        level = logging.INFO if topic in self._removed_topics else logging.WARNING
        self._removed_topics.add(topic)
        _log.log(level, "stopped translating topic %s: %s", topic, reason)
        with suppress(Superseded):
            await self._call(topic, delete_channels(self.broker, topic, held.lease.epoch))
        await self._release(topic, held, BACKOFF)
