"""What a strategy came to on a stretch of a stream; stretches of one stream add up.

A stretch that begins in the middle needs a publisher that already knows its sources: it is warmed up with events from
before the stretch, and what that takes is kept apart under `start`. What tells the last silent events when a stretch is
over is kept apart under `end`. Where stretches are put together, only the first start and the last end happened.

Ways to publish a stream, and the grid of them that an analysis tries.

A level says how far values may be off: nothing at all, a share of each number's range as the training part shows it, or
what somebody asked for by name. A strategy is a level with everything else that a publisher can be told.

>>> len(grid()), grid()[0].name, grid()[-1].name
(32, 'compact, exact, auto, 5 ms', 'json + dictionary, 1 %, auto, 100 ms')
>>> HALF = Level("0.5 %", share=0.005)
>>> HALF.tolerances(_ROOMS, {"t": (10.0, 30.0)})
{'t': 0.1}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Self

from thinwire.codec import Demand, StreamConfig
from thinwire.codec.demand import tolerance_of
from thinwire.codec.tolerance_vector import NEVER_TOLERANT, Tolerance
from thinwire.errors import ConfigError
from thinwire.ledger import row as deviation
from thinwire.ledger.row import Deviation
from thinwire.schema import Kind, Property, Role, Schema

Ranges = Mapping[str, tuple[float, float]]
"""the smallest and the largest value of each number"""

NUMBERS = frozenset({Kind.INTEGER, Kind.NUMBER, Kind.FLOAT})

_ROOMS = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])


@dataclass(frozen=True)
class Level:
    """How far values may be off.

    share: of the range of every measured number; asked: tolerances by property, which go before the share
    """

    name: str
    share: float = 0.0
    asked: tuple[tuple[str, Tolerance], ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise ConfigError("a level is a share of the range from 0 to below 1", level=self.name, share=self.share)

    def tolerances(self, schema: Schema, ranges: Ranges) -> dict[str, float]:
        """The tolerance of each property in its own unit; a property that is not named travels exactly."""
        found = {p.name: self._of_range(ranges[p.name]) for p in measured(schema) if p.name in ranges}
        demand = Demand(tolerance=dict(self.asked))
        found |= {name: float(tolerance_of(schema, schema[name], demand)) for name, _ in self.asked}
        return {name: tolerance for name, tolerance in found.items() if tolerance}

    def _of_range(self, span: tuple[float, float]) -> float:
        # twelve digits: a plan is read by people, and 0.1 shall not be 0.10000000000000002
        return float(f"{self.share * (span[1] - span[0]):.12g}")


def measured(schema: Schema) -> list[Property]:
    """The numbers that may be off: what was measured, but for what always travels as it is."""
    return [
        p
        for p in schema.wire
        if p.kind in NUMBERS and p.role is Role.MEASUREMENT and p.domain not in NEVER_TOLERANT and not p.static
    ]


EXACT = Level("exact")
LEVELS = (EXACT, Level("0.1 %", 0.001), Level("0.5 %", 0.005), Level("1 %", 0.01))
LINGERS = (0.005, 0.1)
WAYS: tuple[tuple[Literal["compact", "json"], str], ...] = (("compact", "auto"), ("compact", "last"), ("json", "auto"))
"""format and predictor"""
Packed = Literal["none", "deflate", "dictionary"]
PACKINGS: tuple[Packed, ...] = ("none", "dictionary")
"""how frames in JSON are packed; compact ones are too short to gain by it"""


@dataclass(frozen=True)
class Strategy:
    """One way to publish a topic.

    mode, predictor: as in `Demand`; linger: seconds in which frames gather into a message
    packing: of every frame by itself: none, deflate, or a dictionary that is learnt from the training part
    max_batch, key_frame_interval, max_silence: as publishers and links have them
    """

    level: Level = EXACT
    format: Literal["compact", "json"] = "compact"
    predictor: str = "auto"
    mode: Literal["predict", "hold"] = "predict"
    linger: float = 0.005
    max_batch: int = 65_536
    key_frame_interval: float = 3600.0
    max_silence: float = 30.0
    packing: Packed = "none"

    @property
    def name(self) -> str:
        """What tables call it."""
        way = self.predictor if self.mode == "predict" else f"hold {self.predictor}"
        form = self.format if self.packing == "none" else f"{self.format} + {self.packing}"
        return f"{form}, {self.level.name}, {way}, {1000 * self.linger:g} ms"

    def link_config(self, schema: Schema, ranges: Ranges) -> StreamConfig:
        """What a publisher is told."""
        tolerance = self.level.tolerances(schema, ranges)
        return StreamConfig(
            demand=Demand(tolerance=tolerance, mode=self.mode, predictor=self.predictor),
            format=self.format,
            key_frame_interval=self.key_frame_interval,
            max_silence=self.max_silence,
        )


def grid(
    levels: Iterable[Level] = LEVELS,
    ways: Iterable[tuple[Literal["compact", "json"], str]] = WAYS,
    lingers: Sequence[float] = LINGERS,
    packings: Sequence[Packed] = PACKINGS,
    **others: Any,
) -> list[Strategy]:
    """Every combination; `packings` are of frames in JSON, `others` the same for all of them."""
    pairs = tuple(ways)
    unpacked: Sequence[Packed] = ("none",)
    return [
        Strategy(level, form, predictor, linger=linger, packing=packing, **others)
        for level in levels
        for form, predictor in pairs
        for packing in (packings if form == "json" else unpacked)
        for linger in lingers
    ]


def same_frames(strategies: Iterable[Strategy]) -> list[list[Strategy]]:
    """Strategies in groups that make the same frames and differ only in how these are packed and share messages.

    >>> [len(group) for group in same_frames(grid())][:3], len(same_frames(grid()))
    ([2, 2, 4], 12)
    """
    groups: dict[tuple[Any, ...], list[Strategy]] = {}
    for one in strategies:
        frames = (one.level, one.format, one.predictor, one.mode, one.key_frame_interval, one.max_silence)
        groups.setdefault(frames, []).append(one)
    return list(groups.values())


@dataclass(frozen=True)
class Bytes:
    """Bytes of frames by what they are for, those of messages, and those on the sockets.

    data: frames that tell events; key: key frames and introductions; control: heartbeats, switches, audits
    dictionary: the dictionary that frames are packed with, on its way to those who use it
    message: payloads, which is frames and what joining them adds; link: everything on both sockets
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
        """All bytes of all frames, and of what is needed to read them."""
        return self.data + self.key + self.control + self.dictionary

    def __add__(self, other: Bytes) -> Bytes:
        return Bytes(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})

    def __sub__(self, other: Bytes) -> Bytes:
        return Bytes(**{f.name: getattr(self, f.name) - getattr(other, f.name) for f in fields(self)})


