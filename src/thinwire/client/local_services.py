"""Services that run in the process of the client, for `memory://` and `embedded://`, and in `thinwire up`."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Protocol

from thinwire.brokers.protocol import Broker
from thinwire.clock import Clock

SERVICES = "registry", "translator", "dictionaries", "watches"


async def run_service(name: str, broker: Broker, clock: Clock, stack: AsyncExitStack) -> asyncio.Task[None]:
    """Run one of `SERVICES` until the stack is closed. Return its task once it is ready."""
    service = _create_service(name, broker, clock)
    task = asyncio.create_task(service.run(), name=name)
    stack.push_async_callback(_end, task)
    await service.ready()
    return task


class _Service(Protocol):
    async def run(self) -> None: ...

    async def ready(self) -> None: ...


def _create_service(name: str, broker: Broker, clock: Clock) -> _Service:
    """Create a service. Each module is imported when its service is used: a process usually runs one of them."""
    if name == "registry":
        from thinwire.services.registry.registry_service import RegistryService

        return RegistryService(broker, clock)
    if name == "translator":
        from thinwire.services.translator.translator_service import TranslatorService

        return TranslatorService(broker, clock)
    if name == "dictionaries":
        from thinwire.services.dictionary_trainer.dictionary_service import DictionaryService

        return DictionaryService(broker, clock)
    from thinwire.services.watcher.watch_service import WatchService

    return WatchService(broker, clock)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
