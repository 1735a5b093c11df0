"""Rules: how each property of a stream is encoded, resolved from a schema and a demand.

The first match wins: the subscription (a tolerance or predictor for the property), the domain rule (timestamps use the
cadence predictor, power near zero is idle, positions are compared by distance, status and quality have no
tolerance), the type rule, the default.
"""

from __future__ import annotations

import math
import struct
from builtins import property as computed
from dataclasses import dataclass
from fractions import Fraction

from thinwire.codec import geo_distance as geo
from thinwire.codec.demand import Demand, check_names, tolerance_of
from thinwire.codec.predictors import by_name
from thinwire.codec.predictors.arithmetic import FINE, LAST
from thinwire.codec.predictors.catalogue import custom_by_name
from thinwire.codec.predictors.custom import MAX_CUSTOM, CustomPredictor
from thinwire.codec.predictors.seasonal import Seasonal
from thinwire.codec.ticks import TICK_LIMIT
from thinwire.codec.tolerance_vector import in_ticks, tick_size
from thinwire.errors import ConfigError, CorruptFrame, DemandError
from thinwire.schema import Kind, Property, Role, Schema
from thinwire.wire import varint
from thinwire.wire.partial_event import SLOTS, EncodingKind, encoding_kind_of

MAX_TOLERANCE = 1 << 60
MAX_UPSTREAM = 1 << 62

_HOLD, _CHANGES, _UPSTREAM, _CUSTOM = 1, 2, 4, 8
_DOUBLE, _INTEGER = 1 << 53, 1 << 62
_MAX_NAME = 64
"""bytes of the name of a custom predictor"""


@dataclass(frozen=True)
class Rule:
    """How one property is encoded.

    tolerance: in ticks
    half: half the width of the bins of its residuals
    band: ticks around zero that count as zero
    lowest, highest: the declared range in ticks
    mode, coefficients: the predictor of a new source
    auto: whether the predictor may change
    distance: the tolerance of a float, in its unit
    upstream: bound of the incoming values, in ticks; of a float in its unit
    """

    property: Property
    encoding: EncodingKind
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
        return SLOTS.get(self.encoding, 0)

    @computed
    def bound(self) -> float:
        """Maximum error of a value sent under this rule, in the unit of the property."""
        if self.encoding is EncodingKind.FLOAT:
            return _sum_above(self.distance, self.upstream) if self.upstream else self.distance
        if self.encoding is EncodingKind.GEO:
            return (self.tolerance + self.upstream) * geo.METRES_PER_TICK
        return float((self.tolerance + self.band + int(self.upstream)) * tick_size(self.property))

    @computed
    def has_range(self) -> bool:
        """Whether a range is declared. Values outside of it are always sent."""
        return self.property.minimum is not None or self.property.maximum is not None


@dataclass(frozen=True)
class RuleSet:
    """The rules of all properties of a stream, in order.

    hold: values are held until they exceed the tolerance, and then sent exactly
    min_interval: minimum ticks of event time between two sent events of a source
    changes: only properties that are not headers trigger frames
    custom: custom predictors; the mode of the first is `arithmetic.MODES`
    """

    schema: Schema
    rules: tuple[Rule, ...]
    hold: bool = False
    min_interval: int = 0
    changes: bool = False
    custom: tuple[type[CustomPredictor], ...] = ()

    @property
    def slots(self) -> int:
        return sum(rule.slots for rule in self.rules)

    @property
    def bounds(self) -> dict[str, float | None]:
        return {rule.property.name: rule.bound for rule in self.rules}

    @property
    def suppressed_bounds(self) -> dict[str, float | None]:
        """The bound of every property in suppressed events; None for properties that do not trigger frames."""
        waits = bool(self.min_interval)
        return {rule.property.name: None if waits or not self.triggers(rule) else rule.bound for rule in self.rules}

    def triggers(self, rule: Rule) -> bool:
        """Check whether a change of this property triggers a frame."""
        return not self.changes or rule.property.role is not Role.HEADER

    def encode(self) -> bytes:
        """Return the part of the rules that key frames contain."""
        upstream = any(rule.upstream for rule in self.rules)
        flags = _HOLD * self.hold | _CHANGES * self.changes | _UPSTREAM * upstream | _CUSTOM * bool(self.custom)
        parts = [varint.write(flags), varint.write(self.min_interval)]
        if self.custom:
            parts.append(varint.write(len(self.custom)))
            parts += (varint.write_blob(predictor.name.encode()) for predictor in self.custom)
        for rule in self.rules:
            if rule.encoding is EncodingKind.FLOAT:
                parts.append(struct.pack(">d", rule.distance))
                parts += [struct.pack(">d", rule.upstream)] * upstream
            elif rule.encoding in (EncodingKind.TICK, EncodingKind.GEO, EncodingKind.ARRAY):
                parts += (varint.write(rule.tolerance), varint.write(rule.half), varint.write(rule.band))
                parts += [varint.write(int(rule.upstream))] * upstream
        return b"".join(parts)


