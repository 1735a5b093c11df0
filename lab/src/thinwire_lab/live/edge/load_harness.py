"""Figure 1, measured: what moves the p90 of a topic. Each part is a list of configurations for the harness.

The published host had four cores and up to 200 subscribers; the figure here is drawn with as many cores as are given,
so it shows the same shapes and not the same numbers.

The load harness: one host, topics alone or in company, measured again and again.

Every run is an open loop: its schedule is drawn before the first message is sent and latency counts from there. Work
burns a processor for as long as the message says, or a timer holds the worker on virtual cores. Repeats of a
configuration do not follow each other, so that a slow minute of the machine does not hit all of them. A run that was
disturbed from outside says so.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from thinwire.brokers.embedded import EmbeddedServer
from thinwire.brokers.nats.broker import connect
from thinwire.brokers.protocol import Broker
from thinwire.demo.process_group import ProcessGroup, WorkerProcess
from thinwire.edge import EdgeHostDocument, EdgeTopic, apply
from thinwire.errors import ConfigError
from thinwire.ledger.histogram import Histogram
from thinwire.placement import Host, TopicLoad
from thinwire_lab.live.edge.edge_load import Collector, Late, TopicStream, schedule, send
from thinwire_lab.placement.measured_runs import MeasuredRun, TopicResult
from thinwire_lab.placement.queue_simulator import INTERVALS, Arrivals

FUNCTIONS = str(Path(__file__).parent / "functions")
WARM_UP = 2.0
AHEAD = 1.0
PATIENCE = 20.0
"""seconds without a result after which what is missing counts as lost"""
LATE = 0.02
"""seconds that one message in a hundred may be sent late, at least; more where work takes longer"""
STRETCHED = 1.5
"""how much longer than its processor time work may take by the wall, one message in a hundred"""

Progress = Callable[[float], None]


@dataclass(frozen=True)
class Configuration:
    """Topics that share a host.

    subscribers, publishers: of the first topic; the others have one each. Publishers share its messages evenly
    """

    topics: tuple[TopicLoad, ...]
    host: Host
    arrivals: Arrivals = "poisson"
    subscribers: int = 1
    publishers: int = 1


@dataclass(frozen=True)
class Measuring:
    """How runs are made: seconds of each, repeats of each configuration, work that burns or is timed."""

    seconds: float = 20.0
    repeats: int = 5
    burning: bool = True
    seed: int = 1


def scaled(configuration: Configuration, factor: float) -> Configuration:
    """The same load with time stretched: work takes longer and comes less often, so the machine itself weighs less.

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
    configurations: Sequence[Configuration], measuring: Measuring, progress: Progress = lambda share: None
) -> list[MeasuredRun]:
    """Every configuration as often as asked, in turns."""
    found = []
    turns = [(turn, one) for turn in range(measuring.repeats) for one in configurations]
    for number, (turn, configuration) in enumerate(turns):
        progress(number / len(turns))
        found.append(await run_once(configuration, measuring, measuring.seed + turn))
    return found


async def run_once(configuration: Configuration, measuring: Measuring, seed: int) -> MeasuredRun:
    """One run: a fresh broker and a fresh host, so that nothing is left of the run before."""
    host, processors = configuration.host, _processors()
    apart = len(processors) > 1 and measuring.burning
    async with AsyncExitStack() as stack:
        if apart:  # load and broker on one processor, the host on the others
            stack.callback(os.sched_setaffinity, 0, processors)
            os.sched_setaffinity(0, processors[:1])
        server = await stack.enter_async_context(EmbeddedServer())
        hub = await connect(server.url)
        stack.push_async_callback(hub.close)
        about = EdgeHostDocument(host.name, host.cores, host.speed, host.contention)
        pinned = processors[1 : 1 + host.cores] if apart else []
        settings = {"url": server.url, "about": asdict(about), "emulated": not measuring.burning, "pinned": pinned}
        worker = WorkerProcess("host", "edge host", {**settings, "path": [FUNCTIONS]})
        await stack.enter_async_context(ProcessGroup([worker]))
        await apply(hub, [_topic(t) for t in configuration.topics], {t.name: host.name for t in configuration.topics})
        collector, lateness, start = await _loaded(hub, configuration, measuring, seed)
        worked = await worker.ask(PATIENCE, do="tell")
    return _collect_results(configuration, measuring, collector, lateness, worked, start)


async def _loaded(
    hub: Broker, configuration: Configuration, measuring: Measuring, seed: int
) -> tuple[Collector, Histogram, float]:
    """Send the schedule, and wait for what becomes of it."""
    dice = np.random.Generator(np.random.PCG64(seed))
    streams = [
        TopicStream(t.name, schedule(t.rate, measuring.seconds, configuration.arrivals, dice), b"%.6f" % t.interval)
        for t in configuration.topics
    ]
    streams[0] = replace(streams[0], publishers=configuration.publishers)
    first = configuration.topics[0].name
    async with AsyncExitStack() as stack:
        collector = await stack.enter_async_context(Collector(hub, [stream.topic for stream in streams]))
        for _ in range(configuration.subscribers - 1):
            await stack.enter_async_context(Collector(hub, [first]))
        start = time.time() + AHEAD
        lateness = await send(hub, streams, start)
        await collector.complete(sum(len(stream.times) for stream in streams), PATIENCE)
    return collector, lateness, start


