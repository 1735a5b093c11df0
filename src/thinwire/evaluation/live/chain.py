"""A whole chain under load: a broker, the registry where the stack has one, publishers and subscribers."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Literal

from thinwire.evaluation.live.measure import micros
from thinwire.evaluation.live.outcome import Outcome, outcome
from thinwire.evaluation.live.processes import Crew, Worker
from thinwire.evaluation.live.sampling import Sampler
from thinwire.evaluation.live.stacks import route_to, stack
from thinwire.events import Schema

AHEAD = 0.5
"""seconds between the command and the first event"""
PATIENCE = 20.0
"""seconds a subscriber is given to catch up after the last event"""
SLACK = 60.0
IN_MEMORY = Path("/dev/shm")
"""where the broker keeps its log if the system has such a place: the pauses of a disk are no stack's merit or fault"""


@dataclass(frozen=True)
class Shape:
    """How a chain is built.

    kind: the stack; feed: which events; readers: subscriber processes, of so many connections each
    """

    kind: str
    feed: str = "feed"
    publishers: int = 4
    readers: int = 2
    connections: int = 10
    linger: float = 0.05
    tolerance: float = 0.5
    emit: Literal["all", "changes"] = "all"


class Chain:
    """Processes that live as long as the block; a round is a rate for some seconds."""

    def __init__(self, shape: Shape, schema: Schema) -> None:
        self.shape = shape
        self.schema = schema
        self._stack = stack(shape.kind)
        self._open = AsyncExitStack()
        self._turns = 0

    async def __aenter__(self) -> Chain:
        from thinwire.transports.embedded import EmbeddedServer

        try:
            folder = self._open.enter_context(TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None))
            self._server = await self._open.enter_async_context(EmbeddedServer(directory=folder))
            shape = self.shape
            self.route = route_to(
                self._server.url, self.schema, linger=shape.linger, tolerance=shape.tolerance, emit=shape.emit
            )
            if shape.kind == "thinwire":
                self._services = await self._open.enter_async_context(
                    Crew([Worker("registry", "registry", {"url": self._server.url})])
                )
            await self._stack.prepare(self.route)
            # subscribers first: what is published before anybody listens is nobody's loss
            self._readers = await self._open.enter_async_context(Crew(self._subscribers()))
            self._writers = await self._open.enter_async_context(Crew(self._publishers()))
        except BaseException:
            await self._open.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.aclose()

    async def round(self, rate: float, seconds: float, warm_up: float = 2.0) -> Outcome:
        """Publish at a rate; latencies of what arrives in the warm-up, which comes before the seconds, do not count."""
        start = micros() + round(AHEAD * 1e6)
        command = {"rate": rate, "start": start, "seconds": warm_up + seconds, "turn": self._turns}
        self._turns += 1
        before = await self._readers.ask("subscriber", SLACK, do="begin", timed_from=start + round(warm_up * 1e6))
        async with Sampler(self.processes) as sampler:
            sent = await self._writers.ask("publisher", warm_up + seconds + SLACK, do="round", **command)
            last: dict[str, Any] = {source: at for answer in sent for source, at in answer["last"].items()}
            taken = await self._readers.ask("subscriber", PATIENCE + SLACK, do="end", last=last, patience=PATIENCE)
        for earlier, answer in zip(before, taken, strict=True):
            answer["missed"] = [now - then for then, now in zip(earlier["missed"], answer["missed"], strict=True)]
        return outcome(rate, seconds, sent, taken, sampler)

    async def stored(self) -> int:
        """Bytes the broker keeps."""
        return await self._stack.stored(self.route)

    @property
    def processes(self) -> dict[str, int]:
        """Everything that runs for the chain: name -> process id."""
        workers = [*self._writers.workers, *self._readers.workers]
        if self.shape.kind == "thinwire":
            workers += self._services.workers
        return {"broker": self._server.pid, **{worker.name: worker.pid for worker in workers}}

    def _publishers(self) -> list[Worker]:
        count = self.shape.publishers
        return [
            Worker(f"publisher {k}", "publisher", {**self._common(), "number": k, "publishers": count})
            for k in range(count)
        ]

    def _subscribers(self) -> list[Worker]:
        connections = self.shape.connections
        return [
            Worker(f"subscriber {k}", "subscriber", {**self._common(), "number": k, "connections": connections})
            for k in range(self.shape.readers)
        ]

    def _common(self) -> dict[str, Any]:
        return {"kind": self.shape.kind, "route": self.route.to_document(), "feed": self.shape.feed}
