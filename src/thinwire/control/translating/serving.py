"""The classes of a topic while it is translated: opened and closed as they are asked for, and said so."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from thinwire.control.leases import Lease
from thinwire.control.translating.documents import ChannelDocument
from thinwire.control.translating.planning import Plan, Served
from thinwire.control.translating.recovering import channel_ends
from thinwire.control.translating.resuming import Resumed
from thinwire.errors import Superseded
from thinwire.transports.broker import Broker

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


class Serving:
    """How the classes of one topic are served.

    still: held while the translation is touched
    """

    def __init__(self, broker: Broker, lease: Lease, resumed: Resumed, still: asyncio.Lock, grace: float) -> None:
        self.topic = lease.topic
        self._broker = broker
        self._lease = lease
        self._translation, self._shelf, self._writer = resumed.translation, resumed.shelf, resumed.writer
        self._still = still
        self._plan = Plan(grace)
        self._plan.resume(resumed.classes.values())
        self._beginning: dict[str, _Beginning] = {}
        for name in resumed.classes:
            self._begins(name, self._shelf.documents[name].since)

    @property
    def idle(self) -> bool:
        """Has no class a channel any more?"""
        return self._plan.idle

    async def follow(self, asked: Mapping[str, Served]) -> None:
        """Serve what is asked now."""
        served = self._plan.decide(asked, asyncio.get_running_loop().time())
        await self._close(served)
        await self._open(served)
        await self._tell({} if self.idle else served)  # where nothing is said, the log is read

    def cut(self) -> list[_Beginning]:
        """The classes whose first key frames are among the messages cut now."""
        return [one for one in self._beginning.values() if not one.cut]

    async def _close(self, served: Mapping[str, Served]) -> None:
        for name in self._translation.classes:
            if name not in served or served[name].state != "open":
                async with self._still:
                    self._translation.close(name)
                self._beginning.pop(name, None)

    async def _open(self, served: Mapping[str, Served]) -> None:
        open_now = self._translation.classes
        for name, one in served.items():
            if one.state != "open" or name in open_now:
                continue
            ends = (await channel_ends(self._broker, self.topic, {name}))[name]
            await self._insist_on_later_than(max((end.epoch for end in ends.values()), default=0))
            self._writer.ends_at(name, {publisher: end.offset for publisher, end in ends.items()})
            async with self._still:
                self._translation.open(one.asked)
                self._begins(name, self._translation.inlet.offset or 0)

    async def _insist_on_later_than(self, found: int) -> None:
        """A channel of a class that was dropped long ago may tell of a later epoch, where the lease was lost since."""
        if found > self._lease.epoch:
            await self._lease.advance(found)
            raise Superseded("by one that is forgotten", topic=self.topic, epoch=found)

    async def _tell(self, served: Mapping[str, Served]) -> None:
        """Say how each class is served: of one that begins, once its key frames are stored."""
        for name, one in served.items():
            beginning = self._beginning.get(name)
            if one.state == "open" and (beginning is None or not self._has_begun(beginning)):
                continue
            since = beginning.since if beginning is not None else 0
            await self._shelf.tell(ChannelDocument(self.topic, name, one.state, self._lease.epoch, since, one.reason))
            self._beginning.pop(name, None)
        for name in self._shelf.documents.keys() - served.keys():
            await self._shelf.forget(name, self._lease.epoch)

    def _has_begun(self, beginning: _Beginning) -> bool:
        waited = asyncio.get_running_loop().time() - beginning.opened
        return beginning.cut and (waited >= LOST_PATIENCE or not any(self._translation.inlet.lost()))

    def _begins(self, name: str, since: int) -> None:
        self._beginning[name] = _Beginning(since, asyncio.get_running_loop().time())
