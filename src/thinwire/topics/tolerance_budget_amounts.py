"""Tolerances as documents write them: the exact decimal.

>>> written(Fraction(1, 2)), written(Fraction(3)), written(Fraction("0.10000000000000000001"))
(0.5, 3, '10000000000000000001e-20')
"""

from __future__ import annotations

from fractions import Fraction

from thinwire.codec.demand import Tolerance

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