def decode(body: bytes, schema: Schema) -> RuleSet:
    """Return the rules of a key frame, as far as a decoder needs them."""
    flags, at = varint.read(body, 0)
    if flags & ~(_HOLD | _CHANGES | _UPSTREAM | _CUSTOM):
        raise CorruptFrame("rules have flags that this version does not support", flags=flags)
    interval, at = varint.read(body, at)
    custom, at = _read_custom(body, at) if flags & _CUSTOM else ((), at)
    rules: list[Rule] = []
    slot = 0
    for p in schema.wire:
        rule, at = _read_rule(body, at, p, slot, bool(flags & _UPSTREAM))
        rules.append(rule)
        slot += rule.slots
    if at != len(body):
        raise CorruptFrame("rules do not fit the schema", length=len(body), read=at)
    return RuleSet(schema, tuple(rules), bool(flags & _HOLD), interval, bool(flags & _CHANGES), custom)


def _read_custom(body: bytes, at: int) -> tuple[tuple[type[CustomPredictor], ...], int]:
    """Read the names of custom predictors. Raises UnknownPredictor."""
    count, at = varint.read(body, at)
    if not 0 < count <= MAX_CUSTOM:
        raise CorruptFrame("number of custom predictors out of range", count=count, limit=MAX_CUSTOM)
    names: list[str] = []
    for _ in range(count):
        name, at = varint.read_blob(body, at, _MAX_NAME)
        names.append(name.decode("ascii", "replace"))
    return tuple(custom_by_name(name) for name in names), at


