"""Rules: what a schema and a demand come to, one for each property that travels.

Precedence, first match wins: the subscription (a tolerance or predictor given for this property), the domain rule
(timestamps follow their cadence, power near zero is idle, positions are judged by distance, status and quality never
vary), the type rule, the default.
"""

from __future__ import annotations

import struct
from builtins import property as computed
from dataclasses import dataclass
from fractions import Fraction

from thinwire.errors import ConfigError, CorruptFrame, DemandError
from thinwire.events import Kind, Property, Schema
from thinwire.formats.lanes import SLOTS, Lane, lane_of
from thinwire.frames import varint
from thinwire.reduction import geo
from thinwire.reduction.demand import Demand, check_names, in_ticks, tick_size, tolerance_of
from thinwire.reduction.limits import TICK_LIMIT
from thinwire.reduction.predictors import Predictor, by_name
from thinwire.reduction.predictors.seasonal import Seasonal
from thinwire.reduction.predictors.steps import FINE, LAST

_MAX_TOLERANCE = 1 << 60
_HOLD = 1
_DOUBLE, _INTEGER = 1 << 53, 1 << 62


@dataclass(frozen=True)
class Rule:
    """How one property is reduced.

    tolerance: in ticks; half: half the width of a bin in which its residuals travel
    band: ticks around zero that count as zero; lowest, highest: the declared range in ticks
    mode, coefficients: the predictor a new source starts with; auto: may it change?
    distance: the tolerance of a float, in its own unit
    """

    property: Property
    lane: Lane
    first_slot: int
    tolerance: int = 0
    half: int = 0
    band: int = 0
    lowest: int = -TICK_LIMIT
    highest: int = TICK_LIMIT
    mode: int = LAST
    coefficients: int = 0
    auto: bool = False
    distance: float = 0.0

    @computed
    def slots(self) -> int:
        return SLOTS.get(self.lane, 0)

    @computed
    def bound(self) -> float:
        """How far a value sent under this rule can be off, in the property's unit."""
        if self.lane is Lane.FLOAT:
            return self.distance
        if self.lane is Lane.GEO:
            return self.tolerance * geo.METRES_PER_TICK
        return float((self.tolerance + self.band) * tick_size(self.property))


@dataclass(frozen=True)
class RuleSet:
    """The rules of all wire properties, in order."""

    schema: Schema
    rules: tuple[Rule, ...]
    hold: bool = False
    min_interval: int = 0

    @property
    def slots(self) -> int:
        return sum(rule.slots for rule in self.rules)

    @property
    def bounds(self) -> dict[str, float | None]:
        """The bound of every property that travels."""
        return {rule.property.name: rule.bound for rule in self.rules}

    def encode(self) -> bytes:
        """What a receiver must know of the rules, as it travels in key frames."""
        parts = [varint.write(_HOLD if self.hold else 0), varint.write(self.min_interval)]
        for rule in self.rules:
            if rule.lane is Lane.FLOAT:
                parts.append(struct.pack(">d", rule.distance))
            elif rule.lane in (Lane.TICK, Lane.GEO, Lane.ARRAY):
                parts += (varint.write(rule.tolerance), varint.write(rule.half), varint.write(rule.band))
        return b"".join(parts)


def resolve(schema: Schema, demand: Demand) -> RuleSet:
    """The rules of a demand on a schema.

    >>> rooms = Schema("rooms", [Property("t", "number", step="0.1"), Property("on", "boolean")])
    >>> [rule.tolerance for rule in resolve(rooms, Demand(default_tolerance=0.5)).rules]
    [5, 0]
    """
    check_names(schema, demand)
    _check_predictors(schema, demand)
    rules: list[Rule] = []
    slot = 0
    for p in schema.wire:
        rule = _rule(schema, p, demand, slot)
        slot += rule.slots
        rules.append(rule)
    return RuleSet(schema, tuple(rules), demand.mode == "hold", _interval(schema, demand))


def decode(body: bytes, schema: Schema) -> RuleSet:
    """The rules as a key frame tells them: all that expanding needs."""
    flags, at = varint.read(body, 0)
    if flags & ~_HOLD:
        raise CorruptFrame("rules of a kind this version does not know", flags=flags)
    interval, at = varint.read(body, at)
    rules: list[Rule] = []
    slot = 0
    for p in schema.wire:
        lane = lane_of(p.kind)
        numbers = (0, 0, 0)
        distance = 0.0
        if lane is Lane.FLOAT:
            if at + 8 > len(body):
                raise CorruptFrame("rules cut off", property=p.name)
            distance, at = struct.unpack_from(">d", body, at)[0], at + 8
        elif lane in (Lane.TICK, Lane.GEO, Lane.ARRAY):
            numbers, at = _three(body, at)
        rules.append(Rule(p, lane, slot, *numbers, *_range(p, numbers[0]), distance=distance))
        slot += SLOTS.get(lane, 0)
    if at != len(body):
        raise CorruptFrame("rules do not fit the schema", length=len(body), read=at)
    return RuleSet(schema, tuple(rules), bool(flags & _HOLD), interval)


