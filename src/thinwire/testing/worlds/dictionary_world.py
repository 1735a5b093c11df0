"""One deterministic world of dictionaries: samplers that die, a store that fails and lies, slots that come again.

There is no broker and no event loop in it: a log and documents in memory, a virtual clock, and the objects that run
live. Every thing that happens follows from one number. A world that went wrong goes wrong again:

    python -m thinwire.testing.worlds.dictionary_world SEED

tells the story of a seed and what it broke.

>>> report = DictionaryWorld(7).run()
>>> report.violations, DictionaryWorld(7).run() == report
([], True)

Many worlds of dictionaries at once, on several processes.

>>> summary = run_seeds(1, 4, processes=1)
>>> summary.seeds, summary.failed
(4, {})
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from random import Random

from thinwire.clock import VirtualClock
from thinwire.testing.worlds.dictionary_world_sampler import SamplingSite
from thinwire.testing.worlds.dictionary_world_sites import (
    DictionaryPublisherSite,
    DictionaryReaderSite,
    DictionaryWorldBroker,
    places,
)
from thinwire.testing.worlds.stream_world import Progress, WorldTotals, portions, summed

_TICKS = (1.0, 20.0, 150.0)
_REST = 6
"""ticks in which everything must have come to rest"""


@dataclass
class DictionaryWorldReport:
    """What happened under a seed.

    packed: notes that a dictionary made shorter; spread: dictionaries; refused: writes of samplers without a lease
    """

    seed: int
    notes: int = 0
    packed: int = 0
    spread: int = 0
    delivered: int = 0
    missed: int = 0
    refused: int = 0
    violations: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)


class DictionaryWorld:
    """Everything of one seed."""

    def __init__(self, seed: int) -> None:
        chance = self.chance = Random(seed)
        self.clock = VirtualClock(1_000.0)
        self.report = DictionaryWorldReport(seed)
        self.ground = DictionaryWorldBroker(chance, self.record, honest=chance.random() < 0.7)
        names = [f"p{number}" for number in range(chance.choice((1, 2)))]
        self.publishers = {name: DictionaryPublisherSite(name, self.ground, chance) for name in names}
        self.samplers = [SamplingSite(f"d{number}", self.ground, chance) for number in range(2)]
        self.readers: list[DictionaryReaderSite] = []
        self._steps = chance.choice((10, 25, 50))

    def run(self) -> DictionaryWorldReport:
        """Let it all happen, then let it come to rest, and say what went wrong."""
        for site in self.publishers.values():
            site.start(self.clock.now())
        self.join()
        for _ in range(self._steps):
            if self.chance.random() < 0.6:
                self._trouble()
            self._tick(self.chance.choice(_TICKS), self.chance.randint(0, 6))
        self._drain()
        return self._conclude()

    def join(self) -> None:
        """One more reader."""
        place = self.chance.choice(places(self.ground))
        self.readers.append(
            DictionaryReaderSite(f"r{len(self.readers)}", place, self.ground, self.publishers, self.chance)
        )
        self.record(f"{self.readers[-1].name} joins at {place}")

    def record(self, what: str) -> None:
        self.report.story.append(f"{self.clock.now():9.2f}  {what}")

    def _trouble(self) -> None:
        chance, ground = self.chance, self.ground
        what = chance.choice(("publisher", "sampler", "sleep", "store", "reader", "nap", "retention", "spoil"))
        if what == "publisher":
            self._restart(chance.choice(list(self.publishers.values())))
        elif what == "sampler":
            chance.choice(self.samplers).crash()
        elif what == "sleep":
            sleeper = chance.choice(self.samplers)
            sleeper.asleep = not sleeper.asleep
        elif what == "store":
            ground.out = not ground.out
            self.record(f"the store is {'out' if ground.out else 'back'}")
        elif what == "reader" and len(self.readers) < 6:
            self.join()
        elif what == "nap":
            reader = chance.choice(self.readers)
            reader.asleep = not reader.asleep
        elif what == "retention":
            ground.first = max(ground.first, min(reader.place for reader in self.readers) - chance.choice((0, 3, 20)))
        elif what == "spoil" and not ground.honest:
            ground.spoil()

    def _restart(self, site: DictionaryPublisherSite) -> None:
        if site.link is None:
            site.start(self.clock.now())
        else:
            site.crash()

    def _tick(self, seconds: float, notes: int) -> None:
        self.clock.advance(seconds)
        now = self.clock.now()
        for site in self.publishers.values():
            site.work(now, notes)
        for sampler in self.samplers:
            if sampler.down and self.chance.random() < 0.4:
                sampler.down = False
            sampler.work(now)
        for reader in self.readers:
            reader.work(now)

    def _drain(self) -> None:
        """No more trouble; all are up again; what is left is worked off."""
        self.record("everything comes to rest")
        self.ground.out = False
        for sampler in self.samplers:
            sampler.down = sampler.asleep = False
            sampler.tidy = True
        for reader in self.readers:
            reader.asleep = False
        for site in self.publishers.values():
            site.attentive = True
            if site.link is None:
                site.start(self.clock.now())
        for _ in range(_REST):
            self._tick(_TICKS[1], 1)
            for site in self.publishers.values():
                site.store(self.clock.now())
        for reader in self.readers:
            reader.work(self.clock.now())

    def _conclude(self) -> DictionaryWorldReport:
        report = self.report
        for reader in self.readers:
            reader.finish()
            report.delivered += reader.delivered
            report.missed += reader.missed
            report.violations += reader.violations
        for site in self.publishers.values():
            report.notes += len(site.truth)
            report.packed += site.packed
            report.violations += site.violations
        report.spread = sum(sampler.spread for sampler in self.samplers)
        report.refused = sum(sampler.refused for sampler in self.samplers)
        return report


def main(arguments: list[str]) -> int:
    """Tell the story of a seed."""
    report = DictionaryWorld(int(arguments[0])).run()
    lines = [*report.story, f"{report.notes} notes, {report.packed} packed, {report.delivered} deliveries"]
    lines += [f"VIOLATION {what}" for what in report.violations] or ["nothing was violated"]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if report.violations else 0


@dataclass
class DictionaryWorldSummary(WorldTotals):
    """What many worlds came to; `python -m thinwire.testing.worlds.dictionary_world SEED` tells the story of a seed."""

    notes: int = 0
    packed: int = 0
    spread: int = 0
    delivered: int = 0
    missed: int = 0
    refused: int = 0


def run_seeds(first: int, count: int, progress: Progress | None = None, processes: int = 2) -> DictionaryWorldSummary:
    """Run the worlds of seeds `first`, `first + 1`, ...; progress: told how many are done."""
    return summed(DictionaryWorldSummary(), portions(first, count, processes, _run), progress)


def _run(start: int, end: int) -> list[DictionaryWorldReport]:
    reports = [DictionaryWorld(seed).run() for seed in range(start, end)]
    for report in reports:
        report.story.clear()  # it is told again by its seed, and costs more to send than to make
    return reports


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
