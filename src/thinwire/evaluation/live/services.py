"""The registry as a process."""

from __future__ import annotations

import asyncio
from typing import Any

from thinwire.clock import WallClock
from thinwire.control.registry import RegistryService
from thinwire.transports.broker import Broker
from thinwire.transports.nats import connect


class RegistryRole:
    """Runs the registry's service; it takes no commands but to leave."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._broker: Broker | None = None
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        self._broker = await connect(self.url)
        service = RegistryService(self._broker, WallClock())
        self._task = asyncio.create_task(service.run())
        await service.ready()

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        return {}

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._broker is not None:
            await self._broker.close()
