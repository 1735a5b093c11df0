"""Figures of the virtual events paper on the generated building.

Figures 5 and 6: bytes in several formats and at four stages, without a broker; `live_figures` measures figure 6 with
the running system. A million events take as many megabytes as one event takes bytes, so the published megabytes are
compared with our bytes per event.

Figure 7: processor time and memory of all processes over time, beside plain JSON. The processes are a publisher, the
broker and a subscriber (ours also has the registry), with the generated building at a fixed rate. Bytes stored at the
broker, which the paper states without a figure, are added.

`Changes` is the published reduction: a property is sent exactly if it differs from the last sent value by more than its
tolerance.

>>> from thinwire.schema import Property
>>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
>>> changes, received = Changes(rooms, tolerance=1.0), {}
>>> for heat in (20.0, 20.9, 21.1):
...     received |= changes.reduce({"room": "11.1", "t": heat})
...     print(received)
{'room': '11.1', 't': 20.0}
{'room': '11.1', 't': 20.0}
{'room': '11.1', 't': 21.1}
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean, pstdev
from typing import Any, NamedTuple

from thinwire.codec import Demand, StreamConfig
from thinwire.codec.demand import tolerance_of
from thinwire.demo import building
from thinwire.errors import GuaranteeViolated
from thinwire.schema import Schema
from thinwire_lab.live.load_chain import Chain, ChainShape
from thinwire_lab.live.process_measurement import ProcessSample
from thinwire_lab.streams.checked_stream import CheckedLink, seconds_of
from thinwire_lab.streams.formats import FORMATS

KINDS = {"json": "plain JSON", "thinwire": "thinwire"}
"""label of each stack"""
RATE = 500.0
SHORTEST, SECONDS = 3.0, 30.0
TOLERANCE = 1.0
LINGER = 0.005
WARM_UP = 2.0
"""seconds before measurement: imports, compiled kernels, introductions"""
CHAIN = "all processes"

Series = Mapping[str, list[ProcessSample]]
Progress = Callable[[float], None]


class Point(NamedTuple):
    """One second of a process: mean and standard deviation over all runs."""

    cpu: float
    cpu_spread: float
    memory: float
    memory_spread: float


@dataclass(frozen=True)
class Run:
    """One run: series of its processes, and bytes per event that the broker stored."""

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
        """Cores and megabytes of all processes by second."""
        return [_point(values) for values in zip(*(_seconds(_combined(run.series)) for run in self.runs), strict=False)]

    @property
    def by_role(self) -> dict[str, Point]:
        """Averages over time of each process and of all."""
        roles = [*self.runs[0].series, CHAIN]
        return {role: _point([_mean(_role(run.series, role)) for run in self.runs]) for role in roles}

    @property
    def stored(self) -> tuple[float, float]:
        """Bytes per event that the broker stored, and their standard deviation over runs."""
        stored = [run.stored for run in self.runs]
        return fmean(stored), pstdev(stored)


def seconds_for(events: int) -> float:
    """Return the duration of a run with this number of events.

    >>> seconds_for(1_000_000), seconds_for(100)
    (30.0, 3.0)
    """
    return min(SECONDS, max(SHORTEST, events / RATE))


def figure_7(
    runs: int, seconds: float = SECONDS, rate: float = RATE, progress: Progress = lambda share: None
) -> list[ChainFigure]:
    """Run both stacks alternately, `runs` times each."""
    found: dict[str, list[Run]] = {kind: [] for kind in KINDS}
    for number in range(runs):
        for index, kind in enumerate(KINDS):
            found[kind].append(asyncio.run(_run(kind, seconds, rate)))
            progress((number * len(KINDS) + index + 1) / (runs * len(KINDS)))
    return [ChainFigure(kind, tuple(of)) for kind, of in found.items()]


async def _run(kind: str, seconds: float, rate: float) -> Run:
    shape = ChainShape(
        kind,
        feed="building",
        publishers=1,
        subscriber_processes=1,
        connections=1,
        linger=LINGER,
        tolerance=TOLERANCE,
    )
    async with Chain(shape, building.schema()) as chain:
        await chain.round(rate, WARM_UP, warm_up=0.0)
        before = await chain.stored()
        outcome = await chain.round(rate, seconds, warm_up=0.0)
        stored = (await chain.stored() - before) / outcome.events
    series = {name.removesuffix(" 0"): samples for name, samples in outcome.series.items()}
    return Run(series, stored, outcome.lost)


def _combined(series: Series) -> list[ProcessSample]:
    """Return the sums of all processes, which are sampled at the same times."""
    samples = zip(*series.values(), strict=False)
    return [ProcessSample(group[0].at, sum(s.cpu for s in group), sum(s.memory for s in group)) for group in samples]


def _role(series: Series, role: str) -> list[ProcessSample]:
    return _combined(series) if role == CHAIN else series[role]


def _seconds(samples: list[ProcessSample]) -> list[tuple[float, float]]:
    """Return cores and megabytes between consecutive samples.

    >>> _seconds([ProcessSample(0.0, 1.0, 10_000_000), ProcessSample(1.0, 1.5, 11_000_000)])
    [(0.5, 11.0)]
    """
    return [((b.cpu - a.cpu) / max(b.at - a.at, 1e-9), b.memory / 1e6) for a, b in pairwise(samples)]


def _mean(samples: list[ProcessSample]) -> tuple[float, float]:
    """Return mean cores and megabytes."""
    elapsed = max(samples[-1].at - samples[0].at, 1e-9)
    return (samples[-1].cpu - samples[0].cpu) / elapsed, fmean(s.memory for s in samples) / 1e6


def _point(values: list[tuple[float, float]] | tuple[tuple[float, float], ...]) -> Point:
    cpu, memory = zip(*values, strict=True)
    return Point(fmean(cpu), pstdev(cpu), fmean(memory), pstdev(memory))


class Changes:
    """Reduction on one hop, for one source."""

    def __init__(self, schema: Schema, tolerance: float = 0.0) -> None:
        demand = Demand(default_tolerance=tolerance)
        self._tolerance = {p.name: float(tolerance_of(schema, p, demand)) for p in schema.wire}
        self._tolerance |= {p.name: 0.0 for p in schema.dimensions}
        self._sent: dict[str, Any] = {}

    def reduce(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return the properties that differ from the last sent values by more than the tolerance."""
        sent, tolerance = self._sent, self._tolerance
        partial = {
            name: value
            for name, value in event.items()
            if name not in sent or (sent[name] != value and not _near(sent[name], value, tolerance[name]))
        }
        sent.update(partial)
        return partial


