"""Opens and closes the channels of a topic as demanded, and publishes how each class is served."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from thinwire.brokers.protocol import Broker
from thinwire.errors import Superseded
from thinwire.services.translator.channel_plan import ChannelPlan, ServingDecision
from thinwire.services.translator.translator_recovery import ChannelEnds, ResumedTranslation, find_channel_ends
from thinwire.topics.channel_documents import ChannelDocument
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.leases import Lease
from thinwire.topics.log_selection import gather_limited

OPEN_BATCH = 64
"""classes that are opened before waiting messages are processed"""
WRITE_BATCH = 1_024
"""documents that are written concurrently"""
KEY_FRAME_TIMEOUT = 3.0
"""seconds that a new class waits for the key frames of publishers without a decoder state"""


@dataclass
class StartingClass:
    """An open class whose document is not written yet.

    since: its channels contain events after this log offset
    opened_at: by the clock of the event loop
    is_stored: its first key frames are stored
    """

    since: int
    opened_at: float
    is_stored: bool = False


class ChannelLifecycle:
    """The classes of one topic.

    starting: open classes whose document is not written yet
    lock: held while the translation is used
    grace: seconds that a channel stays open after it is no longer needed
    """

    def __init__(
        self, broker: Broker, lease: Lease, resumed: ResumedTranslation, lock: asyncio.Lock, grace: float
    ) -> None:
        self.topic = lease.topic
        self._broker = broker
        self._lease = lease
        self._translation, self._documents, self._writer = resumed.translation, resumed.documents, resumed.writer
        self._lock = lock
        self._plan = ChannelPlan(grace)
        self._plan.resume(resumed.classes.values())
        self.starting: dict[str, StartingClass] = {}
        self._applied: Mapping[str, ServingDecision] | None = None
        for name in resumed.classes:
            self._add_starting(name, self._documents.by_class[name].since)

    @property
    def is_idle(self) -> bool:
        """Report whether no class has a channel."""
        return self._plan.is_idle

    @property
    def announced_count(self) -> int:
        """Number of classes whose document states that they have a channel."""
        return sum(document.state == "open" for document in self._documents.by_class.values())

    def is_open(self, name: str, since: int) -> bool:
        """Report whether the channel of a class is open and announced with `since`."""
        document = self._documents.by_class.get(name)
        is_announced = document is not None and document.state == "open" and document.since == since
        return is_announced and name in self._translation.classes

    async def apply(self, decisions: Mapping[str, ServingDecision]) -> None:
        """Open and close channels by the decisions, and write the documents of changed classes."""
        if decisions is self._applied and self._plan.is_stable and not self.starting:
            return
        served = self._plan.update(decisions, asyncio.get_running_loop().time())
        await self._close(served)
        await self._open(served)
        await self._announce_all({} if self.is_idle else served)  # a class without a document reads the log
        self._applied = decisions

    async def _close(self, served: Mapping[str, ServingDecision]) -> None:
        for name in list(self._translation.classes):
            if name not in served or served[name].state != "open":
                async with self._lock:
                    self._translation.close(name)
                self.starting.pop(name, None)

    async def _open(self, served: Mapping[str, ServingDecision]) -> None:
        open_now = self._translation.classes
        new = [name for name, one in served.items() if one.state == "open" and name not in open_now]
        if not new:
            return
        ends = await find_channel_ends(self._broker, self.topic, set(new))
        epochs = [end.epoch for by_publisher in ends.values() for end in by_publisher.values()]
        await self._check_epoch(max(epochs, default=0))
        for first in range(0, len(new), OPEN_BATCH):
            async with self._lock:
                for name in new[first : first + OPEN_BATCH]:
                    self._open_class(served[name].demand, ends)
            await asyncio.sleep(0)  # let the reader process waiting messages

    def _open_class(self, demand: DemandClass, ends: ChannelEnds) -> None:
        offsets = {publisher: end.offset for publisher, end in ends[demand.id].items()}
        self._writer.set_last_offsets(demand.id, offsets)
        self._translation.open(demand)
        self._add_starting(demand.id, self._translation.log_decoder.offset or 0)

    async def _check_epoch(self, found: int) -> None:
        """Restart under a higher epoch if the channels of a class contain one. The lease bucket may have been lost."""
        if found > self._lease.epoch:
            await self._lease.advance(found)
            raise Superseded("a channel contains a higher epoch", topic=self.topic, epoch=found)

    async def _announce_all(self, served: Mapping[str, ServingDecision]) -> None:
        """Write the document of each class; of a new one after its key frames are stored."""
        has_all_states = not any(self._translation.log_decoder.waiting())
        announced = [one for name, one in served.items() if self._can_announce(name, one, has_all_states)]
        removed = list(self._documents.by_class.keys() - served.keys())
        for first in range(0, len(announced), WRITE_BATCH):
            await gather_limited(self._announce, announced[first : first + WRITE_BATCH])
        for first in range(0, len(removed), WRITE_BATCH):
            await gather_limited(self._delete_document, removed[first : first + WRITE_BATCH])

    def _can_announce(self, name: str, decision: ServingDecision, has_all_states: bool) -> bool:
        if decision.state != "open":
            return True
        starting = self.starting.get(name)
        if starting is None or not starting.is_stored:
            return False
        return has_all_states or asyncio.get_running_loop().time() - starting.opened_at >= KEY_FRAME_TIMEOUT

    async def _announce(self, decision: ServingDecision) -> None:
        name = decision.demand.id
        starting = self.starting.get(name)
        since = starting.since if starting is not None else 0
        await self._documents.write_document(
            ChannelDocument(self.topic, name, decision.state, self._lease.epoch, since, decision.reason)
        )
        self.starting.pop(name, None)

    async def _delete_document(self, name: str) -> None:
        await self._documents.delete(name, self._lease.epoch)

    def _add_starting(self, name: str, since: int) -> None:
        self.starting[name] = StartingClass(since, asyncio.get_running_loop().time())
