"""Demand classes: subscriptions of a topic with equal demands, which share one channel.

The values in a log differ from the published ones by up to the publisher's tolerance. A class with a larger tolerance
can use the difference in its channel.

>>> from thinwire.codec import resolve
>>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
>>> one = DemandClass.of(SubscriptionDocument("rooms", "a", {"t": 0.5}))
>>> one.id == DemandClass.of(SubscriptionDocument("rooms", "b", {"t": "0.50"}, durable="b")).id
True
>>> one.channel_demand(rooms, resolve(rooms, Demand({"t": 0.2}))).tolerance
{'t': 0.3}
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Literal

from thinwire.codec import Demand, Rule, RuleSet, resolve
from thinwire.codec.tolerance_vector import (
    EXACT,
    Tolerance,
    ToleranceVector,
    canonical_tolerance,
    parse_amount,
    read_tolerance,
    round_down,
    tick_size,
    write_for_property,
)
from thinwire.errors import DemandError
from thinwire.filters.where.predicate import WherePredicate
from thinwire.filters.where.where_grammar import parse_where
from thinwire.schema import Property, Role, Schema
from thinwire.topics.static_properties import FACTS_PROPERTY
from thinwire.topics.topic_documents import SubscriptionDocument
from thinwire.topics.topic_settings import demand_for
from thinwire.wire.partial_event import EncodingKind, encoding_kind_of

MAX_CLASSES: Mapping[str, int] = MappingProxyType({"predict": 64, "hold": 100_000})
"""classes of a topic that have a channel, at most, by mode of the channel"""

Source = tuple[Any, ...]


@dataclass(frozen=True)
class DemandClass:
    """The demand of a class in canonical form.

    tolerance, default_tolerance, exact, properties, emit: as in `SubscriptionDocument`
    sources: selected values by dimension; None for all
    where: canonical predicate that events must match; None for all. The properties in it are exact
    """

    tolerance: Mapping[str, Tolerance] = field(default_factory=dict)
    default_tolerance: float = 0
    exact: bool | tuple[str, ...] = False
    properties: tuple[str, ...] | None = None
    sources: Mapping[str, tuple[Any, ...]] | None = None
    emit: Literal["all", "changes"] = "all"
    where: str | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        if self.where is not None:
            put(self, "where", parse_where(self.where).canonical)
        exact = self.exact if isinstance(self.exact, bool) else tuple(sorted(set(self.exact)))
        put(self, "exact", exact or False)
        tolerance = {
            name: canonical_tolerance(value)
            for name, value in sorted(self.tolerance.items())
            if parse_amount(value) != 0 or not self._is_exact(name)  # a tolerance of 0 repeats `exact`
        }
        put(self, "tolerance", tolerance)
        put(self, "default_tolerance", round_down(Fraction(str(self.default_tolerance))))
        if self.properties is not None:
            put(self, "properties", tuple(sorted(set(self.properties))))
        sources = {name: _canonical_values(value) for name, value in sorted((self.sources or {}).items())}
        put(self, "sources", sources or None)

    def __hash__(self) -> int:
        return hash(self.id)

    @classmethod
    def of(cls, document: SubscriptionDocument) -> DemandClass:
        """The class of a subscription."""
        return cls(**{name: getattr(document, name) for name in cls.__dataclass_fields__})

    @cached_property
    def id(self) -> str:
        """16 hexadecimal digits that identify the class, independent of topic and schema."""
        document = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if self.where is None:
            del document["where"]  # ids of classes without a predicate are older than predicates
        text = json.dumps(document, sort_keys=True, separators=(",", ":"), default=repr)
        return blake2b(text.encode(), digest_size=8).hexdigest()

    @property
    def mode(self) -> Literal["predict", "hold"]:
        """The mode of its channel: "hold" with a predicate, because a predictor would need the omitted events."""
        return "hold" if self.emit == "changes" or self.where is not None else "predict"

    @cached_property
    def predicate(self) -> WherePredicate | None:
        """The predicate that events must match; None if all do."""
        return parse_where(self.where) if self.where is not None else None

    def check(self) -> None:
        """Refuse a demand that contradicts itself. The error names the property."""
        if self.predicate is not None:
            self.predicate.check_tolerances(self.tolerance)
        if self.exact is True and self.default_tolerance:
            raise DemandError("exact excludes a default tolerance", tolerance=self.default_tolerance)
        for name, value in self.tolerance.items():
            if parse_amount(value) is None:
                raise DemandError("a tolerance is a number or a percentage, zero or more", property=name, given=value)
            if self._is_exact(name):
                raise DemandError("exact excludes a tolerance for the same property", property=name)
            if self.properties is not None and name not in self.properties:
                raise DemandError("a tolerance for a property that is not in `properties`", property=name)

    def schema(self, log_schema: Schema) -> Schema:
        """The schema of the channel: selected properties and those always sent; `log_schema` without a selection."""
        if self.properties is None:
            return log_schema
        selected = {*self.properties, *(self.predicate.names if self.predicate is not None else ())}
        return log_schema.select(p.name for p in log_schema if p.name in selected or _is_always_sent(p))

    def channel_demand(self, schema: Schema, log_rules: RuleSet) -> Demand:
        """The demand of the channel: the class's tolerances minus those of the log, 0 if the log is coarser.

        schema: the schema of the channel
        """
        rules = {rule.property.name: rule for rule in log_rules.rules}
        spent = ToleranceVector({p.name: self._log_tolerance(p, rules[p.name]) for p in schema.wire})
        remaining = self._tolerances(schema).difference(spent, schema.wire)
        tolerance: dict[str, Tolerance] = {}
        idle: list[Fraction] = []
        for p in schema.wire:
            amount = remaining[p.name]
            if self._has_idle_band(p) and not rules[p.name].band and amount >= 0:
                idle.append(amount)  # without a tolerance of its own, so that the channel applies the idle band
            else:
                tolerance[p.name] = write_for_property(p, max(EXACT, amount))
        default = round_down(min(idle, default=EXACT))
        return Demand(tolerance, default, mode=self.mode, changes=self.mode == "hold")

    def is_log_sufficient(self, schema: Schema, log_demand: Demand) -> bool:
        """Return True if a channel would contain the same events as the log.

        A log with a minimum interval is always sufficient: the error of its suppressed events has no bound, so a
        channel cannot guarantee one either.

        schema: the schema of the log; log_demand: the demand of its publishers
        """
        if log_demand.min_interval:
            return True
        if self.sources is not None or self.where is not None or self.schema(schema) is not schema:
            return False
        log_rules = resolve(schema, demand_for(schema, log_demand))
        rules = resolve(schema, self.channel_demand(schema, log_rules)).rules
        return not any(rule.tolerance or rule.band or rule.distance for rule in rules)

    def source_filter(self, schema: Schema) -> Callable[[Source], bool] | None:
        """Return the function that reports whether a source is selected; None if all sources are."""
        selected = self.sources or {}
        indexes = [(i, frozenset(selected[p.name])) for i, p in enumerate(schema.dimensions) if p.name in selected]
        if not indexes:
            return None
        return lambda source: all(source[i] in values for i, values in indexes)

    def _tolerances(self, schema: Schema) -> ToleranceVector:
        return ToleranceVector({p.name: self._tolerance(p) for p in schema.wire})

    def _tolerance(self, p: Property) -> Fraction:
        """The requested tolerance; exact if this version of the schema cannot honour it."""
        if self._is_exact(p.name):
            return EXACT
        try:
            return read_tolerance(p, self.tolerance, self.default_tolerance)
        except DemandError:
            return EXACT

    def _log_tolerance(self, p: Property, rule: Rule) -> Fraction:
        """The part of the class's tolerance that the log uses. The idle band does not count if the class allows it."""
        if encoding_kind_of(p.kind) is EncodingKind.FLOAT:
            return Fraction(str(min(rule.bound, sys.float_info.max)))
        spent = rule.tolerance + rule.upstream + (0 if self._has_idle_band(p) else rule.band)
        return Fraction(spent) * tick_size(p)

    def _has_idle_band(self, p: Property) -> bool:
        """Return True if readings near zero may count as zero. A tolerance for the property excludes it."""
        named = p.name in self.tolerance or self._is_exact(p.name)
        return bool(p.idle_band) and not named and encoding_kind_of(p.kind) is not EncodingKind.FLOAT

    def _is_exact(self, name: str) -> bool:
        if self.predicate is not None and name in self.predicate.names:
            return True
        return self.exact if isinstance(self.exact, bool) else name in self.exact


