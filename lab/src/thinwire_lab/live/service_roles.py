"""Services as worker processes, and the demand classes that they serve."""

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
from thinwire.topics.channel_documents import channel_documents
from thinwire.topics.names import CHANNELS, translator_subject
from thinwire_lab.live.base_roles import POLL, CommandRole
from thinwire_lab.live.live_system import served_within

TIMEOUT = 60.0


async def wait_for_channels(broker: Broker, topic: str, classes: int) -> None:
    """Wait until `classes` demand classes are served: the strictest by the log, each of the others by a channel."""
    bucket = await broker.bucket(CHANNELS)
    states: dict[str, str] = {}
    async with served_within(TIMEOUT, topic=topic, wanted=classes, found=states):
        while list(states.values()).count("open") < classes - 1:
            await asyncio.sleep(POLL)
            states.update((name, document.state) for name, document in (await channel_documents(bucket, topic)).items())


async def request_translator_status(broker: Broker, topic: str) -> dict[str, Any]:
    """Wait until a translator serves a topic, and return its status."""
    status: dict[str, Any] = {}
    async with served_within(TIMEOUT, "no translator answers", topic=topic):
        while not status:
            try:
                status = json.loads(await broker.request(translator_subject(topic), b""))
            except ServiceUnavailable:
                await asyncio.sleep(POLL)
    return status


class ServiceRole(CommandRole):
    """A worker that runs a service with a connection to a broker."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url

    async def open(self) -> None:
        broker, _ = await open_broker(read_url(self.url), {}, self.resources)
        await self.run_service(broker)

    async def run_service(self, broker: Broker) -> None:
        """Start the service. It stops when `resources` is closed."""


class RegistryRole(ServiceRole):
    """The registry as a process."""

    async def run_service(self, broker: Broker) -> None:
        await run_service("registry", broker, WallClock(), self.resources)


class DictionariesRole(ServiceRole):
    """A dictionary trainer as a process."""

    async def run_service(self, broker: Broker) -> None:
        await run_service("dictionaries", broker, WallClock(), self.resources)


class TranslatorRole(ServiceRole):
    """A translator as a process, with commands that return its counters.

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
        """Return the number of classes of a topic with an announced channel."""
        work = self._service.active_work.get(topic)
        return {"count": work.announced_count if work is not None else 0}

    async def do_counts(self, topic: str) -> dict[str, Any]:
        """Return the number of events of a topic that were read, and the number of encodings."""
        work = self._service.active_work.get(topic)
        if work is None or work.translation is None:
            return {"events": 0, "encodings": 0}
        counts = work.translation.counts
        return {"events": counts.events, "encodings": counts.encodings}