@dataclass(frozen=True)
class AnalysisOutcome:
    """A strategy on a stretch of a topic.

    begin: when the stretch begins, in seconds; seconds: how long it is
    rejected: events that the publisher refused; suppressed: those that needed no frame, and values that did not travel
    start: what it took until the stretch began; running: what the stretch took; end: what was left to tell after it
    errors: by property; missing: events that never arrived, none if all is well
    publish_cpu, receive_cpu: processor seconds an event, one by one as a live client works
    """

    topic: str
    strategy: Strategy
    begin: float
    seconds: float
    events: int = 0
    rejected: int = 0
    suppressed_events: int = 0
    values: int = 0
    suppressed_values: int = 0
    start: Bytes = field(default_factory=Bytes)
    running: Bytes = field(default_factory=Bytes)
    end: Bytes = field(default_factory=Bytes)
    errors: Mapping[str, Deviation] = field(default_factory=dict)
    missing: int = 0
    publish_cpu: float | None = None
    receive_cpu: float | None = None

    @property
    def total(self) -> Bytes:
        """All together: what a publisher would send that starts and ends with the stretch."""
        return self.start + self.running + self.end

    @property
    def kept(self) -> bool:
        """Did every event arrive, within its bound?"""
        return not self.missing and not any(error.broken for error in self.errors.values())

    @property
    def worst(self) -> float:
        """The largest error of any property as a part of its bound."""
        return max((error.ratio for error in self.errors.values()), default=0.0)

    def joined(self, other: Self) -> Self:
        """This stretch and a later one of the same stream."""
        if (self.topic, self.strategy) != (other.topic, other.strategy):
            raise ConfigError("stretches of different streams or strategies do not add up", topic=other.topic)
        names = {*self.errors, *other.errors}
        errors = {n: deviation.merged(o.errors[n] for o in (self, other) if n in o.errors) for n in sorted(names)}
        sums = ("events", "rejected", "suppressed_events", "values", "suppressed_values", "running", "missing")
        added = {name: getattr(self, name) + getattr(other, name) for name in sums}
        end = max(self.begin + self.seconds, other.begin + other.seconds)
        timed = self if self.publish_cpu is not None else other
        return replace(
            self,
            **added,
            seconds=end - self.begin,
            end=other.end,
            errors=errors,
            publish_cpu=timed.publish_cpu,
            receive_cpu=timed.receive_cpu,
        )


def merge(outcomes: Iterable[AnalysisOutcome]) -> list[AnalysisOutcome]:
    """One outcome for each topic and strategy, in the order in which these first came."""
    groups: dict[tuple[str, Strategy], list[AnalysisOutcome]] = {}
    for one in outcomes:
        groups.setdefault((one.topic, one.strategy), []).append(one)
    return [_whole(sorted(group, key=lambda one: one.begin)) for group in groups.values()]


def _whole(stretches: list[AnalysisOutcome]) -> AnalysisOutcome:
    first, *others = stretches
    for one in others:
        first = first.joined(one)
    return first
