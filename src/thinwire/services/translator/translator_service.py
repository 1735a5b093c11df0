"""What a translator knows: what is asked of every topic, who holds it, and which classes have a channel.

The translator as a service at a broker: it watches what is asked, and translates the topics that are its share.

Several may run, and any of them may be killed at any time: see `thinwire.services.leased_service`.
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
from thinwire.errors import RegistryError, Superseded
from thinwire.services.leased_service import REST, HeldTopic, LeasedService
from thinwire.services.registry.document_cache import DocumentCache
from thinwire.services.translator.subscription_groups import ChannelDecider, ServingDecision
from thinwire.services.translator.topic_translation import TopicTranslation, TranslationSettings
from thinwire.services.translator.translator_recovery import forget
from thinwire.topics.bucket_follower import BucketFollower, BucketHandler, leased
from thinwire.topics.channel_documents import ChannelDocument
from thinwire.topics.leases import Lease, Leases
from thinwire.topics.names import CHANNELS, LEASES, REGISTRY, check_name_token

RETRY_INTERVAL = 9.0
"""times as long as it took to find out what is asked, nobody looks again: that is a tenth of the time, at most"""

_log = logging.getLogger("thinwire.translator")


@dataclass(slots=True)
class _Judged:
    """What was found out about a topic.

    changed: subscriptions that something was heard of since, and a few other names; None where anybody may have changed
    """

    judge: ChannelDecider = field(default_factory=ChannelDecider)
    verdicts: dict[str, ServingDecision] = field(default_factory=dict)
    changed: set[str] | None = None
    rests_until: float = 0.0


class TranslatorState(BucketFollower):
    """Read along in three buckets; see `BucketFollower`."""

    def __init__(self, broker: Broker, leases: Leases) -> None:
        readings = {REGISTRY: self._asked, LEASES: lambda: leased(leases), CHANNELS: self._served}
        super().__init__(broker, readings, _log, quiet=(LEASES,))
        self.leases = leases
        self._shelf = DocumentCache()
        self._judged: dict[str, _Judged] = {}
        self._channels = Counter[str]()

    def is_registered(self, topic: str) -> bool:
        """Does the registry know the topic?"""
        return topic in self._shelf.topics and self._shelf.topics[topic].document is not None

    def asked(self, name: str) -> dict[str, ServingDecision]:
        """The classes that are asked for of a topic, and which of them need a channel.

        Where that takes long, because there are very many, what has changed since waits for a while.
        """
        topic = self._shelf.topics.get(name)
        if topic is None:
            self._judged.pop(name, None)
            return {}
        judged = self._judged.setdefault(name, _Judged())
        now = asyncio.get_running_loop().time
        began = now()
        if judged.changed is None or (judged.changed and began >= judged.rests_until):
            changed, judged.changed = judged.changed, set()
            judged.verdicts = judged.judge.verdicts(topic, changed)
            judged.rests_until = now() + RETRY_INTERVAL * (now() - began)
        return judged.verdicts

    def needed(self) -> set[str]:
        """The topics that must be translated: a class needs a channel, or is said to have one."""
        registered = (topic.name for topic in self._shelf if topic.document is not None)
        wanted = {name for name in registered if any(one.state == "open" for one in self.asked(name).values())}
        return wanted | self._channels.keys()

    def _asked(self) -> BucketHandler:
        shelf = DocumentCache()

        def take(entry: BucketEntry) -> None:
            topic = shelf.put(entry)
            judged = self._judged.get(topic) if topic is not None else None
            if judged is not None and judged.changed is not None:
                judged.changed.add(entry.key.rpartition(".")[2])

        def complete() -> None:
            self._shelf = shelf
            self._judged.clear()

        return BucketHandler(take, complete)

    def _served(self) -> BucketHandler:
        """A class that is said to have a channel has one, or somebody must take that back."""
        channels: dict[str, str] = {}
        topics = Counter[str]()

        def take(entry: BucketEntry) -> None:
            before = channels.pop(entry.key, None)
            if before is not None:
                topics[before] -= 1
            with suppress(RegistryError):
                document = ChannelDocument.decode(entry.value) if entry.value is not None else None
                if document is not None and document.state == "open":
                    channels[entry.key] = document.topic
                    topics[document.topic] += 1
            if before is not None and not topics[before]:
                del topics[before]

        def complete() -> None:
            self._channels = topics

        return BucketHandler(take, complete)


class TranslatorService(LeasedService[TopicTranslation]):
    """One translator at one connection; `run` it as a task and cancel that to end it.

    name: its own among translators; lease: seconds without a sign of life after which others take its topics over
    linger: seconds for which frames gather before they are stored
    checkpoint_messages, checkpoint_seconds: what lies between two checkpoints of a topic, whichever is over first
    grace: seconds that a channel outlives its last subscriber; handover: seconds that a topic stays where it is, at
        least, before it goes to a translator that it is meant for
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
        self.pace = TranslationSettings(linger, checkpoint_messages, checkpoint_seconds, grace)
        self._removed_topics: set[str] = set()

    def _needed(self) -> set[str]:
        return self._state.needed()

    def _begin(self, lease: Lease) -> TopicTranslation:
        return TopicTranslation(self.broker, self.clock, lease, self.pace, self._state.asked(lease.topic))

    async def _maintain(self, topic: str, held: HeldTopic[TopicTranslation]) -> None:
        if not self._state.is_registered(topic):
            held.task.cancel()
            await asyncio.gather(held.task, return_exceptions=True)
            await self._remove(topic, held, "it is no longer registered")
            return
        held.work.ask(self._state.asked(topic))
        if self._should_hand_over(topic, held):
            held.work.stop()

    async def _remove(self, topic: str, held: HeldTopic[TopicTranslation], why: str) -> None:
        known, self._removed_topics = self._removed_topics, self._removed_topics | {topic}
        _log.log(logging.INFO if topic in known else logging.WARNING, "%s is not translated any more: %s", topic, why)
        with suppress(Superseded):
            await self._tried(topic, forget(self.broker, topic, held.lease.epoch))
        await self._let_go(topic, held, REST)
