"""What a schema and a demand come to: one rule for each property that travels.

Precedence, first match wins: the subscription (a tolerance or predictor given for this property), the domain rule
(timestamps follow their cadence, power near zero is idle, positions are judged by distance, status and quality never
vary), the type rule, the default.
"""

from __future__ import annotations

import math
from fractions import Fraction

from thinwire.codec import geo_distance as geo
from thinwire.codec.demand import Demand, check_names, in_ticks, tick_size, tolerance_of
from thinwire.codec.predictors import Predictor, by_name
from thinwire.codec.predictors.predictor_steps import FINE
from thinwire.codec.predictors.seasonal import Seasonal
from thinwire.codec.rules import MAX_TOLERANCE, MAX_UPSTREAM, Rule, RuleSet, range_of
from thinwire.errors import ConfigError, DemandError
from thinwire.schema import Kind, Property, Role, Schema
from thinwire.wire.partial_event import Lane, lane_of


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
    if lane is Lane.FLOAT:
        return Rule(p, lane, slot, distance=_distance(asked, upstream), upstream=upstream)
    if lane not in (Lane.TICK, Lane.GEO, Lane.ARRAY):
        return Rule(p, lane, slot)
    if lane is Lane.GEO and upstream:
        asked = Fraction(0)  # the metric is no metric to the last digit: two distances do not add up to their sum
    tolerance = min(geo.ticks(float(asked)) if lane is Lane.GEO else in_ticks(p, asked), MAX_TOLERANCE)
    hold = demand.mode == "hold"
    half = 0 if hold else geo.half_bin(tolerance) if lane is Lane.GEO else tolerance
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
    if before.lane is Lane.FLOAT:
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
    return min(in_ticks(schema.time, _decimal(demand.min_interval)), MAX_TOLERANCE)


def _band(p: Property, demand: Demand) -> int:
    if p.idle_band is None or p.name in demand.tolerance:
        return 0
    return in_ticks(p, _decimal(p.idle_band))


def _decimal(number: float) -> Fraction:
    return Fraction(str(number))
