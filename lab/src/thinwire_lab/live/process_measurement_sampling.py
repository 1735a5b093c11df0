"""Processor time and memory of processes, looked at once a second."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from statistics import fmean
from time import monotonic
from types import TracebackType
from typing import NamedTuple

EVERY = 1.0
"""seconds between two looks"""
WARM_UP = 0.25
"""the share of a run after which memory counts as settled"""


class Sample(NamedTuple):
    """One look: seconds since the first, processor seconds used so far, bytes of resident memory."""

    at: float
    cpu: float
    memory: int


class Sampler:
    """Looks at processes while it is open.

    processes: name -> process id
    series: name -> samples; a process that ends has no more
    machine: samples of everything that runs on the machine; its memory is not looked at
    """

    def __init__(self, processes: Mapping[str, int]) -> None:
        self.processes = dict(processes)
        self.series: dict[str, list[Sample]] = {name: [] for name in processes}
        self.machine: list[Sample] = []
        self._begun = monotonic()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Sampler:
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
        self.machine.append(Sample(monotonic() - self._begun, every.user + every.nice + every.system, 0))
        for name, pid in self.processes.items():
            try:
                process = psutil.Process(pid)
                with process.oneshot():
                    times, memory = process.cpu_times(), process.memory_info().rss
            except psutil.Error:
                continue
            self.series[name].append(Sample(monotonic() - self._begun, times.user + times.system, memory))


def cores_used(series: Mapping[str, list[Sample]]) -> dict[str, float]:
    """Processor seconds a second of each process, between its first and its last sample.

    >>> cores_used({"broker": [Sample(0.0, 1.0, 10), Sample(2.0, 1.5, 10)]})
    {'broker': 0.25}
    """
    ends = {name: (samples[0], samples[-1]) for name, samples in series.items() if len(samples) > 1}
    return {name: (last.cpu - first.cpu) / (last.at - first.at) for name, (first, last) in ends.items()}


def others(series: Mapping[str, list[Sample]], machine: list[Sample]) -> float:
    """Cores that something else on the machine has used meanwhile.

    >>> others({"broker": [Sample(0.0, 1.0, 10), Sample(2.0, 2.0, 10)]}, [Sample(0.0, 5.0, 0), Sample(2.0, 8.0, 0)])
    1.0
    """
    used = cores_used({"machine": machine}).get("machine", 0.0)
    return max(0.0, used - sum(cores_used(series).values()))


def together(series: Mapping[str, list[Sample]]) -> list[Sample]:
    """All processes as if they were one, as long as all of them lived.

    >>> together({"a": [Sample(0, 1, 10), Sample(1, 2, 11)], "b": [Sample(0, 5, 20)]})
    [Sample(at=0, cpu=6, memory=30)]
    """
    looks = zip(*series.values(), strict=False)
    return [Sample(look[0].at, sum(one.cpu for one in look), sum(one.memory for one in look)) for look in looks]


def growth(samples: list[Sample]) -> float:
    """By which share memory grew after the warm-up: the mean of the last tenth to that of the first tenth after it.

    >>> round(growth([Sample(float(at), 0.0, 100 if at < 5 else 110) for at in range(10)]), 3)
    0.1
    """
    settled = samples[int(WARM_UP * len(samples)) :]
    tenth = max(1, len(settled) // 10)
    before = fmean(sample.memory for sample in settled[:tenth])
    after = fmean(sample.memory for sample in settled[-tenth:])
    return after / before - 1
