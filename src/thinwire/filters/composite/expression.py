"""A watch expression as it was written: terms, joined by `and` and `or`.

The two joints are generic: the same ones hold terms here and, after `resolve`, predicates that count in ticks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Generic, Literal, TypeVar, Union

L = TypeVar("L")
R = TypeVar("R")

Of = Literal["unit", "value", "range"]
"""what a threshold is an amount of: the property's unit, the value delivered last, or the declared range"""


@dataclass(frozen=True, slots=True)
class And(Generic[L]):
    """All parts."""

    parts: tuple[Formula[L], ...]


@dataclass(frozen=True, slots=True)
class Or(Generic[L]):
    """Any part."""

    parts: tuple[Formula[L], ...]


Formula = Union[L, And[L], Or[L]]  # noqa: UP007 - a recursive generic alias is no `X | Y` before Python 3.12


@dataclass(frozen=True, slots=True)
class Threshold:
    """How far a value may move without being news; a share (`of` not "unit") is 1 for all of it.

    >>> Threshold(Fraction(1, 100), "value")
    Threshold(amount=Fraction(1, 100), of='value')
    """

    amount: Fraction
    of: Of = "unit"


@dataclass(frozen=True, slots=True)
class Term:
    """`topic[source].property +- threshold`, as written.

    path: the topic; where no brackets follow, topic and property joined by dots
    source: dimension names and values, a name None where only one value was given; None without brackets
    property: behind the brackets, None without them
    at: where the term stands in the text; equal terms are equal wherever they stand
    """

    path: str
    source: tuple[tuple[str | None, str], ...] | None
    property: str | None
    threshold: Threshold
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Expression:
    """A text and what it says."""

    text: str = field(compare=False)
    root: Formula[Term]

    def __str__(self) -> str:
        return written(self.root)


def fold(
    formula: Formula[L], leaf: Callable[[L], R], every: Callable[[Sequence[R]], R], any_: Callable[[Sequence[R]], R]
) -> R:
    """What a formula comes to, from its leaves up.

    >>> fold(And((1, Or((2, 3)))), leaf=lambda n: 1, every=sum, any_=max)
    2
    """
    if isinstance(formula, And | Or):
        parts: tuple[Any, ...] = formula.parts
        found = [fold(part, leaf, every, any_) for part in parts]
        return every(found) if isinstance(formula, And) else any_(found)
    return leaf(formula)


def written(formula: Formula[Term]) -> str:
    """The expression again, with the parentheses it needs: what `parse` reads back as the same.

    >>> term = Term("rooms", ((None, "12"),), "t", Threshold(Fraction(1, 2)))
    >>> written(And((term, Or((term, term)))))
    'rooms[12].t +- 0.5 and (rooms[12].t +- 0.5 or rooms[12].t +- 0.5)'
    """
    if isinstance(formula, And):
        return " and ".join(_inner(part) for part in formula.parts)
    if isinstance(formula, Or):
        return " or ".join(_inner(part) for part in formula.parts)
    return _term(formula)


def _inner(part: Formula[Term]) -> str:
    return f"({written(part)})" if isinstance(part, And | Or) else written(part)


def _term(term: Term) -> str:
    name = _quoted(term.path)
    if term.source is not None:
        chosen = (f"{_quoted(key)}={_quoted(value)}" if key else _quoted(value) for key, value in term.source)
        name += f"[{', '.join(chosen)}].{_quoted(term.property or '')}"
    return f"{name} +- {_amount(term.threshold)}"


def _quoted(name: str) -> str:
    mark = "'" if '"' in name else '"'
    return f"{mark}{name}{mark}" if _needs_quotes(name) else name


def _needs_quotes(name: str) -> bool:
    plain = bool(name) and all(sign.isalnum() or sign in "_.-:/@" for sign in name)
    return not plain or name.lower() in ("and", "or")


def _amount(threshold: Threshold) -> str:
    scale = 1 if threshold.of == "unit" else 100
    number = decimal(threshold.amount * scale)
    return number + {"unit": "", "value": "%", "range": "% of range"}[threshold.of]


def decimal(amount: Fraction) -> str:
    """A fraction whose denominator divides a power of ten, in plain digits.

    >>> decimal(Fraction(1, 8)), decimal(Fraction(20))
    ('0.125', '20')
    """
    places = 0
    while (amount * 10**places).denominator != 1:
        places += 1
    digits = str(abs(int(amount * 10**places))).rjust(places + 1, "0")
    whole = digits[: len(digits) - places]
    return ("-" if amount < 0 else "") + whole + (f".{digits[-places:]}" if places else "")
