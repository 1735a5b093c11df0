"""One deterministic world: a virtual clock, a broker in memory, seeded faults, and publishers and subscribers that die.

Everything that happens follows from one number. A world that went wrong goes wrong again:

    python -m thinwire.testing.worlds.stream_world SEED

tells the story of a seed and what it broke.

>>> report = StreamWorld(7).run()
>>> report.violations, StreamWorld(7).run() == report
([], True)

Many seeds at once, on several processes.

>>> summary = run_seeds(1, 4, processes=1)
>>> summary.seeds, summary.failed
(4, {})
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, fields
from functools import partial
from multiprocessing import get_context
from random import Random
from typing import Protocol, TypeVar

from thinwire.clock import VirtualClock
from thinwire.schema import Schema
from thinwire.testing.worlds.lossy_transport import MemoryBroker
from thinwire.testing.worlds.transport_faults import Faults
from thinwire.testing.worlds.world_incidents import INCIDENTS, draw_faults
from thinwire.testing.worlds.world_observer import StreamObserver
from thinwire.testing.worlds.world_sensors import WorldSensors, draw_schema
from thinwire.testing.worlds.world_sites import StreamPublisherSite, SubscribingSite

_TICK = 0.5
_PATIENCE = 10.0
"""seconds in which a reader that asks must be ready once the faults are over"""


@dataclass
class StreamWorldReport:
    """What happened under a seed.

    let_through: wrong frames that met the one-byte check by chance and were taken; what they did until the next key
    frame is not counted as a violation, see `docs/testing.md`
    """

    seed: int
    events: int = 0
    delivered: int = 0
    frames: int = 0
    restarts: int = 0
    resyncs: int = 0
    let_through: int = 0
    violations: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)


class StreamWorld:
    """Everything of one seed."""

    def __init__(self, seed: int, *, compiled: bool | None = None) -> None:
        self.seed = seed
        chance = self.chance = Random(seed)
        self.clock = VirtualClock(100.0)
        self.report = StreamWorldReport(seed)
        served = chance.random() < 0.25
        self.compiled = served if compiled is None else compiled
        self._gapless = chance.random() < 0.5
        self._wide = not self._gapless or chance.random() < 0.2
        self.calm = chance.random() < 0.15
        self.broker = MemoryBroker(self.clock, draw_faults(chance, calm=self.calm), seed, gapless=self._gapless)
        self._schemas: dict[bytes, Schema] = {}
        self.announced: list[tuple[float, Schema]] = []
        self.publishers = [self._publisher(number) for number in range(chance.choice((1, 1, 2)))]
        self.subscribers = [self._subscriber(number) for number in range(chance.choice((1, 2, 3)))]
        self._steps = chance.choice((20, 60, 150))
        self._busy = chance.choice((1, 2, 6))

    def run(self) -> StreamWorldReport:
        """Let it all happen, then let it come to rest, and say what went wrong."""
        for site in self.publishers:
            site.start(self.clock.now())
        for _ in range(self._steps):
            self._step()
        self._drain()
        return self._conclude()

    def _step(self) -> None:
        chance = self.chance
        self.clock.advance(_TICK)
        if chance.random() < 0.15:
            chance.choice(INCIDENTS)(self, chance.choice(self.publishers), chance.choice(self.subscribers))
        self._everybody_works(chance.randint(0, self._busy))

    def _everybody_works(self, events: int) -> None:
        now = self.clock.now()
        while self.announced and self.announced[0][0] <= now:
            schema = self.announced.pop(0)[1]
            self._schemas[schema.fingerprint] = schema
        for site in self.publishers:
            site.work(now, events)
        for reader in self.subscribers:
            reader.work(now)

    def _drain(self) -> None:
        """No more faults; all are up again; what is on its way arrives; then readers must find back by themselves."""
        self.record("everything comes to rest")
        self.broker.inject(Faults())
        for site in self.publishers:
            site.paused = False
            if not site.alive:
                site.start(self.clock.now())
        for reader in self.subscribers:
            reader.paused, reader.unlucky = False, 0.0
            if reader.subscriber is None:
                reader.start()
        self.broker.step()
        while (due := self.broker.next_due()) is not None:
            self._quiet_until(due)
            self.broker.step()
        self._quiet_until(self.clock.now() + _PATIENCE)
        for reader in self.subscribers:
            if reader.resync == "request" and not reader.settled:
                self.report.violations.append(f"{reader.name} asked for key frames and is not ready in time")
        for site in self.publishers:
            site.round(self.clock.now())
        self._everybody_works(events=0)

    def _quiet_until(self, time: float) -> None:
        while self.clock.now() < time:
            self.clock.advance(1.0)
            self._everybody_works(self.chance.randint(0, 1))

    def _conclude(self) -> StreamWorldReport:
        report = self.report
        for reader in self.subscribers:
            assert reader.observer is not None
            assert reader.subscriber is not None
            reader.observer.finish(reader.subscriber.state)
            for life, observer in enumerate([*reader.finished, reader.observer], 1):
                self._account(f"{reader.name}, life {life}", observer)
            report.let_through += reader.let_through
            report.resyncs += reader.subscriber.counts.resyncs
        report.events = sum(len(site.truth.events) for site in self.publishers)
        report.frames = sum(site.frames for site in self.publishers)
        return report

    def _account(self, name: str, observer: StreamObserver) -> None:
        self.report.delivered += observer.events
        self.report.violations += [f"{name}: {what}" for what in observer.violations]

    def _publisher(self, number: int) -> StreamPublisherSite:
        chance = self.chance
        large = chance.random() < 0.1
        schema = draw_schema(chance, odd=not self.compiled, noted=large)
        self._schemas[schema.fingerprint] = schema
        chatter = 0.2 if large else chance.choice((0.1, 0.5, 1))
        sensors = WorldSensors(chance, sources=6 if large else chance.choice((1, 3, 4)), chatter=chatter, large=large)
        return StreamPublisherSite(
            f"p{number}",
            schema,
            sensors,
            chance,
            self.broker,
            wide=self._wide,
            compiled=self.compiled,
            linger=chance.random() < 0.6,
            tell=self.record,
        )

    def _subscriber(self, number: int) -> SubscribingSite:
        chance = self.chance
        reader = SubscribingSite(
            f"r{number}",
            chance.choice(self.publishers),
            self._schemas.get,
            self.broker,
            resync=chance.choice(("request", "request", "wait")),
            compiled=self.compiled,
            tell=self.record,
            chance=Random(f"{self.seed}:{number}"),
            unlucky=0.02 if not self.calm and chance.random() < 0.1 else 0.0,
        )
        if chance.random() < 0.7:
            reader.start()
        return reader

    def record(self, what: str) -> None:
        self.report.story.append(f"{self.clock.now():9.2f}  {what}")


def main(arguments: list[str]) -> int:
    """Tell the story of a seed."""
    report = StreamWorld(int(arguments[0])).run()
    lines = [*report.story, f"{report.events} events, {report.frames} frames, {report.delivered} deliveries"]
    lines += [f"VIOLATION {what}" for what in report.violations] or ["nothing was violated"]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if report.violations else 0


PORTION = 50
"""seeds a process takes at a time"""

Progress = Callable[[int], None]

R = TypeVar("R")
S = TypeVar("S", bound="WorldTotals")


class WorldOutcome(Protocol):
    """What a world of a seed came to."""

    seed: int
    violations: list[str]


@dataclass
class WorldTotals:
    """What many worlds came to: whatever a kind of world adds is a count that its reports have too.

    failed: the violations of each seed that has any
    """

    seeds: int = 0
    failed: dict[int, list[str]] = field(default_factory=dict)

    def add(self, report: WorldOutcome) -> None:
        """Count one more world."""
        self.seeds += 1
        for name in (f.name for f in fields(self) if f.name not in ("seeds", "failed")):
            setattr(self, name, getattr(self, name) + getattr(report, name))
        if report.violations:
            self.failed[report.seed] = report.violations


@dataclass
class StreamWorldSummary(WorldTotals):
    """The same of worlds of links; `python -m thinwire.testing.worlds.stream_world SEED` tells the story of a seed."""

    events: int = 0
    frames: int = 0
    delivered: int = 0
    restarts: int = 0
    resyncs: int = 0
    let_through: int = 0


def run_seeds(
    first: int, count: int, progress: Progress | None = None, processes: int = 2, compiled: bool | None = None
) -> StreamWorldSummary:
    """Run the worlds of seeds `first`, `first + 1`, ...

    progress: told how many are done; compiled: force the kernels on or off, otherwise each seed decides
    """
    return summed(StreamWorldSummary(), portions(first, count, processes, partial(_run, compiled)), progress)


def summed(summary: S, reports: Iterable[Sequence[WorldOutcome]], progress: Progress | None) -> S:
    """The summary with all reports added, portion by portion."""
    for portion in reports:
        for report in portion:
            summary.add(report)
        if progress is not None:
            progress(summary.seeds)
    return summary


def portions(first: int, count: int, processes: int, run: Callable[[int, int], Sequence[R]]) -> Iterator[Sequence[R]]:
    """What `run` gives of the seeds from one to before another, portion by portion, as they are done."""
    ends = [(start, min(start + PORTION, first + count)) for start in range(first, first + count, PORTION)]
    if processes == 1:
        yield from (run(start, end) for start, end in ends)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(run, start, end) for start, end in ends]):
            yield done.result()


def _run(compiled: bool | None, start: int, end: int) -> list[StreamWorldReport]:
    reports = [StreamWorld(seed, compiled=compiled).run() for seed in range(start, end)]
    for report in reports:
        report.story.clear()  # it is told again by its seed, and costs more to send than to make
    return reports


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
