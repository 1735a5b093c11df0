"""One deterministic world: a virtual clock, a broker in memory, seeded faults, and publishers and subscribers that die.

Everything that happens follows from one number. A world that went wrong goes wrong again:

    python -m thinwire.testing.world SEED

tells the story of a seed and what it broke.

>>> report = World(7).run()
>>> report.violations, World(7).run() == report
([], True)
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from random import Random

from thinwire.clock import VirtualClock
from thinwire.events import Schema
from thinwire.testing.world_observer import Observer
from thinwire.testing.world_publishing import PublishingSite
from thinwire.testing.world_readings import Sensors, draw_schema, evolved
from thinwire.testing.world_subscribing import SubscribingSite
from thinwire.transports.faults import Faults
from thinwire.transports.memory import MemoryBroker

_TICK = 0.5
_QUIET = Faults()


@dataclass
class Report:
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


class World:
    """Everything of one seed."""

    def __init__(self, seed: int, *, compiled: bool | None = None) -> None:
        self.seed = seed
        chance = self._chance = Random(seed)
        self.clock = VirtualClock(100.0)
        self.report = Report(seed)
        served = chance.random() < 0.25
        self.compiled = served if compiled is None else compiled
        self._gapless = chance.random() < 0.5
        self._wide = not self._gapless or chance.random() < 0.2
        self._calm = chance.random() < 0.15
        self.broker = MemoryBroker(self.clock, self._faults(), seed, gapless=self._gapless)
        self._schemas: dict[bytes, Schema] = {}
        self._announced: list[tuple[float, Schema]] = []
        self.publishers = [self._publisher(number) for number in range(chance.choice((1, 1, 2)))]
        self.subscribers = [self._subscriber(number) for number in range(chance.choice((1, 2, 3)))]
        self._steps = chance.choice((20, 60, 150))
        self._busy = chance.choice((1, 2, 6))

    def run(self) -> Report:
        """Let it all happen, then let it come to rest, and say what went wrong."""
        for site in self.publishers:
            site.start(self.clock.now())
        for _ in range(self._steps):
            self._step()
        self._come_to_rest()
        return self._conclude()

    def _step(self) -> None:
        self.clock.advance(_TICK)
        if self._chance.random() < 0.15:
            self._incident()
        self._everybody_works(self._chance.randint(0, self._busy))

    def _everybody_works(self, events: int) -> None:
        now = self.clock.now()
        while self._announced and self._announced[0][0] <= now:
            schema = self._announced.pop(0)[1]
            self._schemas[schema.fingerprint] = schema
        for site in self.publishers:
            site.work(now, events)
        for reader in self.subscribers:
            reader.work(now)

    def _incident(self) -> None:
        site = self._chance.choice(self.publishers)
        reader = self._chance.choice(self.subscribers)
        incident = self._chance.choice(_INCIDENTS)
        incident(self, site, reader)

    def _publisher_dies_or_lives(self, site: PublishingSite, reader: SubscribingSite) -> None:
        if site.alive:
            site.crash()
            return
        if self._chance.random() < 0.3 and site.schema.version < 3:
            site.schema = evolved(site.schema, self._chance)
            self._announced.append((self.clock.now() + self._chance.choice((0, 2)), site.schema))
            self._announced.sort(key=lambda pair: pair[0])
        site.start(self.clock.now())
        self.report.restarts += 1

    def _publisher_pauses(self, site: PublishingSite, reader: SubscribingSite) -> None:
        site.paused = not site.paused
        self._tell(f"{site.name} {'pauses' if site.paused else 'goes on'}")

    def _new_demand(self, site: PublishingSite, reader: SubscribingSite) -> None:
        if not site.paused:
            site.reconfigure(self.clock.now())

    def _new_source(self, site: PublishingSite, reader: SubscribingSite) -> None:
        if len(site.sensors.names) < 12:
            site.sensors.another()

    def _frames_vanish(self, site: PublishingSite, reader: SubscribingSite) -> None:
        everything = site.wide and self._chance.random() < 0.004
        count = 65_536 if everything else self._chance.choice((1, 2, 256))
        if count < 256 or self._chance.random() < 0.4:
            site.vanish(count, self.clock.now())

    def _subscriber_dies_or_joins(self, site: PublishingSite, reader: SubscribingSite) -> None:
        if reader.subscriber is not None:
            reader.crash()
        else:
            reader.start()

    def _subscriber_pauses(self, site: PublishingSite, reader: SubscribingSite) -> None:
        reader.paused = not reader.paused
        self._tell(f"{reader.name} {'pauses' if reader.paused else 'goes on'}")

    def _other_faults(self, site: PublishingSite, reader: SubscribingSite) -> None:
        faults = self._faults()
        if self._chance.random() < 0.4:
            now = self.clock.now()
            faults = faults.partition(now, now + self._chance.uniform(0.5, 8))
        self._tell(f"from now on {faults}")
        self.broker.inject(faults)

    def _come_to_rest(self) -> None:
        """No more faults; all are up again; what is on its way arrives; then readers must find back by themselves."""
        self._tell("everything comes to rest")
        self.broker.inject(_QUIET)
        for site in self.publishers:
            site.paused = False
            if not site.alive:
                site.start(self.clock.now())
        for reader in self.subscribers:
            reader.paused, reader.unlucky = False, 0.0
            if reader.subscriber is None:
                reader.start()
        self._quiet_until(max(self.broker.next_due() or 0, self.clock.now() + 10))
        self._quiet_until(self.clock.now() + 8)
        for reader in self.subscribers:
            if reader.resync == "request" and not reader.settled:
                self.report.violations.append(f"{reader.name} asked for key frames and is not ready in time")
        for site in self.publishers:
            site.round(self.clock.now())
        self._everybody_works(events=0)

    def _quiet_until(self, time: float) -> None:
        while self.clock.now() < time:
            self.clock.advance(1.0)
            self._everybody_works(self._chance.randint(0, 1))

    def _conclude(self) -> Report:
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

    def _account(self, name: str, observer: Observer) -> None:
        self.report.delivered += observer.events
        self.report.violations += [f"{name}: {what}" for what in observer.violations]

    def _publisher(self, number: int) -> PublishingSite:
        chance = self._chance
        large = chance.random() < 0.1
        schema = draw_schema(chance, odd=not self.compiled, noted=large)
        self._schemas[schema.fingerprint] = schema
        chatter = 0.2 if large else chance.choice((0.1, 0.5, 1))
        sensors = Sensors(chance, sources=6 if large else chance.choice((1, 3, 4)), chatter=chatter, large=large)
        return PublishingSite(
            f"p{number}", schema, sensors, chance, self.broker, wide=self._wide, compiled=self.compiled,
            linger=chance.random() < 0.6, tell=self._tell,
        )

    def _subscriber(self, number: int) -> SubscribingSite:
        chance = self._chance
        reader = SubscribingSite(
            f"r{number}", chance.choice(self.publishers), self._schemas.get, self.broker,
            resync=chance.choice(("request", "request", "wait")), compiled=self.compiled, tell=self._tell,
            chance=Random(f"{self.seed}:{number}"), unlucky=0.02 if not self._calm and chance.random() < 0.1 else 0.0,
        )
        if chance.random() < 0.7:
            reader.start()
        return reader

    def _faults(self) -> Faults:
        chance = self._chance
        if self._calm or chance.random() < 0.3:
            return _QUIET

        def sometimes(most: float) -> float:
            return chance.uniform(0, most) if chance.random() < 0.4 else 0.0

        return Faults(
            loss=sometimes(0.3),
            duplication=sometimes(0.3),
            reordering=sometimes(0.3),
            corruption=sometimes(0.2),
            delay=(0.0, sometimes(2.0)),
            repeats=((chance.randint(1, 30), chance.uniform(5, 40)),) if chance.random() < 0.3 else (),
            at=chance.choice(("delivery", "delivery", "publish")),
        )

    def _tell(self, what: str) -> None:
        self.report.story.append(f"{self.clock.now():9.2f}  {what}")


_INCIDENTS = (
    World._publisher_dies_or_lives,
    World._publisher_dies_or_lives,
    World._publisher_pauses,
    World._new_demand,
    World._new_demand,
    World._new_source,
    World._frames_vanish,
    World._subscriber_dies_or_joins,
    World._subscriber_pauses,
    World._other_faults,
    World._other_faults,
)


def main(arguments: list[str]) -> int:
    """Tell the story of a seed."""
    report = World(int(arguments[0])).run()
    lines = [*report.story, f"{report.events} events, {report.frames} frames, {report.delivered} deliveries"]
    lines += [f"VIOLATION {what}" for what in report.violations] or ["nothing was violated"]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
