"""What a translator knows: what is asked of every topic, who holds it, and which classes have a channel."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import NamedTuple

from thinwire.control.leases import Leases
from thinwire.control.names import CHANNELS, LEASES, REGISTRY
from thinwire.control.registry.shelf import Shelf
from thinwire.control.translating.documents import ChannelDocument
from thinwire.control.translating.planning import Judge, Served
from thinwire.errors import RegistryError, TransportClosed, TransportError
from thinwire.transports.broker import Broker, Entry

RETRY = 1.0
BREATH = 32

_log = logging.getLogger("thinwire.translator")


class _Reading(NamedTuple):
    """What happens with the entries of a bucket, and when all have been read that there are."""

    take: Callable[[Entry], object]
    complete: Callable[[], None]


class Knowledge:
    """Read along in three buckets, each with `follow`.

    complete: everything there is has been read; changed: something may have to be done about it
    """

    def __init__(self, broker: Broker, leases: Leases) -> None:
        self.broker = broker
        self.leases = leases
        self.complete = asyncio.Event()
        self.changed = asyncio.Event()
        self._readings = {REGISTRY: self._asked, LEASES: self._leased, CHANNELS: self._served}
        self._unread = set(self._readings)
        self._shelf = Shelf()
        self._judges: dict[str, Judge] = {}
        self._judged: dict[str, dict[str, Served]] = {}
        self._channels: dict[str, str] = {}

    @property
    def buckets(self) -> list[str]:
        """What there is to follow."""
        return list(self._readings)

    async def follow(self, name: str) -> None:
        """Read along in a bucket; after a loss of the broker that outlasts its patience, from the beginning."""
        while True:
            try:
                bucket = await self.broker.bucket(name)
                async with aclosing(bucket.watch()) as changes:
                    await self._read(name, changes)
                raise TransportClosed(url=self.broker.url)
            except TransportClosed:
                raise
            except TransportError as problem:
                _log.warning("the translator waits for its broker: %s", problem)
                await asyncio.sleep(RETRY)

    def is_registered(self, topic: str) -> bool:
        """Does the registry know the topic?"""
        return topic in self._shelf.topics and self._shelf.topics[topic].document is not None

    def asked(self, name: str) -> dict[str, Served]:
        """The classes that are asked for of a topic, and which of them need a channel."""
        topic = self._shelf.topics.get(name)
        if topic is None:
            self._judges.pop(name, None)
            return {}
        if name not in self._judged:
            self._judged[name] = self._judges.setdefault(name, Judge()).verdicts(topic)
        return self._judged[name]

    def needed(self) -> set[str]:
        """The topics that must be translated: a class needs a channel, or is said to have one."""
        registered = (topic.name for topic in self._shelf if topic.document is not None)
        wanted = {name for name in registered if any(one.state == "open" for one in self.asked(name).values())}
        return wanted | set(self._channels.values())

    async def _read(self, name: str, changes: AsyncGenerator[Entry | None, None]) -> None:
        reading, read = self._readings[name](), 0
        async for entry in changes:
            read += 1
            if read % BREATH == 0:
                await asyncio.sleep(0)  # thousands may come at once: others want to be heard as well
            if entry is not None:
                reading.take(entry)
            else:
                # what was read so far is all there is: only now conclusions may be drawn from what is missing
                reading.complete()
                self._unread.discard(name)
            if not self._unread:
                self.complete.set()
                if name != LEASES:  # signs of life need no attention
                    self.changed.set()

    def _asked(self) -> _Reading:
        shelf = Shelf()

        def take(entry: Entry) -> None:
            topic = shelf.put(entry)
            if topic is not None:
                self._judged.pop(topic, None)

        def complete() -> None:
            self._shelf = shelf
            self._judged.clear()

        return _Reading(take, complete)

    def _leased(self) -> _Reading:
        now = asyncio.get_running_loop().time
        return _Reading(lambda entry: self.leases.saw(entry, now()), lambda: None)

    def _served(self) -> _Reading:
        """A class that is said to have a channel has one, or somebody must take that back."""
        channels: dict[str, str] = {}

        def take(entry: Entry) -> None:
            channels.pop(entry.key, None)
            with suppress(RegistryError):
                document = ChannelDocument.decode(entry.value) if entry.value is not None else None
                if document is not None and document.state == "open":
                    channels[entry.key] = document.topic

        def complete() -> None:
            self._channels = channels

        return _Reading(take, complete)
