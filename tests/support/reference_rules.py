"""The rules of the reference: for each kind, the state of a property at both ends and its update by a value.

Predictors are formulas over past values.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

from thinwire.codec import Demand
from thinwire.codec import geo_distance as geo
from thinwire.codec.predictors import Predictor, by_name
from thinwire.schema import Kind, Property, Role
from thinwire.schema.timestamps import ticks_per_second, to_ticks, writer

LARGEST = 1 << 61


class Guess(Protocol):
    def predict(self, ordinal: int) -> int: ...

    def observe(self, value: int, ordinal: int, afresh: bool) -> None: ...


class _Formula:
    """A formula over past values by ordinal: last value, line through two, value one period ago."""

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


class _Stateful:
    """A predictor with state beyond past values: level and trend, or the state of a custom predictor."""

    def __init__(self, make: Callable[[], Predictor]) -> None:
        self.make = make
        self.model = make()

    def predict(self, ordinal: int) -> int:
        return self.model.predict()

    def observe(self, value: int, ordinal: int, afresh: bool) -> None:
        if afresh:
            self.model = self.make()
        self.model.observe(value)


_FORMULAS: dict[str, Callable[[int, int, int], int]] = {
    "last": lambda x1, x2, ago: x1,
    "linear": lambda x1, x2, ago: 2 * x1 - x2,
    "seasonal": lambda x1, x2, ago: ago,
}


def guess_of(p: Property, demand: Demand) -> Guess:
    named = not isinstance(demand.predictor, str) and p.name in demand.predictor
    name = demand.predictor if isinstance(demand.predictor, str) else demand.predictor.get(p.name, "last")
    if demand.mode == "hold":
        advances = p.kind is Kind.TIMESTAMP and (p.role is Role.HEADER or not demand.changes)
        name = "cadence" if advances else "last"
    elif p.kind is Kind.TIMESTAMP and not named:
        name = "cadence"
    if name in _FORMULAS:
        return _Formula(_FORMULAS[name], p.period)
    return _Stateful(lambda: by_name(name))


NOTHING = object()
"""before the first value"""


class ReceivedValue(NamedTuple):
    """One property: the decoded value, whether it was sent, and whether the state cannot represent it."""

    value: Any
    sent: bool
    odd: bool = False


class ReferenceState(Protocol):
    """The rule of a property, and its state for one source."""

    def take(self, value: Any, ordinal: int) -> ReceivedValue: ...

    def expect(self, ordinal: int) -> ReceivedValue:
        """Advance by a suppressed value, which was predicted."""
        ...


def memory_of(p: Property, demand: Demand) -> ReferenceState:
    return _MEMORIES.get(p.kind, _Held)(p, demand)


def tolerance_of(p: Property, demand: Demand) -> Fraction:
    """The tolerance of a property in its own unit."""
    requested = demand.tolerance.get(p.name)
    if requested is None:
        tolerant = p.kind not in (Kind.BOOLEAN, Kind.ENUM, Kind.STRING, Kind.OPAQUE)
        measured = p.role is Role.MEASUREMENT and tolerant and p.domain not in ("status", "quality")
        return Fraction(str(demand.default_tolerance)) if measured else Fraction(0)
    if isinstance(requested, str) and requested.endswith("%"):
        return Fraction(requested[:-1]) * (Fraction(str(p.maximum)) - Fraction(str(p.minimum))) / 100
    return Fraction(str(requested))


def outside(p: Property, value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    low, high = p.minimum, p.maximum
    return any(
        (low is not None and x < low) or (high is not None and x > high) for x in values if isinstance(x, int | float)
    )


class _Held:
    """Flags, texts, opaque values: sent when they change."""

    def __init__(self, p: Property, demand: Demand) -> None:
        self.last: Any = NOTHING

    def take(self, value: Any, ordinal: int) -> ReceivedValue:
        changed = type(value) is not type(self.last) or value != self.last
        self.last = value
        return ReceivedValue(value, changed)

    def expect(self, ordinal: int) -> ReceivedValue:
        return ReceivedValue(self.last, False)


class _Float:
    """The last value, until the new one is further away than the tolerance."""

    def __init__(self, p: Property, demand: Demand) -> None:
        self.p = p
        self.tolerance = Fraction(float(tolerance_of(p, demand)))
        self.last: float | None = None

    def take(self, value: float | None, ordinal: int) -> ReceivedValue:
        if value is None or self.last is None:
            sent = value is not self.last or ordinal == 1
        else:
            sent = abs(Fraction(value) - Fraction(self.last)) > self.tolerance or outside(self.p, value)
        if sent:
            self.last = value
        return ReceivedValue(self.last, sent)

    def expect(self, ordinal: int) -> ReceivedValue:
        return ReceivedValue(self.last, False)


class _Number:
    """A count of steps against a prediction."""

    def __init__(self, p: Property, demand: Demand) -> None:
        self.p = p
        per_second = ticks_per_second(p.form) if p.kind is Kind.TIMESTAMP else None
        self.step = p.step or Fraction(1)
        self.tolerance = int(tolerance_of(p, demand) / (Fraction(1, per_second) if per_second else self.step))
        self.half = 0 if demand.mode == "hold" else self.tolerance
        idle = p.idle_band is not None and p.name not in demand.tolerance
        self.band = int(Fraction(str(p.idle_band)) / self.step) if idle else 0
        self.guess = guess_of(p, demand)
        self.valid = False

    def take(self, value: Any, ordinal: int) -> ReceivedValue:
        if value is None:
            sent, self.valid = self.valid or ordinal == 1, False
            return ReceivedValue(None, sent)
        ticks, on_grid = self._ticks(value)
        if on_grid and abs(ticks) <= self.band:
            ticks = 0
        expected = self.guess.predict(ordinal) if self.valid else None
        if not on_grid or expected is None or self._apart(ticks):
            return self._exactly(ticks, on_grid, value, ordinal, expected)
        if abs(ticks - expected) <= self.tolerance:
            return self._apply(expected, ordinal, False)
        return self._apply(self._binned(ticks, expected), ordinal, True)

    def expect(self, ordinal: int) -> ReceivedValue:
        return self._apply(self.guess.predict(ordinal), ordinal, False) if self.valid else ReceivedValue(None, False)

    def _binned(self, ticks: int, expected: int) -> int:
        """The middle of the bin, counted from the first value that had to travel."""
        width = 2 * self.half + 1
        bins = (abs(ticks - expected) - self.tolerance - 1) // width
        away = self.tolerance + 1 + bins * width + self.half
        return expected + away if ticks > expected else expected - away

    def _exactly(self, ticks: int, on_grid: bool, value: Any, ordinal: int, expected: int | None) -> ReceivedValue:
        near = expected if isinstance(value, str) and not on_grid else max(-LARGEST, min(LARGEST, ticks))
        if near is not None:
            self._apply(near, ordinal, True)
        return ReceivedValue(self._show(ticks) if on_grid else value, True, not on_grid or near != ticks)

    def _apply(self, ticks: int, ordinal: int, sent: bool) -> ReceivedValue:
        self.guess.observe(ticks, ordinal, not self.valid)
        self.valid = True
        return ReceivedValue(self._show(ticks), sent)

    def _apart(self, ticks: int) -> bool:
        """Outside the declared range, or beyond what both ends can count and show."""
        largest = (1 << 53 if self.step.denominator != 1 else 1 << 62) // self.step.numerator
        counted = abs(ticks) <= min(largest, LARGEST) - self.tolerance
        declared = self.p.kind in (Kind.NUMBER, Kind.INTEGER)
        low = Fraction(str(self.p.minimum)) if declared and self.p.minimum is not None else None
        high = Fraction(str(self.p.maximum)) if declared and self.p.maximum is not None else None
        value = ticks * self.step
        return (low is not None and value < low) or (high is not None and value > high) or not counted

    def _ticks(self, value: Any) -> tuple[int, bool]:
        if self._written:
            ticks = to_ticks(value, self.p.form or "")
            return (0, False) if ticks is None else (ticks, True)
        # a double may equal several ticks; double arithmetic selects one of them
        scaled = value * self.step.denominator / self.step.numerator if isinstance(value, float) else value / self.step
        ticks = round(scaled)
        on_grid = self._show(ticks) == value
        return (ticks if on_grid else round(Fraction(value) / self.step)), on_grid

    def _show(self, ticks: int) -> Any:
        if self._written:
            return writer(self.p.form or "")(ticks)
        value = ticks * self.step
        return int(value) if value.denominator == 1 and self.step.denominator == 1 else float(value)

    @property
    def _written(self) -> bool:
        return self.p.kind is Kind.TIMESTAMP and self.p.form not in (None, "epoch")


class _Position:
    """Latitude and longitude in counts of 10^-7 degrees, compared by distance."""

    def __init__(self, p: Property, demand: Demand) -> None:
        self.tolerance = geo.ticks(float(tolerance_of(p, demand)))
        self.half = 0 if demand.mode == "hold" else geo.half_bin(self.tolerance)
        self.guesses = guess_of(p, demand), guess_of(p, demand)
        self.valid = False

    def take(self, value: Any, ordinal: int) -> ReceivedValue:
        if value is None:
            sent, self.valid = self.valid or ordinal == 1, False
            return ReceivedValue(None, sent)
        north, east, on_grid = geo.to_ticks(value, "position")
        if not self.valid or not on_grid:
            self._apply(north, east, ordinal)
            return ReceivedValue(value, True, not on_grid)
        up, across = (guess.predict(ordinal) for guess in self.guesses)
        sent = not geo.within(north - up, geo.wrap(east - across), north, self.tolerance)
        if sent:
            up += self._binned(north - up)
            across += self._binned(geo.wrap(east - across))
            up, across = geo.on_globe(up, across)
        self._apply(up, across, ordinal)
        return ReceivedValue(geo.from_ticks(up, across), sent)

    def expect(self, ordinal: int) -> ReceivedValue:
        if not self.valid:
            return ReceivedValue(None, False)
        north, east = (guess.predict(ordinal) for guess in self.guesses)
        self._apply(north, east, ordinal)
        return ReceivedValue(geo.from_ticks(north, east), False)

    def _binned(self, away: int) -> int:
        width = 2 * self.half + 1
        return (away + self.half) // width * width

    def _apply(self, north: int, east: int, ordinal: int) -> None:
        for guess, ticks in zip(self.guesses, (north, east), strict=True):
            guess.observe(ticks, ordinal, not self.valid)
        self.valid = True


class _Array:
    """Each element against its last value; all of them where the length changed or one is odd."""

    def __init__(self, p: Property, demand: Demand) -> None:
        self.p = p
        self.one = _Number(p, demand)
        self.last: list[int] | None = None

    def take(self, value: Any, ordinal: int) -> ReceivedValue:
        if value is None:
            sent, self.last = self.last is not None or ordinal == 1, None
            return ReceivedValue(None, sent)
        ticks = [self.one._ticks(item) for item in value]
        odd = not all(on_grid for _, on_grid in ticks)
        before, self.last = self.last, [t for t, _ in ticks]
        if odd or outside(self.p, value) or before is None or len(before) != len(value):
            return ReceivedValue(value, True, odd)
        self.last = [self._element(t, last) for t, last in zip(self.last, before, strict=True)]
        return ReceivedValue([self.one._show(t) for t in self.last], self.last != before)

    def expect(self, ordinal: int) -> ReceivedValue:
        return ReceivedValue(None if self.last is None else [self.one._show(t) for t in self.last], False)

    def _element(self, ticks: int, last: int) -> int:
        return last if abs(ticks - last) <= self.one.tolerance else self.one._binned(ticks, last)


_MEMORIES: dict[Kind, Callable[[Property, Demand], ReferenceState]] = {
    Kind.INTEGER: _Number,
    Kind.NUMBER: _Number,
    Kind.TIMESTAMP: _Number,
    Kind.FLOAT: _Float,
    Kind.GEO: _Position,
    Kind.ARRAY: _Array,
}
