"""Services that run in the process of the client, for `memory://` and `embedded://`."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Protocol

from thinwire.brokers.protocol import Broker
from thinwire.clock import Clock


async def run_services(broker: Broker, clock: Clock, stack: AsyncExitStack) -> list[asyncio.Task[None]]:
    """Run the registry and all other services until the stack is closed. Return their tasks."""
    runs = run_registry, run_translator, run_dictionaries, run_watches
    return [await run(broker, clock, stack) for run in runs]


async def run_registry(broker: Broker, clock: Clock, stack: AsyncExitStack) -> asyncio.Task[None]:
    """Run the registry until the stack is closed. Return its task."""
    from thinwire.services.registry.registry_service import RegistryService

    return await _run(RegistryService(broker, clock), "registry", stack)


async def run_translator(broker: Broker, clock: Clock, stack: AsyncExitStack) -> asyncio.Task[None]:
    """Run a translator until the stack is closed. Return its task."""
    from thinwire.services.translator.translator_service import TranslatorService

    return await _run(TranslatorService(broker, clock), "translator", stack)


async def run_dictionaries(broker: Broker, clock: Clock, stack: AsyncExitStack) -> asyncio.Task[None]:
    """Run a dictionary trainer until the stack is closed. Return its task."""
    from thinwire.services.dictionary_trainer.dictionary_service import DictionaryService

    return await _run(DictionaryService(broker, clock), "dictionaries", stack)


async def run_watches(broker: Broker, clock: Clock, stack: AsyncExitStack) -> asyncio.Task[None]:
    """Run a watch service until the stack is closed. Return its task."""
    from thinwire.services.watcher.watch_service import WatchService

    return await _run(WatchService(broker, clock), "watches", stack)


class _Service(Protocol):
    async def run(self) -> None: ...

    async def ready(self) -> None: ...


async def _run(service: _Service, name: str, stack: AsyncExitStack) -> asyncio.Task[None]:
    task = asyncio.create_task(service.run(), name=name)
    stack.push_async_callback(_end, task)
    await service.ready()
    return task


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
