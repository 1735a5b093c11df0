"""Demands written in one way only, so that those who ask for the same are found to.

>>> tolerance("0.50"), tolerance(3.0), tolerance("1.0 %"), tolerance("half")
(0.5, 3, '1%', 'half')
>>> values(["b", "a", "b"]), values("a")
(('a', 'b'), ('a',))
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from fractions import Fraction
from typing import Any

from thinwire.codec import Demand
from thinwire.codec.demand import Tolerance, tolerance_of
from thinwire.errors import DemandError
from thinwire.schema import Property, Schema
from thinwire.topics.tolerance_budget_amounts import written

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
