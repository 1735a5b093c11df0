"""Rectangles: exactly what a comparison of everything with everything finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from thinwire.errors import ConfigError
from thinwire.filters.rectangle_index import RectangleIndex, find_distinct
from thinwire_lab.workload.builtin_summary import builtin
from thinwire_lab.workload.recipe import Recipe, WorkloadPlan

ENDS = st.integers(-5, 5).map(float) | st.sampled_from([-np.inf, np.inf, 0.5])


def brute(low: np.ndarray, high: np.ndarray, points: np.ndarray) -> list[list[int]]:
    inside = ((points[:, None] >= low) & (points[:, None] <= high)).all(axis=2)
    return np.argwhere(inside).tolist()


@settings(max_examples=60)
@given(st.data(), st.integers(1, 4), st.integers(0, 70), st.integers(0, 12))
def test_matches_are_those_of_brute_force(data: st.DataObject, dimensions: int, count: int, points: int) -> None:
    corners = data.draw(arrays.arrays(np.float64, (2, count, dimensions), elements=ENDS))
    low, high = corners.min(axis=0), corners.max(axis=0)
    at = data.draw(arrays.arrays(np.float64, (points, dimensions), elements=ENDS | st.just(np.nan)))
    index = RectangleIndex(low, high)
    events, boxes = index.match(at)
    assert sorted(np.stack((events, boxes), axis=1).tolist()) == brute(index.distinct.low, index.distinct.high, at)
    pairs = brute(low, high, at)
    counts = np.bincount(events, index.distinct.multiplicity[boxes], minlength=points)
    assert counts.tolist() == np.bincount([e for e, _ in pairs], minlength=points).tolist()
    assert (index.distinct.low[index.distinct.row_of] == low).all()
    assert index.distinct.multiplicity.sum() == count


def test_a_generated_workload_is_matched_exactly() -> None:
    plan = WorkloadPlan(builtin(), Recipe(subscriptions=3_000, events=200, brokers=1, seed=3, noise=0.3))
    subscriptions, events = plan.subscriptions(np.arange(3_000)), plan.events(np.arange(200))
    low, high = (
        np.stack([subscriptions[f"{axis}_{end}"].to_numpy() for axis in ("topic", "language")], axis=1)
        for end in ("low", "high")
    )
    points = np.stack([events["topic_at"].to_numpy(), events["language_at"].to_numpy()], axis=1)
    index = RectangleIndex(low, high)
    found = sorted(np.stack(index.match(points), axis=1).tolist())
    assert found == brute(index.distinct.low, index.distinct.high, points)


def test_batches_have_a_limit_and_lose_nothing() -> None:
    low, high = np.zeros((300, 2)), np.ones((300, 2)) + np.arange(300)[:, None]
    index = RectangleIndex(low, high)
    pieces = list(index.match_batches(np.full((1_000, 2), 0.5)))
    assert len(pieces) > 1
    assert sum(len(events) for events, _ in pieces) == 300_000


def test_identical_rectangles_are_one() -> None:
    found = find_distinct(np.array([[0.0], [-0.0], [1.0]]), np.array([[2.0], [2.0], [2.0]]))
    assert found.multiplicity.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        ([[1.0]], [[0.0]], "low end of a rectangle is above.*row=0, dimension=0"),
        ([[0.0], [np.nan]], [[1.0], [1.0]], "row=1"),
        ([[0.0]], [[1.0, 2.0]], "one shape"),
        ([0.0], [1.0], "one shape"),
    ],
)
def test_invalid_rectangles_are_rejected(low: list[object], high: list[object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RectangleIndex(np.array(low), np.array(high))


def test_points_of_another_dimension_are_refused() -> None:
    with pytest.raises(ConfigError, match="one column per dimension"):
        RectangleIndex(np.zeros((1, 2)), np.ones((1, 2))).match(np.zeros((3, 1)))
