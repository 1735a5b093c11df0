"""A system under test: an embedded broker, and worker processes that are connected to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import thinwire as tw
from thinwire.brokers.broker_url import open_broker, read_url
from thinwire.brokers.protocol import Broker
from thinwire.demo.process_group import START_TIMEOUT, WorkerProcess, process_group
from thinwire.errors import ThinwireError
from thinwire.schema import Schema

IN_MEMORY = Path("/dev/shm")
"""folder of the broker's log, if it exists: a disk would dominate the latency"""


class NotServed(ThinwireError, summary="the demand classes of a topic are not served as required"):
    advice = "Check that a translator runs and receives the subscriptions."


@asynccontextmanager
async def served_within(seconds: float, detail: str = "", **facts: Any) -> AsyncIterator[None]:
    """Raise `NotServed` if the block takes longer."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise NotServed(detail, **facts) from None


def merge_last(results: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the last event of each source, from the results of all publishers."""
    return {source: last for result in results for source, last in result["last"].items()}


class LiveSystem:
    """An embedded broker and worker processes. They run within a block of `async with`.

    in_memory: whether the log of the broker is in main memory
    """

    def __init__(self, in_memory: bool = True) -> None:
        self.in_memory = in_memory
        self.resources = AsyncExitStack()
        self.workers: list[WorkerProcess] = []

    async def __aenter__(self) -> Self:
        from thinwire.brokers.embedded import EmbeddedServer

        try:
            directory = None
            if self.in_memory and IN_MEMORY.is_dir():
                directory = self.resources.enter_context(TemporaryDirectory(dir=IN_MEMORY))
            self.server = await self.resources.enter_async_context(EmbeddedServer(directory=directory))
            await self.set_up()
        except BaseException:
            await self.resources.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.resources.aclose()

    async def set_up(self) -> None:
        """Start the processes of the system. Called when the broker runs."""

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def processes(self) -> dict[str, int]:
        """The process ids of the broker and of all workers, by name."""
        return {"broker": self.server.pid, **{worker.name: worker.pid for worker in self.workers}}

    async def connect(self) -> Broker:
        """Return a new connection to the broker. It is closed with the system."""
        broker, _ = await open_broker(read_url(self.url), {}, self.resources)
        return broker

    async def register(self, schema: Schema, **settings: Any) -> None:
        async with tw.connect(self.url) as bus:
            await bus.register(schema, **settings)

    def make_worker(self, role: str, name: str = "", /, **settings: Any) -> WorkerProcess:
        return WorkerProcess(name or role, role, {"url": self.url, **settings})

    async def start(self, *workers: WorkerProcess) -> None:
        """Start workers together and wait until all are ready."""
        await self.resources.enter_async_context(process_group(workers))
        self.workers += workers

    async def start_publishers(self, role: str, count: int, **settings: Any) -> None:
        """Start publishers with the numbers from 0."""
        workers = (self.make_worker(role, f"publisher {k}", number=k, **settings) for k in range(count))
        await self.start(*workers)

    def of_role(self, role: str) -> list[WorkerProcess]:
        return [worker for worker in self.workers if worker.role == role]

    async def run(
        self, role: str, command: str, reply_timeout: float = START_TIMEOUT, /, **arguments: Any
    ) -> list[dict[str, Any]]:
        """Run a command in all workers of a role and return their results."""
        calls = (worker.request(reply_timeout, do=command, **arguments) for worker in self.of_role(role))
        return list(await asyncio.gather(*calls))

    async def run_one(
        self, role: str, command: str, reply_timeout: float = START_TIMEOUT, /, **arguments: Any
    ) -> dict[str, Any]:
        """Run a command in the only worker of a role and return its result."""
        (result,) = await self.run(role, command, reply_timeout, **arguments)
        return result
