"""What a subscription requests of a stream: tolerances, mode, predictor and minimum interval."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Literal

from thinwire.codec.tolerance_vector import Tolerance, read_tolerance
from thinwire.errors import DemandError
from thinwire.schema import Property, Schema


@dataclass(frozen=True)
class Demand:
    """Tolerances, and how values are sent.

    tolerance: per property; a property without one gets `default_tolerance` if it is a measurement, else 0
    mode: "predict" (any predictor, residuals as coarse as allowed) or "hold" (last value, exact when sent)
    predictor: one name for all properties, or a name per property; "auto" chooses from the data
    min_interval: seconds between two sent events of a source; events in between have no bound
    changes: in mode "hold": headers alone do not cause an event to be sent; headers of suppressed events have no bound

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
            raise DemandError("changes requires mode 'hold'", mode=self.mode)
        for name, value in (("default_tolerance", self.default_tolerance), ("min_interval", self.min_interval)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise DemandError(f"{name} must be a number, zero or more", value=value)


def tolerance_of(schema: Schema, p: Property, demand: Demand) -> Fraction:
    """The tolerance that a demand puts on one property, in the property's unit."""
    return read_tolerance(p, demand.tolerance, demand.default_tolerance)


def check_names(schema: Schema, demand: Demand) -> None:
    """Refuse a demand on properties that the schema does not send."""
    predictors = {} if isinstance(demand.predictor, str) else demand.predictor
    sent = sorted(p.name for p in schema.wire)
    for name in (*demand.tolerance, *predictors):
        if name not in sent:
            raise DemandError("demand on a property that is not sent", property=name, choose_from=sent)
