"""Rules: how each property that travels is reduced, and what of that a receiver is told.

What a schema and a demand come to: one rule for each property that travels.

Precedence, first match wins: the subscription (a tolerance or predictor given for this property), the domain rule
(timestamps follow their cadence, power near zero is idle, positions are judged by distance, status and quality never
vary), the type rule, the default.
"""

from __future__ import annotations

import math
import struct
from builtins import property as computed
from dataclasses import dataclass
from fractions import Fraction

from thinwire.codec import geo_distance as geo
from thinwire.codec.demand import Demand, check_names, in_ticks, tick_size, tolerance_of
from thinwire.codec.predictors import Predictor, by_name
from thinwire.codec.predictors.predictor import FINE, LAST
from thinwire.codec.predictors.seasonal import Seasonal
from thinwire.codec.ticks import TICK_LIMIT
from thinwire.errors import ConfigError, CorruptFrame, DemandError
from thinwire.schema import Kind, Property, Role, Schema
from thinwire.wire import varint
from thinwire.wire.partial_event import SLOTS, EncodingKind, lane_of

MAX_TOLERANCE = 1 << 60
MAX_UPSTREAM = 1 << 62

_HOLD, _CHANGES, _UPSTREAM = 1, 2, 4
_DOUBLE, _INTEGER = 1 << 53, 1 << 62


@dataclass(frozen=True)
class Rule:
    """How one property is reduced.

    tolerance: in ticks; half: half the width of a bin in which its residuals travel
    band: ticks around zero that count as zero; lowest, highest: the declared range in ticks
    mode, coefficients: the predictor a new source starts with; auto: may it change?
    distance: the tolerance of a float, in its own unit
    upstream: how far off the values already are that come in, in ticks; of a float in its own unit
    """

    property: Property
    lane: EncodingKind
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
    upstream: int | float = 0

    @computed
    def slots(self) -> int:
        return SLOTS.get(self.lane, 0)

    @computed
    def bound(self) -> float:
        """How far a value sent under this rule can be from the truth, in the property's unit."""
        if self.lane is EncodingKind.FLOAT:
            return _sum_above(self.distance, self.upstream) if self.upstream else self.distance
        if self.lane is EncodingKind.GEO:
            return (self.tolerance + self.upstream) * geo.METRES_PER_TICK
        return float((self.tolerance + self.band + int(self.upstream)) * tick_size(self.property))

    @computed
    def ranged(self) -> bool:
        """Is a range declared, outside of which values always travel?"""
        return self.property.minimum is not None or self.property.maximum is not None


@dataclass(frozen=True)
class RuleSet:
    """The rules of all wire properties, in order.

    hold: values are held until they fire, and then told exactly
    min_interval: ticks of the event's time between two events of a source that travel
    changes: an event travels only where something beside its headers fires
    """

    schema: Schema
    rules: tuple[Rule, ...]
    hold: bool = False
    min_interval: int = 0
    changes: bool = False

    @property
    def slots(self) -> int:
        return sum(rule.slots for rule in self.rules)

    @property
    def bounds(self) -> dict[str, float | None]:
        """The bound of every property that travels."""
        return {rule.property.name: rule.bound for rule in self.rules}

    @property
    def silent_bounds(self) -> dict[str, float | None]:
        """The same for events that were passed over in silence: nothing is claimed of what did not make them travel."""
        waits = bool(self.min_interval)
        return {rule.property.name: None if waits or not self.fires(rule) else rule.bound for rule in self.rules}

    @property
    def upstream(self) -> bool:
        """Are any of the values that come in already off?"""
        return any(rule.upstream for rule in self.rules)

    def fires(self, rule: Rule) -> bool:
        """May this property make an event travel?"""
        return not self.changes or rule.property.role is not Role.HEADER

    def encode(self) -> bytes:
        """What a receiver must know of the rules, as it travels in key frames."""
        upstream = self.upstream
        flags = _HOLD * self.hold | _CHANGES * self.changes | _UPSTREAM * upstream
        parts = [varint.write(flags), varint.write(self.min_interval)]
        for rule in self.rules:
            if rule.lane is EncodingKind.FLOAT:
                parts.append(struct.pack(">d", rule.distance))
                parts += [struct.pack(">d", rule.upstream)] * upstream
            elif rule.lane in (EncodingKind.TICK, EncodingKind.GEO, EncodingKind.ARRAY):
                parts += (varint.write(rule.tolerance), varint.write(rule.half), varint.write(rule.band))
                parts += [varint.write(int(rule.upstream))] * upstream
        return b"".join(parts)


