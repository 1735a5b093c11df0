"""Figures 5 and 6 of the virtual events paper, on the generated building, both without a broker.

Figure 6 is measured through the running system too (`stages`), where that has the format.

A million events weigh as many megabytes as one event weighs bytes, so the published megabytes are compared with our
bytes an event, whatever the number of events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from thinwire.codec import Demand, LinkConfig
from thinwire.demo import building
from thinwire.errors import BrokenPromise
from thinwire.schema import Schema
from thinwire_lab.reproduce.virtual_events.virtual_event_figures_changes import Changes
from thinwire_lab.streams.checked_stream import CheckedLink, seconds_of
from thinwire_lab.streams.formats import FORMATS

PUBLISHED = {"JSON": 885, "JSON+gzip": 390, "Avro": 392, "Thrift": 505}
"""figure 5: megabytes of about a million events; the text says 855 for JSON in another place"""
STATEMENT = "JSON falls below one tenth of the raw size"
"""figure 6: what the text says; it gives no numbers"""

CLASS_TOLERANCE = 1.0
STAGES = ("raw", "publisher to broker", "broker to subscriber", "reconstructed")

_FORMATS = {"JSON": "json", "JSON+gzip": "gzip-json", "Avro": "avro", "Thrift": "thrift"}
_PARTIAL = ("JSON", "JSON+gzip", "Avro")

_SLACK = 1e-9
"""values are doubles of decimals: their difference may be a little more than that of the decimals"""

Event = Mapping[str, Any]
Progress = Callable[[float], None]


@dataclass
class Stages:
    """Bytes at the four stages, in one format."""

    format: str
    events: int = 0
    totals: list[int] = field(default_factory=lambda: [0] * len(STAGES))

    def add(self, *sizes: int) -> None:
        self.events += 1
        for stage, size in enumerate(sizes):
            self.totals[stage] += size

    @property
    def per_event(self) -> list[float]:
        return [total / self.events for total in self.totals]


def figure_5(events: int, seed: int = 1, progress: Progress = lambda share: None) -> dict[str, float]:
    """Bytes an event in each format, nothing reduced."""
    schema = building.schema()
    totals = dict.fromkeys(_FORMATS, 0)
    for done, event in enumerate(building.events(events, seed)):
        for name, key in _FORMATS.items():
            totals[name] += len(FORMATS[key].encode(event, schema))
        _tell(progress, done, events)
    return {name: total / events for name, total in totals.items()}


def figure_6(events: int, seed: int = 1, progress: Progress = lambda share: None) -> list[Stages]:
    """Bytes at the four stages: three formats as published, then our own frames with the same predictor and with auto.

    Raises BrokenPromise if the broker's copy is not the raw event, or the subscriber's is off by more than 1.0.
    """
    schema = building.schema()
    stages = {name: Stages(name) for name in _PARTIAL}
    chains = [_Chain(schema, "last"), _Chain(schema, "auto")]
    for done, (raw, first, second, virtual) in enumerate(_hops(building.events(events, seed), schema)):
        for name, stage in stages.items():
            encode = FORMATS[_FORMATS[name]].encode
            stage.add(*(len(encode(part, schema)) for part in (raw, first, second, virtual)))
        for chain in chains:
            chain.publish(raw)
        _tell(progress, done, events)
    return [*stages.values(), *(chain.stages(stages["JSON"]) for chain in chains)]


def _hops(events: Iterator[dict[str, Any]], schema: Schema) -> Iterator[tuple[Event, Event, Event, Event]]:
    """Of every event: itself, what goes to the broker, what goes to the subscriber, what the subscriber makes of it."""
    publisher, translator = Changes(schema), Changes(schema, CLASS_TOLERANCE)
    at_broker: dict[str, Any] = {}
    at_subscriber: dict[str, Any] = {}
    for raw in events:
        first = publisher.reduce(raw)
        at_broker |= first
        if at_broker != raw:
            raise BrokenPromise("the broker's copy is not the event", timestamp=raw["timestamp"])
        second = translator.reduce(at_broker)
        at_subscriber |= second
        require_near(at_subscriber, raw)
        yield raw, first, second, at_subscriber


def require_near(virtual: Event, raw: Event) -> None:
    """Raise BrokenPromise if a reconstructed event is further from the raw one than the class allows."""
    for name, value in raw.items():
        seen = virtual[name]
        if seen != value and not (isinstance(value, float) and abs(seen - value) <= CLASS_TOLERANCE + _SLACK):
            raise BrokenPromise("the subscriber's copy is too far off", property=name, seen=seen, actual=value)


class _Chain:
    """Our own frames on the same two hops; the second link stands where the broker's translator would.

    Both are given the raw event: the first hop is exact, so what the broker would hand on is the same.
    """

    def __init__(self, schema: Schema, predictor: str) -> None:
        self.schema = schema
        self.predictor = predictor
        self._configs = [
            LinkConfig(demand=Demand(predictor=predictor)),
            LinkConfig(demand=Demand(predictor=predictor, default_tolerance=CLASS_TOLERANCE)),
        ]
        self._links: list[CheckedLink] = []
        self._seconds = seconds_of(schema)

    def publish(self, event: Event) -> None:
        now = self._seconds(event)
        if not self._links:
            self._links = [CheckedLink(self.schema, config, start=now) for config in self._configs]
        for link in self._links:
            link.publish(event, now)

    def stages(self, plain: Stages) -> Stages:
        """The sums; raw and reconstructed events are weighed as JSON."""
        for link in self._links:
            link.close()
            link.checker.require()
        hops = [link.counts.frame_bytes for link in self._links]
        totals = [plain.totals[0], *hops, plain.totals[3]]
        return Stages(f"thinwire compact, {self.predictor}", plain.events, totals)


def _tell(progress: Progress, done: int, total: int) -> None:
    if not done % 500:
        progress(done / total)
