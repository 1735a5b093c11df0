"""The smallest thing a watch can wait for: that one quantity has moved."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from thinwire.errors import BadThreshold


@dataclass(frozen=True, slots=True)
class Quantity:
    """One property of one source of a topic."""

    topic: str
    source: tuple[Any, ...]
    property: str

    def __str__(self) -> str:
        return f"{self.topic}[{', '.join(map(str, self.source))}].{self.property}"


@dataclass(frozen=True, slots=True)
class Radius:
    """How far from the value delivered last is still near: so many ticks, and no less than this share of it.

    A share is rounded down to whole ticks, so that around zero every change is news.

    >>> Radius(5).around(1000), Radius(5, Fraction(1, 100)).around(-1099), Radius(0, Fraction(1, 100)).around(0)
    (5, 10, 0)
    """

    ticks: int
    share: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if self.ticks < 0 or self.share < 0:
            raise BadThreshold("a radius is zero or more", ticks=self.ticks, share=str(self.share))

    def around(self, value: int) -> int:
        """The radius in ticks around a value."""
        if not self.share:
            return self.ticks
        return max(self.ticks, abs(value) * self.share.numerator // self.share.denominator)

    def within(self, other: Radius) -> bool:
        """Is whatever is outside of the other outside of this one too, around any value?"""
        return self.ticks <= other.ticks and self.share <= other.share

    def widened(self, other: Radius) -> Radius:
        """Outside of it is outside of both."""
        return Radius(max(self.ticks, other.ticks), max(self.share, other.share))


@dataclass(frozen=True, slots=True)
class Predicate:
    """True while a quantity is outside its radius around the value delivered last."""

    quantity: Quantity
    radius: Radius
