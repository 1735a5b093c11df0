"""The stream a knee is looked for on: readings that are due at regular instants, half of which tell something new.

Each publisher has sources of its own, which report in turn. `time` is the instant at which the event was meant to be
sent, in microseconds: latency is counted from there, so a publisher that falls behind cannot hide it. Three readings
stay as they are in half of the events and move by more than the tolerance in the others. A seed gives the same
readings everywhere.

>>> feed = Feed(publisher=0, publishers=4, rate=2000, start=1_000_000)
>>> events = feed.due(1_010_000)
>>> len(events), feed.rate, events[1]["time"] - events[0]["time"], events[0]["sensor"]
(6, 2000.0, 2000, 'r0-p0-s00')
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thinwire.schema import Property, Schema

TOPIC = "bench.feed"
SOURCES = 50
"""sources of a publisher"""
TOLERANCE = 0.5
ROWS = 256
"""readings after which a source begins again"""
FAREWELL = 20.0
"""by how much every reading moves in the last event of a source"""

READINGS = ("temperature", "pressure", "flow")
_LEVELS = np.array([60.0, 210.0, 12.0])
_MOVES = np.array([1.5, 4.0, 0.8])

Event = dict[str, Any]


def feed_schema() -> Schema:
    """The schema of the feed."""
    stamp = Property("time", "timestamp", "header", form="epoch", step=1)
    numbers = [Property(name, "number", step="0.1") for name in READINGS]
    return Schema(TOPIC, [stamp, Property("sensor", "string", "dimension"), *numbers])


class Feed:
    """The events of one publisher, in the order in which they are due.

    rate: events a second of all publishers together, as near as whole microseconds between a source's events allow
    start: the instant of the first event, in microseconds since the epoch
    turn: every turn has sources of its own, so that no turn begins with what is known from the one before

    offsets: microseconds from the start to the first event of each source; period: between two events of a source
    readings: of each source, `ROWS` of them, again and again
    """

    def __init__(
        self,
        publisher: int,
        publishers: int,
        rate: float,
        start: int,
        turn: int = 0,
        sources: int = SOURCES,
        seed: int = 7,
    ) -> None:
        self.start = start
        self.period = max(1, round(publishers * sources * 1e6 / rate))
        self.rate = publishers * sources * 1e6 / self.period
        self.names = [f"r{turn}-p{publisher}-s{k:02d}" for k in range(sources)]
        self.published = 0
        self.offsets = [k * self.period // sources for k in range(sources)]
        self.readings = [_readings(seed, publisher, source) for source in range(sources)]

    def due(self, until: int) -> list[Event]:
        """The events meant to be sent up to this instant that were not given out yet."""
        last = self.due_by(until)
        events = [self._event(number) for number in range(self.published, last)]
        self.published = max(last, self.published)
        return events

    def instant(self, number: int) -> int:
        """When an event is due."""
        turn, source = divmod(number, len(self.names))
        return self.start + turn * self.period + self.offsets[source]

    def farewell(self) -> list[Event]:
        """One more event of each source, in which every reading has moved: whoever has these has been told of all."""
        events = []
        for number in range(self.published, self.published + len(self.names)):
            event = self._event(number)
            events.append(event | {name: event[name] + FAREWELL for name in READINGS})
        self.published += len(self.names)
        return events

    def due_by(self, until: int) -> int:
        """How many events are meant to be sent up to this instant."""
        turn, rest = divmod(until - self.start, self.period)
        return int(turn) * len(self.names) + sum(offset <= rest for offset in self.offsets)

    def _event(self, number: int) -> Event:
        turn, source = divmod(number, len(self.names))
        temperature, pressure, flow = self.readings[source][turn % ROWS]
        return {
            "time": self.start + turn * self.period + self.offsets[source],
            "sensor": self.names[source],
            "temperature": temperature,
            "pressure": pressure,
            "flow": flow,
        }


def _readings(seed: int, publisher: int, source: int) -> list[tuple[float, ...]]:
    """A walk that stands still in half of its steps, and comes back to where it began after `ROWS` of them."""
    rng = np.random.default_rng([seed, publisher, source])
    steps = ROWS // 4
    moves = _MOVES * rng.choice([-1.0, 1.0], (steps, 3)) * rng.uniform(1.0, 3.0, (steps, 3))
    there_and_back = np.concatenate([moves, -moves[::-1]])
    levels = _LEVELS + np.cumsum(there_and_back, axis=0)
    stays = np.zeros(ROWS, dtype=bool)
    stays[rng.permutation(ROWS)[: ROWS // 2]] = True
    rows = levels[np.cumsum(~stays) - 1]
    return [tuple(row) for row in np.round(rows, 1).tolist()]
