"""One deterministic world of classes: publishers, a registry's budget, translators that die, pause and wake, readers.

There is no broker and no event loop in it: two logs in memory, a virtual clock, and the objects that run live. Every
thing that happens follows from one number. A world that went wrong goes wrong again:

    python -m thinwire.testing.worlds.channel_world SEED [where]

tells the story of a seed and what it broke; with `where`, of its world in which classes choose events by their values.

>>> report = ChannelWorld(7).run()
>>> report.violations, ChannelWorld(7).run() == report
([], True)

Many worlds of classes at once, on several processes.

>>> summary = run_seeds(1, 4, processes=1)
>>> summary.seeds, summary.failed
(4, {})
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from random import Random

from thinwire.clock import VirtualClock
from thinwire.schema import Schema
from thinwire.testing.worlds.channel_world_incidents import INCIDENTS
from thinwire.testing.worlds.channel_world_logs import (
    ReferenceReader,
    WorldRegistry,
    choosing,
    draw_settings,
    draw_subscription,
)
from thinwire.testing.worlds.channel_world_observer import ChannelObserver
from thinwire.testing.worlds.channel_world_publisher import ChannelPublisherSite, ChannelWorldBroker
from thinwire.testing.worlds.channel_world_reader import ChannelReaderSite
from thinwire.testing.worlds.channel_world_translator import TranslatingSite
from thinwire.testing.worlds.stream_world import Progress, WorldTotals, portions, summed
from thinwire.testing.worlds.world_sensors import CreepingSensors, draw_schema
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.topic_documents import SubscriptionDocument

_TICK = 0.5
_PAUSE = 3.0
_REST = 4
"""longer ticks in which everything must have come to rest: leases run out, translators recover, readers catch up"""


@dataclass
class ChannelWorldReport:
    """What happened under a seed.

    stored: messages in channels; successions: how often a translator took over; stale: messages that readers left
    alone because somebody had taken over; refused: writes that found somebody else had written
    """

    seed: int
    events: int = 0
    delivered: int = 0
    missed: int = 0
    stored: int = 0
    successions: int = 0
    stale: int = 0
    refused: int = 0
    violations: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)


class ChannelWorld:
    """Everything of one seed.

    where: whether most of its classes choose events by their values; all else is then as it would be without
    """

    def __init__(self, seed: int, *, where: bool = False) -> None:
        chance = self.chance = Random(seed)
        self.clock = VirtualClock(100.0)
        self.report = ChannelWorldReport(seed)
        self.calm = chance.random() < 0.3
        self._large = chance.random() < 0.02
        self.schema = draw_schema(chance, odd=chance.random() < 0.3, noted=self._large)
        self.registry = WorldRegistry(self.schema, draw_settings(chance))
        many = chance.choice((1, 2, 3))
        self.classes = [draw_subscription(self.schema, chance, f"c{number}") for number in range(many)]
        if where:
            self.classes = _choosing(self.classes, self.schema, Random(f"where {seed}"))
        self.guest: SubscriptionDocument | None = None
        self._schemas: dict[bytes, Schema] = {}
        self.learn(self.schema)
        self.ground = ChannelWorldBroker(self.schema.name, self._schemas.get, self.record)
        self.publishers = [self._publisher(number) for number in range(chance.choice((1, 1, 2)))]
        names = [site.name for site in self.publishers]
        self.reference = ReferenceReader(self.ground.log, self._schemas.get, names)
        self.translators = [TranslatingSite(f"t{number}", self.ground, chance) for number in range(2)]
        self.readers: list[ChannelReaderSite] = []
        self._gone: list[ChannelReaderSite] = []
        self._joined = 0
        self._steps = chance.choice((8, 14, 24))
        self._busy = chance.choice((1, 2, 4))

    def run(self) -> ChannelWorldReport:
        """Let it all happen, then let it come to rest, and say what went wrong."""
        for site in self.publishers:
            site.start(self.clock.now())
        for asked in self.classes:
            self.join(asked)
        for _ in range(self._steps):
            if self.chance.random() < 0.5:
                self.chance.choice(INCIDENTS)(self)
            self._tick(self.chance.randint(0, self._busy))
        self._drain()
        return self._conclude()

    def join(self, asked: SubscriptionDocument) -> None:
        """One more reader of a class, from now on, from the last key frames, or from a checkpoint of its channel."""
        self._joined += 1
        mine = SubscriptionDocument(**{**vars(asked), "identity": f"r{self._joined}"})
        observers = {
            site.name: ChannelObserver(site.name, site.truth, self.reference, mine) for site in self.publishers
        }
        way = self.chance.choice(("now", "key frames", "checkpoint"))
        reader = ChannelReaderSite(mine, observers, self.ground, way, Random(self.chance.random()))
        self.readers.append(reader)
        self.registry.ask(mine)
        self.ground.asked[mine.identity] = DemandClass.of(mine)
        self.record(f"{reader.name} joins class {reader.class_id}, from {way}: {mine}")

    def leave(self, reader: ChannelReaderSite) -> None:
        """One reader less."""
        self.readers.remove(reader)
        self._gone.append(reader)
        self.registry.leave(reader.name)
        del self.ground.asked[reader.name]
        self.record(f"{reader.name} leaves")

    def learn(self, schema: Schema) -> None:
        """A schema, and what the classes make of it."""
        self._schemas[schema.fingerprint] = schema
        for asked in self.classes:
            projected = DemandClass.of(asked).schema(schema)
            self._schemas[projected.fingerprint] = projected

    @property
    def translator(self) -> TranslatingSite:
        """The one that holds the lease, as far as anybody does."""
        holder = self.ground.lease.holder
        return next((one for one in self.translators if one.name == holder), self.translators[0])

    def record(self, what: str) -> None:
        self.report.story.append(f"{self.clock.now():9.2f}  {what}")

    def _tick(self, events: int, time: float = _TICK) -> None:
        self.clock.advance(time)
        now = self.clock.now()
        for site in self.publishers:
            if site.config is not self.registry.config and self.chance.random() < 0.6:
                site.config = self.registry.config
            site.work(now, events)
        self._others_work(now)

    def _others_work(self, now: float) -> None:
        self.reference.read_on()
        for translator in self.translators:
            translator.work(now)
        for site in self.publishers:
            if site.name in self.ground.wanted:
                site.answer(now)
        self.ground.wanted.clear()
        for reader in self.readers:
            reader.work(now)
            if reader.asks(now):
                self.ground.asks.add((reader.class_id, ""))

    def _drain(self) -> None:
        """No more trouble; all are up again; what is left is worked off, and told in full."""
        self.record("everything comes to rest")
        for site in self.publishers:
            site.harm.clear()
            site.mute = False
            if site.publisher is None:
                site.start(self.clock.now())
        for translator in self.translators:
            translator.recover()
        for reader in self.readers:
            reader.paused = reader.slow = False
        for _ in range(_REST):
            self._tick(self.chance.randint(0, 1), _PAUSE)
        for site in self.publishers:
            site.finish(self.clock.now())
        for _ in range(2):
            self.clock.advance(_TICK)
            self._others_work(self.clock.now())

    def _conclude(self) -> ChannelWorldReport:
        report = self.report
        for reader in self.readers:
            reader.finish()
        for name, observer in self._observers():
            report.delivered += observer.events
            report.missed += observer.missed
            report.violations += [f"{name} of {observer.publisher}: {what}" for what in observer.violations]
        report.events = sum(len(site.truth.events) for site in self.publishers)
        report.stored = self.ground.channels.end
        report.successions = self.ground.lease.epoch
        report.stale = sum(reader.stale for reader in [*self.readers, *self._gone])
        report.refused = self.ground.refused
        return report

    def _observers(self) -> Iterator[tuple[str, ChannelObserver]]:
        for reader in [*self.readers, *self._gone]:
            for observer in reader.observers.values():
                yield reader.name, observer

    def _publisher(self, number: int) -> ChannelPublisherSite:
        chance = self.chance
        sources, chatter = (5, 0.2) if self._large else (chance.choice((1, 2, 3)), chance.choice((0.2, 0.5, 1)))
        sensors = CreepingSensors(chance, sources=sources, chatter=chatter, large=self._large)
        return ChannelPublisherSite(
            f"p{number}", self.schema, sensors, chance, self.ground.log, self.registry.config, self.record
        )


def _choosing(classes: list[SubscriptionDocument], schema: Schema, chance: Random) -> list[SubscriptionDocument]:
    return [choosing(one, schema, chance) if chance.random() < 0.8 else one for one in classes]


def main(arguments: list[str]) -> int:
    """Tell the story of a seed."""
    report = ChannelWorld(int(arguments[0]), where="where" in arguments[1:]).run()
    lines = [*report.story, f"{report.events} events, {report.stored} channel messages, {report.delivered} deliveries"]
    lines += [f"VIOLATION {what}" for what in report.violations] or ["nothing was violated"]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if report.violations else 0


@dataclass
class ChannelWorldSummary(WorldTotals):
    """What many worlds came to; `python -m thinwire.testing.worlds.channel_world SEED` tells the story of a seed."""

    events: int = 0
    delivered: int = 0
    missed: int = 0
    stored: int = 0
    successions: int = 0
    stale: int = 0
    refused: int = 0


def run_seeds(
    first: int, count: int, progress: Progress | None = None, processes: int = 2, *, where: bool = False
) -> ChannelWorldSummary:
    """Run the worlds of seeds `first`, `first + 1`, ...

    progress: told how many are done; where: worlds in which classes choose events by their values
    """
    return summed(ChannelWorldSummary(), portions(first, count, processes, partial(_run, where=where)), progress)


def _run(start: int, end: int, *, where: bool) -> list[ChannelWorldReport]:
    reports = [ChannelWorld(seed, where=where).run() for seed in range(start, end)]
    for report in reports:
        report.story.clear()  # it is told again by its seed, and costs more to send than to make
    return reports


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
