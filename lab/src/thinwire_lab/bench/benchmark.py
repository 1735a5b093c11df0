"""What a bench is made of: bars, the rows they measure, and how they are run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Literal

Unit = Literal[
    "bytes",
    "share",
    "part",
    "times",
    "values/s",
    "events/s",
    "MB",
    "failures",
    "us",
    "s",
    "messages",
    "ms/MB",
    "hosts",
    "R2",
]
"""`part` is a size as part of another, written 1/n; `times` a duration as a multiple of another; `us` microseconds;
`R2` the share of differences that is explained"""

NEEDS_DATA = "not measured: needs --data"


@dataclass(frozen=True)
class Row:
    """One line of the table.

    low, high: the bar; None on both sides where the figure is only reported
    how: how it was measured, in one line
    note: why there is no value, or what went wrong although there is one
    sound: False where the measurement itself found something broken; such a row does not hold whatever its value
    beside: the same figure of other methods, by name; rows that have it make a table of their own as well
    """

    name: str
    unit: Unit
    value: float | None = None
    low: float | None = None
    high: float | None = None
    how: str = ""
    note: str = ""
    sound: bool = True
    beside: Mapping[str, float] = field(default_factory=dict)

    @property
    def holds(self) -> bool | None:
        """Is the bar met? None where there is none, or nothing was measured."""
        if not self.sound:
            return False
        if self.value is None or (self.low is None and self.high is None):
            return None
        return (self.low is None or self.low <= self.value) and (self.high is None or self.value <= self.high)

    @property
    def bar(self) -> str:
        """The bar in words.

        >>> Row("exact", "part", high=1 / 14).bar, Row("batch", "values/s", low=3e7).bar
        ('at most 1/14', 'at least 30,000,000')
        """
        low, high = (None if end is None else shown(end, self.unit) for end in (self.low, self.high))
        if low and high:
            return f"{low} to {high}"
        return f"at least {low}" if low else f"at most {high}" if high else ""


@dataclass(frozen=True)
class Setting:
    """How a bench is run.

    quick: small sizes, to see that everything works
    data: where the real recordings are
    progress: told the share of the present bar that is done
    """

    quick: bool = False
    data: Path | None = None
    progress: Callable[[float], None] = lambda share: None

    def size(self, full: int, quick: int) -> int:
        return quick if self.quick else full


@dataclass(frozen=True)
class Bar:
    """Something to measure: its name while it runs, and the function that gives its rows."""

    name: str
    measure: Callable[[Setting], Iterable[Row]]


def run(bar: Bar, setting: Setting) -> list[Row]:
    """The rows of a bar; what goes wrong becomes a row that does not hold: the other bars are still worth having."""
    try:
        return list(bar.measure(setting))
    except Exception as trouble:
        return [Row(bar.name, "failures", note=f"failed: {type(trouble).__name__}: {trouble}", sound=False)]


def unmeasured(rows: Iterable[Row], note: str = NEEDS_DATA) -> list[Row]:
    """The same rows without a value."""
    return [replace(row, value=None, note=note) for row in rows]


def shown(value: float, unit: Unit) -> str:
    """A figure as it stands in the table.

    >>> shown(0.0578, "part"), shown(1.5, "part"), shown(0.42, "share"), shown(0.5, "times"), shown(3.1e7, "values/s")
    ('1/17.3', '1.5', '42.0 %', '0.5', '31,000,000')
    """
    if unit == "part" and 0 < value <= 0.5:
        whole = Fraction(1 / value).limit_denominator(10)
        return f"1/{float(whole):.4g}" if whole.denominator == 1 else f"1/{1 / value:.1f}"
    if unit == "share":
        return f"{100 * value:.1f} %"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
