"""Syntax tree of watch expressions: terms joined by `and` and `or`.

`And` and `Or` are generic: parsed expressions consist of terms, conditions (`condition.py`) of predicates on ticks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, Generic, Literal, TypeVar, Union

L = TypeVar("L")
R = TypeVar("R")

ThresholdUnit = Literal["unit", "value", "range"]
"""the unit of the property, a share of the value delivered last, or a share of the declared range"""


@dataclass(frozen=True, slots=True)
class And(Generic[L]):
    """Conjunction."""

    parts: tuple[Formula[L], ...]


@dataclass(frozen=True, slots=True)
class Or(Generic[L]):
    """Disjunction."""

    parts: tuple[Formula[L], ...]


_EXACT = Context(prec=1_000)
"""more digits than a threshold can have"""

Formula = Union[L, And[L], Or[L]]  # noqa: UP007 - before Python 3.12, `X | Y` cannot be recursive


@dataclass(frozen=True, slots=True)
class Threshold:
    """How far a value may move without a notification. A share of 1 is the whole value or range.

    >>> Threshold(Fraction(1, 100), "value")
    Threshold(amount=Fraction(1, 100), unit='value')
    """

    amount: Fraction
    unit: ThresholdUnit = "unit"


@dataclass(frozen=True, slots=True)
class Term:
    """`topic[source].property +- threshold`, as written.

    path: the topic; in a term without brackets, `topic.property`
    source: (name, value) of each dimension, or one (None, value); None for a term without brackets
    property: the path after the brackets; None for a term without brackets
    offset: start of the term in the text; ignored by ==
    """

    path: str
    source: tuple[tuple[str | None, str], ...] | None
    property: str | None
    threshold: Threshold
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed watch expression. `str()` returns it in canonical syntax."""

    text: str = field(compare=False)
    root: Formula[Term]

    def __str__(self) -> str:
        return format_formula(self.root)


def fold(
    formula: Formula[L], leaf: Callable[[L], R], and_: Callable[[tuple[R, ...]], R], or_: Callable[[tuple[R, ...]], R]
) -> R:
    """Compute a value of a formula bottom-up: `leaf` of its terms, `and_` and `or_` of the values of their parts.

    >>> fold(And((1, Or((2, 3)))), leaf=lambda n: 1, and_=sum, or_=max)
    2
    """
    if isinstance(formula, And | Or):
        parts: tuple[Any, ...] = formula.parts
        results = tuple(fold(part, leaf, and_, or_) for part in parts)
        return and_(results) if isinstance(formula, And) else or_(results)
    return leaf(formula)


def format_formula(formula: Formula[Term]) -> str:
    """Return a formula in the syntax of expressions, with parentheses around every inner group.

    >>> term = Term("rooms", ((None, "12"),), "t", Threshold(Fraction(1, 2)))
    >>> format_formula(And((term, Or((term, term)))))
    'rooms[12].t +- 0.5 and (rooms[12].t +- 0.5 or rooms[12].t +- 0.5)'
    """
    if isinstance(formula, And | Or):
        operator = " and " if isinstance(formula, And) else " or "
        parts = ((format_formula(part), isinstance(part, And | Or)) for part in formula.parts)
        return operator.join(f"({text})" if is_group else text for text, is_group in parts)
    return _format_term(formula)


def format_decimal(amount: Fraction) -> str:
    """Return a fraction as a decimal number without an exponent. Its denominator must divide a power of ten.

    >>> format_decimal(Fraction(1, 8)), format_decimal(Fraction(20))
    ('0.125', '20')
    """
    return format(_EXACT.divide(Decimal(amount.numerator), Decimal(amount.denominator)), "f")


def _format_term(term: Term) -> str:
    name = _quote(term.path)
    if term.source is not None:
        dimensions = (f"{_quote(key)}={_quote(value)}" if key else _quote(value) for key, value in term.source)
        name += f"[{', '.join(dimensions)}].{_quote(term.property or '')}"
    return f"{name} +- {_format_threshold(term.threshold)}"


def _quote(name: str) -> str:
    is_plain = bool(name) and all(character.isalnum() or character in "_.-:/@" for character in name)
    if is_plain and name.lower() not in ("and", "or"):
        return name
    mark = "'" if '"' in name else '"'
    return f"{mark}{name}{mark}"


def _format_threshold(threshold: Threshold) -> str:
    scale = 1 if threshold.unit == "unit" else 100
    suffix = {"unit": "", "value": "%", "range": "% of range"}[threshold.unit]
    return format_decimal(threshold.amount * scale) + suffix
