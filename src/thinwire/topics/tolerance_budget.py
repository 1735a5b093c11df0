"""Demands written in one way only, so that those who ask for the same are found to.

>>> tolerance("0.50"), tolerance(3.0), tolerance("1.0 %"), tolerance("half")
(0.5, 3, '1%', 'half')
>>> values(["b", "a", "b"]), values("a")
(('a', 'b'), ('a',))

Tolerances as documents write them: the exact decimal.

>>> written(Fraction(1, 2)), written(Fraction(3)), written(Fraction("0.10000000000000000001"))
(0.5, 3, '10000000000000000001e-20')

The budget: what all subscriptions of a topic together ask of its publishers.

Per property the publisher's tolerance is the smallest one that anybody asks for. Who asks for `exact` asks for 0. Who
does not select a property does not constrain it; a property that nobody selects gets the loosest tolerance that anybody
would have had for it, for it is told to nobody. Sources do not matter: one publisher has one tolerance per property.

A property named by nobody keeps what its schema says of idling (`idle_band`), as a single subscriber's would.

>>> from thinwire.schema import Property
>>> rooms = Schema("rooms", [Property("t", "number", step="0.1", minimum=0, maximum=50), Property("on", "boolean")])
>>> asked = [SubscriptionDocument("rooms", "a", {"t": "1%"}), SubscriptionDocument("rooms", "b", {"t": 2})]
>>> budget(rooms, asked).demand(rooms, Settings()).tolerance
{'t': 0.5}
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from thinwire.codec import Demand
from thinwire.codec.demand import Tolerance, tolerance_of
from thinwire.errors import DemandError
from thinwire.filters.where import parse
from thinwire.schema import Property, Schema
from thinwire.topics.topic_documents import SubscriptionDocument
from thinwire.topics.topic_settings import Settings

_DIGITS = 40
_LARGEST = Fraction(10) ** 300
"""a demand is read into doubles here and there: more than this is this, less than its inverse is nothing"""


def written(amount: Fraction) -> Tolerance:
    """A tolerance as a number where that is exact, else as text; beyond 40 digits rounded down, which is stricter."""
    amount = min(amount, _LARGEST) if amount * _LARGEST >= 1 else Fraction(0)
    if amount.denominator == 1 and amount < 1 << 53:
        return int(amount)
    if Fraction(str(float(amount))) == amount:
        return float(amount)
    return _text(amount)


def _text(amount: Fraction) -> str:
    places = _places(amount)
    digits = str(int(amount * 10**places)) if places >= 0 else str(int(amount / 10**-places))
    return f"{digits}e{-places}"


def _places(amount: Fraction) -> int:
    """Decimal places after the point (negative: zeros before it) that show the amount, at most 40 digits of it."""
    size = len(str(int(amount))) if amount >= 1 else 1 - len(str(int(1 / amount)))
    exact = next((n for n in range(-size, _DIGITS - size) if (amount * Fraction(10) ** n).denominator == 1), None)
    return _DIGITS - size if exact is None else exact


_PER_CENT = Schema("tolerances", [Property("any", "float", minimum=0, maximum=100)])
"""the range in which a percentage is the number before its sign"""


def amount(asked: Tolerance) -> Fraction | None:
    """A tolerance as a number, a percentage by the number before its sign; None where it is neither."""
    (any_,) = _PER_CENT
    try:
        return tolerance_of(_PER_CENT, any_, Demand({any_.name: asked}))
    except DemandError:
        return None


def tolerance(asked: Tolerance) -> Tolerance:
    """A tolerance, percentages as text; what is none stays as it is."""
    found = amount(asked)
    if found is None:
        return asked
    return f"{written(found)}%" if isinstance(asked, str) and asked.endswith("%") else written(found)


def number(amount: Fraction) -> float:
    """A tolerance as a number that is not above it.

    >>> number(Fraction("0.5")), number(Fraction(2))
    (0.5, 2)
    """
    if amount.denominator == 1:
        return int(amount)
    nearest = float(amount)
    return nearest if Fraction(str(nearest)) <= amount else math.nextafter(nearest, 0.0)


def values(chosen: Any) -> tuple[Any, ...]:
    """The values of a choice, each once, in one order whatever they are."""
    many = isinstance(chosen, Collection) and not isinstance(chosen, str | bytes)
    by_text = {json.dumps(value, default=repr): value for value in (chosen if many else (chosen,))}
    return tuple(by_text[text] for text in sorted(by_text))


EXACT = Fraction(0)


@dataclass(frozen=True)
class Budget:
    """What is asked of publishers.

    wanted: shall they publish at all?
    asked: does anybody ask for a tolerance? A log that is retained while nobody listens is exact, and asks for nothing
    amounts: the tolerance of every property that travels, in its own unit
    idle: the properties with an idle band that nobody named, so that the band holds
    default: the tolerance of what nobody named; problems: what subscriptions ask in vain, in words
    """

    wanted: bool
    asked: bool
    amounts: dict[str, Fraction]
    idle: frozenset[str] = frozenset()
    default: Fraction = EXACT
    problems: tuple[str, ...] = ()

    def demand(self, schema: Schema, settings: Settings) -> Demand:
        """As publishers are told: what follows from the default is not repeated."""
        whole = Demand(default_tolerance=_default(self.default))
        told = {
            p.name: written(self.amounts[p.name])
            for p in travelling(schema)
            if p.name not in self.idle
            # to name a property is to switch its idle band off
            and (p.idle_band is not None or self.amounts[p.name] != tolerance_of(schema, p, whole))
        }
        return Demand(told, whole.default_tolerance, **settings.way)


def travelling(schema: Schema) -> list[Property]:
    """The properties that have a tolerance: those that travel in events. What is told once is told exactly."""
    return [p for p in schema.wire if not p.static]


def check_subscription(schema: Schema, asked: SubscriptionDocument) -> None:
    """Refuse, by name, a subscription that the schema cannot honour."""
    if asked.where is not None:
        where = parse(asked.where)
        where.check(schema)
        where.check_tolerances(asked.tolerance)
    for name in _named(asked):
        if name not in schema:
            known = sorted(p.name for p in schema if not p.confidential)
            raise DemandError("a subscription to a property that does not exist", property=name, choose_from=known)
        if schema[name].confidential:
            raise DemandError("a confidential property never leaves its publisher", property=name)
    for name in asked.sources or {}:
        dimensions = [p.name for p in schema.dimensions]
        if name not in dimensions:
            raise DemandError("sources are chosen by dimensions", property=name, choose_from=dimensions)
    if asked.exact is True and asked.default_tolerance:
        raise DemandError("exact, and a default tolerance: ask for one of them", tolerance=asked.default_tolerance)
    for name in asked.tolerance:
        if asked.is_exact(name) and tolerance_of(schema, schema[name], asked.demand):
            raise DemandError("exact, and a tolerance: ask for one of them", property=name)
        if asked.properties is not None and name not in asked.properties:
            raise DemandError("a tolerance for a property that is not among `properties`", property=name)
        tolerance_of(schema, schema[name], asked.demand)


def budget(schema: Schema, subscriptions: Iterable[SubscriptionDocument], settings: Settings | None = None) -> Budget:
    """What the subscriptions, and a retained log, ask together."""
    settings = settings or Settings()
    asking = sorted(subscriptions, key=lambda asked: asked.identity)
    voices = [*asking, *_retained(schema, settings)]
    problems = [f"{voice.key}: no property {name}" for voice in asking for name in _named(voice) if name not in schema]
    amounts, idle = dict[str, Fraction](), set[str]()
    for p in travelling(schema):
        asked = [(voice, _amount(schema, p, voice, problems)) for voice in voices]
        heard = [(voice, amount) for voice, amount in asked if _selects(voice, p.name)]
        amounts[p.name] = _agreed([amount for _, amount in heard], [amount for _, amount in asked])
        if p.idle_band is not None and not any(_names(voice, p.name) for voice, _ in heard):
            idle.add(p.name)
    default = min((_decimal(voice.default_tolerance) for voice in voices), default=EXACT)
    wanted = bool(asking) or settings.retain
    return Budget(wanted, bool(voices), amounts, frozenset(idle if voices else ()), default, tuple(problems))


def of_demand(schema: Schema, demand: Demand, wanted: bool) -> Budget:
    """What a demand that publishers have been told comes to."""
    voice = SubscriptionDocument("told", "told", demand.tolerance, demand.default_tolerance)
    amounts = {p.name: _amount(schema, p, voice, []) for p in travelling(schema)}
    idle = {p.name for p in travelling(schema) if p.idle_band is not None and p.name not in demand.tolerance}
    return Budget(wanted, True, amounts, frozenset(idle), _decimal(demand.default_tolerance))


def between(told: Budget, needed: Budget, held: Budget) -> Budget:
    """What to tell publishers: as little else as possible than they have been told.

    needed: what is asked now; held: with those who left a moment ago, so at least as strict. Too loose is tightened to
    what is needed, too strict is loosened to what is held, and anything between stays as it is. While nobody asks,
    those who left a moment ago may come back: until then neither end is preferred.
    """
    wanted = needed.wanted or (held.wanted and told.wanted)
    if not wanted:
        return needed
    loose = needed if needed.asked else held
    amounts = {
        name: _clamp(told.amounts[name], needed.amounts[name], held.amounts[name], loose.amounts[name])
        for name in needed.amounts
    }
    idle = (needed.idle & held.idle) | (told.idle & loose.idle)
    default = _clamp(told.default, needed.default, held.default, loose.default)
    return Budget(wanted, needed.asked, amounts, idle, default, needed.problems)


def stricter(one: Budget, other: Budget) -> Budget:
    """What satisfies both."""
    amounts = {name: min(amount, other.amounts[name]) for name, amount in one.amounts.items()}
    wanted, asked = one.wanted or other.wanted, one.asked or other.asked
    return Budget(wanted, asked, amounts, one.idle & other.idle, min(one.default, other.default), one.problems)


def _clamp(told: Fraction, needed: Fraction, held: Fraction, loose: Fraction) -> Fraction:
    return min(max(told, min(needed, held)), max(needed, loose))


def _agreed(heard: Sequence[Fraction], asked: Sequence[Fraction]) -> Fraction:
    return min(heard) if heard else max(asked, default=EXACT)


def _amount(schema: Schema, p: Property, asked: SubscriptionDocument, problems: list[str]) -> Fraction:
    """What one subscription asks of one property; exactly, where the schema cannot honour what it asks.

    A percentage can lose its range in a newer version of the schema. To be exact keeps every promise.
    """
    if asked.is_exact(p.name):
        return EXACT
    try:
        return tolerance_of(schema, p, asked.demand)
    except DemandError as problem:
        if _selects(asked, p.name):
            problems.append(f"{asked.key}: {problem}")
        return EXACT


def _retained(schema: Schema, settings: Settings) -> list[SubscriptionDocument]:
    """A retained log asks like a subscriber, where its owner said how well it is to be kept."""
    if not settings.retain or (settings.tolerance is None and settings.default_tolerance is None):
        return []
    return [SubscriptionDocument(schema.name, "log", settings.tolerance or {}, settings.default_tolerance or 0)]


def _selects(asked: SubscriptionDocument, name: str) -> bool:
    return asked.properties is None or name in asked.properties or name in asked.deciding


def _names(asked: SubscriptionDocument, name: str) -> bool:
    return name in asked.tolerance or asked.is_exact(name)


def _named(asked: SubscriptionDocument) -> list[str]:
    exact = () if isinstance(asked.exact, bool) else asked.exact
    return [*asked.tolerance, *exact, *(asked.properties or ()), *asked.deciding]


def _decimal(number: float) -> Fraction:
    return Fraction(str(number))


def _default(amount: Fraction) -> float:
    """A default tolerance again; it came from a number, so it is one."""
    return int(amount) if amount.denominator == 1 else float(amount)
