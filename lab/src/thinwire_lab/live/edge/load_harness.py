"""The load harness of edge hosts: the p90 latency of topics that share a host, measured repeatedly.

The load is open: the schedule of a run is drawn before the first message, and latency counts from it. Work uses a
processor for as long as the message states, or occupies virtual cores of the worker for that time. Repetitions of a
configuration are spread over the measurement, so that a slow minute of the machine does not affect all of them. A run
that was disturbed by other load states the reason.

`FIGURES` has the configurations of the parts of the published figure 1. The published host had four cores and up to 200
subscribers; with other hosts the figure has the same shape, not the same values.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from thinwire.brokers.protocol import Broker
from thinwire.edge import EdgeHostDocument, EdgeTopic, apply
from thinwire.errors import ConfigError
from thinwire.ledger.histogram import Histogram
from thinwire.placement import Host, TopicLoad
from thinwire_lab.live.edge.edge_load import Collector, EdgeDelivery, TopicStream, schedule, send
from thinwire_lab.live.live_system import LiveSystem
from thinwire_lab.placement.measured_runs import MeasuredRun, TopicResult
from thinwire_lab.placement.queue_simulator import INTERVALS, Arrivals

FUNCTIONS = str(Path(__file__).parent / "functions")
WARM_UP = 2.0
LEAD = 1.0
TIMEOUT = 20.0
"""seconds without a result after which missing results count as lost"""
MAX_LATENESS = 0.02
"""seconds by which one message in a hundred may be sent late, at least; more for longer work"""
MAX_STRETCH = 1.5
"""the p99 of the duration of work as a multiple of the p99 of its processor time"""

Progress = Callable[[float], None]


@dataclass(frozen=True)
class Configuration:
    """Topics that share a host.

    subscribers, publishers: of the first topic; the others have one each. Publishers send its messages in turn
    """

    topics: tuple[TopicLoad, ...]
    host: Host
    arrivals: Arrivals = "poisson"
    subscribers: int = 1
    publishers: int = 1


@dataclass(frozen=True)
class LoadPlan:
    """Seconds of each run, repetitions of each configuration, and whether work uses a processor or virtual cores."""

    seconds: float = 20.0
    repeats: int = 5
    burning: bool = True
    seed: int = 1


def scaled(configuration: Configuration, factor: float) -> Configuration:
    """Return the same load with time stretched by a factor, so that the overhead of the machine counts less.

    >>> slow = scaled(Configuration((TopicLoad("t", rate=20, interval=0.01, promise=1.0),), Host()), 5)
    >>> slow.topics[0]
    TopicLoad(name='t', rate=4.0, interval=0.05, promise=5.0)
    """
    topics = tuple(
        replace(t, rate=t.rate / factor, interval=t.interval * factor, promise=t.promise * factor)
        for t in configuration.topics
    )
    return replace(configuration, topics=topics)


async def measure(
    configurations: Sequence[Configuration], plan: LoadPlan, progress: Progress = lambda share: None
) -> list[MeasuredRun]:
    """Measure all configurations in turn, as often as planned."""
    runs = []
    turns = [(turn, configuration) for turn in range(plan.repeats) for configuration in configurations]
    for number, (turn, configuration) in enumerate(turns):
        progress(number / len(turns))
        runs.append(await run_once(configuration, plan, plan.seed + turn))
    return runs


async def run_once(configuration: Configuration, plan: LoadPlan, seed: int) -> MeasuredRun:
    """Measure a configuration once, with a new broker and a new host."""
    host = configuration.host
    with _separate_processors(host, plan) as pinned:
        async with LiveSystem(in_memory=False) as system:
            hub = await system.connect()
            about = asdict(EdgeHostDocument(host.name, host.cores, host.speed, host.contention))
            settings = {"about": about, "emulated": not plan.burning, "pinned": pinned, "path": [FUNCTIONS]}
            await system.start(system.make_worker("edge host", **settings))
            hosts = {topic.name: host.name for topic in configuration.topics}
            await apply(hub, [_edge_topic(topic) for topic in configuration.topics], hosts)
            collector, lateness, start = await _run_load(hub, configuration, plan, seed)
            work = await system.run_one("edge host", "work_times", TIMEOUT)
    return _make_run(configuration, plan, collector, lateness, work, start)


@contextmanager
def _separate_processors(host: Host, plan: LoadPlan) -> Iterator[list[int]]:
    """Run the load and the broker on one processor. Yield the others, for the host."""
    processors = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(processors) < 2 or not plan.burning:
        yield []
        return
    os.sched_setaffinity(0, processors[:1])
    try:
        yield processors[1 : 1 + host.cores]
    finally:
        os.sched_setaffinity(0, processors)


async def _run_load(
    hub: Broker, configuration: Configuration, plan: LoadPlan, seed: int
) -> tuple[Collector, Histogram, float]:
    """Send the messages of a schedule and wait for their results."""
    generator = np.random.Generator(np.random.PCG64(seed))
    streams = [
        TopicStream(t.name, schedule(t.rate, plan.seconds, configuration.arrivals, generator), b"%.6f" % t.interval)
        for t in configuration.topics
    ]
    streams[0] = replace(streams[0], publishers=configuration.publishers)
    first = configuration.topics[0].name
    async with AsyncExitStack() as resources:
        collector = await resources.enter_async_context(Collector(hub, [stream.topic for stream in streams]))
        for _ in range(configuration.subscribers - 1):
            await resources.enter_async_context(Collector(hub, [first]))
        start = time.time() + LEAD
        lateness = await send(hub, streams, start)
        await collector.wait_for(sum(len(stream.times) for stream in streams), TIMEOUT)
    return collector, lateness, start


def _edge_topic(topic: TopicLoad) -> EdgeTopic:
    return EdgeTopic(topic.name, "cpu_load:burn", topic.rate, topic.interval, topic.promise, seconds=60.0)


def _make_run(
    configuration: Configuration,
    plan: LoadPlan,
    collector: Collector,
    lateness: Histogram,
    work: dict[str, dict[str, float]],
    start: float,
) -> MeasuredRun:
    met = [
        _summarize(topic, list(collector.deliveries[topic.name].values()), work.get(topic.name, {}), plan, start)
        for topic in configuration.topics
    ]
    met[0] = replace(met[0], subscribers=configuration.subscribers, publishers=configuration.publishers)
    disturbances = "; ".join(_find_disturbances(configuration, plan, lateness, work))
    host, arrivals = configuration.host, configuration.arrivals
    return MeasuredRun(host, tuple(met), arrivals, plan.seconds, WARM_UP, plan.burning, disturbances)


def _summarize(
    topic: TopicLoad, deliveries: list[EdgeDelivery], work: dict[str, float], plan: LoadPlan, start: float
) -> TopicResult:
    settled = [delivery.latency for delivery in deliveries if delivery.due >= start + WARM_UP]
    latencies = settled or [delivery.latency for delivery in deliveries] or [60.0]
    p50, p90, p99 = np.quantile(latencies, (0.5, 0.9, 0.99)).tolist()
    wall, cpu = work.get("wall", 0.0), work.get("cpu", 0.0) if plan.burning else 0.0
    return TopicResult(topic, len(latencies), p50, p90, p99, wall, cpu, work.get("spread", 0.0))


def _find_disturbances(
    configuration: Configuration, plan: LoadPlan, lateness: Histogram, work: dict[str, dict[str, float]]
) -> Iterator[str]:
    late = lateness.quantile(0.99) or 0.0
    limit = max(MAX_LATENESS, 0.2 * min(topic.interval for topic in configuration.topics))
    if late > limit:
        yield f"messages were sent up to {1000 * late:.0f} ms late (p99), {1000 * limit:.0f} allowed"
    # if topics outnumber cores, work waits for a processor because of the other topics, which is measured
    if plan.burning and len(configuration.topics) <= configuration.host.cores:
        stretch = max((times["stretch"] for times in work.values()), default=0.0)
        if stretch > MAX_STRETCH:
            yield f"work took {stretch:.1f} times its processor time (p99), {MAX_STRETCH:g} allowed"


SHARES = (0.2, 0.5, 0.7, 0.85)
"""shares of one core that a topic uses"""
SUBSCRIBERS = (1, 5, 20)
PUBLISHERS = (1, 5, 20)
OTHERS = (0, 2, 4, 8)
"""other topics on the host"""
BUSY = 0.05
"""seconds of work of a message of the other topics"""


def _subscribers(host: Host) -> list[Configuration]:
    gps = TopicLoad("t", rate=5, interval=INTERVALS[0])
    return [Configuration((gps,), host, subscribers=count) for count in SUBSCRIBERS]


def _publishers(host: Host) -> list[Configuration]:
    gps = TopicLoad("t", rate=20, interval=INTERVALS[0])
    return [Configuration((gps,), host, publishers=count) for count in PUBLISHERS]


def _background(host: Host) -> list[Configuration]:
    share = 0.8 * host.cores / (max(OTHERS) * BUSY)
    others = [TopicLoad(f"b{number}", rate=share, interval=BUSY) for number in range(max(OTHERS))]
    return [Configuration((TopicLoad("t", rate=1, interval=BUSY), *others[:count]), host) for count in OTHERS]


def _rates(host: Host) -> list[Configuration]:
    return [
        Configuration((TopicLoad("t", share / interval, interval),), host) for interval in INTERVALS for share in SHARES
    ]


def _rates_with_others(host: Host) -> list[Configuration]:
    interval = INTERVALS[1]
    found = []
    for count in OTHERS[:3]:
        others = tuple(TopicLoad(f"b{n}", 0.1 * host.cores / BUSY, BUSY) for n in range(count))
        for share in SHARES[:3]:
            found.append(Configuration((TopicLoad("t", share * host.cores / 2 / interval, interval), *others), host))
    return found


FIGURES: dict[str, Callable[[Host], list[Configuration]]] = {
    "1a": _subscribers,
    "1b": _background,
    "1c": _rates,
    "1d": _rates_with_others,
    "1p": _publishers,
}
"""a: subscribers; b: topics in the background; c: rate and processing interval, alone; d: rate with other topics;
p: the same rate from more publishers, which the published figure equates with the rate"""


def configurations(figure: str, host: Host) -> list[Configuration]:
    """Return the configurations of a part of the figure."""
    if figure not in FIGURES:
        raise ConfigError("no such part of figure 1", field="figure", value=figure, choose_from=sorted(FIGURES))
    return FIGURES[figure](host)
