"""The registry as a process."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

from thinwire.client.opening import open_broker, run_registry
from thinwire.client.urls import read_url
from thinwire.clock import WallClock


class RegistryRole:
    """Runs the registry's service; it takes no commands but to leave."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._stack = AsyncExitStack()

    async def open(self) -> None:
        broker, _ = await open_broker(read_url(self.url), {}, self._stack)
        await run_registry(broker, WallClock(), self._stack)

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        return {}

    async def close(self) -> None:
        await self._stack.aclose()
