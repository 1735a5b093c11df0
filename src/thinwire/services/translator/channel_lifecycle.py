"""The classes of a topic while it is translated: opened and closed as they are asked for, and said so."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from thinwire.brokers.protocol import Broker
from thinwire.errors import Superseded
from thinwire.services.translator.subscription_groups import ChannelPlan, ServingDecision
from thinwire.services.translator.translator_recovery import Ends, Resumed, channel_ends
from thinwire.topics.channel_documents import ChannelDocument
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.leases import Lease
from thinwire.topics.log_position import several

AT_ONCE = 64
"""classes that are opened while messages wait"""
SAID_AT_ONCE = 1_024
"""documents that wait to be stored"""
LOST_PATIENCE = 3.0
"""seconds that a class which begins waits for publishers that are asked for key frames"""


@dataclass
class _Beginning:
    """A class whose document is not written yet; cut: its key frames are stored.

    since: what is told comes after this input offset; opened: when it was, by this process's own clock
    """

    since: int
    opened: float
    cut: bool = False


class ChannelLifecycle:
    """How the classes of one topic are served.

    still: held while the translation is touched
    """

    def __init__(self, broker: Broker, lease: Lease, resumed: Resumed, still: asyncio.Lock, grace: float) -> None:
        self.topic = lease.topic
        self._broker = broker
        self._lease = lease
        self._translation, self._shelf, self._writer = resumed.translation, resumed.shelf, resumed.writer
        self._lock = still
        self._plan = ChannelPlan(grace)
        self._plan.resume(resumed.classes.values())
        self._beginning: dict[str, _Beginning] = {}
        self._followed: Mapping[str, ServingDecision] | None = None
        for name in resumed.classes:
            self._begins(name, self._shelf.documents[name].since)

    @property
    def idle(self) -> bool:
        """Has no class a channel any more?"""
        return self._plan.idle

    @property
    def announced_count(self) -> int:
        """How many classes are said to have a channel."""
        return sum(document.state == "open" for document in self._shelf.documents.values())

    async def follow(self, asked: Mapping[str, ServingDecision]) -> None:
        """Serve what is asked now."""
        if asked is self._followed and self._plan.settled and not self._beginning:
            return
        served = self._plan.decide(asked, asyncio.get_running_loop().time())
        await self._close(served)
        await self._open(served)
        await self._announce_all({} if self.idle else served)  # where nothing is said, the log is read
        self._followed = asked

    def cut(self) -> list[_Beginning]:
        """The classes whose first key frames are among the messages cut now."""
        return [one for one in self._beginning.values() if not one.cut]

    async def _close(self, served: Mapping[str, ServingDecision]) -> None:
        for name in self._translation.classes:
            if name not in served or served[name].state != "open":
                async with self._lock:
                    self._translation.close(name)
                self._beginning.pop(name, None)

    async def _open(self, served: Mapping[str, ServingDecision]) -> None:
        open_now = self._translation.classes
        new = [name for name, one in served.items() if one.state == "open" and name not in open_now]
        if not new:
            return
        ends = await channel_ends(self._broker, self.topic, set(new))
        epochs = [end.epoch for by_publisher in ends.values() for end in by_publisher.values()]
        await self._insist_on_later_than(max(epochs, default=0))
        for first in range(0, len(new), AT_ONCE):
            async with self._lock:
                for name in new[first : first + AT_ONCE]:
                    self._open_one(served[name].asked, ends)
            await asyncio.sleep(0)  # messages have waited

    def _open_one(self, asked: DemandClass, ends: Ends) -> None:
        self._writer.ends_at(asked.id, {publisher: end.offset for publisher, end in ends[asked.id].items()})
        self._translation.open(asked)
        self._begins(asked.id, self._translation.log_decoder.offset or 0)

    async def _insist_on_later_than(self, found: int) -> None:
        """A channel of a class that was dropped long ago may tell of a later epoch, where the lease was lost since."""
        if found > self._lease.epoch:
            await self._lease.advance(found)
            raise Superseded("by one that is forgotten", topic=self.topic, epoch=found)

    async def _announce_all(self, served: Mapping[str, ServingDecision]) -> None:
        """Say how each class is served: of one that begins, once its key frames are stored."""
        whole = not any(self._translation.log_decoder.lost())
        told = [one for name, one in served.items() if self._can_announce(self._beginning.get(name), one, whole)]
        gone = list(self._shelf.documents.keys() - served.keys())
        for first in range(0, len(told), SAID_AT_ONCE):
            await several(self._announce, told[first : first + SAID_AT_ONCE])
        for first in range(0, len(gone), SAID_AT_ONCE):
            await several(lambda name: self._shelf.forget(name, self._lease.epoch), gone[first : first + SAID_AT_ONCE])

    def _can_announce(self, beginning: _Beginning | None, one: ServingDecision, whole: bool) -> bool:
        return one.state != "open" or (beginning is not None and self._has_begun(beginning, whole))

    async def _announce(self, one: ServingDecision) -> None:
        beginning, name = self._beginning.get(one.asked.id), one.asked.id
        since = beginning.since if beginning is not None else 0
        await self._shelf.write_document(
            ChannelDocument(self.topic, name, one.state, self._lease.epoch, since, one.reason)
        )
        self._beginning.pop(name, None)

    def _has_begun(self, beginning: _Beginning, whole: bool) -> bool:
        waited = asyncio.get_running_loop().time() - beginning.opened
        return beginning.cut and (waited >= LOST_PATIENCE or whole)

    def _begins(self, name: str, since: int) -> None:
        self._beginning[name] = _Beginning(since, asyncio.get_running_loop().time())
