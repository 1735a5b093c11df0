"""Figure 7 of the virtual events paper: processor and memory of the whole chain over time, ours beside plain JSON.

The chain is a publisher, the broker and a subscriber, each a process (ours has the registry too), and carries the
generated building at a fixed rate. Beside it stands what the paper says without a figure: bytes stored at the broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, pstdev
from typing import NamedTuple

from thinwire.demo import building
from thinwire_lab.live.load_chain import Chain, Shape
from thinwire_lab.live.process_measurement_sampling import Sample

KINDS = {"json": "plain JSON", "thinwire": "thinwire"}
"""the stacks, and what they are called in the figure"""
RATE = 500.0
SHORTEST, SECONDS = 3.0, 30.0
TOLERANCE = 1.0
LINGER = 0.005
REHEARSAL = 2.0
"""seconds before the first run is looked at: imports, compiled kernels, introductions"""
CHAIN = "whole chain"

Series = Mapping[str, list[Sample]]
Progress = Callable[[float], None]


class Point(NamedTuple):
    """One second of a process, over all runs: the mean and the spread (standard deviation) between them."""

    cpu: float
    cpu_spread: float
    memory: float
    memory_spread: float


@dataclass(frozen=True)
class Run:
    """One run of a chain: the series of its processes, and the bytes an event that the broker stored."""

    series: Series
    stored: float
    lost: int


@dataclass(frozen=True)
class ChainFigure:
    """All runs of one stack."""

    kind: str
    runs: tuple[Run, ...]

    @property
    def over_time(self) -> list[Point]:
        """The whole chain, second by second: cores, and megabytes."""
        return [_point(values) for values in zip(*(_seconds(_whole(run.series)) for run in self.runs), strict=False)]

    @property
    def by_role(self) -> dict[str, Point]:
        """Each process, and all of them, averaged over time."""
        roles = [*self.runs[0].series, CHAIN]
        return {role: _point([_mean(_role(run.series, role)) for run in self.runs]) for role in roles}

    @property
    def stored(self) -> tuple[float, float]:
        """Bytes an event that the broker stored, and the spread between runs."""
        stored = [run.stored for run in self.runs]
        return fmean(stored), pstdev(stored)


def seconds_for(events: int) -> float:
    """How long a run takes that is asked to carry so many events.

    >>> seconds_for(1_000_000), seconds_for(100)
    (30.0, 3.0)
    """
    return min(SECONDS, max(SHORTEST, events / RATE))


def figure_7(
    runs: int, seconds: float = SECONDS, rate: float = RATE, progress: Progress = lambda share: None
) -> list[ChainFigure]:
    """Both chains, in turn, so many times each."""
    found: dict[str, list[Run]] = {kind: [] for kind in KINDS}
    for number in range(runs):
        for place, kind in enumerate(KINDS):
            found[kind].append(asyncio.run(_run(kind, seconds, rate)))
            progress((number * len(KINDS) + place + 1) / (runs * len(KINDS)))
    return [ChainFigure(kind, tuple(of)) for kind, of in found.items()]


async def _run(kind: str, seconds: float, rate: float) -> Run:
    shape = Shape(
        kind,
        feed="building",
        publishers=1,
        readers=1,
        connections=1,
        linger=LINGER,
        tolerance=TOLERANCE,
    )
    async with Chain(shape, building.schema()) as chain:
        await chain.round(rate, REHEARSAL, warm_up=0.0)
        before = await chain.stored()
        outcome = await chain.round(rate, seconds, warm_up=0.0)
        stored = (await chain.stored() - before) / outcome.events
    series = {name.removesuffix(" 0"): samples for name, samples in outcome.series.items()}
    return Run(series, stored, outcome.lost)


def _whole(series: Series) -> list[Sample]:
    """All processes as one; they are looked at together."""
    together = zip(*series.values(), strict=False)
    return [Sample(looks[0].at, sum(s.cpu for s in looks), sum(s.memory for s in looks)) for looks in together]


def _role(series: Series, role: str) -> list[Sample]:
    return _whole(series) if role == CHAIN else series[role]


def _seconds(samples: list[Sample]) -> list[tuple[float, float]]:
    """Cores and megabytes between each look and the next.

    >>> _seconds([Sample(0.0, 1.0, 10_000_000), Sample(1.0, 1.5, 11_000_000)])
    [(0.5, 11.0)]
    """
    return [((b.cpu - a.cpu) / max(b.at - a.at, 1e-9), b.memory / 1e6) for a, b in pairwise(samples)]


def _mean(samples: list[Sample]) -> tuple[float, float]:
    """Cores and megabytes over the whole time."""
    elapsed = max(samples[-1].at - samples[0].at, 1e-9)
    return (samples[-1].cpu - samples[0].cpu) / elapsed, fmean(s.memory for s in samples) / 1e6


def _point(values: list[tuple[float, float]] | tuple[tuple[float, float], ...]) -> Point:
    cpu, memory = zip(*values, strict=True)
    return Point(fmean(cpu), pstdev(cpu), fmean(memory), pstdev(memory))
