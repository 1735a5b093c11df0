"""A whole chain under load: a broker, the services where the stack has them, publishers and subscribers."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Literal

from thinwire.demo.process_group_processes import Crew, Worker, micros
from thinwire.schema import Schema
from thinwire_lab.live.load_chain_outcome import Outcome, outcome
from thinwire_lab.live.load_roles import share_expectations
from thinwire_lab.live.process_measurement_sampling import Sampler
from thinwire_lab.live.service_roles import channels_open
from thinwire_lab.live.stacks import route_to, stack

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
    classes: tolerances that subscribers ask for in turn, served by a translator; one tolerance for all where empty
    format: of frames; dictionaries: who looks after them, "service" or "switching"; none are used where empty
    """

    kind: str
    feed: str = "feed"
    publishers: int = 4
    readers: int = 2
    connections: int = 10
    linger: float = 0.05
    tolerance: float = 0.5
    emit: Literal["all", "changes"] = "all"
    classes: tuple[float, ...] = ()
    format: Literal["compact", "json"] = "compact"
    dictionaries: Literal["", "service", "switching"] = ""


class Chain:
    """Processes that live as long as the block; a round is a rate for some seconds."""

    def __init__(self, shape: Shape, schema: Schema) -> None:
        self.shape = shape
        self.schema = schema
        self._stack = stack(shape.kind)
        self._open = AsyncExitStack()
        self._turns = 0

    async def __aenter__(self) -> Chain:
        from thinwire.brokers.embedded import EmbeddedServer

        try:
            folder = self._open.enter_context(TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None))
            self._server = await self._open.enter_async_context(EmbeddedServer(directory=folder))
            shape = self.shape
            self.route = route_to(
                self._server.url,
                self.schema,
                linger=shape.linger,
                tolerance=shape.tolerance,
                emit=shape.emit,
                format=shape.format,
                dictionaries=bool(shape.dictionaries),
            )
            self._services = await self._open.enter_async_context(Crew(self._serving()))
            await self._stack.prepare(self.route)
            # subscribers first: what is published before anybody listens is nobody's loss
            self._readers = await self._open.enter_async_context(Crew(self._subscribers()))
            self._writers = await self._open.enter_async_context(Crew(self._publishers()))
            if shape.classes:
                await channels_open(self._server.url, self.schema.name, len(set(shape.classes)))
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
        command = {"rate": rate, "seconds": warm_up + seconds, "turn": self._turns}
        if self.shape.classes:
            await self._readers.ask(self._reading, SLACK, do="prepare", **command)
        start = command["start"] = micros() + round(AHEAD * 1e6)
        self._turns += 1
        begin = {"start": start, "timed_from": start + round(warm_up * 1e6)}
        before = await self._readers.ask(self._reading, SLACK, do="begin", **begin)
        async with Sampler(self.processes) as sampler:
            sent = await self._writers.ask("publisher", warm_up + seconds + SLACK, do="round", **command)
            last: dict[str, Any] = {source: at for answer in sent for source, at in answer["last"].items()}
            taken = await self._readers.ask(self._reading, PATIENCE + SLACK, do="end", last=last, patience=PATIENCE)
        if self.shape.classes:
            share_expectations(taken)
        for earlier, answer in zip(before, taken, strict=True):
            answer["missed"] = [now - then for then, now in zip(earlier["missed"], answer["missed"], strict=True)]
        return outcome(rate, seconds, sent, taken, sampler)

    async def command(self, role: str, **command: Any) -> dict[str, Any]:
        """A command to a service, and its answer."""
        (answer,) = await self._services.ask(role, SLACK, **command)
        return answer

    async def stored(self) -> int:
        """Bytes the broker keeps."""
        return await self._stack.stored(self.route)

    @property
    def processes(self) -> dict[str, int]:
        """Everything that runs for the chain: name -> process id."""
        workers = [*self._writers.workers, *self._readers.workers, *self._services.workers]
        return {"broker": self._server.pid, **{worker.name: worker.pid for worker in workers}}

    @property
    def _reading(self) -> str:
        """The role of subscribers."""
        if self.shape.classes:
            return "class subscriber"
        return "ordered subscriber" if self.shape.dictionaries == "switching" else "subscriber"

    def _serving(self) -> list[Worker]:
        """The services that the stack needs."""
        settings = {"url": self._server.url}
        services = [Worker("registry", "registry", settings)] if self.shape.kind == "thinwire" else []
        services += [Worker("translator", "translator", settings)] if self.shape.classes else []
        if self.shape.dictionaries == "service":
            services.append(Worker("dictionaries", "dictionaries", settings))
        elif self.shape.dictionaries:
            services.append(Worker("dictionaries", "switching", {**settings, "topic": self.schema.name}))
        return services

    def _publishers(self) -> list[Worker]:
        count = self.shape.publishers
        return [
            Worker(f"publisher {k}", "publisher", {**self._common(), "number": k, "publishers": count})
            for k in range(count)
        ]

    def _subscribers(self) -> list[Worker]:
        shape = self.shape
        settings = {**self._common(), "connections": shape.connections}
        if shape.classes:
            settings |= {"classes": shape.classes, "readers": shape.readers, "publishers": shape.publishers}
        return [Worker(f"subscriber {k}", self._reading, {**settings, "number": k}) for k in range(shape.readers)]

    def _common(self) -> dict[str, Any]:
        return {"kind": self.shape.kind, "route": self.route.to_document(), "feed": self.shape.feed}
