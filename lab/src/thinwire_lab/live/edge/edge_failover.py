"""The edge in mid-run: the rate of one topic triples, or a host is killed. When is every promise kept again?

Twelve topics on emulated hosts, time-scaled: a message takes a tenth of a second where the published ones took a few
hundredths, so that what the machine itself takes weighs little. Brokers, hosts, leases, logs and moves are real.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, replace

import numpy as np

from thinwire.brokers.embedded import EmbeddedServer
from thinwire.brokers.nats.broker import connect
from thinwire.brokers.protocol import Broker
from thinwire.demo.process_group import ProcessGroup, WorkerProcess
from thinwire.edge import Controller, EdgeHostDocument, EdgeTopic, apply
from thinwire.edge.assignment import find_running_hosts, propose_hosts
from thinwire.edge.placement_files import read_model
from thinwire.placement.hosts import Vector
from thinwire_lab.live.edge.edge_load import Collector, Late, TopicStream, schedule, send

TOPICS, HOSTS, CORES, TOGETHER = 12, 3, 2, 6
RATE, INTERVAL, PROMISE = 2.5, 0.1, 1.0
WINDOW = 10.0
"""seconds of messages over which a promise is judged: of fewer, one burst would be more than a tenth"""
SHORTER = 5.0
"""the same, told beside it: how the scene was judged at first"""
DISTURBED = 0.25
"""seconds that one message in a hundred may be sent late; beyond that the machine was busy with something else"""
AHEAD = 1.0

Progress = Callable[[float], None]


@dataclass(frozen=True)
class EdgeRecovery:
    """What became of a run.

    broken: was any promise broken after the incident? restored: seconds from it until all were kept for good, None
    where they never were; shorter: the same, judged over shorter windows; taken: until the first result of a topic that
    had lost its host
    alone: until the promise of the topic with the tripled rate would have been kept for good, had it had a host to
    itself from the incident on: no controller does better; None where it would not have been, or no rate was tripled
    lost, repeated: messages without a result, and results that came twice
    moved: topics that were moved; lateness: seconds within which 99 in 100 messages were sent
    """

    messages: int
    broken: bool
    restored: float | None
    shorter: float | None
    taken: float | None
    alone: float | None
    lost: int
    repeated: int
    moved: int
    lateness: float

    @property
    def disturbed(self) -> bool:
        return self.lateness > DISTURBED


async def tripled(before: float, after: float, seed: int, progress: Progress = lambda share: None) -> EdgeRecovery:
    """One topic's rate triples after `before` seconds, for the `after` seconds that are left."""
    dice = np.random.Generator(np.random.PCG64(seed))
    streams = [TopicStream(name, schedule(RATE, before + after, "poisson", dice)) for name in _names()]
    more = before + schedule(2 * RATE, after, "poisson", dice)
    streams[0] = TopicStream(streams[0].topic, np.sort(np.concatenate([streams[0].times, more])))
    found = await _run(streams, before, after, progress)
    alone = restored_after({"": alone_since(streams[0].times, before)}, before, before + after)
    return replace(found, alone=alone)


async def killed(before: float, after: float, seed: int, progress: Progress = lambda share: None) -> EdgeRecovery:
    """A host is killed with SIGKILL after `before` seconds, and does not come back."""
    dice = np.random.Generator(np.random.PCG64(seed))
    streams = [TopicStream(name, schedule(RATE, before + after, "poisson", dice)) for name in _names()]
    return await _run(streams, before, after, progress, kill=True)


def restored_after(
    met: Mapping[str, Sequence[Late]], since: float, end: float, promise: float = PROMISE, window: float = WINDOW
) -> float | None:
    """Seconds from an instant until every topic keeps its promise, window after window, to the end.

    >>> late = [Late(float(due), 3.0 if 10 <= due < 14 else 0.2) for due in range(60)]
    >>> restored_after({"a": late}, since=8.0, end=60.0)  # one late message in ten is within the promise
    5.0
    >>> restored_after({"a": [Late(float(due), 3.0) for due in range(60)]}, since=8.0, end=60.0) is None
    True
    """
    steps = int(end - window - since)
    kept = [all(_keeps(late, since + step, promise, window) for late in met.values()) for step in range(steps + 1)]
    if not kept or not kept[-1]:
        return None
    return float(max((step + 1 for step, good in enumerate(kept) if not good), default=0))