def range_of(p: Property, tolerance: int, *, declared: bool = True) -> tuple[int, int]:
    """Return the range of ticks that are sent as residuals: both ends can count and display them.

    declared: limit it to the declared range
    """
    step = p.step or Fraction(1)
    reach = max(0, _reach(step) - tolerance)
    if not declared or p.kind not in (Kind.INTEGER, Kind.NUMBER):
        return -reach, reach
    low = -reach if p.minimum is None else -int(-Fraction(str(p.minimum)) // step)
    high = reach if p.maximum is None else int(Fraction(str(p.maximum)) // step)
    return max(low, -reach), min(high, reach)


def _reach(step: Fraction) -> int:
    """Return the largest tick whose value differs from its neighbours': a double has 53 bits, an integer 63."""
    largest = _DOUBLE if step.denominator != 1 else _INTEGER
    return min(largest // step.numerator, TICK_LIMIT)


def _read_rule(body: bytes, at: int, p: Property, slot: int, upstream: bool) -> tuple[Rule, int]:
    encoding = encoding_kind_of(p.kind)
    if encoding is EncodingKind.FLOAT:
        (distance, *before), at = _doubles(body, at, p, 1 + upstream)
        return Rule(p, encoding, slot, distance=distance, upstream=before[0] if before else 0), at
    if encoding not in (EncodingKind.TICK, EncodingKind.GEO, EncodingKind.ARRAY):
        return Rule(p, encoding, slot), at
    numbers = [0, 0, 0, 0]
    for k in range(3 + upstream):
        numbers[k], at = varint.read(body, at)
    tolerance, half, band, already = numbers
    if max(tolerance, half, band) > MAX_TOLERANCE or half > tolerance or already > MAX_UPSTREAM:
        raise CorruptFrame("tolerance above its limit", tolerance=tolerance, half=half, band=band, upstream=already)
    return Rule(p, encoding, slot, tolerance, half, band, *range_of(p, tolerance), upstream=already), at


def _doubles(body: bytes, at: int, p: Property, count: int) -> tuple[tuple[float, ...], int]:
    if at + 8 * count > len(body):
        raise CorruptFrame("rules cut off", property=p.name)
    numbers = struct.unpack_from(f">{count}d", body, at)
    if count > 1 and not all(0 <= number < math.inf for number in numbers):
        raise CorruptFrame("tolerance is not a number", property=p.name)
    return numbers, at + 8 * count


def _sum_above(a: float, b: float) -> float:
    """Return the sum of two doubles rounded up, because a bound must not be too small."""
    total = a + b
    exact = math.isinf(total) or Fraction(total) >= Fraction(a) + Fraction(b)
    return total if exact else math.nextafter(total, math.inf)


def resolve(schema: Schema, demand: Demand, over: RuleSet | None = None) -> RuleSet:
    """Return the rules of a demand on a schema.

    over: the rules under which the incoming events were decoded, if they come from a decoder. Their bounds are part of
        every bound

    >>> rooms = Schema("rooms", [Property("t", "number", step="0.1"), Property("on", "boolean")])
    >>> upstream = resolve(rooms, Demand(default_tolerance=0.5))
    >>> [rule.tolerance for rule in upstream.rules]
    [5, 0]
    >>> resolve(rooms, Demand(default_tolerance=0.2), over=upstream).bounds
    {'t': 0.7, 'on': 0.0}
    """
    check_names(schema, demand)
    _check_predictors(schema, demand)
    before = _by_name(over)
    rules: list[Rule] = []
    custom: list[type[CustomPredictor]] = []
    slot = 0
    for p in schema.wire:
        rule = _rule(schema, p, demand, slot, before.get(p.name), custom)
        slot += rule.slots
        rules.append(rule)
    interval = _interval(schema, demand)
    return RuleSet(schema, tuple(rules), demand.mode == "hold", interval, demand.changes, tuple(custom))


def _by_name(over: RuleSet | None) -> dict[str, Rule]:
    if over is None:
        return {}
    if over.min_interval or over.changes:
        raise DemandError(
            "no guarantee is possible over events that were thinned out by min_interval or changes",
            schema=over.schema.name,
        )
    return {rule.property.name: rule for rule in over.rules}


def _rule(
    schema: Schema,
    p: Property,
    demand: Demand,
    slot: int,
    before: Rule | None,
    custom: list[type[CustomPredictor]],
) -> Rule:
    """Return the rule of one property; a custom predictor is added to `custom`."""
    encoding = encoding_kind_of(p.kind)
    requested = tolerance_of(schema, p, demand)
    upstream = _upstream(p, before)
    if encoding is EncodingKind.FLOAT:
        return Rule(p, encoding, slot, distance=_distance(requested, upstream), upstream=upstream)
    if encoding not in (EncodingKind.TICK, EncodingKind.GEO, EncodingKind.ARRAY):
        return Rule(p, encoding, slot)
    if encoding is EncodingKind.GEO and upstream:
        requested = Fraction(0)  # rounding makes the sum of two distances exceed the distance of their sum
    tolerance = min(
        geo.ticks(float(requested)) if encoding is EncodingKind.GEO else in_ticks(p, requested),
        MAX_TOLERANCE,
    )
    hold = demand.mode == "hold"
    half = 0 if hold else geo.half_bin(tolerance) if encoding is EncodingKind.GEO else tolerance
    mode, coefficients, auto = _hold_predictor(p, demand) if hold else _predictor(p, encoding, demand, custom)
    band = _band(p, demand) if before is None or not before.band else 0
    # a decoded value may be outside the range although the true value is not; its flags decide
    lowest, highest = range_of(p, tolerance, declared=not upstream)
    ranges = (tolerance, half, band, lowest, highest)
    return Rule(p, encoding, slot, *ranges, mode, coefficients, auto, upstream=upstream)


def _upstream(p: Property, before: Rule | None) -> int | float:
    """Return the bound of the incoming values of a property: in ticks, or for a float in its unit."""
    if before is None:
        return 0
    if before.encoding is not encoding_kind_of(p.kind) or tick_size(before.property) != tick_size(p):
        raise DemandError("incoming events have another kind of property", property=p.name, kind=p.kind.value)
    if before.encoding is EncodingKind.FLOAT:
        return before.bound
    ticks = before.tolerance + before.band + int(before.upstream)
    if ticks > MAX_UPSTREAM:
        raise DemandError("sum of tolerances above its limit", property=p.name, ticks=ticks, limit=MAX_UPSTREAM)
    return ticks


def _distance(requested: Fraction, upstream: float) -> float:
    """Return the tolerance of a float such that it and the upstream bound together do not exceed their exact sum."""
    if not requested or not upstream:
        return float(requested)
    space = Fraction(float(requested + _decimal(upstream))) - Fraction(upstream)
    distance = max(0.0, float(space))
    return min(float(requested), distance if Fraction(distance) <= space else math.nextafter(distance, 0.0))


def _hold_predictor(p: Property, demand: Demand) -> tuple[int, int, bool]:
    """Return the predictor in hold mode: the last value, but the cadence for timestamps, which would otherwise be sent
    with every event.

    With `changes`, measured timestamps are held as well, because suppressed events do not show their time.
    """
    goes_on = p.kind is Kind.TIMESTAMP and (p.role is Role.HEADER or not demand.changes)
    predictor = by_name("cadence" if goes_on else "last")
    return predictor.mode | FINE, predictor.coefficients, False


def _predictor(
    p: Property, encoding: EncodingKind, demand: Demand, custom: list[type[CustomPredictor]]
) -> tuple[int, int, bool]:
    named = not isinstance(demand.predictor, str) and p.name in demand.predictor
    name = demand.predictor if isinstance(demand.predictor, str) else demand.predictor.get(p.name, "auto")
    auto = name == "auto" and encoding is EncodingKind.TICK
    if encoding is EncodingKind.ARRAY:
        name = "last"
    elif p.kind is Kind.TIMESTAMP and not named:
        name = "cadence"
    elif name == "auto":
        name = "last"
    if name == Seasonal.name and encoding is EncodingKind.GEO:
        raise DemandError("a position has no season; choose 'last' or 'linear'", property=p.name, predictor=name)
    try:
        chosen = by_name(name, p.period)
    except ConfigError as problem:
        raise type(problem)(problem.detail, property=p.name, **problem.facts) from None
    if not isinstance(chosen, CustomPredictor):
        return chosen.mode, chosen.coefficients, auto
    if type(chosen) not in custom:
        custom.append(type(chosen))
    if len(custom) > MAX_CUSTOM:
        raise DemandError("too many custom predictors", count=len(custom), limit=MAX_CUSTOM)
    return chosen.mode + custom.index(type(chosen)), 0, False


def _check_predictors(schema: Schema, demand: Demand) -> None:
    """Reject unknown predictors, also for properties that are not predicted."""
    predictors = {"": demand.predictor} if isinstance(demand.predictor, str) else demand.predictor
    for name, predictor in predictors.items():
        if predictor not in ("auto", Seasonal.name):
            by_name(predictor)
        if (
            name
            and encoding_kind_of(schema[name].kind) not in (EncodingKind.TICK, EncodingKind.GEO)
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
