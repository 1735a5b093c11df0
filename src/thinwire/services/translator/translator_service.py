"""What a translator knows: what is asked of every topic, who holds it, and which classes have a channel."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

from thinwire.brokers.protocol_broker import Broker, Entry
from thinwire.errors import RegistryError
from thinwire.services.registry.document_cache import Shelf
from thinwire.services.translator.subscription_groups_planning import Judge, Served
from thinwire.topics.bucket_follower import Along, Reading, leased
from thinwire.topics.channel_documents import ChannelDocument
from thinwire.topics.leases import Leases
from thinwire.topics.names import CHANNELS, LEASES, REGISTRY

REST = 9.0
"""times as long as it took to find out what is asked, nobody looks again: that is a tenth of the time, at most"""

_log = logging.getLogger("thinwire.translator")


@dataclass(slots=True)
class _Judged:
    """What was found out about a topic.

    changed: subscriptions that something was heard of since, and a few other names; None where anybody may have changed
    """

    judge: Judge = field(default_factory=Judge)
    verdicts: dict[str, Served] = field(default_factory=dict)
    changed: set[str] | None = None
    rests_until: float = 0.0


class Knowledge(Along):
    """Read along in three buckets; see `Along`."""

    def __init__(self, broker: Broker, leases: Leases) -> None:
        readings = {REGISTRY: self._asked, LEASES: lambda: leased(leases), CHANNELS: self._served}
        super().__init__(broker, readings, _log, quiet=(LEASES,))
        self.leases = leases
        self._shelf = Shelf()
        self._judged: dict[str, _Judged] = {}
        self._channels = Counter[str]()

    def is_registered(self, topic: str) -> bool:
        """Does the registry know the topic?"""
        return topic in self._shelf.topics and self._shelf.topics[topic].document is not None

    def asked(self, name: str) -> dict[str, Served]:
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
            judged.rests_until = now() + REST * (now() - began)
        return judged.verdicts

    def needed(self) -> set[str]:
        """The topics that must be translated: a class needs a channel, or is said to have one."""
        registered = (topic.name for topic in self._shelf if topic.document is not None)
        wanted = {name for name in registered if any(one.state == "open" for one in self.asked(name).values())}
        return wanted | self._channels.keys()

    def _asked(self) -> Reading:
        shelf = Shelf()

        def take(entry: Entry) -> None:
            topic = shelf.put(entry)
            judged = self._judged.get(topic) if topic is not None else None
            if judged is not None and judged.changed is not None:
                judged.changed.add(entry.key.rpartition(".")[2])

        def complete() -> None:
            self._shelf = shelf
            self._judged.clear()

        return Reading(take, complete)

    def _served(self) -> Reading:
        """A class that is said to have a channel has one, or somebody must take that back."""
        channels: dict[str, str] = {}
        topics = Counter[str]()

        def take(entry: Entry) -> None:
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

        return Reading(take, complete)
