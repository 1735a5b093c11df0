"""What a strategy came to on a stretch of a stream; stretches of one stream add up.

A stretch that begins in the middle needs a publisher that already knows its sources: it is warmed up with events from
before the stretch, and what that takes is kept apart under `start`. What tells the last silent events when a stretch is
over is kept apart under `end`. Where stretches are put together, only the first start and the last end happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Self

from thinwire.analysis.strategies_strategy import Strategy
from thinwire.errors import ConfigError
from thinwire.ledger import row_deviation as deviation
from thinwire.ledger.row_deviation import Deviation


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
class Outcome:
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


def merge(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """One outcome for each topic and strategy, in the order in which these first came."""
    groups: dict[tuple[str, Strategy], list[Outcome]] = {}
    for one in outcomes:
        groups.setdefault((one.topic, one.strategy), []).append(one)
    return [_whole(sorted(group, key=lambda one: one.begin)) for group in groups.values()]


def _whole(stretches: list[Outcome]) -> Outcome:
    first, *others = stretches
    for one in others:
        first = first.joined(one)
    return first
