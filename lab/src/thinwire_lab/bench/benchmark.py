"""Benchmarks and the rows of their result tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from time import process_time
from typing import Literal, TypeVar

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
"""`part`: a size as part of another, printed as 1/n; `times`: a value as a multiple of another; `us`: microseconds;
`R2`: the share of the variance that is explained"""

B = TypeVar("B")
R = TypeVar("R")

NEEDS_DATA = "not measured: needs --data"


@dataclass(frozen=True)
class Row:
    """One line of the table.

    low, high: the required result; None on both sides if the value is only reported
    how: how it was measured, in one line
    note: why there is no value, or a remark on it
    invalid: why the measurement is not valid; such a row does not hold, independent of its value
    by_method: the measured value of each compared method; rows with it are also printed as a second table
    """

    name: str
    unit: Unit
    value: float | None = None
    low: float | None = None
    high: float | None = None
    how: str = ""
    note: str = ""
    invalid: str = ""
    by_method: Mapping[str, float] = field(default_factory=dict)

    @property
    def remarks(self) -> str:
        """Why the row is not valid, and the note."""
        return ", ".join(filter(None, (self.invalid, self.note)))

    @property
    def holds(self) -> bool | None:
        """Whether the required result is reached; None if there is none or nothing was measured."""
        if self.invalid:
            return False
        if self.value is None or (self.low is None and self.high is None):
            return None
        return (self.low is None or self.low <= self.value) and (self.high is None or self.value <= self.high)

    @property
    def required(self) -> str:
        """The required result as text.

        >>> Row("exact", "part", high=1 / 14).required, Row("batch", "values/s", low=3e7).required
        ('at most 1/14', 'at least 30,000,000')
        """
        low, high = (None if end is None else format_value(end, self.unit) for end in (self.low, self.high))
        if low and high:
            return f"{low} to {high}"
        return f"at least {low}" if low else f"at most {high}" if high else ""


@dataclass(frozen=True)
class Setting:
    """Options of a run of benchmarks.

    quick: small sizes, to check that everything works
    data: folder of the recordings
    progress: called with the finished share of the current benchmark
    """

    quick: bool = False
    data: Path | None = None
    progress: Callable[[float], None] = lambda share: None

    def size(self, full: int, quick: int) -> int:
        return quick if self.quick else full


@dataclass(frozen=True)
class Benchmark:
    """A name, and the function that measures the rows.

    tags: other names that select it with `--only`
    """

    name: str
    measure: Callable[[Setting], Iterable[Row]]
    tags: tuple[str, ...] = ()

    def matches(self, text: str) -> bool:
        """Return whether the name or a tag contains a text.

        >>> Benchmark("saturation rate", lambda setting: [], tags=("knee",)).matches("knee")
        True
        """
        return any(text in word for word in (self.name, *self.tags))


def run_benchmark(benchmark: Benchmark, setting: Setting) -> list[Row]:
    """Return the rows of a benchmark. An error becomes a row that does not hold, so that the others are run."""
    try:
        return list(benchmark.measure(setting))
    except Exception as error:
        return [Row(benchmark.name, "failures", invalid=f"failed: {type(error).__name__}: {error}")]


def time_blocks(
    methods: Sequence[Callable[[B], R]],
    blocks: Sequence[B],
    progress: Callable[[float], None] = lambda share: None,
) -> tuple[list[list[float]], list[list[R]]]:
    """Run all methods on each block, in alternating order. Return processor seconds and results by method.

    The first block warms up: it has results, but no times.
    """
    results = [[method(blocks[0])] for method in methods]
    times: list[list[float]] = [[] for _ in methods]
    for number, block in enumerate(blocks[1:]):
        order = range(len(methods)) if number % 2 else reversed(range(len(methods)))
        for index in order:
            started = process_time()
            results[index].append(methods[index](block))
            times[index].append(process_time() - started)
        progress((number + 1) / (len(blocks) - 1))
    return times, results


def unmeasured(rows: Iterable[Row], note: str = NEEDS_DATA) -> list[Row]:
    """Return the same rows without a value."""
    return [replace(row, value=None, note=note) for row in rows]


def format_value(value: float, unit: Unit) -> str:
    """Return a value as it is printed in the table.

    >>> format_value(0.0578, "part"), format_value(1.5, "part"), format_value(0.42, "share")
    ('1/17.3', '1.5', '42.0 %')
    >>> format_value(0.5, "times"), format_value(3.1e7, "values/s")
    ('0.5', '31,000,000')
    """
    if unit == "part" and 0 < value <= 0.5:
        inverse = Fraction(1 / value).limit_denominator(10)
        return f"1/{float(inverse):.4g}" if inverse.denominator == 1 else f"1/{1 / value:.1f}"
    if unit == "share":
        return f"{100 * value:.1f} %"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