def decode(body: bytes, schema: Schema) -> RuleSet:
    """The rules as a key frame tells them: all that expanding needs."""
    flags, at = varint.read(body, 0)
    if flags & ~(_HOLD | _CHANGES | _UPSTREAM):
        raise CorruptFrame("rules of a kind this version does not know", flags=flags)
    interval, at = varint.read(body, at)
    rules: list[Rule] = []
    slot = 0
    for p in schema.wire:
        rule, at = _read_rule(body, at, p, slot, bool(flags & _UPSTREAM))
        rules.append(rule)
        slot += rule.slots
    if at != len(body):
        raise CorruptFrame("rules do not fit the schema", length=len(body), read=at)
    return RuleSet(schema, tuple(rules), bool(flags & _HOLD), interval, bool(flags & _CHANGES))


def range_of(p: Property, tolerance: int, *, declared: bool = True) -> tuple[int, int]:
    """The ticks that take their lane, as far as both ends can count and show them.

    declared: those of the declared range only
    """
    step = p.step or Fraction(1)
    reach = max(0, _reach(step) - tolerance)
    if not declared or p.kind not in (Kind.INTEGER, Kind.NUMBER):
        return -reach, reach
    low = -reach if p.minimum is None else -int(-Fraction(str(p.minimum)) // step)
    high = reach if p.maximum is None else int(Fraction(str(p.maximum)) // step)
    return max(low, -reach), min(high, reach)


def _reach(step: Fraction) -> int:
    """The largest tick whose value can be told from its neighbours': a double has 53 bits, an integer 63."""
    largest = _DOUBLE if step.denominator != 1 else _INTEGER
    return min(largest // step.numerator, TICK_LIMIT)


def _read_rule(body: bytes, at: int, p: Property, slot: int, upstream: bool) -> tuple[Rule, int]:
    lane = lane_of(p.kind)
    if lane is EncodingKind.FLOAT:
        (distance, *before), at = _doubles(body, at, p, 1 + upstream)
        return Rule(p, lane, slot, distance=distance, upstream=before[0] if before else 0), at
    if lane not in (EncodingKind.TICK, EncodingKind.GEO, EncodingKind.ARRAY):
        return Rule(p, lane, slot), at
    numbers = [0, 0, 0, 0]
    for k in range(3 + upstream):
        numbers[k], at = varint.read(body, at)
    tolerance, half, band, already = numbers
    if max(tolerance, half, band) > MAX_TOLERANCE or half > tolerance or already > MAX_UPSTREAM:
        raise CorruptFrame("a tolerance above its limit", tolerance=tolerance, half=half, band=band, upstream=already)
    return Rule(p, lane, slot, tolerance, half, band, *range_of(p, tolerance), upstream=already), at


def _doubles(body: bytes, at: int, p: Property, count: int) -> tuple[tuple[float, ...], int]:
    if at + 8 * count > len(body):
        raise CorruptFrame("rules cut off", property=p.name)
    numbers = struct.unpack_from(f">{count}d", body, at)
    if count > 1 and not all(0 <= number < math.inf for number in numbers):
        raise CorruptFrame("a tolerance that is no number", property=p.name)
    return numbers, at + 8 * count


def _sum_above(a: float, b: float) -> float:
    """The sum of two doubles, rounded up where it must be: a bound may not be too small."""
    total = a + b
    exact = math.isinf(total) or Fraction(total) >= Fraction(a) + Fraction(b)
    return total if exact else math.nextafter(total, math.inf)


def resolve(schema: Schema, demand: Demand, over: RuleSet | None = None) -> RuleSet:
    """The rules of a demand on a schema.

    over: the rules under which the events that come in were told, where they come from a decoder. What they allowed is
        part of every bound

    >>> rooms = Schema("rooms", [Property("t", "number", step="0.1"), Property("on", "boolean")])
    >>> told = resolve(rooms, Demand(default_tolerance=0.5))
    >>> [rule.tolerance for rule in told.rules]
    [5, 0]
    >>> resolve(rooms, Demand(default_tolerance=0.2), over=told).bounds
    {'t': 0.7, 'on': 0.0}
    """
    check_names(schema, demand)
    _check_predictors(schema, demand)
    before = _by_name(over)
    rules: list[Rule] = []
    slot = 0
    for p in schema.wire:
        rule = _rule(schema, p, demand, slot, before.get(p.name))
        slot += rule.slots
        rules.append(rule)
    return RuleSet(schema, tuple(rules), demand.mode == "hold", _interval(schema, demand), demand.changes)


def _by_name(over: RuleSet | None) -> dict[str, Rule]:
    if over is None:
        return {}
    if over.min_interval or over.changes:
        raise DemandError("nothing can be promised over events that were thinned out", schema=over.schema.name)
    return {rule.property.name: rule for rule in over.rules}


def _rule(schema: Schema, p: Property, demand: Demand, slot: int, before: Rule | None) -> Rule:
    lane = lane_of(p.kind)
    asked = tolerance_of(schema, p, demand)
    upstream = _upstream(p, before)
    if lane is EncodingKind.FLOAT:
        return Rule(p, lane, slot, distance=_distance(asked, upstream), upstream=upstream)
    if lane not in (EncodingKind.TICK, EncodingKind.GEO, EncodingKind.ARRAY):
        return Rule(p, lane, slot)
    if lane is EncodingKind.GEO and upstream:
        asked = Fraction(0)  # the metric is no metric to the last digit: two distances do not add up to their sum
    tolerance = min(geo.ticks(float(asked)) if lane is EncodingKind.GEO else in_ticks(p, asked), MAX_TOLERANCE)
    hold = demand.mode == "hold"
    half = 0 if hold else geo.half_bin(tolerance) if lane is EncodingKind.GEO else tolerance
    mode, coefficients, auto = _held(p, demand) if hold else _predictor(p, lane, demand)
    band = _band(p, demand) if before is None or not before.band else 0
    # what is off already may lie outside the range although the truth does not: its flags say which
    lowest, highest = range_of(p, tolerance, declared=not upstream)
    ranges = (tolerance, half, band, lowest, highest)
    return Rule(p, lane, slot, *ranges, mode, coefficients, auto, upstream=upstream)


def _upstream(p: Property, before: Rule | None) -> int | float:
    """How far off the values of a property are that come in: in ticks, or for a float in its own unit."""
    if before is None:
        return 0
    if before.lane is not lane_of(p.kind) or tick_size(before.property) != tick_size(p):
        raise DemandError("events were told with another kind of property", property=p.name, kind=p.kind.value)
    if before.lane is EncodingKind.FLOAT:
        return before.bound
    ticks = before.tolerance + before.band + int(before.upstream)
    if ticks > MAX_UPSTREAM:
        raise DemandError("a tolerance over too many others", property=p.name, ticks=ticks, limit=MAX_UPSTREAM)
    return ticks


def _distance(asked: Fraction, upstream: float) -> float:
    """The tolerance of a float such that it and what is off already are, to the last bit, no more than their sum."""
    if not asked or not upstream:
        return float(asked)
    room = Fraction(float(asked + _decimal(upstream))) - Fraction(upstream)
    distance = max(0.0, float(room))
    return min(float(asked), distance if Fraction(distance) <= room else math.nextafter(distance, 0.0))


def _held(p: Property, demand: Demand) -> tuple[int, int, bool]:
    """Values are held as they were; time goes on all the same, else every event would have to tell it.

    Who sees changes only sees no time go on in silence, so there a measured time is held as well.
    """
    goes_on = p.kind is Kind.TIMESTAMP and (p.role is Role.HEADER or not demand.changes)
    predictor = by_name("cadence" if goes_on else "last")
    return predictor.mode | FINE, predictor.coefficients, False


def _predictor(p: Property, lane: EncodingKind, demand: Demand) -> tuple[int, int, bool]:
    named = not isinstance(demand.predictor, str) and p.name in demand.predictor
    name = demand.predictor if isinstance(demand.predictor, str) else demand.predictor.get(p.name, "auto")
    auto = name == "auto" and lane is EncodingKind.TICK
    if lane is EncodingKind.ARRAY:
        name = "last"
    elif p.kind is Kind.TIMESTAMP and not named:
        name = "cadence"
    elif name == "auto":
        name = "last"
    chosen = _chosen(p, lane, name)
    return chosen.mode, chosen.coefficients, auto


def _chosen(p: Property, lane: EncodingKind, name: str) -> Predictor:
    if name == Seasonal.name and lane is EncodingKind.GEO:
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
        if (
            name
            and lane_of(schema[name].kind) not in (EncodingKind.TICK, EncodingKind.GEO)
            and predictor not in ("auto", "last")
        ):
            kind = schema[name].kind.value
            raise DemandError(f"a {kind} is held or sent, never predicted", property=name, predictor=predictor)


def _interval(schema: Schema, demand: Demand) -> int:
    if not demand.min_interval:
        return 0
    if schema.time is None:
        raise DemandError("min_interval needs a timestamp among the headers", schema=schema.name)
    return min(in_ticks(schema.time, _decimal(demand.min_interval)), MAX_TOLERANCE)


def _band(p: Property, demand: Demand) -> int:
    if p.idle_band is None or p.name in demand.tolerance:
        return 0
    return in_ticks(p, _decimal(p.idle_band))


def _decimal(number: float) -> Fraction:
    return Fraction(str(number))
