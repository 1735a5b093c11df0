"""What a subscriber notes of the events it is handed: how many, how late, and how far each source has come.

>>> taken = Taken(source="sensor", stamp="time")
>>> events = [{"sensor": "a", "time": 1_000_000}, {"sensor": "b", "time": 1_001_000}]
>>> taken.take(events, events, now=1_004_000)
>>> taken.events, taken.last, quantile(taken.latencies, 0.5)
(2, {'a': 1000000, 'b': 1001000}, 3.0)

Processor time and memory of processes, looked at once a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from operator import itemgetter
from statistics import fmean
from time import monotonic
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

LONGEST = 20_000
"""milliseconds; whatever takes longer counts as this"""
_FOLD = 16_384

Counts = NDArray[np.int64]


class Taken:
    """One subscriber's notes. They cost the same for every stack: a look-up an event, and what is left in one go.

    source: the property that tells sources apart
    stamp: the property that holds the instant the event was meant to be sent at, in microseconds
    timed: whether latencies are noted
    """

    def __init__(self, source: str, stamp: str, timed: bool = True) -> None:
        self.source = source
        self.stamp = stamp
        self.timed = timed
        self.events = 0
        self.last: dict[Any, Any] = {}
        self._noted, self._stamp = itemgetter(source, stamp), itemgetter(stamp)
        self._stamps: list[int] = []
        self._came: list[tuple[int, int]] = []
        self._counts = np.zeros(LONGEST + 1, dtype=np.int64)

    def take(self, events: Sequence[Mapping[str, Any]], sent: Sequence[Mapping[str, Any]], now: int) -> None:
        """Note events that came together; the latencies are those of the ones that travelled."""
        self.events += len(events)
        self.last.update(map(self._noted, events))
        if self.timed:
            self._stamps += map(self._stamp, sent)
            self._came.append((now, len(sent)))
            if len(self._stamps) >= _FOLD:
                self._fold()

    def begin(self) -> None:
        """Count from here."""
        self.events = 0
        self.last.clear()
        self.forget()

    def forget(self) -> None:
        """Latencies so far were of the warm-up."""
        self._stamps.clear()
        self._came.clear()
        self._counts[:] = 0

    @property
    def latencies(self) -> Counts:
        """Events by whole milliseconds of latency."""
        self._fold()
        return self._counts

    def _fold(self) -> None:
        instants, numbers = zip(*self._came, strict=True) if self._came else ((), ())
        late = (np.repeat(np.array(instants, dtype=np.int64), numbers) - np.array(self._stamps, dtype=np.int64)) // 1000
        self._counts += np.bincount(np.clip(late, 0, LONGEST), minlength=LONGEST + 1)
        self._stamps.clear()
        self._came.clear()


def sparse(counts: Counts) -> list[list[int]]:
    """Counts as pairs of millisecond and number, for a document.

    >>> sparse(np.array([0, 2, 0, 1]))
    [[1, 2], [3, 1]]
    """
    filled = np.flatnonzero(counts)
    return [[int(at), int(counts[at])] for at in filled]


def dense(pairs: Sequence[Sequence[int]]) -> Counts:
    """The way back."""
    counts = np.zeros(LONGEST + 1, dtype=np.int64)
    for at, number in pairs:
        counts[at] += number
    return counts


def quantile(counts: Counts, share: float) -> float | None:
    """The milliseconds that this share of the events does not exceed; None where there are none.

    >>> quantile(np.array([0, 98, 0, 1, 1]), 0.99), quantile(np.array([0]), 0.5)
    (3.0, None)
    """
    total = int(counts.sum())
    if not total:
        return None
    return float(np.searchsorted(np.cumsum(counts), share * total))


EVERY = 1.0
"""seconds between two looks"""
WARM_UP = 0.25
"""the share of a run after which memory counts as settled"""


class ProcessSample(NamedTuple):
    """One look: seconds since the first, processor seconds used so far, bytes of resident memory."""

    at: float
    cpu: float
    memory: int


class ProcessSampler:
    """Looks at processes while it is open.

    processes: name -> process id
    series: name -> samples; a process that ends has no more
    machine: samples of everything that runs on the machine; its memory is not looked at
    """

    def __init__(self, processes: Mapping[str, int]) -> None:
        self.processes = dict(processes)
        self.series: dict[str, list[ProcessSample]] = {name: [] for name in processes}
        self.machine: list[ProcessSample] = []
        self._begun = monotonic()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> ProcessSampler:
        self._begun = monotonic()
        self._task = asyncio.create_task(self._look_again())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._look()

    async def _look_again(self) -> None:
        while True:
            self._look()
            await asyncio.sleep(EVERY)

    def _look(self) -> None:
        import psutil

        every = psutil.cpu_times()
        self.machine.append(ProcessSample(monotonic() - self._begun, every.user + every.nice + every.system, 0))
        for name, pid in self.processes.items():
            try:
                process = psutil.Process(pid)
                with process.oneshot():
                    times, memory = process.cpu_times(), process.memory_info().rss
            except psutil.Error:
                continue
            self.series[name].append(ProcessSample(monotonic() - self._begun, times.user + times.system, memory))


def cores_used(series: Mapping[str, list[ProcessSample]]) -> dict[str, float]:
    """Processor seconds a second of each process, between its first and its last sample.

    >>> cores_used({"broker": [ProcessSample(0.0, 1.0, 10), ProcessSample(2.0, 1.5, 10)]})
    {'broker': 0.25}
    """
    ends = {name: (samples[0], samples[-1]) for name, samples in series.items() if len(samples) > 1}
    return {name: (last.cpu - first.cpu) / (last.at - first.at) for name, (first, last) in ends.items()}


def others(series: Mapping[str, list[ProcessSample]], machine: list[ProcessSample]) -> float:
    """Cores that something else on the machine has used meanwhile.

    >>> broker = [ProcessSample(0.0, 1.0, 10), ProcessSample(2.0, 2.0, 10)]
    >>> others({"broker": broker}, [ProcessSample(0.0, 5.0, 0), ProcessSample(2.0, 8.0, 0)])
    1.0
    """
    used = cores_used({"machine": machine}).get("machine", 0.0)
    return max(0.0, used - sum(cores_used(series).values()))


def together(series: Mapping[str, list[ProcessSample]]) -> list[ProcessSample]:
    """All processes as if they were one, as long as all of them lived.

    >>> together({"a": [ProcessSample(0, 1, 10), ProcessSample(1, 2, 11)], "b": [ProcessSample(0, 5, 20)]})
    [ProcessSample(at=0, cpu=6, memory=30)]
    """
    looks = zip(*series.values(), strict=False)
    return [ProcessSample(look[0].at, sum(one.cpu for one in look), sum(one.memory for one in look)) for look in looks]


def growth(samples: list[ProcessSample]) -> float:
    """By which share memory grew after the warm-up: the mean of the last tenth to that of the first tenth after it.

    >>> round(growth([ProcessSample(float(at), 0.0, 100 if at < 5 else 110) for at in range(10)]), 3)
    0.1
    """
    settled = samples[int(WARM_UP * len(samples)) :]
    tenth = max(1, len(settled) // 10)
    before = fmean(sample.memory for sample in settled[:tenth])
    after = fmean(sample.memory for sample in settled[-tenth:])
    return after / before - 1
