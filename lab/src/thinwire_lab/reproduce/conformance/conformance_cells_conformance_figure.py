"""What a figure of the conformance thesis is made of, and how much is computed for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thinwire.analysis.analysis_cells import Cell, Run
from thinwire.errors import ConfigError

Rows = Sequence[Mapping[str, Any]]
Function = Callable[..., Mapping[str, Any]]

SMALLEST, LARGEST = 100, 1_600
SUBSCRIPTIONS = 6_000
SOURCES = 30


@dataclass(frozen=True)
class Scale:
    """How much is computed.

    nodes: the largest network; sizes double from 100
    data: folder of recordings; without it the market sample
    """

    nodes: int = LARGEST
    subscriptions: int = SUBSCRIPTIONS
    data: str | None = None
    sources: int = SOURCES
    seed: int = 1

    def __post_init__(self) -> None:
        if self.nodes < SMALLEST:
            raise ConfigError("outside its limits", field="nodes", value=self.nodes, lowest=SMALLEST)

    @property
    def sizes(self) -> list[int]:
        """The networks.

        >>> Scale(nodes=700).sizes
        [100, 200, 400, 700]
        """
        doubled = [SMALLEST << n for n in range(self.nodes.bit_length()) if SMALLEST << n < self.nodes]
        return [*doubled, self.nodes]

    @property
    def common(self) -> Cell:
        return {"data": self.data, "sources": self.sources, "seed": self.seed}


@dataclass(frozen=True)
class Figure:
    """A figure of the thesis, made again.

    shape: what the thesis says of it
    axis: the parameter that is varied
    measures: what is shown -> its name in a cell's answer; a panel each
    series: the curves
    """

    number: str
    what: str
    shape: str
    axis: str
    measures: Mapping[str, str]
    series: tuple[str, ...]
    function: Function
    cells: Callable[[Scale], list[Cell]]

    def rows(self, scale: Scale, run: Run) -> list[dict[str, Any]]:
        """The points: parameters of the cell and figures together."""
        grid = self.cells(scale)
        return [{**cell, **found} for cell, found in zip(grid, run(self.function, grid, _weight), strict=True)]


def grown(rows: Rows, figure: Figure, measure: str) -> str:
    """How each curve goes from its first point to its last, in words, the lowest end first.

    >>> figure = Figure("0", "", "", "nodes", {}, ("SF", "MFD"), dict, lambda scale: [])
    >>> points = [(2.0, 1.0), (3.0, 2.0), (3.0, 1.0)]
    >>> grown([{"SF cost": a, "MFD cost": b} for a, b in points], figure, "cost")
    'MFD 1 -> 1 (highest 2), SF 2 -> 3 (x1.50)'
    """
    curves = {
        name: [row[f"{name} {measure}"] for row in rows] for name in figure.series if f"{name} {measure}" in rows[0]
    }
    return ", ".join(f"{name} {_course(of)}" for name, of in sorted(curves.items(), key=lambda pair: pair[1][-1]))


def _course(points: Sequence[float]) -> str:
    first, last, highest = points[0], points[-1], max(points)
    said = f"{first:.3g} -> {last:.3g}"
    if highest > max(first, last):
        return f"{said} (highest {highest:.3g})"
    return f"{said} (x{last / first:.2f})" if first else said


def _weight(cell: Cell) -> float:
    """How much work a cell is: every subscription has a way over the ring, every node its fingers."""
    return float(cell.get("nodes", 100) + cell.get("subscriptions", 100))
