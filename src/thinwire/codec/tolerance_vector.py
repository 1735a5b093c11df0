"""Exact tolerances per property: reading, minimum, difference, and the one form in which they are stored.

A tolerance is a fraction in the property's unit: seconds for timestamps, metres for positions. Sums and differences of
tolerances are exact, because a guarantee that is off by one rounding step is no guarantee. Where a result must be
rounded, it is rounded down, which is stricter.

>>> from thinwire.schema import Schema
>>> rooms = Schema("rooms", [Property("t", "number", step="0.1", minimum=0, maximum=50), Property("n", "integer")])
>>> strict = ToleranceVector.read(rooms.wire, {"t": "1%", "n": 3})
>>> loose = ToleranceVector.read(rooms.wire, {"t": 0.7}, default=1)
>>> strict.minimum(loose).written(), loose.difference(strict, rooms.wire).written()
({'t': 0.5, 'n': 1}, {'t': 0.2, 'n': -2})
>>> [canonical_tolerance(value) for value in ("0.50", 3.0, "1.0 %")]
[0.5, 3, '1%']
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction

from thinwire.errors import DemandError
from thinwire.schema import Kind, Property, Role
from thinwire.schema.kind import TOLERANT_KINDS
from thinwire.schema.timestamps import ticks_per_second
from thinwire.wire.partial_event import EncodingKind, encoding_kind_of

Tolerance = float | int | str
"""a distance in the property's unit, or `"1%"` of its declared range"""
NEVER_TOLERANT = ("status", "quality")
"""domains of properties that are always sent exactly"""
EXACT = Fraction(0)

_NUMBER = re.compile(r"[+-]?([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})([eE][+-]?[0-9]{1,3})?")
_MAX_DIGITS = 40
_LARGEST = Fraction(10) ** 300
"""limit of a stored tolerance; its inverse is the smallest one. Beyond them a double cannot hold it"""


class ToleranceVector(dict[str, Fraction]):
    """Exact tolerance of each property; 0 means exact."""

    @classmethod
    def read(
        cls, properties: Iterable[Property], tolerance: Mapping[str, Tolerance], default: float = 0
    ) -> ToleranceVector:
        """The tolerances that a demand requests; `DemandError` where a property cannot have the requested one."""
        return cls({p.name: read_tolerance(p, tolerance, default) for p in properties})

    def minimum(self, other: ToleranceVector) -> ToleranceVector:
        """The stricter tolerance of each property: it satisfies both."""
        return ToleranceVector({name: min(amount, other[name]) for name, amount in self.items()})

    def maximum(self, other: ToleranceVector) -> ToleranceVector:
        """The looser tolerance of each property."""
        return ToleranceVector({name: max(amount, other[name]) for name, amount in self.items()})

    def difference(self, spent: ToleranceVector, properties: Iterable[Property]) -> ToleranceVector:
        """What remains of each tolerance after another stage used `spent`; negative if that is more than requested."""
        return ToleranceVector({p.name: _subtract(p, self[p.name], spent[p.name]) for p in properties})

    def written(self) -> dict[str, Tolerance]:
        """The tolerances as a demand stores them."""
        return {name: write_tolerance(amount) for name, amount in self.items()}


def read_tolerance(p: Property, tolerance: Mapping[str, Tolerance], default: float = 0) -> Fraction:
    """The tolerance of one property, in its unit. A property without one gets `default` if it is a measurement."""
    if p.name not in tolerance:
        measured = p.role is Role.MEASUREMENT and p.kind in TOLERANT_KINDS and p.domain not in NEVER_TOLERANT
        return Fraction(str(default)) if measured else EXACT
    requested = tolerance[p.name]
    amount = _read_amount(p, requested)
    if amount and p.kind not in TOLERANT_KINDS:
        detail = f"a value of kind {p.kind.value} has no tolerance; use 0"
        raise DemandError(detail, property=p.name, tolerance=requested)
    if amount and p.domain in NEVER_TOLERANT:
        raise DemandError(f"a {p.domain} is always sent exactly; use 0", property=p.name, tolerance=requested)
    return amount


def parse_amount(value: Tolerance) -> Fraction | None:
    """The number of a tolerance, of a percentage the number before the sign; None if it is invalid."""
    text = value[:-1].strip() if _is_percentage(value) and isinstance(value, str) else str(value)
    # the pattern limits the exponent: the exact value of "1e999999999" would exhaust the memory
    amount = Fraction(text) if _NUMBER.fullmatch(text) else None
    return amount if amount is not None and amount >= 0 else None


