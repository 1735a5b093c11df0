"""What a watch asks of its topics: the properties it looks at, exactly, as a subscriber would ask for them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping

from thinwire.clock import Clock
from thinwire.topics.topic import Topic
from thinwire.topics.topic_documents import SubscriptionDocument

PATIENCE = 2.0
"""seconds that the registry has to pass a demand on"""

_log = logging.getLogger("thinwire.watching")


class Demands:
    """The subscriptions of one watch, one for each topic.

    identity: under which it subscribes; durable: it counts although nobody answers under that name, until it is ended
    names: the properties that are looked at, by topic
    """

    def __init__(
        self, topics: Mapping[str, Topic], names: Mapping[str, Collection[str]], identity: str, *, durable: bool
    ) -> None:
        self.identity = identity
        self.durable = durable
        self._topics = topics
        self._names = names

    async def ask(self, clock: Clock) -> None:
        """Make them known, and give the registry a moment to pass them on."""
        for topic in self._topics.values():
            await topic.subscription_starts(self._document(topic, clock.now()))
        answers = await asyncio.gather(*(self._is_served(topic) for topic in self._topics.values()))
        late = [name for name, answered in zip(self._topics, answers, strict=True) if not answered]
        if late:
            _log.warning("%s: the registry has not answered; exact values come when it does", ", ".join(late))

    async def end(self) -> None:
        """Ask no more."""
        for topic in self._topics.values():
            await topic.subscription_ends(self.identity)

    async def _is_served(self, topic: Topic) -> bool:
        return await topic.wait_for(dict.fromkeys(self._exact(topic), 0.0), PATIENCE)

    def _document(self, topic: Topic, now: float) -> SubscriptionDocument:
        names = tuple(self._exact(topic))
        durable = self.identity if self.durable else None
        return SubscriptionDocument(
            topic.name, self.identity, exact=names, properties=names, durable=durable, since=now, log=True
        )

    def _exact(self, topic: Topic) -> list[str]:
        """Times as well: they say which event comes first."""
        stamp = topic.schema.time
        return sorted({*self._names[topic.name], *([stamp.name] if stamp is not None else [])})
