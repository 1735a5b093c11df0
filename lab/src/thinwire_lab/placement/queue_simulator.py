"""Simulator of a host: one queue per topic, first come first served, with shared cores.

Every topic has one worker. Busy workers share the cores evenly, and every busy core slows the others slightly. The
schedule of messages is drawn from a seed, and latency counts from the scheduled time of a message.

>>> alone = simulate([TopicLoad("gps", rate=20, interval=0.01)], Host(), seed=1)
>>> alone[0].messages > 2000, 0.01 < alone[0].p90 < 0.03
(True, True)

Training sets are runs: topics on a host with the p90 of each, simulated or measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from thinwire.errors import ConfigError
from thinwire.placement.hosts import Host, TopicLoad, Vector

Arrivals = Literal["poisson", "periodic"]

SECONDS = 120.0
"""duration of a run, as in the publication"""
WARM_UP = 5.0
MAX_MESSAGES = 20_000_000
"""limit of a run, because of memory"""


class Latency(NamedTuple):
    """Latency of the messages of one topic.

    p50, p90: quantiles in seconds
    late: share of messages above the topic's latency limit
    busy: share of one core in use
    """

    messages: int
    p50: float
    p90: float
    late: float
    busy: float


def simulate(
    topics: Sequence[TopicLoad],
    host: Host,
    seed: int | Sequence[int],
    *,
    seconds: float = SECONDS,
    warm_up: float = WARM_UP,
    arrivals: Arrivals = "poisson",
) -> list[Latency]:
    """Simulate topics on a host for some time, until all messages are served."""
    messages = sum(topic.rate for topic in topics) * seconds
    if messages > MAX_MESSAGES:
        raise ConfigError("the run is too long", field="seconds", messages=round(messages), limit=MAX_MESSAGES)
    rng = np.random.Generator(np.random.PCG64(seed))
    sent = [_schedule(topic.rate, seconds, arrivals, rng) for topic in topics]
    work = [_work(host.seconds(topic), host.spread, len(times), rng) for topic, times in zip(topics, sent, strict=True)]
    offsets = np.concatenate(([0], np.cumsum([len(times) for times in sent]))).astype(np.int64)
    times, done = np.concatenate([np.zeros(0), *sent]), np.zeros(offsets[-1])
    order = np.argsort(times, kind="stable")
    queues = offsets, np.repeat(np.arange(len(topics)), np.diff(offsets))
    _serve(times, order, np.concatenate([np.zeros(0), *work]), *queues, host.cores, host.contention, done)
    lasted = max(seconds, float(done.max(initial=0.0)))
    return [
        _summary(topic, times[a:b], done[a:b] + host.overhead, float(done_work.sum()) / lasted, warm_up)
        for topic, a, b, done_work in zip(topics, offsets[:-1], offsets[1:], work, strict=True)
    ]


def _schedule(rate: float, seconds: float, arrivals: Arrivals, rng: np.random.Generator) -> Vector:
    """Return the times of sending; at least one."""
    if arrivals == "poisson":
        count = max(1, int(rng.poisson(rate * seconds)))
        return np.sort(rng.random(count) * seconds)
    # every publisher sends once per second, each with its own phase
    publishers = max(1, round(rate))
    phases = rng.random(publishers)
    step = publishers / rate
    rounds = np.arange(max(1, int(seconds / step)))
    return np.sort((rounds[:, None] * step + phases[None, :] * step).ravel())


def _work(mean: float, spread: float, count: int, rng: np.random.Generator) -> Vector:
    """Draw the work of messages from a gamma distribution with this spread."""
    shape = 1.0 / spread**2
    return np.asarray(rng.gamma(shape, mean / shape, count))


def _summary(topic: TopicLoad, sent: Vector, done: Vector, busy: float, warm_up: float) -> Latency:
    late = done - sent
    counted = late[sent >= warm_up] if (sent >= warm_up).any() else late
    p50, p90 = np.quantile(counted, (0.5, 0.9)).tolist()
    return Latency(len(counted), p50, p90, float(np.mean(counted > topic.promise)), busy)


@njit(cache=True)
def _serve(
    times: Vector,
    order: NDArray[np.int64],
    work: Vector,
    offsets: NDArray[np.int64],
    queue_of: NDArray[np.int64],
    cores: int,
    contention: float,
    done: Vector,
) -> None:
    """Write the completion time of each message to `done`; `queue_of` is the queue of each message.

    All busy workers advance at the same pace, so one counter of work (`passed`) is enough: a message ends when the
    counter has grown by its work.
    """
    queues = len(offsets) - 1
    head, tail = offsets[:-1].copy(), offsets[:-1].copy()
    ends = np.full(queues, np.inf)
    now, passed, busy, following = 0.0, 0.0, 0, 0
    for _ in range(2 * len(times)):
        first = int(np.argmin(ends))
        pace = min(1.0, cores / max(1, busy)) / (1.0 + contention * (min(max(1, busy), cores) - 1))
        ready = now + (ends[first] - passed) / pace
        if following < len(times) and times[order[following]] < ready:
            message = order[following]
            following += 1
            passed += (times[message] - now) * pace if busy else 0.0
            now = times[message]
            queue = queue_of[message]
            if head[queue] == tail[queue]:
                ends[queue] = passed + work[message]
                busy += 1
            tail[queue] += 1
        else:
            now, passed = ready, ends[first]
            done[head[first]] = now
            head[first] += 1
            if head[first] < tail[first]:
                ends[first] = passed + work[head[first]]
            else:
                ends[first] = np.inf
                busy -= 1


INTERVALS = (0.0123, 0.0273, 0.0421, 0.0496)
"""seconds per message in the published experiments, derived from the sustained rates"""
LABELS = (0.010, 0.020, 0.030, 0.040)
"""their names in the publication"""
SUSTAINED = (78, 37, 24, 20)
"""published messages per second that a single topic sustains, by interval"""


@dataclass(frozen=True)
class HostRun:
    """Topics on a host, and the p90 of each in seconds."""

    topics: tuple[TopicLoad, ...]
    host: Host
    p90: tuple[float, ...]


def random_topics(
    count: int, rng: np.random.Generator, *, low: float = 0.0, high: float = 1.0, spare: int = 0
) -> list[TopicLoad]:
    """Draw topics as in the publication: an interval, and an integer rate up to the sustained one.

    low, high: part of the range of rates
    spare: messages per second below the sustained rate
    """
    topics = []
    for number in range(count):
        kind = int(rng.integers(len(INTERVALS)))
        least = max(1, round(low * SUSTAINED[kind]))
        most = max(least, int(high * SUSTAINED[kind]) - spare)
        topics.append(TopicLoad(f"t{number}", float(rng.integers(least, most + 1)), INTERVALS[kind]))
    return topics


def skewed_topics(count: int, rng: np.random.Generator, *, spare: int = 6, ends: int = 5) -> list[TopicLoad]:
    """Draw topics with rates near either end of the range: the second released generator.

    ends: number of rates at each end
    """
    topics = []
    for number in range(count):
        kind = int(rng.integers(len(INTERVALS)))
        most = SUSTAINED[kind] - spare
        least = most - ends + 1 if rng.random() < 0.5 else 1
        topics.append(TopicLoad(f"t{number}", float(rng.integers(least, least + ends)), INTERVALS[kind]))
    return topics


def random_runs(
    count: int,
    together: int,
    seed: int,
    *,
    host: Host | None = None,
    seconds: float = SECONDS,
) -> list[HostRun]:
    """Return simulated runs of random topics, `together` on each host."""
    chosen, sets = host or Host(), random_sets(count, together, seed)
    return [rerun(topics, chosen, (seed, together, n), seconds) for n, topics in enumerate(sets)]


def random_sets(count: int, together: int, seed: int) -> list[tuple[TopicLoad, ...]]:
    """Draw sets of `together` topics. A larger count starts with the same sets."""
    rng = np.random.Generator(np.random.PCG64([seed, together]))
    return [tuple(random_topics(together, rng)) for _ in range(count)]


def rerun(topics: Sequence[TopicLoad], host: Host, seed: Sequence[int], seconds: float = SECONDS) -> HostRun:
    """Simulate topics on a host, and return their p90 as a run."""
    found = simulate(topics, host, list(seed), seconds=seconds)
    return HostRun(tuple(topics), host, tuple(latency.p90 for latency in found))


def logs(runs: Sequence[HostRun]) -> Vector:
    """Return the logarithm of every p90, run by run."""
    return np.asarray(np.log([p90 for run in runs for p90 in run.p90]), np.float64)
