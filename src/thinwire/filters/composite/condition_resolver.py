"""Resolution of watch expressions: names and units become quantities and ticks, by the schemas of the topics.

>>> from thinwire.schema import Property
>>> rooms = Schema("building.rooms", [Property("room", "integer", "dimension"),
...                                   Property("temperature", "number", step="0.1", minimum=0, maximum=50)])
>>> condition = resolve("building.rooms[12].temperature +- 1% of range", {"building.rooms": rooms})
>>> print(condition.quantities[0], condition.conjuncts[0][0][1].ticks)
building.rooms[12].temperature 5
>>> resolve("building.rooms[12].temprature +- 1", {"building.rooms": rooms})
Traceback (most recent call last):
...
thinwire.errors.UnknownName: unknown name: no such property: line=1, column=1, property='temprature',
topic='building.rooms', nearest=['temperature']
    building.rooms[12].temprature +- 1
    ^
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from thinwire.codec.ticks import ABSENT, OFF_GRID, TICK_LIMIT
from thinwire.codec.tolerance_vector import declared_range, in_ticks, tick_size
from thinwire.codec.value_conversion import converter, nearest
from thinwire.errors import ExpressionError, UnknownName
from thinwire.filters.composite.condition import Condition, Predicate, Quantity, Radius
from thinwire.filters.composite.expression import And, Expression, Formula, Or, Term, fold
from thinwire.filters.composite.watch_grammar import parse_watch
from thinwire.schema import Kind, Property, Schema

_WATCHABLE_KINDS = frozenset({Kind.INTEGER, Kind.NUMBER})


def resolve(expression: Expression | str, schemas: Mapping[str, Schema]) -> Condition:
    """Return the condition of an expression over these topics.

    Raises `ExpressionError` with the position of a term that does not fit the schemas.
    """
    parsed = parse_watch(expression) if isinstance(expression, str) else expression
    resolver = _Resolver(parsed.text, schemas)
    return Condition.of(fold(parsed.root, resolver.predicate, _conjunction, _disjunction))


def ticks_of(p: Property) -> Callable[[Any], int | None]:
    """Return a function from values of a property to ticks: None for null, the nearest tick for values off the grid.

    >>> level = ticks_of(Property("level", "number", step="0.1"))
    >>> level(2.5), level(2.54), level(None)
    (25, 25, None)
    """
    convert = converter(p)

    def ticks(value: Any) -> int | None:
        tick: int = convert(value)
        if tick == ABSENT:
            return None
        return nearest(p, value) if tick == OFF_GRID else tick

    return ticks


class _Resolver:
    def __init__(self, text: str, schemas: Mapping[str, Schema]) -> None:
        self._text = text
        self._schemas = schemas

    def predicate(self, term: Term) -> Formula[Predicate]:
        topic, name = self._names(term)
        p = self._property(term, topic, name)
        quantity = Quantity(topic, self._source(term, topic), name)
        return Predicate(quantity, self._radius(term, p))

    def _names(self, term: Term) -> tuple[str, str]:
        """Topic and property; a path without brackets is split where a known topic ends."""
        if term.property is not None:
            if term.path not in self._schemas:
                raise self._unknown(term, "no such topic", self._schemas, topic=term.path)
            return term.path, term.property
        dots = [i for i, character in enumerate(term.path) if character == "."]
        splits = [(term.path[:i], term.path[i + 1 :]) for i in dots if term.path[:i] in self._schemas]
        if not splits:
            known = [f"{topic}.{p.name}" for topic, schema in self._schemas.items() for p in _watchable(schema)]
            raise self._unknown(term, "no such topic", known, name=term.path)
        fitting = [(topic, name) for topic, name in splits if name in self._schemas[topic]]
        if len(fitting) > 1:
            detail = "several topics have such a property: write topic[source].property, or topic[].property"
            raise self._error(term, detail, choose_from=[topic for topic, _ in fitting])
        return (fitting or splits)[0]

    def _property(self, term: Term, topic: str, name: str) -> Property:
        schema = self._schemas[topic]
        known = [p.name for p in _watchable(schema)]
        if name not in schema:
            raise self._unknown(term, "no such property", known, property=name, topic=topic)
        p = schema[name]
        if p.kind is Kind.FLOAT and name in (other.name for other in schema.wire):
            detail = "a float has no step: declare the property a number with a step"
            raise self._error(term, detail, property=name, topic=topic)
        if name not in known:
            detail = f"a {p.role.value} of kind {p.kind.value} cannot be watched: choose a number that is sent"
            raise self._error(term, detail, property=name, topic=topic, choose_from=known)
        return p

    def _source(self, term: Term, topic: str) -> tuple[Any, ...]:
        dimensions = self._schemas[topic].dimensions
        given = self._given(term, topic, dimensions)
        missing = [p.name for p in dimensions if p.name not in given]
        if missing:
            example = ", ".join(f"{p.name}=..." for p in dimensions)
            raise self._error(term, f"the source is incomplete: write {topic}[{example}]", missing=missing)
        return tuple(self._value(term, p, given[p.name]) for p in dimensions)

    def _given(self, term: Term, topic: str, dimensions: tuple[Property, ...]) -> dict[str, str]:
        named = {p.name for p in dimensions}
        given: dict[str, str] = {}
        for key, value in term.source or ():
            if key is None and len(dimensions) != 1:
                detail = "a source with several dimensions: write name=value for each"
                raise self._error(term, detail, topic=topic, dimensions=sorted(named))
            name = dimensions[0].name if key is None else key
            if name not in named:
                raise self._unknown(term, "no such dimension", named, dimension=name, topic=topic)
            if name in given:
                raise self._error(term, "the dimension is given twice", dimension=name)
            given[name] = value
        return given

    def _value(self, term: Term, p: Property, text: str) -> Any:
        if p.kind is Kind.INTEGER and not text.lstrip("-").isdecimal():
            raise self._error(term, "the value of the dimension must be an integer", dimension=p.name, given=text)
        if p.kind is Kind.BOOLEAN and text.lower() not in ("true", "false"):
            raise self._error(term, "the value of the dimension must be true or false", dimension=p.name, given=text)
        if p.closed and text not in p.members:
            raise self._unknown(term, "no such source", p.members, given=text, dimension=p.name)
        return int(text) if p.kind is Kind.INTEGER else text.lower() == "true" if p.kind is Kind.BOOLEAN else text

    def _radius(self, term: Term, p: Property) -> Radius:
        threshold = term.threshold
        if threshold.unit == "value":
            return Radius(0, threshold.amount)
        amount = threshold.amount
        if threshold.unit == "range":
            value_range = declared_range(p)
            if value_range is None:
                detail = "no range is declared: give minimum and maximum in the schema, or an absolute threshold"
                raise self._error(term, detail, property=p.name)
            amount *= value_range
        ticks = in_ticks(p, amount)
        if not 1 <= ticks <= TICK_LIMIT:
            detail = "the threshold is below one step" if ticks < 1 else "the threshold has too many steps"
            raise self._error(term, detail, property=p.name, step=str(tick_size(p)), limit="2^61 steps")
        return Radius(ticks)

    def _unknown(self, term: Term, detail: str, known: Iterable[str], **facts: str) -> ExpressionError:
        names = sorted(known)
        name = next(iter(facts.values()))
        nearest = get_close_matches(name, names, 3) or names[:3]
        return UnknownName.at(self._text, term.offset, detail, **facts, nearest=nearest)

    def _error(self, term: Term, detail: str, **facts: object) -> ExpressionError:
        return ExpressionError.at(self._text, term.offset, detail, **facts)


def _conjunction(parts: tuple[Formula[Predicate], ...]) -> Formula[Predicate]:
    return And(parts)


def _disjunction(parts: tuple[Formula[Predicate], ...]) -> Formula[Predicate]:
    return Or(parts)


def _watchable(schema: Schema) -> list[Property]:
    return [p for p in schema.wire if p.kind in _WATCHABLE_KINDS and not p.static]