def _rule(schema: Schema, p: Property, demand: Demand, slot: int) -> Rule:
    lane = lane_of(p.kind)
    asked = tolerance_of(schema, p, demand)
    if lane is Lane.FLOAT:
        return Rule(p, lane, slot, distance=float(asked))
    if lane not in (Lane.TICK, Lane.GEO, Lane.ARRAY):
        return Rule(p, lane, slot)
    tolerance = min(geo.ticks(float(asked)) if lane is Lane.GEO else in_ticks(p, asked), _MAX_TOLERANCE)
    hold = demand.mode == "hold"
    half = 0 if hold else geo.half_bin(tolerance) if lane is Lane.GEO else tolerance
    mode, coefficients, auto = _held(p) if hold else _predictor(p, lane, demand)
    lowest, highest = _range(p, tolerance)
    return Rule(p, lane, slot, tolerance, half, _band(p, demand), lowest, highest, mode, coefficients, auto)


def _held(p: Property) -> tuple[int, int, bool]:
    """Values are held as they were; time goes on all the same, else every event would have to tell it."""
    predictor = by_name("cadence" if p.kind is Kind.TIMESTAMP else "last")
    return predictor.mode | FINE, predictor.coefficients, False


def _predictor(p: Property, lane: Lane, demand: Demand) -> tuple[int, int, bool]:
    named = not isinstance(demand.predictor, str) and p.name in demand.predictor
    name = demand.predictor if isinstance(demand.predictor, str) else demand.predictor.get(p.name, "auto")
    auto = name == "auto" and lane is Lane.TICK
    if lane is Lane.ARRAY:
        name = "last"
    elif p.kind is Kind.TIMESTAMP and not named:
        name = "cadence"
    elif name == "auto":
        name = "last"
    chosen = _chosen(p, lane, name)
    return chosen.mode, chosen.coefficients, auto


def _chosen(p: Property, lane: Lane, name: str) -> Predictor:
    if name == Seasonal.name and lane is Lane.GEO:
        raise DemandError("a position has no season; choose 'last' or 'linear'", property=p.name, predictor=name)
    try:
        return by_name(name, p.period)
    except ConfigError as problem:
        raise type(problem)(problem.detail, property=p.name, **problem.facts) from None


def _check_predictors(schema: Schema, demand: Demand) -> None:
    """Refuse predictors that do not exist, also where nothing would be predicted with them."""
    given = {"": demand.predictor} if isinstance(demand.predictor, str) else demand.predictor
    for name, predictor in given.items():
        if predictor not in ("auto", Seasonal.name):
            by_name(predictor)
        if name and lane_of(schema[name].kind) not in (Lane.TICK, Lane.GEO) and predictor not in ("auto", "last"):
            kind = schema[name].kind.value
            raise DemandError(f"a {kind} is held or sent, never predicted", property=name, predictor=predictor)


def _interval(schema: Schema, demand: Demand) -> int:
    if not demand.min_interval:
        return 0
    if schema.time is None:
        raise DemandError("min_interval needs a timestamp among the headers", schema=schema.name)
    return min(in_ticks(schema.time, _decimal(demand.min_interval)), _MAX_TOLERANCE)


def _band(p: Property, demand: Demand) -> int:
    if p.idle_band is None or p.name in demand.tolerance:
        return 0
    return in_ticks(p, _decimal(p.idle_band))


def _range(p: Property, tolerance: int) -> tuple[int, int]:
    """The ticks that take their lane: those of the declared range, as far as both ends can count and show them."""
    step = p.step or Fraction(1)
    reach = max(0, _reach(step) - tolerance)
    if p.kind not in (Kind.INTEGER, Kind.NUMBER):
        return -reach, reach
    low = -reach if p.minimum is None else -int(-_decimal(p.minimum) // step)
    high = reach if p.maximum is None else int(_decimal(p.maximum) // step)
    return max(low, -reach), min(high, reach)


def _reach(step: Fraction) -> int:
    """The largest tick whose value can be told from its neighbours': a double has 53 bits, an integer 63."""
    largest = _DOUBLE if step.denominator != 1 else _INTEGER
    return min(largest // step.numerator, TICK_LIMIT)


def _decimal(number: float) -> Fraction:
    return Fraction(str(number))


def _three(body: bytes, at: int) -> tuple[tuple[int, int, int], int]:
    first, at = varint.read(body, at)
    second, at = varint.read(body, at)
    third, at = varint.read(body, at)
    if max(first, second, third) > _MAX_TOLERANCE or second > first:
        raise CorruptFrame("a tolerance above its limit", tolerance=first, half=second, band=third)
    return (first, second, third), at
