"""Failover of edge hosts: seconds until latency limits hold again after the rate of a topic tripled or a host failed.

Twelve topics run on emulated hosts with stretched time: a message takes a tenth of a second instead of the published
few hundredths, so that the overhead of the machine has less influence. Brokers, hosts, leases, logs and moves are real.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from thinwire.edge import Controller, EdgeHostDocument, EdgeTopic, apply
from thinwire.edge.assignment import find_running_hosts, propose_hosts
from thinwire.edge.placement_files import read_model
from thinwire.placement.hosts import Vector
from thinwire_lab.live.background_tasks import background_task, report_progress
from thinwire_lab.live.edge.edge_load import Collector, EdgeDelivery, TopicStream, schedule, send
from thinwire_lab.live.live_system import LiveSystem

TOPICS, HOSTS, CORES, MAX_TOPICS = 12, 3, 2, 6
RATE, INTERVAL, MAX_P90 = 2.5, 0.1, 1.0
WINDOW = 10.0
"""seconds of messages over which the p90 is computed: a burst is more than a tenth of a shorter window"""
SHORT_WINDOW = 5.0
"""a shorter window, whose result is only reported"""
MAX_LATENESS = 0.25
"""p99 of the seconds by which messages are sent late, above which a run counts as disturbed by other load"""
LEAD = 1.0

Progress = Callable[[float], None]


@dataclass(frozen=True)
class EdgeRecovery:
    """The result of a run. Times are in seconds from the incident; None if something did not happen.

    broken: whether a latency limit was broken after the incident
    restored: until all limits hold to the end of the run; restored_short: the same with shorter windows
    taken_over: until every topic of the killed host has a result again
    alone: until the limit of the topic with the tripled rate holds if it has a host to itself from the incident on,
        which is the fastest possible reaction
    lost, repeated: messages without a result, and results that arrived twice
    moved: topics that were moved; lateness: p99 of the seconds by which messages were sent late
    """

    messages: int
    broken: bool
    restored: float | None
    restored_short: float | None
    taken_over: float | None
    alone: float | None
    lost: int
    repeated: int
    moved: int
    lateness: float

    @property
    def disturbed(self) -> bool:
        return self.lateness > MAX_LATENESS


async def triple_rate(before: float, after: float, seed: int, progress: Progress = lambda share: None) -> EdgeRecovery:
    """Triple the rate of one topic after `before` seconds, for the remaining `after` seconds."""
    generator = np.random.Generator(np.random.PCG64(seed))
    streams = _streams(before + after, generator)
    more = before + schedule(2 * RATE, after, "poisson", generator)
    streams[0] = TopicStream(streams[0].topic, np.sort(np.concatenate([streams[0].times, more])))
    found = await _run(streams, before, after, progress)
    alone = find_restored({"": serve_alone(streams[0].times, before)}, before, before + after)
    return replace(found, alone=alone)


async def kill_host(before: float, after: float, seed: int, progress: Progress = lambda share: None) -> EdgeRecovery:
    """Kill a host with SIGKILL after `before` seconds. It is not restarted."""
    streams = _streams(before + after, np.random.Generator(np.random.PCG64(seed)))
    return await _run(streams, before, after, progress, kill=True)


def _streams(seconds: float, generator: np.random.Generator) -> list[TopicStream]:
    return [TopicStream(name, schedule(RATE, seconds, "poisson", generator)) for name in _names()]


def find_restored(
    deliveries: Mapping[str, Sequence[EdgeDelivery]], since: float, end: float, window: float = WINDOW
) -> float | None:
    """Return the seconds from `since` until the p90 of every topic is within `MAX_P90` in all windows to the end.

    >>> slow = [EdgeDelivery(float(due), 3.0 if 10 <= due < 14 else 0.2) for due in range(60)]
    >>> find_restored({"a": slow}, since=8.0, end=60.0)  # the p90 allows one slow message in ten
    5.0
    >>> find_restored({"a": [EdgeDelivery(float(due), 3.0) for due in range(60)]}, since=8.0, end=60.0) is None
    True
    """
    steps = int(end - window - since)
    starts = [since + step for step in range(steps + 1)]
    held = [all(_is_held(own, start, window) for own in deliveries.values()) for start in starts]
    if not held or not held[-1]:
        return None
    return float(max((step + 1 for step, good in enumerate(held) if not good), default=0))


def serve_alone(times: Vector, since: float) -> list[EdgeDelivery]:
    """Return the deliveries of messages that are due from `since` on, if one worker processes no others.

    >>> [round(delivery.latency, 2) for delivery in serve_alone(np.array([1.0, 2.0, 2.05, 2.3]), since=1.5)]
    [0.1, 0.15, 0.1]
    """
    done, found = since, []
    for due in times[times >= since].tolist():
        done = max(done, due) + INTERVAL
        found.append(EdgeDelivery(due, done - due))
    return found


def _is_held(deliveries: Sequence[EdgeDelivery], start: float, window: float) -> bool:
    latencies = sorted(delivery.latency for delivery in deliveries if start <= delivery.due < start + window)
    return not latencies or latencies[math.ceil(0.9 * len(latencies)) - 1] <= MAX_P90


class EdgeSystem(LiveSystem):
    """A hub, hosts as processes, and a controller in this process."""

    async def set_up(self) -> None:
        self.hub = await self.connect()
        hosts = [asdict(EdgeHostDocument(f"h{n}", CORES, contention=0.03)) for n in range(1, HOSTS + 1)]
        await self.start(
            *(self.make_worker("edge host", f"host {n}", about=host, emulated=True) for n, host in enumerate(hosts, 1))
        )
        self.controller = Controller(self.hub, read_model(None), k=MAX_TOPICS)
        await self.resources.enter_async_context(background_task(self.controller.run()))

    async def place_topics(self) -> dict[str, str]:
        """Place the topics on as few hosts as the model allows. Return the host of each topic."""
        topics = [EdgeTopic(name, "none:none", RATE, INTERVAL, MAX_P90) for name in _names()]
        hosts = await find_running_hosts(self.hub, 2.0)
        placed, _ = propose_hosts(topics, hosts, {}, read_model(None), MAX_TOPICS)
        await apply(self.hub, topics, placed)
        return placed

    async def kill_host(self, name: str, when: float) -> None:
        await asyncio.sleep(max(0.0, when - time.time()))
        (worker,) = [worker for worker in self.workers if worker.settings["about"]["name"] == name]
        await worker.kill()


async def _run(
    streams: list[TopicStream], before: float, after: float, progress: Progress, *, kill: bool = False
) -> EdgeRecovery:
    async with EdgeSystem(in_memory=False) as system:
        placed = await system.place_topics()
        start = time.time() + LEAD
        incident = start + before
        victim = placed[_names()[0]] if kill else ""
        async with (
            Collector(system.hub, _names()) as collector,
            background_task(report_progress(progress, before + after, LEAD)),
        ):
            killing = asyncio.create_task(system.kill_host(victim, incident)) if kill else None
            lateness = await send(system.hub, streams, start)
            expected = sum(len(stream.times) for stream in streams)
            await collector.wait_for(expected, timeout=2 * after)
            if killing is not None:
                await killing
        orphans = [topic for topic, host in placed.items() if host == victim]
        deliveries = {topic: sorted(own.values()) for topic, own in collector.deliveries.items()}
        restored = find_restored(deliveries, incident, incident + after)
        return EdgeRecovery(
            messages=expected,
            broken=restored != 0.0,
            restored=restored,
            restored_short=find_restored(deliveries, incident, incident + after, window=SHORT_WINDOW),
            taken_over=_find_takeover({topic: deliveries[topic] for topic in orphans}, incident),
            alone=None,
            lost=expected - collector.count,
            repeated=collector.repeated,
            moved=len(system.controller.moved),
            lateness=lateness.quantile(0.99) or 0.0,
        )


def _find_takeover(deliveries: Mapping[str, Sequence[EdgeDelivery]], since: float) -> float | None:
    """Return the seconds until every topic has a result of a message that was due after `since`."""
    first = [
        min((delivery.due + delivery.latency for delivery in own if delivery.due >= since), default=math.inf)
        for own in deliveries.values()
    ]
    return max(first) - since if first else None


def _names() -> list[str]:
    return [f"topic-{number:02d}" for number in range(TOPICS)]
