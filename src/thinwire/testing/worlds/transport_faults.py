"""What can go wrong between a publisher and a subscriber, described as data.

Random faults have a probability; scripted ones name the message or the time. The broker owns the one random generator,
so a history that went wrong comes again with its seed.

>>> Faults(loss=0.1).drop_exactly(256, after=10)
Faults(loss=0.1, drops=((10, 256),))
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np

from thinwire.errors import ConfigError

MAX_FLIPPED = 4
"""bytes that a corruption changes, at most"""


@dataclass(frozen=True, repr=False)
class Faults:
    """How a way misbehaves. Probabilities are per message, times in seconds.

    loss, duplication, reordering, corruption: probabilities
    delay: how long a message travels, from and to; the order is kept
    hold: how much longer a reordered message travels, so that later ones overtake it
    drops: pairs (after, count): that many messages in a row are lost after the first `after`
    repeats: pairs (number, seconds): that message, counted from 1, comes once more so much later
    partitions: pairs (from, to): what is sent or would arrive in between is lost
    at: "delivery", on the way to each inbox, so that subscribers differ; or "publish", on the way to the broker, so
        that what is lost is lost for everybody and has no sequence
    """

    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    corruption: float = 0.0
    delay: tuple[float, float] = (0.0, 0.0)
    hold: tuple[float, float] = (0.0, 1.0)
    drops: tuple[tuple[int, int], ...] = ()
    repeats: tuple[tuple[int, float], ...] = ()
    partitions: tuple[tuple[float, float], ...] = ()
    at: Literal["delivery", "publish"] = "delivery"

    def __post_init__(self) -> None:
        for name in ("loss", "duplication", "reordering", "corruption"):
            _require(0 <= getattr(self, name) <= 1, "a probability is a number from 0 to 1", self, name)
        for name in ("delay", "hold"):
            low, high = getattr(self, name)
            _require(0 <= low <= high < math.inf, "a range in seconds goes from 0 or more upwards", self, name)
        _require(all(a >= 0 and n >= 1 for a, n in self.drops), "after 0 or more, drop 1 or more", self, "drops")
        _require(all(n >= 1 and 0 <= s < math.inf for n, s in self.repeats), "messages count from 1", self, "repeats")
        _require(all(start < end for start, end in self.partitions), "starts before it ends", self, "partitions")
        _require(self.at in ("delivery", "publish"), "choose 'delivery' or 'publish'", self, "at")

    def drop_exactly(self, count: int, after: int = 0) -> Faults:
        """Lose so many messages in a row, after letting the first ones pass."""
        return replace(self, drops=(*self.drops, (after, count)))

    def repeat(self, number: int, seconds: float = 120.0) -> Faults:
        """Deliver a message again after a long time, as a retry after a time-out does."""
        return replace(self, repeats=(*self.repeats, (number, seconds)))

    def partition(self, start: float, end: float) -> Faults:
        """Cut the way from one instant to another."""
        return replace(self, partitions=(*self.partitions, (start, end)))

    @property
    def quiet(self) -> bool:
        """Does nothing go wrong at all?"""
        return self == Faults(at=self.at)

    @property
    def by_chance(self) -> bool:
        """Is anything of this left to chance?"""
        chances = (self.loss, self.duplication, self.reordering, self.corruption)
        return any(chances) or self.delay[0] != self.delay[1]

    def __repr__(self) -> str:
        told = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if getattr(self, f.name) != f.default)
        return f"Faults({', '.join(told)})"


class FaultyPath:
    """One way with its faults: decides for each message when it arrives, how often and with which bytes."""

    def __init__(self, faults: Faults, chance: np.random.Generator) -> None:
        self.chance = chance
        self._newest = -math.inf
        self.inject(faults)

    def inject(self, faults: Faults) -> None:
        """Misbehave like this from now on; scripted faults count messages from here."""
        self.faults = faults
        self._quiet, self._by_chance = faults.quiet, faults.by_chance
        self._sent = 0

    def arrivals(self, payload: bytes, now: float) -> list[tuple[float, bytes]]:
        """When this payload arrives if it is sent now, and as what: not at all, once, or several times."""
        if self._quiet:
            return [(self._in_order(now), payload)]
        faults = self.faults
        self._sent += 1
        if self._dropped() or self._cut(now):
            return []
        # Six draws whatever comes of them: another probability of loss leaves the later faults where they were.
        lost, travels, held, holds, spoilt, doubled = self.chance.random(6).tolist() if self._by_chance else [1.0] * 6
        if lost < faults.loss:
            return []
        due = now + _between(faults.delay, travels)
        due = due + _between(faults.hold, holds) if held < faults.reordering else self._in_order(due)
        if spoilt < faults.corruption:
            payload = self._flipped(payload)
        times = [due] * (1 + (doubled < faults.duplication))
        times += [due + seconds for number, seconds in faults.repeats if number == self._sent]
        return [(time, payload) for time in times if not self._cut(time)]

    def _in_order(self, due: float) -> float:
        self._newest = max(self._newest, due)
        return self._newest

    def _dropped(self) -> bool:
        return any(after < self._sent <= after + count for after, count in self.faults.drops)

    def _cut(self, time: float) -> bool:
        return any(start <= time < end for start, end in self.faults.partitions)

    def _flipped(self, payload: bytes) -> bytes:
        if not payload:
            return payload
        flipped = bytearray(payload)
        count = self.chance.integers(1, min(MAX_FLIPPED, len(payload)) + 1)
        for place in self.chance.choice(len(payload), size=count, replace=False):
            flipped[place] ^= int(self.chance.integers(1, 256))
        return bytes(flipped)


def _between(limits: tuple[float, float], share: float) -> float:
    return limits[0] + (limits[1] - limits[0]) * share


def _require(fine: bool, rule: str, faults: Faults, name: str) -> None:
    if not fine:
        raise ConfigError(rule, **{name: getattr(faults, name)})
