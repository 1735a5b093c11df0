"""A whole chain under load: a broker, the services where the stack has them, publishers and subscribers.

What a round came to, and whether the chain held the rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Literal

from thinwire.demo.process_group import ProcessGroup, WorkerProcess, micros
from thinwire.schema import Schema
from thinwire_lab.live.load_roles import share_expectations
from thinwire_lab.live.process_measurement import (
    ProcessSample,
    ProcessSampler,
    cores_used,
    dense,
    growth,
    others,
    quantile,
    together,
)
from thinwire_lab.live.service_roles import channels_open
from thinwire_lab.live.stacks import route_to, stack

P99 = 250.0
"""milliseconds from the instant an event was meant to be sent to its subscriber"""
GROWTH = 0.05
BROKER = "broker"
MEMORY_FROM = 30
"""samples a round must have before growth of memory says anything"""


@dataclass(frozen=True)
class LoadOutcome:
    """One rate held, or not, for some seconds.

    rate: events a second of all publishers together
    sent: events that travelled; lost: events that a subscriber should have been handed and was not
    p50, p99: milliseconds, over all subscribers; series: what the processes used meanwhile
    others: cores that something else on the machine used meanwhile
    """

    rate: float
    seconds: float
    events: int
    sent: int
    lost: int
    p50: float
    p99: float
    series: Mapping[str, list[ProcessSample]] = field(default_factory=dict, repr=False)
    others: float = 0.0

    @property
    def sent_share(self) -> float:
        return self.sent / self.events

    @property
    def grown(self) -> float | None:
        """The largest growth of a process or of all of them together; None where the round was too short to tell.

        The broker counts with the others only: it fills its caches for minutes, up to some tens of megabytes, whatever
        is sent through it.
        """
        long_enough = {name: samples for name, samples in self.series.items() if len(samples) >= MEMORY_FROM}
        ours = [samples for name, samples in long_enough.items() if name != BROKER]
        return max(map(growth, [*ours, together(long_enough)])) if long_enough else None

    @property
    def cpu(self) -> dict[str, float]:
        """Cores used, by role."""
        shares: dict[str, float] = {}
        for name, cores in cores_used(self.series).items():
            role = name.partition(" ")[0]
            shares[role] = shares.get(role, 0.0) + cores
        return shares

    def seconds_of(self, role: str) -> float:
        """Processor seconds that the processes of a role used in the whole round."""
        spans = [samples[-1].cpu - samples[0].cpu for name, samples in self.series.items() if name.startswith(role)]
        return sum(spans)

    @property
    def trouble(self) -> str:
        """Reasons the rate was not held; empty where it was."""
        if self.lost:
            return f"{self.lost:,} events lost"
        if self.p99 >= P99:
            return f"p99 {self.p99:,.0f} ms"
        if self.grown is not None and self.grown >= GROWTH:
            return f"memory grew by {100 * self.grown:.0f} %"
        return ""

    @property
    def held(self) -> bool:
        return not self.trouble


def outcome(
    rate: float,
    seconds: float,
    sent: Sequence[Mapping[str, Any]],
    taken: Iterable[Mapping[str, Any]],
    sampler: ProcessSampler,
) -> LoadOutcome:
    """The outcome of a round from what publishers and subscribers say.

    Where subscribers ask for different things, their answers say how many events each should have (`told`), and what
    else an auditor among them found wrong (`faults`); else each should have what the publishers told.
    """
    told = sum(answer["told"] for answer in sent)
    events = sum(answer["events"] for answer in sent)
    latencies, lost = dense([]), 0
    for answer in taken:
        latencies += dense(answer["latencies"])
        expected = answer.get("told", [told] * len(answer["events"]))
        lost += sum(_lost(*subscriber) for subscriber in zip(expected, *(answer[n] for n in _NOTED), strict=True))
        lost += sum(answer.get("faults", ()))
    slow = float("inf")
    p50, p99 = (quantile(latencies, share) for share in (0.5, 0.99))
    return LoadOutcome(
        rate=rate,
        seconds=seconds,
        events=events,
        sent=sum(answer["sent"] for answer in sent),
        lost=lost,
        p50=slow if p50 is None else p50,
        p99=slow if p99 is None else p99,
        series=sampler.series,
        others=others(sampler.series, sampler.machine),
    )


_NOTED = ("events", "complete", "missed")


def _lost(told: int, events: int, complete: bool, missed: int) -> int:
    """Events one subscriber lacks; one too many is as wrong as one too few."""
    return max(abs(told - events), int(not complete), missed)


AHEAD = 0.5
"""seconds between the command and the first event"""
PATIENCE = 20.0
"""seconds a subscriber is given to catch up after the last event"""
SLACK = 60.0
IN_MEMORY = Path("/dev/shm")
"""where the broker keeps its log if the system has such a place: the pauses of a disk are no stack's merit or fault"""


@dataclass(frozen=True)
class ChainShape:
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

    def __init__(self, shape: ChainShape, schema: Schema) -> None:
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
            self._services = await self._open.enter_async_context(ProcessGroup(self._serving()))
            await self._stack.prepare(self.route)
            # subscribers first: what is published before anybody listens is nobody's loss
            self._readers = await self._open.enter_async_context(ProcessGroup(self._subscribers()))
            self._writers = await self._open.enter_async_context(ProcessGroup(self._publishers()))
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

    async def round(self, rate: float, seconds: float, warm_up: float = 2.0) -> LoadOutcome:
        """Publish at a rate; latencies of what arrives in the warm-up, which comes before the seconds, do not count."""
        command = {"rate": rate, "seconds": warm_up + seconds, "turn": self._turns}
        if self.shape.classes:
            await self._readers.ask(self._reading, SLACK, do="prepare", **command)
        start = command["start"] = micros() + round(AHEAD * 1e6)
        self._turns += 1
        begin = {"start": start, "timed_from": start + round(warm_up * 1e6)}
        before = await self._readers.ask(self._reading, SLACK, do="begin", **begin)
        async with ProcessSampler(self.processes) as sampler:
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

    def _serving(self) -> list[WorkerProcess]:
        """The services that the stack needs."""
        settings = {"url": self._server.url}
        services = [WorkerProcess("registry", "registry", settings)] if self.shape.kind == "thinwire" else []
        services += [WorkerProcess("translator", "translator", settings)] if self.shape.classes else []
        if self.shape.dictionaries == "service":
            services.append(WorkerProcess("dictionaries", "dictionaries", settings))
        elif self.shape.dictionaries:
            services.append(WorkerProcess("dictionaries", "switching", {**settings, "topic": self.schema.name}))
        return services

    def _publishers(self) -> list[WorkerProcess]:
        count = self.shape.publishers
        return [
            WorkerProcess(f"publisher {k}", "publisher", {**self._common(), "number": k, "publishers": count})
            for k in range(count)
        ]

    def _subscribers(self) -> list[WorkerProcess]:
        shape = self.shape
        settings = {**self._common(), "connections": shape.connections}
        if shape.classes:
            settings |= {"classes": shape.classes, "readers": shape.readers, "publishers": shape.publishers}
        return [
            WorkerProcess(f"subscriber {k}", self._reading, {**settings, "number": k}) for k in range(shape.readers)
        ]

    def _common(self) -> dict[str, Any]:
        return {"kind": self.shape.kind, "route": self.route.to_document(), "feed": self.shape.feed}
