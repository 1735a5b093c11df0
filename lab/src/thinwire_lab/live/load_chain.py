"""A chain under load: broker, services, publishers and subscribers, and whether it holds a rate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import inf
from typing import Any, Literal

from thinwire.demo.process_group import WorkerProcess, micros
from thinwire.schema import Schema
from thinwire_lab.live.live_system import LiveSystem, merge_last
from thinwire_lab.live.load_roles import fill_expected
from thinwire_lab.live.process_measurement import (
    ProcessSample,
    ProcessSampler,
    cores_of_others,
    cores_used,
    memory_growth,
    quantile,
    sum_samples,
)
from thinwire_lab.live.service_roles import wait_for_channels
from thinwire_lab.live.stacks import route_to, stack

MAX_P99 = 250.0
"""milliseconds from the due time of an event to its delivery"""
MAX_GROWTH = 0.05
BROKER = "broker"
MIN_MEMORY_SAMPLES = 30
"""samples that a round needs before the growth of memory is judged"""


@dataclass(frozen=True)
class LoadOutcome:
    """The result of a round at one rate.

    rate: events per second of all publishers together
    sent: events that were sent; lost: events that a subscriber did not receive
    p50, p99: milliseconds, over all subscribers; series: samples of the processes
    other_cores: cores that other processes of the machine used
    """

    rate: float
    seconds: float
    events: int
    sent: int
    lost: int
    p50: float
    p99: float
    series: Mapping[str, list[ProcessSample]] = field(default_factory=dict, repr=False)
    other_cores: float = 0.0

    @property
    def sent_share(self) -> float:
        return self.sent / self.events

    @property
    def max_memory_growth(self) -> float | None:
        """The largest growth of memory of a process or of all together; None if the round was too short.

        The broker counts only in the total: its caches grow by some tens of megabytes in the first minutes under any
        load.
        """
        long_enough = {name: samples for name, samples in self.series.items() if len(samples) >= MIN_MEMORY_SAMPLES}
        single = [samples for name, samples in long_enough.items() if name != BROKER]
        return max(map(memory_growth, [*single, sum_samples(long_enough)])) if long_enough else None

    @property
    def cpu(self) -> dict[str, float]:
        """Cores used, by role."""
        shares: dict[str, float] = {}
        for name, cores in cores_used(self.series).items():
            role = name.partition(" ")[0]
            shares[role] = shares.get(role, 0.0) + cores
        return shares

    def cpu_seconds(self, role: str) -> float:
        """Return the processor seconds of the processes of a role in the round."""
        return sum(samples[-1].cpu - samples[0].cpu for name, samples in self.series.items() if name.startswith(role))

    @property
    def failure(self) -> str:
        """The reason why the rate was not held; empty if it was."""
        if self.lost:
            return f"{self.lost:,} events lost"
        if self.p99 >= MAX_P99:
            return f"p99 {self.p99:,.0f} ms"
        if self.max_memory_growth is not None and self.max_memory_growth >= MAX_GROWTH:
            return f"memory grew by {100 * self.max_memory_growth:.0f} %"
        return ""

    @property
    def held(self) -> bool:
        return not self.failure


def evaluate_round(
    rate: float,
    seconds: float,
    published: Sequence[Mapping[str, Any]],
    received: Iterable[Mapping[str, Any]],
    sampler: ProcessSampler,
) -> LoadOutcome:
    """Return the outcome of a round from the results of publishers and subscribers.

    If subscribers have different demands, their results contain the number of `expected` events of each subscriber and
    the `faults` that auditors found. Otherwise each must have received all events that the publishers delivered.
    """
    expected = sum(result["expected"] for result in published)
    latencies, lost = Counter[int](), 0
    for result in received:
        latencies.update(dict(result["latencies"]))
        required = result.get("expected", [expected] * len(result["events"]))
        measured = zip(required, *(result[name] for name in ("events", "complete", "missed")), strict=True)
        lost += sum(_count_lost(*subscriber) for subscriber in measured)
        lost += sum(result.get("faults", ()))
    p50, p99 = ((quantile(latencies, share) if latencies else inf) for share in (0.5, 0.99))
    return LoadOutcome(
        rate=rate,
        seconds=seconds,
        events=sum(result["events"] for result in published),
        sent=sum(result["sent"] for result in published),
        lost=lost,
        p50=p50,
        p99=p99,
        series=sampler.series,
        other_cores=cores_of_others(sampler.series, sampler.machine),
    )


def _count_lost(expected: int, events: int, complete: bool, missed: int) -> int:
    """Return the number of lost events of one subscriber. A surplus event counts as lost."""
    return max(abs(expected - events), int(not complete), missed)


LEAD = 0.5
"""seconds between the command and the first event"""
CATCH_UP = 20.0
"""seconds in which a subscriber must catch up after the last event"""
COMMAND_TIMEOUT = 60.0


@dataclass(frozen=True)
class ChainShape:
    """The processes of a chain and their settings.

    kind: the stack; feed: the events; connections: subscribers in each of the `subscriber_processes`
    classes: tolerances of the subscribers in turn, served by a translator; empty for one tolerance
    format: of frames; dictionaries: provided by the trainer ("service") or replaced repeatedly ("switching"), or none
    """

    kind: str
    feed: str = "feed"
    publishers: int = 4
    subscriber_processes: int = 2
    connections: int = 10
    linger: float = 0.05
    tolerance: float = 0.5
    emit: Literal["all", "changes"] = "all"
    classes: tuple[float, ...] = ()
    format: Literal["compact", "json"] = "compact"
    dictionaries: Literal["", "service", "switching"] = ""

    @property
    def reader_role(self) -> str:
        if self.classes:
            return "class subscriber"
        return "ordered subscriber" if self.dictionaries == "switching" else "subscriber"


class Chain(LiveSystem):
    """The processes of a chain. A round publishes at a rate for some seconds."""

    def __init__(self, shape: ChainShape, schema: Schema) -> None:
        super().__init__()
        self.shape = shape
        self.schema = schema
        self._stack = stack(shape.kind)
        self._rounds = 0

    async def set_up(self) -> None:
        shape = self.shape
        self.route = route_to(
            self.url,
            self.schema,
            linger=shape.linger,
            tolerance=shape.tolerance,
            emit=shape.emit,
            format=shape.format,
            dictionaries=bool(shape.dictionaries),
        )
        await self.start(*self._services())
        await self._stack.prepare(self.route)
        # subscribers start first: events published before would not be delivered to them
        await self._start_subscribers()
        await self._start_stack_roles("publisher", "publisher", shape.publishers, publishers=shape.publishers)
        if shape.classes:
            await wait_for_channels(await self.connect(), self.schema.name, len(set(shape.classes)))

    async def round(self, rate: float, seconds: float, warm_up: float = 2.0) -> LoadOutcome:
        """Publish at a rate for `warm_up + seconds`. Latencies of the warm-up are not measured."""
        role = self.shape.reader_role
        command = {"rate": rate, "seconds": warm_up + seconds, "round_number": self._rounds}
        if self.shape.classes:
            await self.run(role, "prepare", COMMAND_TIMEOUT, **command)
        start = micros() + round(LEAD * 1e6)
        self._rounds += 1
        before = await self.run(role, "begin", COMMAND_TIMEOUT, start=start, timed_from=start + round(warm_up * 1e6))
        async with ProcessSampler(self.processes) as sampler:
            reply_timeout = warm_up + seconds + COMMAND_TIMEOUT
            published = await self.run("publisher", "round", reply_timeout, start=start, **command)
            last = merge_last(published)
            received = await self.run(role, "end", CATCH_UP + COMMAND_TIMEOUT, last=last, max_wait=CATCH_UP)
        if self.shape.classes:
            fill_expected(received)
        for earlier, result in zip(before, received, strict=True):
            result["missed"] = [now - then for then, now in zip(earlier["missed"], result["missed"], strict=True)]
        return evaluate_round(rate, seconds, published, received, sampler)

    async def stored(self) -> int:
        """Return the bytes that the broker stores for the topic."""
        return await self._stack.stored(self.route)

    def _services(self) -> list[WorkerProcess]:
        services = [self.make_worker("registry")] if self.shape.kind == "thinwire" else []
        services += [self.make_worker("translator")] if self.shape.classes else []
        if self.shape.dictionaries == "service":
            services.append(self.make_worker("dictionaries"))
        elif self.shape.dictionaries:
            services.append(self.make_worker("dictionary switch", "dictionaries", topic=self.schema.name))
        return services

    async def _start_subscribers(self) -> None:
        shape = self.shape
        settings: dict[str, Any] = {"connections": shape.connections}
        if shape.classes:
            settings |= {"classes": shape.classes, "publishers": shape.publishers}
            settings["subscriber_processes"] = shape.subscriber_processes
        await self._start_stack_roles(shape.reader_role, "subscriber", shape.subscriber_processes, **settings)

    async def _start_stack_roles(self, role: str, name: str, count: int, **settings: Any) -> None:
        settings |= {"kind": self.shape.kind, "route": asdict(self.route), "feed": self.shape.feed}
        await self.start(*(WorkerProcess(f"{name} {k}", role, {**settings, "number": k}) for k in range(count)))