def alone_since(times: Vector, since: float) -> list[Late]:
    """What becomes of messages that have a worker to themselves, each of the same work, from an instant on.

    >>> [round(late.latency, 2) for late in alone_since(np.array([1.0, 2.0, 2.05, 2.3]), since=1.5)]
    [0.1, 0.15, 0.1]
    """
    done, found = since, []
    for due in times[times >= since].tolist():
        done = max(done, due) + INTERVAL
        found.append(Late(due, done - due))
    return found


def _keeps(late: Sequence[Late], start: float, promise: float, window: float) -> bool:
    some = sorted(one.latency for one in late if start <= one.due < start + window)
    return not some or some[math.ceil(0.9 * len(some)) - 1] <= promise


def _names() -> list[str]:
    return [f"topic-{number:02d}" for number in range(TOPICS)]


async def _run(
    streams: list[TopicStream], before: float, after: float, progress: Progress, *, kill: bool = False
) -> EdgeRecovery:
    async with _stage() as (hub, crew, controller):
        where = await _placed(hub)
        start = time.time() + AHEAD
        async with Collector(hub, _names()) as collector:
            killing = asyncio.create_task(_kill(crew, where, start + before)) if kill else None
            telling = asyncio.create_task(_report_progress(progress, start, before + after))
            lateness = await send(hub, streams, start)
            expected = sum(len(stream.times) for stream in streams)
            await collector.complete(expected, patience=2 * after)
            telling.cancel()
            victim = await killing if killing is not None else ""
        span = start + before, start + before + after
        orphans = [topic for topic, host in where.items() if host == victim]
        return _judged(collector, expected, span, controller, lateness.quantile(0.99), orphans)


def _judged(
    collector: Collector,
    expected: int,
    span: tuple[float, float],
    controller: Controller,
    lateness: float | None,
    orphans: list[str],
) -> EdgeRecovery:
    met = {topic: sorted(late.values()) for topic, late in collector.met.items()}
    since, end = span
    restored = restored_after(met, since, end)
    done = [min((one.due + one.latency for one in met[t] if one.due >= since), default=math.inf) for t in orphans]
    return EdgeRecovery(
        expected,
        restored != 0.0,
        restored,
        restored_after(met, since, end, window=SHORTER),
        max(done) - since if done else None,
        None,
        expected - collector.count,
        collector.repeated,
        len(controller.moved),
        lateness or 0.0,
    )


@asynccontextmanager
async def _stage() -> AsyncIterator[tuple[Broker, ProcessGroup, Controller]]:
    """A hub, hosts as processes, and a controller in this one."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(EmbeddedServer())
        hub = await connect(server.url)
        stack.push_async_callback(hub.close)
        hosts = [asdict(EdgeHostDocument(f"h{n + 1}", CORES, contention=0.03)) for n in range(HOSTS)]
        settings = [{"url": server.url, "about": about, "emulated": True} for about in hosts]
        crew = ProcessGroup([WorkerProcess(f"host {n}", "edge host", one) for n, one in enumerate(settings, 1)])
        await stack.enter_async_context(crew)
        controller = Controller(hub, read_model(None), k=TOGETHER)
        task = asyncio.create_task(controller.run())
        stack.push_async_callback(_ended, task)
        yield hub, crew, controller


async def _placed(hub: Broker) -> dict[str, str]:
    """Topics on as few hosts as the model allows."""
    topics = [EdgeTopic(name, "none:none", RATE, INTERVAL, PROMISE) for name in _names()]
    hosts = await find_running_hosts(hub, 2.0)
    where, _ = propose_hosts(topics, hosts, {}, read_model(None), TOGETHER)
    await apply(hub, topics, where)
    return where


async def _kill(crew: ProcessGroup, where: dict[str, str], when: float) -> str:
    """Kill the host of the first topic; its name."""
    await asyncio.sleep(max(0.0, when - time.time()))
    victim = where[_names()[0]]
    [worker] = [one for one in crew.workers if one.settings["about"]["name"] == victim]
    await worker.kill()
    return victim


async def _report_progress(progress: Progress, start: float, seconds: float) -> None:
    while True:
        progress(min(1.0, max(0.0, time.time() - start) / seconds))
        await asyncio.sleep(0.5)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
