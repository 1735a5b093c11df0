"""The services as processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AsyncExitStack
from typing import Any

from thinwire.brokers.broker_url import read_url
from thinwire.brokers.protocol_broker import Broker
from thinwire.client.local_services_opening import open_broker, run_dictionaries, run_registry, run_translator
from thinwire.clock import WallClock


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
