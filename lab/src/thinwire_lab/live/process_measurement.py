"""Measurement of subscribers and processes: events, latencies, processor time and memory.

>>> received = ReceivedEvents(source="sensor", stamp="time")
>>> events = [{"sensor": "a", "time": 1_000_000}, {"sensor": "b", "time": 1_001_000}]
>>> received.add(events, events, now=1_004_000)
>>> received.events, received.last, quantile(received.latencies, 0.5)
(2, {'a': 1000000, 'b': 1001000}, 3.0)
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from operator import itemgetter
from statistics import fmean
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from thinwire_lab.live.background_tasks import cancel_tasks

MAX_LATENCY = 20_000
"""milliseconds; longer latencies count as this"""
_FOLD = 16_384
"""latencies that are collected before they are counted"""


class ReceivedEvents:
    """The number of events of one subscriber, their latencies, and the instant of the last event of each source.

    source: the property that identifies a source
    stamp: the property with the instant at which the event was due, in microseconds
    timed: whether latencies are measured
    """

    def __init__(self, source: str, stamp: str, timed: bool = True) -> None:
        self.source = source
        self.stamp = stamp
        self.timed = timed
        self.events = 0
        self.last: dict[Any, Any] = {}
        self._identity, self._stamp = itemgetter(source, stamp), itemgetter(stamp)
        self._stamps: list[int] = []
        self._arrivals: list[tuple[int, int]] = []
        self._counts: Counter[int] = Counter()

    def add(self, events: Sequence[Mapping[str, Any]], sent: Sequence[Mapping[str, Any]], now: int) -> None:
        """Add events that arrived together. Latencies are measured for those that were sent."""
        self.events += len(events)
        self.last.update(map(self._identity, events))
        if self.timed:
            self._stamps += map(self._stamp, sent)
            self._arrivals.append((now, len(sent)))
            if len(self._stamps) >= _FOLD:
                self._fold()

    def begin(self) -> None:
        """Restart all counts."""
        self.events = 0
        self.last.clear()
        self.clear_latencies()

    def clear_latencies(self) -> None:
        """Discard the latencies, which are those of the warm-up."""
        self._stamps.clear()
        self._arrivals.clear()
        self._counts.clear()

    @property
    def latencies(self) -> Counter[int]:
        """Number of events by latency in whole milliseconds."""
        self._fold()
        return self._counts

    def _fold(self) -> None:
        instants, sizes = zip(*self._arrivals, strict=True) if self._arrivals else ((), ())
        arrived = np.repeat(np.array(instants, dtype=np.int64), sizes)
        late = np.clip((arrived - np.array(self._stamps, dtype=np.int64)) // 1000, 0, MAX_LATENCY)
        times, counts = np.unique(late, return_counts=True)
        self._counts.update(dict(zip(times.tolist(), counts.tolist(), strict=True)))
        self._stamps.clear()
        self._arrivals.clear()


def quantile(counts: Mapping[int, int], share: float) -> float:
    """Return the milliseconds that this share of the events does not exceed. There must be an event.

    >>> quantile({1: 98, 3: 1, 4: 1}, 0.99)
    3.0
    """
    times = sorted(counts)
    ends = np.cumsum([counts[time] for time in times])
    return float(times[np.searchsorted(ends, share * ends[-1])])


SAMPLE_INTERVAL = 1.0
WARM_UP = 0.25
"""the share of a run in which growth of memory is ignored"""


class ProcessSample(NamedTuple):
    """Seconds since the first sample, processor seconds used so far, bytes of resident memory."""

    at: float
    cpu: float
    memory: int


class ProcessSampler:
    """Samples processor time and memory of processes once a second while it is open.

    processes: name -> process id
    series: name -> samples, up to the end of the process
    machine: samples of the complete machine, without memory
    """

    def __init__(self, processes: Mapping[str, int]) -> None:
        self.processes = dict(processes)
        self.series: dict[str, list[ProcessSample]] = {name: [] for name in processes}
        self.machine: list[ProcessSample] = []
        self._start = monotonic()

    async def __aenter__(self) -> ProcessSampler:
        self._start = monotonic()
        self._task = asyncio.create_task(self._sample_repeatedly())
        return self

    async def __aexit__(self, *_: object) -> None:
        await cancel_tasks([self._task])
        self._sample()

    def peak_memory(self, name: str) -> int:
        return max(sample.memory for sample in self.series[name])

    async def _sample_repeatedly(self) -> None:
        while True:
            self._sample()
            await asyncio.sleep(SAMPLE_INTERVAL)

    def _sample(self) -> None:
        import psutil

        total = psutil.cpu_times()
        self.machine.append(ProcessSample(monotonic() - self._start, total.user + total.nice + total.system, 0))
        for name, pid in self.processes.items():
            try:
                process = psutil.Process(pid)
                with process.oneshot():
                    times, memory = process.cpu_times(), process.memory_info().rss
            except psutil.Error:
                continue
            self.series[name].append(ProcessSample(monotonic() - self._start, times.user + times.system, memory))


def cores_used(series: Mapping[str, list[ProcessSample]]) -> dict[str, float]:
    """Return the processor seconds per second of each process, between its first and its last sample.

    >>> cores_used({"broker": [ProcessSample(0.0, 1.0, 10), ProcessSample(2.0, 1.5, 10)]})
    {'broker': 0.25}
    """
    ends = {name: (samples[0], samples[-1]) for name, samples in series.items() if len(samples) > 1}
    return {name: (last.cpu - first.cpu) / (last.at - first.at) for name, (first, last) in ends.items()}


def cores_of_others(series: Mapping[str, list[ProcessSample]], machine: list[ProcessSample]) -> float:
    """Return the processor seconds per second of all other processes of the machine.

    >>> broker = [ProcessSample(0.0, 1.0, 10), ProcessSample(2.0, 2.0, 10)]
    >>> cores_of_others({"broker": broker}, [ProcessSample(0.0, 5.0, 0), ProcessSample(2.0, 8.0, 0)])
    1.0
    """
    used = cores_used({"machine": machine}).get("machine", 0.0)
    return max(0.0, used - sum(cores_used(series).values()))


def sum_samples(series: Mapping[str, list[ProcessSample]]) -> list[ProcessSample]:
    """Return the sums over all processes, as long as all of them run.

    >>> sum_samples({"a": [ProcessSample(0, 1, 10), ProcessSample(1, 2, 11)], "b": [ProcessSample(0, 5, 20)]})
    [ProcessSample(at=0, cpu=6, memory=30)]
    """
    rows = zip(*series.values(), strict=False)
    return [ProcessSample(row[0].at, sum(s.cpu for s in row), sum(s.memory for s in row)) for row in rows]


def memory_growth(samples: list[ProcessSample]) -> float:
    """Return the relative growth of memory after the warm-up, from the first tenth of the samples to the last tenth.

    >>> round(memory_growth([ProcessSample(float(at), 0.0, 100 if at < 5 else 110) for at in range(10)]), 3)
    0.1
    """
    settled = samples[int(WARM_UP * len(samples)) :]
    tenth = max(1, len(settled) // 10)
    before = fmean(sample.memory for sample in settled[:tenth])
    after = fmean(sample.memory for sample in settled[-tenth:])
    return after / before - 1


@asynccontextmanager
async def two_cores() -> AsyncIterator[None]:
    """Run this process and its new children on two cores, if the system supports CPU affinity."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(sorted(before)[:2]))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
