"""What the reference expects of the next value: the predictors as formulas over past values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from thinwire.codec import Demand
from thinwire.codec.predictors import Trend, by_name
from thinwire.schema import Kind, Property, Role

LARGEST = 1 << 61


class Guess(Protocol):
    def predict(self, ordinal: int) -> int: ...

    def observe(self, value: int, ordinal: int, afresh: bool) -> None: ...


class _Formula:
    """Last value, line through two, value one period ago: a formula over past values by their ordinal."""

    def __init__(self, formula: Callable[[int, int, int], int], period: int | None) -> None:
        self.formula = formula
        self.period = period
        self.x1 = self.x2 = 0
        self.season: dict[int, int] = {}

    def predict(self, ordinal: int) -> int:
        ago = self.season.get(ordinal % self.period, self.x1) if self.period else self.x1
        return max(-LARGEST, min(LARGEST, self.formula(self.x1, self.x2, ago)))

    def observe(self, value: int, ordinal: int, afresh: bool) -> None:
        self.x2 = value if afresh else self.x1
        self.x1 = value
        if self.period:
            self.season[ordinal % self.period] = value


class _Smoothed:
    """Level and trend."""

    def __init__(self, make: Callable[[], Trend]) -> None:
        self.make = make
        self.replica = make()

    def predict(self, ordinal: int) -> int:
        return self.replica.predict()

    def observe(self, value: int, ordinal: int, afresh: bool) -> None:
        if afresh:
            self.replica = self.make()
        self.replica.observe(value)


_FORMULAS: dict[str, Callable[[int, int, int], int]] = {
    "last": lambda x1, x2, ago: x1,
    "linear": lambda x1, x2, ago: 2 * x1 - x2,
    "seasonal": lambda x1, x2, ago: ago,
}


def guess_of(p: Property, demand: Demand) -> Guess:
    named = not isinstance(demand.predictor, str) and p.name in demand.predictor
    name = demand.predictor if isinstance(demand.predictor, str) else demand.predictor.get(p.name, "last")
    if demand.mode == "hold":
        goes_on = p.kind is Kind.TIMESTAMP and (p.role is Role.HEADER or not demand.changes)
        name = "cadence" if goes_on else "last"
    elif p.kind is Kind.TIMESTAMP and not named:
        name = "cadence"
    if name in _FORMULAS:
        return _Formula(_FORMULAS[name], p.period)

    def make() -> Trend:
        chosen = by_name(name)
        assert isinstance(chosen, Trend)
        return chosen

    return _Smoothed(make)