def check_subscription(schema: Schema, document: SubscriptionDocument) -> None:
    """Refuse a subscription that contradicts itself or the schema. The error names the property."""
    if document.where is not None:
        parse_where(document.where).check(schema)
    for name in document.named_properties:
        if name not in schema:
            known = sorted(p.name for p in schema if not p.confidential)
            raise DemandError("the schema has no such property", property=name, choose_from=known)
        if schema[name].confidential:
            raise DemandError("a confidential property is never sent", property=name)
    dimensions = [p.name for p in schema.dimensions]
    for name in document.sources or {}:
        if name not in dimensions:
            raise DemandError("sources are selected by dimensions", property=name, choose_from=dimensions)
    for name in document.tolerance:
        read_tolerance(schema[name], document.tolerance)
    DemandClass.of(document).check()


def _canonical_values(selected: Any) -> tuple[Any, ...]:
    """The values of a selection, each once, in one order."""
    many = isinstance(selected, Collection) and not isinstance(selected, str | bytes)
    by_text = {json.dumps(value, default=repr): value for value in (selected if many else (selected,))}
    return tuple(by_text[text] for text in sorted(by_text))


def _is_always_sent(p: Property) -> bool:
    return (p.role in (Role.DIMENSION, Role.HEADER) or p.name == FACTS_PROPERTY) and not p.confidential
