"""What is asked of a stream: how far off its values may be, and how they are to be sent."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Literal

from thinwire.errors import DemandError
from thinwire.schema import Kind, Property, Role, Schema
from thinwire.schema.property import TOLERANT_KINDS
from thinwire.schema.timestamps import ticks_per_second

Tolerance = float | int | str
"""a distance in the property's unit (seconds for written timestamps, metres for positions), or `"1%"` of its range"""

NEVER_TOLERANT = ("status", "quality")
"""domain properties whose changes always travel"""


_NUMBER = re.compile(r"[+-]?([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})([eE][+-]?[0-9]{1,3})?")


@dataclass(frozen=True)
class Demand:
    """Tolerances and the way of sending.

    tolerance: per property; a property not named gets `default_tolerance` if it is a measurement, else 0
    mode: "predict" (any predictor, residuals as coarse as allowed) or "hold" (last value, exact when it fires)
    predictor: one name for all properties, or a name per property; "auto" chooses and changes its mind
    min_interval: seconds between two events of a source that travel; between them nothing is promised
    changes: with "hold": only what is no header makes an event travel; its headers travel with it. Of the headers of
        events that were passed over nothing is promised

    >>> Demand(tolerance={"temperature": 0.5}).mode
    'predict'
    """

    tolerance: Mapping[str, Tolerance] = field(default_factory=lambda: MappingProxyType({}))
    default_tolerance: float = 0
    mode: Literal["predict", "hold"] = "predict"
    predictor: str | Mapping[str, str] = "auto"
    min_interval: float = 0
    changes: bool = False

    def __post_init__(self) -> None:
        if self.mode not in ("predict", "hold"):
            raise DemandError("mode is 'predict' or 'hold'", mode=self.mode)
        if self.changes and self.mode != "hold":
            raise DemandError("changes only are told in mode 'hold'", mode=self.mode)
        for name, value in (("default_tolerance", self.default_tolerance), ("min_interval", self.min_interval)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise DemandError(f"{name} must be a number, zero or more", value=value)


def tolerance_of(schema: Schema, p: Property, demand: Demand) -> Fraction:
    """The tolerance a demand puts on one property, in the property's own unit."""
    if p.name not in demand.tolerance:
        measured = p.role is Role.MEASUREMENT and p.kind in TOLERANT_KINDS and p.domain not in NEVER_TOLERANT
        return Fraction(str(demand.default_tolerance)) if measured else Fraction(0)
    asked = demand.tolerance[p.name]
    amount = _percent(p, asked) if isinstance(asked, str) and asked.endswith("%") else _number(p, asked)
    if amount and p.kind not in TOLERANT_KINDS:
        kind = p.kind.value
        raise DemandError(f"a value of kind {kind} has no tolerance; ask for 0", property=p.name, tolerance=asked)
    if amount and p.domain in NEVER_TOLERANT:
        raise DemandError(f"a {p.domain} always travels as it is; ask for 0", property=p.name, tolerance=asked)
    return amount


def check_names(schema: Schema, demand: Demand) -> None:
    """Refuse a demand on properties that do not exist or do not travel."""
    predictors = {} if isinstance(demand.predictor, str) else demand.predictor
    travelling = sorted(p.name for p in schema.wire)
    for name in (*demand.tolerance, *predictors):
        if name not in travelling:
            raise DemandError("demand on a property that does not travel", property=name, choose_from=travelling)


def tick_size(p: Property) -> Fraction:
    """One tick of a property in the unit its tolerance is stated in."""
    per_second = ticks_per_second(p.form) if p.kind is Kind.TIMESTAMP else None
    return 1 / Fraction(per_second) if per_second else p.step or Fraction(1)


def in_ticks(p: Property, tolerance: Fraction) -> int:
    """A tolerance as a count of the property's ticks, rounded down."""
    return int(tolerance / tick_size(p))


def _percent(p: Property, asked: str) -> Fraction:
    if p.minimum is None or p.maximum is None:
        raise DemandError(
            "a percentage needs a declared range: give minimum and maximum in the schema, or an absolute tolerance",
            property=p.name,
            tolerance=asked,
        )
    share = _number(p, asked[:-1].strip())
    return share * (Fraction(str(p.maximum)) - Fraction(str(p.minimum))) / 100


def _number(p: Property, asked: Tolerance) -> Fraction:
    # checked as text first: the exact value of "1e999999999" would fill the memory
    if not _NUMBER.fullmatch(str(asked)):
        raise DemandError("a tolerance is a number or a percentage", property=p.name, tolerance=asked)
    amount = Fraction(str(asked))
    if amount < 0:
        raise DemandError("a tolerance cannot be negative; 0 means exact", property=p.name, tolerance=asked)
    return amount
