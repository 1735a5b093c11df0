"""How the classes of a topic are served, seen from outside: the documents, and what its translator says of itself.

The services as processes.

Translators as processes whose settings are chosen, and which tell what they have done.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from contextlib import AsyncExitStack
from typing import Any

from thinwire.brokers.broker_url import open_broker, read_url
from thinwire.brokers.protocol import Broker
from thinwire.client.local_services import run_dictionaries, run_registry, run_translator
from thinwire.clock import WallClock
from thinwire.errors import ServiceUnavailable, ThinwireError
from thinwire.services.translator.translator_service import TranslatorService
from thinwire.topics.channel_documents import ChannelDocument, channel_documents
from thinwire.topics.names import CHANNELS, translator_subject

PATIENCE = 60.0
_POLL = 0.05


class NotServed(ThinwireError):
    summary = "the classes of a topic are not served as they should be"
    advice = "Does a translator run, and does it see the subscriptions?"


async def channels_open(url: str, topic: str, classes: int) -> dict[str, ChannelDocument]:
    """Wait until so many classes are served: the strictest by the log, each of the others by a channel."""
    from thinwire.brokers.nats.broker import connect

    broker = await connect(url)
    try:
        return await wait_for_channels(broker, topic, classes)
    finally:
        await broker.close()


async def wait_for_channels(broker: Broker, topic: str, classes: int) -> dict[str, ChannelDocument]:
    """The same on a connection that is there."""
    bucket = await broker.bucket(CHANNELS)
    found: dict[str, ChannelDocument] = {}
    try:
        async with asyncio.timeout(PATIENCE):
            while sum(document.state == "open" for document in found.values()) < classes - 1:
                await asyncio.sleep(_POLL)
                found = await channel_documents(bucket, topic)
    except TimeoutError:
        states = {name: document.state for name, document in found.items()}
        raise NotServed(topic=topic, wanted=classes, found=states) from None
    return found


async def translator_of(broker: Broker, topic: str) -> dict[str, Any]:
    """What the translator of a topic says of itself; waits until there is one."""
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    answer: dict[str, Any] = json.loads(await broker.request(translator_subject(topic), b""))
                    return answer
                except ServiceUnavailable:
                    await asyncio.sleep(_POLL)
    except TimeoutError:
        raise NotServed("no translator answers", topic=topic) from None


class ServiceRole(ABC):
    """Runs a service; it takes no commands but to leave."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._stack = AsyncExitStack()

    async def open(self) -> None:
        broker, _ = await open_broker(read_url(self.url), {}, self._stack)
        await self._start(broker)

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        return {}

    async def close(self) -> None:
        await self._stack.aclose()

    @abstractmethod
    async def _start(self, broker: Broker) -> None: ...


class RegistryRole(ServiceRole):
    """The registry as a process."""

    async def _start(self, broker: Broker) -> None:
        await run_registry(broker, WallClock(), self._stack)


class TranslatorRole(ServiceRole):
    """A translator as a process."""

    async def _start(self, broker: Broker) -> None:
        await run_translator(broker, WallClock(), self._stack)


class DictionariesRole(ServiceRole):
    """A dictionary service as a process."""

    async def _start(self, broker: Broker) -> None:
        await run_dictionaries(broker, WallClock(), self._stack)


class TellingTranslatorRole(ServiceRole):
    """A translator that can be asked what it has read and encoded.

    settings: of `TranslatorService`
    """

    def __init__(self, url: str, **settings: Any) -> None:
        super().__init__(url)
        self.settings = settings

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        """`counts`: events of a topic that it has read, and how often it has encoded one; `classes`: how many of its
        classes have a channel of which it was said."""
        work = self._service.active_work.get(command["topic"])
        if command["do"] == "classes":
            return {"said": work.announced_count if work is not None else 0}
        if work is None or work.translation is None:
            return {"events": 0, "encodings": 0}
        counts = work.translation.counts
        return {"events": counts.events, "encodings": counts.encodings}

    async def _start(self, broker: Broker) -> None:
        self._service = TranslatorService(broker, WallClock(), **self.settings)
        task = asyncio.create_task(self._service.run(), name="translator")
        self._stack.push_async_callback(_end, task)
        await self._service.ready()


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