def canonical_tolerance(value: Tolerance) -> Tolerance:
    """The one form of equal tolerances; an invalid one is returned as it is."""
    amount = parse_amount(value)
    if amount is None:
        return value
    return f"{write_tolerance(amount)}%" if _is_percentage(value) else write_tolerance(amount)


def write_tolerance(amount: Fraction) -> Tolerance:
    """A number if it is exact, otherwise text; rounded down beyond 40 digits.

    >>> [write_tolerance(Fraction(text)) for text in ("1/2", "3", "0.10000000000000000001")]
    [0.5, 3, '10000000000000000001e-20']
    """
    if amount > 0:
        amount = min(amount, _LARGEST) if amount * _LARGEST >= 1 else EXACT
    if amount.denominator == 1 and amount < 1 << 53:
        return int(amount)
    if Fraction(str(float(amount))) == amount:
        return float(amount)
    places = _decimal_places(amount)
    digits = int(amount * 10**places) if places >= 0 else int(amount / 10**-places)
    return f"{digits}e{-places}"


def write_for_property(p: Property, amount: Fraction) -> Tolerance:
    """A stored tolerance worth as many ticks of `p` as `amount`, which need not have a finite decimal form."""
    kind = encoding_kind_of(p.kind)
    if kind is EncodingKind.FLOAT:
        return float(amount)
    stored = write_tolerance(amount)
    if kind is EncodingKind.GEO or in_ticks(p, Fraction(str(stored))) == in_ticks(p, amount):
        return stored
    return write_tolerance((in_ticks(p, amount) + Fraction(1, 2)) * tick_size(p))


def round_down(amount: Fraction) -> float:
    """The largest double that is not above `amount`.

    >>> round_down(Fraction("0.5")), round_down(Fraction(2))
    (0.5, 2)
    """
    if amount.denominator == 1:
        return int(amount)
    nearest = float(amount)
    return nearest if Fraction(str(nearest)) <= amount else math.nextafter(nearest, 0.0)


def tick_size(p: Property) -> Fraction:
    """One tick of a property in the unit of its tolerance."""
    per_second = ticks_per_second(p.form) if p.kind is Kind.TIMESTAMP else None
    return 1 / Fraction(per_second) if per_second else p.step or Fraction(1)


def in_ticks(p: Property, tolerance: Fraction) -> int:
    """A tolerance as a number of ticks, rounded down."""
    return int(tolerance / tick_size(p))


def _is_percentage(value: Tolerance) -> bool:
    return isinstance(value, str) and value.endswith("%")


def declared_range(p: Property) -> Fraction | None:
    """Return the exact difference of the largest and the smallest value; None without a declared range."""
    if p.minimum is None or p.maximum is None:
        return None
    return Fraction(str(p.maximum)) - Fraction(str(p.minimum))


def _read_amount(p: Property, requested: Tolerance) -> Fraction:
    value_range = declared_range(p) if _is_percentage(requested) else 100
    if value_range is None:
        detail = "a percentage needs a declared range: set minimum and maximum in the schema, or use an absolute value"
        raise DemandError(detail, property=p.name, tolerance=requested)
    amount = parse_amount(requested)
    if amount is None:
        detail = "a tolerance is a number or a percentage, zero or more"
        raise DemandError(detail, property=p.name, tolerance=requested)
    return amount * value_range / 100


def _subtract(p: Property, requested: Fraction, spent: Fraction) -> Fraction:
    kind = encoding_kind_of(p.kind)
    if kind is EncodingKind.FLOAT:
        return Fraction(_subtract_doubles(float(requested), float(spent)))
    if kind is EncodingKind.GEO:  # distances on a sphere do not add up: a tolerance is used by one stage only
        return EXACT if spent else requested
    return requested - spent


def _subtract_doubles(requested: float, spent: float) -> float:
    """The largest double that, added to `spent` in double arithmetic, does not exceed `requested`."""
    left = max(0.0, requested - spent)
    while left and float(Fraction(str(spent)) + Fraction(str(left))) > requested:
        left = math.nextafter(left, 0.0)
    return left


def _decimal_places(amount: Fraction) -> int:
    """Decimal places that represent the amount with at most 40 digits; negative for zeros before the point."""
    size = len(str(int(amount))) if amount >= 1 else 1 - len(str(int(1 / amount)))
    places = range(-size, _MAX_DIGITS - size)
    exact = next((n for n in places if (amount * Fraction(10) ** n).denominator == 1), None)
    return _MAX_DIGITS - size if exact is None else exact
