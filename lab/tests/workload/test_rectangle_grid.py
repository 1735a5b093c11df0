"""Grids of rectangles: exactly what a comparison of everything with everything finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.errors import ConfigError
from thinwire.filters.rectangle_index import RectangleIndex
from thinwire_lab.workload import rectangle_grid as grids
from thinwire_lab.workload.rectangle_grid import RectangleGrid, fastest_index, is_supported


def pairs(grid: RectangleGrid | RectangleIndex, points: np.ndarray) -> list[tuple[int, int]]:
    found = [zip(events.tolist(), boxes.tolist(), strict=True) for events, boxes in grid.match_batches(points)]
    return sorted(pair for batch in found for pair in batch)


def brute(grid: RectangleGrid | RectangleIndex, points: np.ndarray) -> list[tuple[int, int]]:
    low, high = grid.distinct.low, grid.distinct.high
    inside = (points[:, None] >= low) & (points[:, None] <= high)
    return list(map(tuple, np.argwhere(inside.all(axis=2)).tolist()))


@given(
    st.integers(1, 4),
    st.integers(1, 60),
    st.integers(0, 10_000),
    st.sampled_from([1e-9, 1.0, 1e6]),
    st.booleans(),
)
def test_pairs_are_those_of_brute_force(axes: int, count: int, seed: int, unit: float, mixed: bool) -> None:
    dice = np.random.default_rng(seed)
    low = dice.integers(-8, 8, size=(count, axes)) / 4
    sides = (
        dice.integers(0, 5, size=(count, axes)) / 4 * (2.0 ** -dice.integers(0, 30, size=(count, 1)) if mixed else 1)
    )
    points = np.concatenate(
        [low, low + sides, dice.integers(-12, 12, size=(40, axes)) / 4]
    )  # on every edge, and beyond
    grid = RectangleGrid(low * unit, (low + sides) * unit)
    assert pairs(grid, points * unit) == brute(grid, points * unit)


def test_many_sizes_and_crowds_far_away() -> None:
    dice = np.random.default_rng(1)
    low = np.concatenate([dice.random((500, 2)), 1e6 + dice.random((500, 2)) / 1000])
    high = low + 2.0 ** -dice.integers(0, 40, size=(1_000, 2))
    points = np.concatenate([low[::7], high[::5], dice.random((200, 2)), np.full((1, 2), np.nan), [[np.inf, 0.5]]])
    grid = RectangleGrid(low, high)
    assert len(grid._base) <= grids.MAX_GRIDS
    assert pairs(grid, points) == brute(grid, points)
    assert pairs(grid, points) == pairs(RectangleIndex(low, high), points)


def test_pieces_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grids, "BATCH_PAIRS", 8)
    grid = RectangleGrid(np.zeros((5, 1)), np.arange(1.0, 6.0)[:, None])
    points = np.linspace(0.0, 6.0, 50)[:, None]
    batches = list(grid.match_batches(points))
    assert max(len(events) for events, _ in batches) <= 13
    assert pairs(grid, points) == brute(grid, points)


def test_what_suits_no_grid_gets_an_index() -> None:
    assert isinstance(fastest_index([[0.0]], [[1.0]]), RectangleGrid)
    assert isinstance(fastest_index([[0.0]], [[np.inf]]), RectangleIndex)
    assert not is_supported(np.zeros((2, 7)), np.ones((2, 7)))
    with pytest.raises(ConfigError, match="finite sides"):
        RectangleGrid([[0.0]], [[np.inf]])
    with pytest.raises(ConfigError, match="as many columns"):
        list(RectangleGrid([[0.0]], [[1.0]]).match_batches(np.zeros((3, 2))))
    assert list(RectangleGrid(np.zeros((0, 2)), np.zeros((0, 2))).match_batches(np.zeros((3, 2)))) == []