def _topic(topic: TopicLoad) -> EdgeTopic:
    return EdgeTopic(topic.name, "cpu_load:burn", topic.rate, topic.interval, topic.promise, seconds=60.0)


def _collect_results(
    configuration: Configuration,
    measuring: Measuring,
    collector: Collector,
    lateness: Histogram,
    worked: dict[str, dict[str, float]],
    start: float,
) -> MeasuredRun:
    met = tuple(
        _met(topic, list(collector.met[topic.name].values()), worked.get(topic.name, {}), measuring, start)
        for topic in configuration.topics
    )
    first = replace(met[0], subscribers=configuration.subscribers, publishers=configuration.publishers)
    met = (first, *met[1:])
    why = "; ".join(_disturbances(configuration, measuring, lateness, worked))
    host = configuration.host
    return MeasuredRun(host, met, configuration.arrivals, measuring.seconds, WARM_UP, measuring.burning, why)


def _met(
    topic: TopicLoad, late: list[Late], worked: dict[str, float], measuring: Measuring, start: float
) -> TopicResult:
    counted = [one.latency for one in late if one.due >= start + WARM_UP] or [one.latency for one in late] or [60.0]
    p50, p90, p99 = np.quantile(counted, (0.5, 0.9, 0.99)).tolist()
    wall, cpu = worked.get("wall", 0.0), worked.get("cpu", 0.0) if measuring.burning else 0.0
    return TopicResult(topic, len(counted), p50, p90, p99, wall, cpu, worked.get("spread", 0.0))


def _disturbances(
    configuration: Configuration, measuring: Measuring, lateness: Histogram, worked: dict[str, dict[str, float]]
) -> Iterator[str]:
    late = lateness.quantile(0.99) or 0.0
    most = max(LATE, 0.2 * min(topic.interval for topic in configuration.topics))
    if late > most:
        yield f"messages were sent up to {1000 * late:.0f} ms late (p99), {1000 * most:.0f} allowed"
    # in company work waits for a processor because of its neighbours, and that is what is measured
    if measuring.burning and len(configuration.topics) <= configuration.host.cores:
        stretch = max((one["stretch"] for one in worked.values()), default=0.0)
        if stretch > STRETCHED:
            yield f"work took {stretch:.1f} times its processor time (p99), {STRETCHED:g} allowed"


def _processors() -> list[int]:
    """Those that this process may use, where the system can say so."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


SHARES = (0.2, 0.5, 0.7, 0.85)
"""of one core that a topic keeps busy"""
SUBSCRIBERS = (1, 5, 20)
PUBLISHERS = (1, 5, 20)
COMPANY = (0, 2, 4, 8)
BUSY = 0.05


def _subscribers(host: Host) -> list[Configuration]:
    gps = TopicLoad("t", rate=5, interval=INTERVALS[0])
    return [Configuration((gps,), host, subscribers=count) for count in SUBSCRIBERS]


def _publishers(host: Host) -> list[Configuration]:
    gps = TopicLoad("t", rate=20, interval=INTERVALS[0])
    return [Configuration((gps,), host, publishers=count) for count in PUBLISHERS]


def _background(host: Host) -> list[Configuration]:
    share = 0.8 * host.cores / (max(COMPANY) * BUSY)
    others = [TopicLoad(f"b{number}", rate=share, interval=BUSY) for number in range(max(COMPANY))]
    return [Configuration((TopicLoad("t", rate=1, interval=BUSY), *others[:count]), host) for count in COMPANY]


def _rates(host: Host) -> list[Configuration]:
    return [
        Configuration((TopicLoad("t", share / interval, interval),), host) for interval in INTERVALS for share in SHARES
    ]


def _company(host: Host) -> list[Configuration]:
    interval = INTERVALS[1]
    found = []
    for count in COMPANY[:3]:
        others = tuple(TopicLoad(f"b{n}", 0.1 * host.cores / BUSY, BUSY) for n in range(count))
        for share in SHARES[:3]:
            found.append(Configuration((TopicLoad("t", share * host.cores / 2 / interval, interval), *others), host))
    return found


FIGURES: dict[str, Callable[[Host], list[Configuration]]] = {
    "1a": _subscribers,
    "1b": _background,
    "1c": _rates,
    "1d": _company,
    "1p": _publishers,
}
"""a: subscribers; b: topics in the background; c: rate and processing interval, alone; d: rate in company; p: the same
rate from more publishers, which the published figure takes for the rate"""


def configurations(figure: str, host: Host) -> list[Configuration]:
    """What a part of the figure measures."""
    if figure not in FIGURES:
        raise ConfigError("no such part of figure 1", field="figure", value=figure, choose_from=sorted(FIGURES))
    return FIGURES[figure](host)
