"""On what occasion figures are made: how much is simulated, who runs the cells, where pictures go."""

from __future__ import annotations

from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from thinwire.analysis.model_training import Sweep, here
from thinwire.analysis.model_training_training import Trained, train_both
from thinwire_lab.reproduce.placement import placement_cells_cells as cells


class Scale(NamedTuple):
    """How much is simulated.

    runs, fresh: runs a size to train with, and to judge by; reruns: of the latter, for the ceiling
    requests: placements that every row is the mean of; sizes: their numbers of topics
    """

    runs: int = 1000
    fresh: int = 500
    reruns: int = 8
    requests: int = 5
    sizes: tuple[int, ...] = (10, 20, 30, 40, 50, 60, 70)


QUICK = Scale(runs=40, fresh=20, reruns=2, requests=1, sizes=(10, 20))


class Occasion:
    """How figures are made.

    data: folder with measured runs (`edge-runs.json`) or those of the authors; None: nothing measured is shown
    """

    def __init__(self, scale: Scale, out: Path, sweep: Sweep = here, data: Path | None = None) -> None:
        self.scale, self.out, self.sweep, self.data = scale, out, sweep, data

    @cached_property
    def both(self) -> Trained:
        """Both models, trained once."""
        return train_both(self.scale.runs, 1, self.sweep)

    def placements(self, grid: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What the cells of a grid came to, each with its parameters."""
        place = partial(cells.placement, models=cells.documents(self.both))
        found = self.sweep(place, grid, lambda cell: float(cell["n"] ** 2))
        return [{**cell, **figures} for cell, figures in zip(grid, found, strict=True)]