def _near(expected: Any, value: Any, tolerance: float) -> bool:
    return tolerance > 0 and abs(expected - value) <= tolerance


PUBLISHED = {"JSON": 885, "JSON+gzip": 390, "Avro": 392, "Thrift": 505}
"""figure 5: megabytes of about a million events; the text also states 855 for JSON"""
STATEMENT = "JSON falls below one tenth of the raw size"
"""figure 6: statement of the text, which has no numbers"""

CLASS_TOLERANCE = 1.0
STAGES = ("raw", "publisher to broker", "broker to subscriber", "reconstructed")

_FORMATS = {"JSON": "json", "JSON+gzip": "gzip-json", "Avro": "avro", "Thrift": "thrift"}
_PARTIAL = ("JSON", "JSON+gzip", "Avro")

_SLACK = 1e-9
"""doubles of decimals may differ slightly more than the decimals"""

Event = Mapping[str, Any]


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
    """Return bytes per event in each format, without reduction."""
    schema = building.schema()
    totals = dict.fromkeys(_FORMATS, 0)
    for done, event in enumerate(building.events(events, seed)):
        for name, key in _FORMATS.items():
            totals[name] += len(FORMATS[key].encode(event, schema))
        _report_progress(progress, done, events)
    return {name: total / events for name, total in totals.items()}


def figure_6(events: int, seed: int = 1, progress: Progress = lambda share: None) -> list[Stages]:
    """Return bytes at the four stages: the published formats, and our frames with predictors `last` and `auto`.

    Raises GuaranteeViolated if an event at the broker differs from the raw one, or one at the subscriber by more than
    1.0.
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
        _report_progress(progress, done, events)
    return [*stages.values(), *(chain.stages(stages["JSON"]) for chain in chains)]


def _hops(events: Iterator[dict[str, Any]], schema: Schema) -> Iterator[tuple[Event, Event, Event, Event]]:
    """Yield raw event, message to the broker, message to the subscriber, and reconstructed event."""
    publisher, translator = Changes(schema), Changes(schema, CLASS_TOLERANCE)
    at_broker: dict[str, Any] = {}
    at_subscriber: dict[str, Any] = {}
    for raw in events:
        first = publisher.reduce(raw)
        at_broker |= first
        if at_broker != raw:
            raise GuaranteeViolated("the event at the broker differs from the raw one", timestamp=raw["timestamp"])
        second = translator.reduce(at_broker)
        at_subscriber |= second
        require_near(at_subscriber, raw)
        yield raw, first, second, at_subscriber


def require_near(virtual: Event, raw: Event) -> None:
    """Raise GuaranteeViolated if a reconstructed event differs by more than the tolerance of the class."""
    for name, value in raw.items():
        seen = virtual[name]
        if seen != value and not (isinstance(value, float) and abs(seen - value) <= CLASS_TOLERANCE + _SLACK):
            raise GuaranteeViolated(
                "the event at the subscriber differs by more than the tolerance", property=name, seen=seen, actual=value
            )


class _Chain:
    """Our frames on the same two hops; the second link takes the place of the translator.

    Both get the raw event, because the first hop is exact.
    """

    def __init__(self, schema: Schema, predictor: str) -> None:
        self.schema = schema
        self.predictor = predictor
        self._configs = [
            StreamConfig(demand=Demand(predictor=predictor)),
            StreamConfig(demand=Demand(predictor=predictor, default_tolerance=CLASS_TOLERANCE)),
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
        """Return the sums; raw and reconstructed events are counted as JSON."""
        for link in self._links:
            link.close()
            link.checker.require()
        hops = [link.counts.frame_bytes for link in self._links]
        totals = [plain.totals[0], *hops, plain.totals[3]]
        return Stages(f"thinwire compact, {self.predictor}", plain.events, totals)


def _report_progress(progress: Progress, done: int, total: int) -> None:
    if not done % 500:
        progress(done / total)
