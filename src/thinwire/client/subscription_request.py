"""The options of a subscription, checked against the schema of the topic before anything is sent."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal

from thinwire.codec import Demand
from thinwire.codec.demand import check_names, tolerance_of
from thinwire.codec.tolerance_vector import Tolerance
from thinwire.errors import ConfigError, DemandError
from thinwire.filters.where.predicate import WherePredicate
from thinwire.filters.where.where_grammar import parse_where
from thinwire.schema import Role, Schema

Start = Literal["latest", "earliest"] | int | datetime
"""the end of the log, the first stored event, an offset, or a time"""


@dataclass(frozen=True)
class SubscriptionRequest:
    """The options of a subscription; see `Bus.subscribe`."""

    tolerance: Mapping[str, Tolerance] = field(default_factory=lambda: MappingProxyType({}))
    default_tolerance: float = 0
    properties: tuple[str, ...] | None = None
    sources: Mapping[str, frozenset[Any]] = field(default_factory=lambda: MappingProxyType({}))
    emit: Literal["all", "changes"] = "all"
    cadence: Literal["event", "tick"] = "event"
    tick: float = 1.0
    durable: str | None = None
    start: Start = "latest"
    exact: bool | tuple[str, ...] = False
    where: WherePredicate | None = None

    def __post_init__(self) -> None:
        if self.emit not in ("all", "changes"):
            raise ConfigError("emit is 'all' or 'changes'", emit=self.emit)
        if self.cadence not in ("event", "tick"):
            raise ConfigError("cadence is 'event' or 'tick'", cadence=self.cadence)
        if self.where is not None and self.cadence == "tick":
            raise ConfigError("predicted values may not match `where`: use cadence='event'", cadence=self.cadence)
        if not 0.01 <= self.tick <= 3600:
            raise ConfigError("tick is 0.01 to 3600 seconds", tick=self.tick)
        if isinstance(self.start, bool) or not (
            self.start in ("latest", "earliest") or isinstance(self.start, int | datetime)
        ):
            raise ConfigError("start is 'latest', 'earliest', an offset or a datetime", start=self.start)
        if isinstance(self.start, int) and self.start < 1:
            raise ConfigError("offsets count from 1", start=self.start)
        if isinstance(self.start, datetime) and self.start.tzinfo is None:
            raise ConfigError("give the start a time zone, such as timezone.utc", start=self.start)

    def demand(self) -> Demand:
        """Return the demand as tolerances, default tolerance and mode."""
        exact = (*(self.exact if isinstance(self.exact, tuple) else ()), *self.predicate_properties)
        tolerance = {**self.tolerance, **dict.fromkeys(exact, 0)} if self.exact is not True else {}
        return Demand(
            tolerance=tolerance,
            default_tolerance=0 if self.exact is True else self.default_tolerance,
            mode="hold" if self.emit == "changes" else "predict",
        )

    @property
    def predicate_properties(self) -> tuple[str, ...]:
        """The properties of the predicate. They are exact, whether they are delivered or not."""
        return self.where.names if self.where is not None else ()

    def tolerances(self, schema: Schema, *, with_predicate: bool = False) -> dict[str, float]:
        """Return the tolerances of the delivered properties; `with_predicate`: also of those of the predicate."""
        demand, selected = self.demand(), self.properties
        others = self.predicate_properties if with_predicate else ()
        return {
            p.name: float(tolerance_of(schema, p, demand))
            for p in schema.wire
            if selected is None or p.name in selected or p.name in others
        }

    def check(self, schema: Schema) -> None:
        """Raise DemandError, with the property, for options that do not fit the schema."""
        if self.where is not None:
            self.where.check(schema)
            self.where.check_tolerances(self.tolerance)
        _check_known(schema, self.properties or (), "properties")
        _check_known(schema, self.exact if isinstance(self.exact, tuple) else (), "exact")
        dimensions = {p.name for p in schema.dimensions}
        for name in self.sources:
            if name not in dimensions:
                raise DemandError("sources are chosen by dimensions", property=name, choose_from=sorted(dimensions))
        check_names(schema, replace(self, where=None).demand())  # `where.check` has checked the predicate
        self.tolerances(schema)  # raises DemandError for an invalid tolerance


def make_request(
    *,
    properties: Sequence[str] | None,
    sources: Mapping[str, Any] | None,
    exact: bool | Sequence[str],
    tolerance: Mapping[str, Tolerance] | None,
    where: str | None = None,
    **options: Any,
) -> SubscriptionRequest:
    """Create a request from the arguments of `Bus.subscribe`."""
    if isinstance(properties, str):
        raise ConfigError("properties is a list of names", properties=properties)
    return SubscriptionRequest(
        properties=tuple(properties) if properties is not None else None,
        sources={name: _selected_values(value) for name, value in (sources or {}).items()},
        exact=exact if isinstance(exact, bool) else tuple(exact),
        tolerance=dict(tolerance or {}),
        where=_parse_predicate(where),
        **options,
    )


def _parse_predicate(where: str | None) -> WherePredicate | None:
    if where is not None and not isinstance(where, str):
        raise ConfigError("where is a text such as \"price > 10 and region = 'EU'\"", where=where)
    return parse_where(where) if where is not None else None


def _selected_values(value: Any) -> frozenset[Any]:
    many = isinstance(value, Collection) and not isinstance(value, str | bytes)
    return frozenset(value) if many else frozenset({value})


def _check_known(schema: Schema, names: Sequence[str], option: str) -> None:
    known = {p.name for p in schema if not p.confidential}
    for name in names:
        if name not in known:
            raise DemandError(
                f"{option}: no such property, or it is confidential", property=name, choose_from=sorted(known)
            )


def always_delivered(schema: Schema) -> frozenset[str]:
    """Return the properties that every event has: its dimensions and its time."""
    return frozenset(p.name for p in schema if p.role in (Role.DIMENSION, Role.HEADER))
