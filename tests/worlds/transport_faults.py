"""Faults of a transport as data, and the path that applies them to messages.

Random faults have a probability; scripted faults name the message or the time. The broker owns the only random
generator, so the same seed repeats the same faults.

>>> Faults(loss=0.1).drop_exactly(256, after=10)
Faults(loss=0.1, drops=((10, 256),))
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np

from thinwire.errors import ConfigError

MAX_CHANGED_BYTES = 4
"""largest number of bytes that a corruption changes"""


@dataclass(frozen=True, repr=False)
class Faults:
    """Faults of a path. Probabilities are per message, times in seconds.

    loss, duplication, reordering, corruption: probabilities
    delay: smallest and largest transmission time; the order is kept
    hold: smallest and largest additional time of a reordered message, in which later messages overtake it
    drops: pairs (after, count): `count` successive messages are lost after the first `after` messages
    repeats: pairs (number, seconds): message `number`, counted from 1, is delivered again after `seconds`
    partitions: pairs (start, end): messages that are sent or would arrive in this time are lost
    at: "delivery" applies the faults on the path to each inbox, so that subscribers receive different messages;
        "publish" on the path to the broker, so that a lost message has no sequence and reaches no subscriber
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
            _require(0 <= low <= high < math.inf, "a range of seconds is 0 <= smallest <= largest", self, name)
        _require(all(a >= 0 and n >= 1 for a, n in self.drops), "after 0 or more, drop 1 or more", self, "drops")
        _require(all(n >= 1 and 0 <= s < math.inf for n, s in self.repeats), "messages count from 1", self, "repeats")
        _require(all(start < end for start, end in self.partitions), "start must be before end", self, "partitions")
        _require(self.at in ("delivery", "publish"), "choose 'delivery' or 'publish'", self, "at")

    def drop_exactly(self, count: int, after: int = 0) -> Faults:
        """Return these faults with the loss of `count` successive messages after the first `after` messages."""
        return replace(self, drops=(*self.drops, (after, count)))

    def repeat(self, number: int, seconds: float = 120.0) -> Faults:
        """Return these faults with a late duplicate of a message, as a retry after a timeout causes it."""
        return replace(self, repeats=(*self.repeats, (number, seconds)))

    def partition(self, start: float, end: float) -> Faults:
        """Return these faults with a partition from `start` until before `end`."""
        return replace(self, partitions=(*self.partitions, (start, end)))

    @property
    def has_none(self) -> bool:
        """Whether there is no fault."""
        return self == Faults(at=self.at)

    @property
    def has_random(self) -> bool:
        """Whether a fault depends on random numbers."""
        probabilities = (self.loss, self.duplication, self.reordering, self.corruption)
        return any(probabilities) or self.delay[0] != self.delay[1]

    def __repr__(self) -> str:
        changed = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if getattr(self, f.name) != f.default)
        return f"Faults({', '.join(changed)})"


class FaultyPath:
    """A path with faults. It decides for each message when it arrives, how often, and with which bytes."""

    def __init__(self, faults: Faults, random: np.random.Generator) -> None:
        self.random = random
        self._last_due = -math.inf
        self.inject(faults)

    def inject(self, faults: Faults) -> None:
        """Replace the faults. Scripted faults count messages from this call."""
        self.faults = faults
        self._has_none, self._has_random = faults.has_none, faults.has_random
        self._sent = 0

    def arrivals(self, payload: bytes, now: float) -> list[tuple[float, bytes]]:
        """Return the arrivals of a payload that is sent now: none, one or several times, each with its bytes."""
        if self._has_none:
            return [(self._in_order(now), payload)]
        faults = self.faults
        self._sent += 1
        if self._is_dropped() or self._is_cut(now):
            return []
        # Always six draws per message: if the probability of loss changes, later messages have the same faults.
        draws = self.random.random(6).tolist() if self._has_random else [1.0] * 6
        loss, delay, reordering, hold, corruption, duplication = draws
        if loss < faults.loss:
            return []
        due = now + _interpolate(faults.delay, delay)
        due = due + _interpolate(faults.hold, hold) if reordering < faults.reordering else self._in_order(due)
        if corruption < faults.corruption:
            payload = self._corrupt(payload)
        times = [due] * (1 + (duplication < faults.duplication))
        times += [due + seconds for number, seconds in faults.repeats if number == self._sent]
        return [(time, payload) for time in times if not self._is_cut(time)]

    def _in_order(self, due: float) -> float:
        self._last_due = max(self._last_due, due)
        return self._last_due

    def _is_dropped(self) -> bool:
        return any(after < self._sent <= after + count for after, count in self.faults.drops)

    def _is_cut(self, time: float) -> bool:
        return any(start <= time < end for start, end in self.faults.partitions)

    def _corrupt(self, payload: bytes) -> bytes:
        if not payload:
            return payload
        corrupted = bytearray(payload)
        count = self.random.integers(1, min(MAX_CHANGED_BYTES, len(payload)) + 1)
        for position in self.random.choice(len(payload), size=count, replace=False):
            corrupted[position] ^= int(self.random.integers(1, 256))
        return bytes(corrupted)


def _interpolate(limits: tuple[float, float], share: float) -> float:
    return limits[0] + (limits[1] - limits[0]) * share


def _require(is_valid: bool, rule: str, faults: Faults, name: str) -> None:
    if not is_valid:
        raise ConfigError(rule, **{name: getattr(faults, name)})
