"""A small system in one process: a building's plants, a broker in memory, and subscribers of different tolerance.

Each tolerance has a publisher link of its own: one publisher serving several classes through a translator is what the
broker's side will do; until then every class is what a strictest class would be, and its bytes are its own.

>>> show = Demonstration(tolerances=(0.0, 1.0), sources=1)
>>> show.run(50)
>>> show.finish()
>>> [(lane.tolerance, lane.checker.checked, lane.checker.broken) for lane in show.lanes]
[(0.0, 50, 0), (1.0, 50, 0)]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import process_time
from typing import Any

from thinwire.clock import VirtualClock
from thinwire.evaluation.bench.references import compact_json
from thinwire.evaluation.checking import Checker
from thinwire.evaluation.replaying import seconds_of
from thinwire.events import Event, Schema
from thinwire.ledger import Row, Tally
from thinwire.link import LinkConfig, Publisher, Subscriber
from thinwire.reduction import Demand
from thinwire.transports import MemoryBroker
from thinwire.transports.overhead import link_bytes
from thinwire.workload.samples import building

TOPIC = "building.plant"
UNBOUNDED = 1_000_000_000
"""events the generator is ready to give; a demonstration ends when its time is over"""

_seconds = seconds_of(building.schema())


class Lane:
    """One tolerance: publisher, subscriber, and what passed between them."""

    def __init__(self, tolerance: float, schema: Schema, broker: MemoryBroker, run: str, now: float) -> None:
        config = LinkConfig(demand=Demand(default_tolerance=tolerance))
        name = f"within-{tolerance:g}".replace(".", "_")
        self.tolerance = tolerance
        self.subject = f"{TOPIC}.{name}"
        self._broker = broker
        self._inbox = broker.subscribe(self.subject)
        self._publisher = Publisher(schema, config, name=name, now=now)
        self._subscriber = Subscriber([schema], publisher=name)
        self._sent = Tally(run, TOPIC, self.subject, f"{tolerance:g}", "publisher")
        self._taken = Tally(run, TOPIC, self.subject, f"{tolerance:g}", "subscriber")
        self.checker = Checker(schema, config.demand, self._taken)
        self._carry(self._publisher.start(now), now)

    def publish(self, event: Mapping[str, Any], raw: int, now: float) -> None:
        """One event through publisher, broker and subscriber."""
        self.checker.sent(event)
        begin = process_time()
        frames = self._publisher.publish(event, now)
        self._sent.cpu("publisher", process_time() - begin)
        self._sent.count(events=1, raw_bytes=raw)
        self._carry(frames, now)

    def finish(self, now: float) -> None:
        """Tell what is still untold."""
        self._carry(self._publisher.heartbeat(now), now)

    @property
    def rows(self) -> tuple[Row, Row]:
        """What the ledger keeps: the publisher's side and the subscriber's."""
        counts = self._publisher.counts
        sums = {name: getattr(counts, name) for name in ("data_bytes", "key_bytes", "control_bytes")}
        sums |= {name: getattr(self._publisher, name) for name in ("suppressed_events", "suppressed_values")}
        return replace(self._sent.row(), **sums), self._taken.row()

    def _carry(self, frames: list[bytes], now: float) -> None:
        for frame in frames:
            self._broker.publish(self.subject, frame)
            self._sent.count(messages=1, frames=1, link_bytes=link_bytes(self.subject, len(frame)))
        while (message := self._inbox.receive()) is not None:
            begin = process_time()
            deliveries = self._subscriber.receive(message.payload, now=now, position=message.sequence)
            self._taken.cpu("subscriber", process_time() - begin)
            self._taken.count(messages=1, frames=1)
            for event in deliveries:
                if isinstance(event, Event):
                    self._take(event, now)

    def _take(self, event: Event, now: float) -> None:
        self._taken.count(events=1, suppressed_events=int(event.virtual))
        self._taken.latency(max(0.0, now - _seconds(event)), virtual=event.virtual)
        self.checker.delivered(event)


class Demonstration:
    """Plants, broker and lanes, driven by the events' own time.

    tolerances: one lane each; sources: plants; run: the name of the run in the ledger
    """

    def __init__(
        self, tolerances: Sequence[float] = (0.0, 0.5, 1.0), sources: int = 3, seed: int = 1, run: str = "demo"
    ) -> None:
        schema = building.schema()
        self.events = 0
        self.raw_bytes = 0
        self.raw_link_bytes = 0
        self._stream = building.events(UNBOUNDED, seed, sources)
        self._next = next(self._stream)
        self.clock = VirtualClock(_seconds(self._next))
        broker = MemoryBroker(self.clock)
        self.lanes = [Lane(tolerance, schema, broker, run, self.clock.now()) for tolerance in tolerances]

    def run(self, events: int) -> None:
        """Let so many events happen."""
        for _ in range(events):
            self._step()

    def finish(self) -> None:
        """Let every subscriber know what it may still expect."""
        for lane in self.lanes:
            lane.finish(self.clock.now())

    @property
    def rows(self) -> list[Row]:
        """The ledger of all lanes."""
        return [row for lane in self.lanes for row in lane.rows]

    def _step(self) -> None:
        event, self._next = self._next, next(self._stream)
        self.clock.advance(max(0.0, _seconds(event) - self.clock.now()))
        raw = len(compact_json(event))
        self.events += 1
        self.raw_bytes += raw
        self.raw_link_bytes += link_bytes(TOPIC, raw)
        for lane in self.lanes:
            lane.publish(event, raw, self.clock.now())
