"""Classes: subscriptions that ask for the same. What is encoded for one of them is encoded for all.

A publisher's log is off by p already, so a class that allows a tolerance has c = tolerance - p left to spend.

>>> from thinwire.schema import Property
>>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
>>> one = DemandClass.of(SubscriptionDocument("rooms", "a", {"t": 0.5}))
>>> one.id == DemandClass.of(SubscriptionDocument("rooms", "b", {"t": "0.50"}, durable="b")).id
True
>>> one.share(rooms, resolve(rooms, Demand({"t": 0.2}))).tolerance
{'t': 0.3}
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Literal

from thinwire.codec import Demand, Rule, RuleSet, resolve
from thinwire.codec.demand import Tolerance, in_ticks, tick_size, tolerance_of
from thinwire.errors import DemandError
from thinwire.filters.where import Where, parse
from thinwire.schema import Property, Role, Schema
from thinwire.topics import tolerance_budget as canonical
from thinwire.topics.static_properties import FACTS_PROPERTY
from thinwire.topics.tolerance_budget import check_subscription, written
from thinwire.topics.topic_documents import SubscriptionDocument
from thinwire.topics.topic_settings import demand_for
from thinwire.wire.partial_event import EncodingKind, lane_of

MAX_CLASSES: Mapping[str, int] = MappingProxyType({"predict": 64, "hold": 100_000})
"""classes of a topic that are translated, at most, by the way they are sent"""

Source = tuple[Any, ...]
_NOTHING = Fraction(0)


@dataclass(frozen=True)
class DemandClass:
    """What the subscriptions of a class ask for, written in one way only.

    tolerance, default_tolerance, exact, properties, emit: as in `SubscriptionDocument`
    sources: the values chosen, by dimension; None for all
    where: the predicate that events must match, as it is written in one way; None for all. What it names is exact
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
            put(self, "where", parse(self.where).canonical)
        exact = self.exact if isinstance(self.exact, bool) else tuple(sorted(set(self.exact)))
        put(self, "exact", exact or False)
        tolerance = {
            name: canonical.tolerance(asked)
            for name, asked in sorted(self.tolerance.items())
            if canonical.amount(asked) != 0 or not self._is_exact(name)  # exact and exact is exact
        }
        put(self, "tolerance", tolerance)
        put(self, "default_tolerance", canonical.number(Fraction(str(self.default_tolerance))))
        if self.properties is not None:
            put(self, "properties", tuple(sorted(set(self.properties))))
        chosen = {name: canonical.values(value) for name, value in sorted((self.sources or {}).items())}
        put(self, "sources", chosen or None)

    def __hash__(self) -> int:
        return hash(self.id)

    @classmethod
    def of(cls, asked: SubscriptionDocument) -> DemandClass:
        """The class of a subscription."""
        return cls(
            asked.tolerance,
            asked.default_tolerance,
            asked.exact,
            asked.properties,
            asked.sources,
            asked.emit,
            asked.where,
        )

    @cached_property
    def id(self) -> str:
        """16 hexadecimal digits that name the class, whatever the topic and its schema."""
        document = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if self.where is None:
            del document["where"]  # classes that choose no events keep their names
        canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), default=repr)
        return blake2b(canonical.encode(), digest_size=8).hexdigest()

    @property
    def mode(self) -> Literal["predict", "hold"]:
        """The way it is sent. Of events that do not match nothing is told, so what is expected must not move."""
        return "hold" if self.emit == "changes" or self.where is not None else "predict"

    @cached_property
    def predicate(self) -> Where | None:
        """What events must match; None where all do."""
        return parse(self.where) if self.where is not None else None

    def check(self, schema: Schema | None = None) -> None:
        """Refuse, by name, a demand that contradicts itself, or that the topic's schema cannot honour where given."""
        if schema is not None:
            given = (self.tolerance, self.default_tolerance, self.exact, self.properties, self.sources)
            check_subscription(schema, SubscriptionDocument(schema.name, self.id, *given, where=self.where))
        if self.predicate is not None:
            self.predicate.check_tolerances(self.tolerance)
        if self.exact is True and self.default_tolerance:
            raise DemandError("exact, and a default tolerance: ask for one of them", tolerance=self.default_tolerance)
        for name, asked in self.tolerance.items():
            if canonical.amount(asked) is None:
                raise DemandError("a tolerance is a number or a percentage, zero or more", property=name, given=asked)
            if self._is_exact(name):
                raise DemandError("exact, and a tolerance: ask for one of them", property=name)
            if self.properties is not None and name not in self.properties:
                raise DemandError("a tolerance for a property that is not among `properties`", property=name)

    def schema(self, travelling: Schema) -> Schema:
        """What travels to the class: what it chose, and what an event always keeps. All of it: the schema itself."""
        if self.properties is None:
            return travelling
        chosen = {*self.properties, *(self.predicate.names if self.predicate is not None else ())}
        return travelling.select(p.name for p in travelling if p.name in chosen or _always(p))

    def share(self, schema: Schema, over: RuleSet) -> Demand:
        """What is left of its tolerances after what the log may be off; nothing where the log is coarser than asked.

        schema: the class's; over: the rules of the log
        """
        rules = {rule.property.name: rule for rule in over.rules}
        told: dict[str, Tolerance] = {}
        idle: list[Fraction] = []
        for p in schema.wire:
            left = self._left(schema, p, rules[p.name])
            if self._idles(p) and not rules[p.name].band and left >= 0:
                idle.append(left)  # not named, so that the link itself takes readings near zero for zero
            else:
                told[p.name] = _make_tolerance(p, max(_NOTHING, left))
        return Demand(told, canonical.number(min(idle, default=_NOTHING)), mode=self.mode, changes=self.mode == "hold")

    def is_log(self, schema: Schema, over: RuleSet | Demand) -> bool:
        """Is the log, as it is, what the class asks for? A log that leaves events out is nobody else's either.

        schema: the one that travels; over: the rules of the log, or what its publishers are told
        """
        if isinstance(over, Demand):
            over = resolve(schema, demand_for(schema, over))
        if over.min_interval:
            return True
        if self.sources is not None or self.where is not None or self.schema(schema) is not schema:
            return False
        left = resolve(schema, self.share(schema, over)).rules
        return not any(rule.tolerance or rule.band or rule.distance for rule in left)

    def chooses(self, source: Source, schema: Schema) -> bool:
        """Does it take events of this source?"""
        choose = self.chooser(schema)
        return choose is None or choose(source)

    def chooser(self, schema: Schema) -> Callable[[Source], bool] | None:
        """The function that says so of the sources of one schema; None where it takes all."""
        chosen = self.sources or {}
        places = [(at, frozenset(chosen[p.name])) for at, p in enumerate(schema.dimensions) if p.name in chosen]
        if not places:
            return None
        return lambda source: all(source[at] in wanted for at, wanted in places)

    def _left(self, schema: Schema, p: Property, rule: Rule) -> Fraction:
        """What the log has left of a tolerance; less than nothing where it is coarser."""
        asked = self._asked(schema, p)
        lane = lane_of(p.kind)
        if lane is EncodingKind.FLOAT:
            return Fraction(_float_left(float(asked), rule.bound))
        if lane is EncodingKind.GEO:  # two tolerances do not add up on a sphere
            return asked if not rule.tolerance + rule.upstream else _NOTHING
        spent = rule.tolerance + rule.upstream + (0 if self._idles(p) else rule.band)
        return asked - Fraction(spent) * tick_size(p)

    def _asked(self, schema: Schema, p: Property) -> Fraction:
        """Its tolerance; exactly, where this version of the schema cannot honour it: that keeps every promise."""
        if self._is_exact(p.name):
            return _NOTHING
        try:
            return tolerance_of(schema, p, Demand(self.tolerance, self.default_tolerance))
        except DemandError:
            return _NOTHING

    def _idles(self, p: Property) -> bool:
        """May readings near zero count as zero? To name a property is to say no."""
        named = p.name in self.tolerance or self._is_exact(p.name)
        return bool(p.idle_band) and not named and lane_of(p.kind) is not EncodingKind.FLOAT

    def _is_exact(self, name: str) -> bool:
        if self.predicate is not None and name in self.predicate.names:
            return True
        return self.exact if isinstance(self.exact, bool) else name in self.exact


def _always(p: Property) -> bool:
    """What every event keeps: whose it is, its header, and the reference to its facts."""
    return (p.role in (Role.DIMENSION, Role.HEADER) or p.name == FACTS_PROPERTY) and not p.confidential


def _make_tolerance(p: Property, left: Fraction) -> Tolerance:
    """A tolerance as a demand has it, worth as many ticks: a third of something is no decimal, and half a tick more is
    none more. One of a float is a double already."""
    lane = lane_of(p.kind)
    if lane is EncodingKind.FLOAT:
        return float(left)
    told = written(left)
    if lane is EncodingKind.GEO or in_ticks(p, Fraction(str(told))) == in_ticks(p, left):
        return told
    return written((in_ticks(p, left) + Fraction(1, 2)) * tick_size(p))


def _float_left(asked: float, spent: float) -> float:
    """What may be added to `spent` without going above `asked`, by the arithmetic of doubles."""
    left = max(0.0, asked - spent)
    while left and float(Fraction(str(spent)) + Fraction(str(left))) > asked:
        left = math.nextafter(left, 0.0)
    return left
