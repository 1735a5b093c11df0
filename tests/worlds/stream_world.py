"""A simulated world of stream encoders and decoders over a faulty transport, under virtual time.

Everything that happens follows from one seed, so a failure can be repeated. `run_seeds.py` runs the worlds of many
seeds and prints the trace of one.

>>> report = StreamWorld(7).run()
>>> report.violations, StreamWorld(7).run() == report
([], True)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from lossy_transport import LossyTransport
from random_events import RandomSensors, draw_schema
from stream_incidents import INCIDENTS, draw_faults
from stream_observer import StreamObserver
from stream_sites import StreamPublisherSite, StreamSubscriberSite
from transport_faults import Faults

from thinwire.clock import VirtualClock
from thinwire.schema import Schema

_TICK = 0.5
_RESYNC_TIMEOUT = 10.0
"""seconds without faults after which a decoder that requests key frames must be ready"""


@dataclass
class StreamWorldReport:
    """What happened in the world of a seed.

    undetected: wrong frames that were accepted because their one-byte check matched. Their effects until the next key
    frame are not violations, see `docs/testing.md`.
    """

    seed: int
    events: int = 0
    delivered: int = 0
    frames: int = 0
    restarts: int = 0
    resyncs: int = 0
    undetected: int = 0
    violations: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)


class StreamWorld:
    """The world of one seed.

    compiled: use the kernels; by default the seed decides
    calm: the transport has no faults; wide: frames have two-byte sequences
    announced: schemas that subscribers can find from a time on
    """

    def __init__(self, seed: int, *, compiled: bool | None = None) -> None:
        self.seed = seed
        random = self.random = Random(seed)
        self.clock = VirtualClock(100.0)
        self.report = StreamWorldReport(seed)
        is_compiled = random.random() < 0.25
        self.compiled = is_compiled if compiled is None else compiled
        is_gapless = random.random() < 0.5
        self.wide = not is_gapless or random.random() < 0.2
        self.calm = random.random() < 0.15
        self.broker = LossyTransport(self.clock, draw_faults(random, calm=self.calm), seed, gapless=is_gapless)
        self.announced: list[tuple[float, Schema]] = []
        self._schemas: dict[bytes, Schema] = {}
        self.publishers = [self._create_publisher(number) for number in range(random.choice((1, 1, 2)))]
        self.subscribers = [self._create_subscriber(number) for number in range(random.choice((1, 2, 3)))]
        self._steps = random.choice((20, 60, 150))
        self._max_events = random.choice((1, 2, 6))

    def run(self) -> StreamWorldReport:
        """Run all steps with incidents, then some seconds without faults, and return the report."""
        for publisher in self.publishers:
            publisher.start(self.clock.now())
        for _ in range(self._steps):
            self._step()
        self._end_faults()
        return self._complete_report()

    def find_schema(self, fingerprint: bytes) -> Schema | None:
        """Return a schema that is known to subscribers."""
        return self._schemas.get(fingerprint)

    def record(self, line: str) -> None:
        """Add a line to the trace."""
        self.report.trace.append(f"{self.clock.now():9.2f}  {line}")

    def _step(self) -> None:
        random = self.random
        self.clock.advance(_TICK)
        if random.random() < 0.15:
            random.choice(INCIDENTS)(self, random.choice(self.publishers), random.choice(self.subscribers))
        self._run_sites(random.randint(0, self._max_events))

    def _run_sites(self, events: int) -> None:
        now = self.clock.now()
        while self.announced and self.announced[0][0] <= now:
            schema = self.announced.pop(0)[1]
            self._schemas[schema.fingerprint] = schema
        for publisher in self.publishers:
            publisher.work(now, events)
        for subscriber in self.subscribers:
            subscriber.work(now)

    def _end_faults(self) -> None:
        """End all faults, start what does not run, deliver what is in flight, and check that decoders recover."""
        self.record("faults end")
        self.broker.inject(Faults())
        for publisher in self.publishers:
            publisher.is_paused = False
            if publisher.encoder is None:
                publisher.start(self.clock.now())
        for subscriber in self.subscribers:
            subscriber.is_paused, subscriber.alteration_rate = False, 0.0
            if subscriber.decoder is None:
                subscriber.start()
        self.broker.step()
        while (due := self.broker.next_due()) is not None:
            self._run_until(due)
            self.broker.step()
        self._run_until(self.clock.now() + _RESYNC_TIMEOUT)
        for subscriber in self.subscribers:
            if subscriber.resync == "request" and not subscriber.is_ready:
                self.report.violations.append(f"{subscriber.name} requested key frames and is not ready in time")
        for publisher in self.publishers:
            publisher.send_key_frames(self.clock.now())
        self._run_sites(events=0)

    def _run_until(self, time: float) -> None:
        while self.clock.now() < time:
            self.clock.advance(1.0)
            self._run_sites(self.random.randint(0, 1))

    def _complete_report(self) -> StreamWorldReport:
        report = self.report
        for subscriber in self.subscribers:
            assert subscriber.observer is not None
            assert subscriber.decoder is not None
            subscriber.observer.finish(subscriber.decoder.state)
            for number, observer in enumerate([*subscriber.finished, subscriber.observer], 1):
                self._add_checks(f"{subscriber.name}, run {number}", observer)
            report.undetected += subscriber.undetected
            report.resyncs += subscriber.decoder.counts.resyncs
        report.events = sum(len(publisher.published.events) for publisher in self.publishers)
        report.frames = sum(publisher.frames for publisher in self.publishers)
        return report

    def _add_checks(self, name: str, observer: StreamObserver) -> None:
        self.report.delivered += observer.events
        self.report.violations += [f"{name}: {violation}" for violation in observer.violations]

    def _create_publisher(self, number: int) -> StreamPublisherSite:
        random = self.random
        large = random.random() < 0.1
        schema = draw_schema(random, all_kinds=not self.compiled, with_note=large)
        self._schemas[schema.fingerprint] = schema
        change_rate = 0.2 if large else random.choice((0.1, 0.5, 1))
        sources = 6 if large else random.choice((1, 3, 4))
        sensors = RandomSensors(random, sources=sources, change_rate=change_rate, large=large)
        return StreamPublisherSite(self, f"p{number}", schema, sensors, is_batching=random.random() < 0.6)

    def _create_subscriber(self, number: int) -> StreamSubscriberSite:
        random = self.random
        subscriber = StreamSubscriberSite(
            self,
            f"r{number}",
            random.choice(self.publishers),
            resync=random.choice(("request", "request", "wait")),
            random=Random(f"{self.seed}:{number}"),
            alteration_rate=0.02 if not self.calm and random.random() < 0.1 else 0.0,
        )
        if random.random() < 0.7:
            subscriber.start()
        return subscriber
