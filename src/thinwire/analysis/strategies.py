"""Publishing strategies, the grid of strategies that an analysis evaluates, and the measurements of a strategy.

A level states how far values may deviate: not at all, by a share of each number's range in the training part, or by
tolerances per property. A strategy is a level with the other settings of a publisher.

A recorded stream is evaluated in segments, and the outcomes of the segments are merged. Bytes before the first event of
a segment are counted under `start`, bytes that complete its last suppressed events under `end`. A merged outcome has
the `start` of its first segment and the `end` of its last segment.

>>> len(grid()), grid()[0].name, grid()[-1].name
(32, 'compact, exact, auto, 5 ms', 'json + dictionary, 1 %, auto, 100 ms')
>>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
>>> Level("0.5 %", share=0.005).tolerances(rooms, {"t": (10.0, 30.0)})
{'t': 0.1}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from typing import Any, Literal, Self

from thinwire.codec import Demand, StreamConfig
from thinwire.codec.demand import tolerance_of
from thinwire.codec.stream_config import KEY_FRAME_INTERVAL, MAX_SILENCE
from thinwire.codec.tolerance_vector import NEVER_TOLERANT, Tolerance
from thinwire.errors import ConfigError
from thinwire.ledger.row import Deviation, merge_deviations
from thinwire.schema import Kind, Property, Role, Schema

Ranges = Mapping[str, tuple[float, float]]
"""smallest and largest value by property"""
Format = Literal["compact", "json"]
Packing = Literal["none", "deflate", "dictionary"]

NUMBERS = frozenset({Kind.INTEGER, Kind.NUMBER, Kind.FLOAT})


@dataclass(frozen=True)
class Level:
    """How far values may deviate.

    name: name in tables and options
    share: tolerance of every measured number as a share of its range
    requested: tolerances by property, which replace the share of these properties
    """

    name: str
    share: float = 0.0
    requested: tuple[tuple[str, Tolerance], ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise ConfigError("a level is a share of the range from 0 to below 1", level=self.name, share=self.share)

    def tolerances(self, schema: Schema, ranges: Ranges) -> dict[str, float]:
        """Return the tolerances in the units of their properties. Values of other properties are sent exactly."""
        sizes = {p.name: ranges[p.name][1] - ranges[p.name][0] for p in tolerant_properties(schema) if p.name in ranges}
        # Twelve digits: a plan shows 0.1 instead of 0.10000000000000002.
        tolerances = {name: float(f"{self.share * size:.12g}") for name, size in sizes.items()}
        demand = Demand(tolerance=dict(self.requested))
        tolerances |= {name: float(tolerance_of(schema, schema[name], demand)) for name, _ in self.requested}
        return {name: tolerance for name, tolerance in tolerances.items() if tolerance}


def tolerant_properties(schema: Schema) -> list[Property]:
    """Return the numbers that may have a tolerance: measurements that are neither static nor exact by their domain."""
    return [
        p
        for p in schema.wire
        if p.kind in NUMBERS and p.role is Role.MEASUREMENT and p.domain not in NEVER_TOLERANT and not p.static
    ]


EXACT = Level("exact")
LEVELS = (EXACT, Level("0.1 %", 0.001), Level("0.5 %", 0.005), Level("1 %", 0.01))
LINGERS = (0.005, 0.1)
ENCODINGS: tuple[tuple[Format, str], ...] = (("compact", "auto"), ("compact", "last"), ("json", "auto"))
"""pairs of a frame format and a predictor"""
PACKINGS: tuple[Packing, ...] = ("none", "dictionary")
"""packings of JSON frames; compact frames are too short to benefit"""


@dataclass(frozen=True)
class Strategy:
    """The settings of a publisher of one topic.

    predictor: as in `Demand`
    linger: seconds to collect frames for a message; max_batch: largest number of bytes of a message
    key_frame_interval, max_silence: as in `StreamConfig`
    packing: compression of each frame: none, deflate, or a dictionary trained on the training part
    """

    level: Level = EXACT
    format: Format = "compact"
    predictor: str = "auto"
    linger: float = 0.005
    max_batch: int = 65_536
    key_frame_interval: float = KEY_FRAME_INTERVAL
    max_silence: float = MAX_SILENCE
    packing: Packing = "none"

    @property
    def name(self) -> str:
        form = self.format if self.packing == "none" else f"{self.format} + {self.packing}"
        return f"{form}, {self.level.name}, {self.predictor}, {1000 * self.linger:g} ms"

    def stream_config(self, schema: Schema, ranges: Ranges) -> StreamConfig:
        tolerance = self.level.tolerances(schema, ranges)
        return StreamConfig(
            demand=Demand(tolerance=tolerance, predictor=self.predictor),
            format=self.format,
            key_frame_interval=self.key_frame_interval,
            max_silence=self.max_silence,
        )


def grid(
    levels: Iterable[Level] = LEVELS,
    encodings: Iterable[tuple[Format, str]] = ENCODINGS,
    lingers: Sequence[float] = LINGERS,
    packings: Sequence[Packing] = PACKINGS,
    **settings: Any,
) -> list[Strategy]:
    """Return every combination. `packings` apply to JSON frames, `settings` to all strategies."""
    pairs = tuple(encodings)
    not_packed: Sequence[Packing] = ("none",)
    return [
        Strategy(level, form, predictor, linger=linger, packing=packing, **settings)
        for level in levels
        for form, predictor in pairs
        for packing in (packings if form == "json" else not_packed)
        for linger in lingers
    ]


def group_by_frames(strategies: Iterable[Strategy]) -> list[list[Strategy]]:
    """Group strategies that produce the same frames and differ only in packing and batching.

    >>> [len(group) for group in group_by_frames(grid())][:3], len(group_by_frames(grid()))
    ([2, 2, 4], 12)
    """
    groups: dict[Strategy, list[Strategy]] = {}
    for strategy in strategies:
        frames = replace(strategy, linger=0.0, max_batch=0, packing="none")
        groups.setdefault(frames, []).append(strategy)
    return list(groups.values())


@dataclass(frozen=True)
class ByteCounts:
    """Numbers of bytes, frames and messages.

    data: bytes of frames with events; key: bytes of key frames and introductions
    control: bytes of heartbeats, switches of predictors and audits
    dictionary: bytes of one transfer of the dictionary
    message: bytes of payloads, which are the frames and the overhead of batching
    link: bytes on the socket of the publisher and on that of the subscriber, with the protocol of the broker
    """

    data: int = 0
    key: int = 0
    control: int = 0
    message: int = 0
    link: int = 0
    frames: int = 0
    messages: int = 0
    dictionary: int = 0

    @property
    def frame(self) -> int:
        """Bytes of all frames and of the dictionary."""
        return self.data + self.key + self.control + self.dictionary

    def __add__(self, other: ByteCounts) -> ByteCounts:
        return ByteCounts(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})

    def __sub__(self, other: ByteCounts) -> ByteCounts:
        return ByteCounts(**{f.name: getattr(self, f.name) - getattr(other, f.name) for f in fields(self)})


@dataclass(frozen=True)
class AnalysisOutcome:
    """The measurements of a strategy on a segment of a topic.

    begin: time of the first event; seconds: length of the segment
    rejected: events that the encoder refused
    suppressed_events: events without a frame
    start, running, end: bytes before, during and after the segment
    errors: errors of the delivered values by property
    missing: events that were not delivered; unexpected: events that were delivered twice or were not published
    publish_cpu, receive_cpu: CPU seconds per event, one event at a time
    """

    topic: str
    strategy: Strategy
    begin: float
    seconds: float
    events: int = 0
    rejected: int = 0
    suppressed_events: int = 0
    start: ByteCounts = field(default_factory=ByteCounts)
    running: ByteCounts = field(default_factory=ByteCounts)
    end: ByteCounts = field(default_factory=ByteCounts)
    errors: Mapping[str, Deviation] = field(default_factory=dict)
    missing: int = 0
    unexpected: int = 0
    publish_cpu: float | None = None
    receive_cpu: float | None = None

    @property
    def total(self) -> ByteCounts:
        """Bytes of a publisher that starts and stops with the segment."""
        return self.start + self.running + self.end

    @property
    def is_guarantee_met(self) -> bool:
        """Whether every event was delivered, once and within its bound."""
        return not (self.missing or self.unexpected or any(error.broken for error in self.errors.values()))

    @property
    def worst_ratio(self) -> float:
        """The largest error of any property, divided by its bound."""
        return max((error.ratio for error in self.errors.values()), default=0.0)

    def joined(self, other: Self) -> Self:
        """Return the outcome of this segment and a later one of the same stream."""
        sums = ("events", "rejected", "suppressed_events", "running", "missing", "unexpected")
        timed = self if self.publish_cpu is not None else other
        return replace(
            self,
            **{name: getattr(self, name) + getattr(other, name) for name in sums},
            seconds=max(self.begin + self.seconds, other.begin + other.seconds) - self.begin,
            end=other.end,
            errors={name: merge_deviations((error, other.errors[name])) for name, error in self.errors.items()},
            publish_cpu=timed.publish_cpu,
            receive_cpu=timed.receive_cpu,
        )


def merge_outcomes(outcomes: Iterable[AnalysisOutcome]) -> list[AnalysisOutcome]:
    """Return one outcome per topic and strategy, in the order of their first occurrence."""
    groups: dict[tuple[str, Strategy], list[AnalysisOutcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.topic, outcome.strategy), []).append(outcome)
    return [reduce(AnalysisOutcome.joined, sorted(group, key=lambda o: o.begin)) for group in groups.values()]
