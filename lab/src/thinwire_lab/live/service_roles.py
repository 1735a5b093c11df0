"""Services as worker processes, and what they report about the demand classes of a topic."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from thinwire.brokers.broker_url import open_broker, read_url
from thinwire.brokers.protocol import Broker
from thinwire.client.local_services import run_service
from thinwire.clock import WallClock
from thinwire.errors import ServiceUnavailable
from thinwire.services.translator.translator_service import TranslatorService
from thinwire.topics.channel_documents import ChannelDocument, channel_documents
from thinwire.topics.names import CHANNELS, translator_subject
from thinwire_lab.live.base_roles import POLL, CommandRole
from thinwire_lab.live.live_system import NotServed

TIMEOUT = 60.0


async def wait_for_channels(broker: Broker, topic: str, classes: int) -> dict[str, ChannelDocument]:
    """Wait until `classes` demand classes are served: the strictest by the log, each of the others by a channel."""
    bucket = await broker.bucket(CHANNELS)
    channels: dict[str, ChannelDocument] = {}
    try:
        async with asyncio.timeout(TIMEOUT):
            while sum(document.state == "open" for document in channels.values()) < classes - 1:
                await asyncio.sleep(POLL)
                channels = await channel_documents(bucket, topic)
    except TimeoutError:
        states = {name: document.state for name, document in channels.items()}
        raise NotServed(topic=topic, wanted=classes, found=states) from None
    return channels


async def request_translator_status(broker: Broker, topic: str) -> dict[str, Any]:
    """Wait until a translator serves a topic, and return its status."""
    try:
        async with asyncio.timeout(TIMEOUT):
            while True:
                try:
                    status: dict[str, Any] = json.loads(await broker.request(translator_subject(topic), b""))
                    return status
                except ServiceUnavailable:
                    await asyncio.sleep(POLL)
    except TimeoutError:
        raise NotServed("no translator answers", topic=topic) from None


class ServiceRole(CommandRole):
    """A worker that runs a service. It has no commands."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url

    async def open(self) -> None:
        broker, _ = await open_broker(read_url(self.url), {}, self.resources)
        await self.run_service(broker)

    async def run_service(self, broker: Broker) -> None:
        """Start the service; it stops when the stack is closed."""


class RegistryRole(ServiceRole):
    """The registry as a process."""

    async def run_service(self, broker: Broker) -> None:
        await run_service("registry", broker, WallClock(), self.resources)


class TranslatorRole(ServiceRole):
    """A translator as a process."""

    async def run_service(self, broker: Broker) -> None:
        await run_service("translator", broker, WallClock(), self.resources)


class DictionariesRole(ServiceRole):
    """A dictionary trainer as a process."""

    async def run_service(self, broker: Broker) -> None:
        await run_service("dictionaries", broker, WallClock(), self.resources)


class MeasuredTranslatorRole(ServiceRole):
    """A translator with given settings that returns its counters.

    settings: of `TranslatorService`
    """

    def __init__(self, url: str, **settings: Any) -> None:
        super().__init__(url)
        self.settings = settings

    async def run_service(self, broker: Broker) -> None:
        self._service = TranslatorService(broker, WallClock(), **self.settings)
        self.start_task(self._service.run())
        await self._service.ready()

    async def do_announced_classes(self, topic: str) -> dict[str, Any]:
        """Return how many classes of a topic have an announced channel."""
        work = self._service.active_work.get(topic)
        return {"count": work.announced_count if work is not None else 0}

    async def do_counts(self, topic: str) -> dict[str, Any]:
        """Return how many events of a topic were read, and how often one was encoded."""
        work = self._service.active_work.get(topic)
        if work is None or work.translation is None:
            return {"events": 0, "encodings": 0}
        counts = work.translation.counts
        return {"events": counts.events, "encodings": counts.encodings}
