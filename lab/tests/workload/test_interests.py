"""Interests: hierarchies, and the invariants of every step."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.errors import ConfigError
from thinwire_lab.errors import SummaryError
from thinwire_lab.workload.interests.hierarchy import Hierarchy
from thinwire_lab.workload.interests.interests import Interests, correlations, mutual_information
from thinwire_lab.workload.interests.transformations import (
    diffuse,
    intervals,
    raise_share,
    raise_shared,
    remove_hot,
    with_noise,
)


@st.composite
def hierarchies(draw: st.DrawFn, name: str = "topic") -> Hierarchy:
    """Any tree; a node's parent comes before it."""
    size = draw(st.integers(1, 7))
    parents = [None] + [draw(st.integers(0, node - 1)) for node in range(1, size)]
    return Hierarchy.of(name, [(str(n), None if p is None else str(p)) for n, p in enumerate(parents)])


@st.composite
def populations(draw: st.DrawFn) -> Interests:
    """Any counts of base interests in one to three dimensions."""
    axes = tuple(draw(hierarchies(f"axis{index}")) for index in range(draw(st.integers(1, 3))))
    regions = tuple("xyz"[: draw(st.integers(1, 3))])
    counts = np.zeros((*map(len, axes), len(regions)))
    base = np.ix_(*(axis.leaves for axis in axes))
    cells = counts[base].size
    values = draw(st.lists(st.integers(0, 1000), min_size=cells, max_size=cells))
    counts[base] = np.reshape(values, counts[base].shape)
    return Interests(axes, regions, counts)


def below(axis: Hierarchy, node: int) -> list[int]:
    """The atomic nodes below one, or itself."""
    found = []
    for leaf in axis.leaves.tolist():
        at = leaf
        while at >= 0 and at != node:
            at = int(axis.parents[at])
        found += [leaf] if at == node else []
    return found


def children(axis: Hierarchy, node: int) -> list[int]:
    """A leaf is its own only child."""
    return np.flatnonzero(axis.parents == node).tolist() or [node]


def total(found: Interests, nodes: tuple[int, ...]) -> float:
    cells = np.ix_(*(below(axis, node) for axis, node in zip(found.axes, nodes, strict=True)))
    return float(found.counts[cells].sum())


def steps_down(axes: tuple[Hierarchy, ...]) -> list[tuple[int, ...]]:
    """The interests that diffusion goes through: from the roots, all hierarchies at once."""
    found, level = [], [tuple(axis.root for axis in axes)]
    while level:
        found += level
        families = [list(product(*map(children, axes, nodes))) for nodes in level]
        level = [nodes for up, family in zip(level, families, strict=True) for nodes in family if nodes != up]
    return found


@given(populations(), st.floats(0, 1))
def test_diffusion_keeps_totals_and_lowers_the_variance_of_siblings_by_p(before: Interests, p: float) -> None:
    after = diffuse(before, p)
    scale = max(before.counts.sum(), 1.0)
    assert after.counts.sum() == pytest.approx(before.counts.sum(), abs=1e-9 * scale)
    assert (after.counts >= np.sqrt(p) * before.counts - 1e-9 * scale).all()
    for nodes in steps_down(before.axes):
        family = list(product(*map(children, before.axes, nodes)))
        was, now = (np.array([total(found, one) for one in family]) for found in (before, after))
        assert now.sum() == pytest.approx(total(after, nodes), abs=1e-9 * scale)
        assert now.var() == pytest.approx(p * was.var(), abs=1e-9 * scale**2)


@given(populations())
def test_diffusion_at_its_ends_changes_nothing_or_makes_all_alike(before: Interests) -> None:
    assert np.allclose(diffuse(before, 1.0).counts, before.counts)
    flat = diffuse(before, 0.0)
    for nodes in steps_down(before.axes):
        totals = [total(flat, one) for one in product(*map(children, before.axes, nodes))]
        assert np.ptp(totals) <= 1e-9 * max(before.counts.sum(), 1.0)


@given(populations(), st.floats(0, 1))
def test_a_share_that_rises_is_not_lost(before: Interests, fraction: float) -> None:
    after = raise_share(before, fraction)
    regions = tuple(range(before.counts.ndim - 1))
    assert np.allclose(after.counts.sum(axis=regions), before.counts.sum(axis=regions))
    assert (after.counts >= 0).all()


@given(populations(), st.floats(0, 1))
def test_what_children_have_in_common_rises_and_nothing_becomes_negative(before: Interests, fraction: float) -> None:
    after = raise_shared(before, fraction)
    assert (after.counts >= 0).all()
    assert after.counts.sum() <= before.counts.sum() * (1 + 1e-12)


def test_two_parents_share_what_rises() -> None:
    axes = tuple(Hierarchy.of(name, [("all", None), (name, "all")]) for name in ("topic", "language"))
    counts = np.zeros((2, 2, 1))
    counts[1, 1] = 100.0
    raised = raise_share(Interests(axes, ("here",), counts), 0.5).counts[..., 0]
    assert raised.tolist() == [[25.0, 12.5], [12.5, 50.0]]


@given(hierarchies())
def test_intervals_hold_their_children_and_closer_nodes_are_closer(axis: Hierarchy) -> None:
    ends = intervals(axis)
    for node, parent in enumerate(axis.parents.tolist()):
        if parent >= 0:
            assert ends[parent, 0] <= ends[node, 0] < ends[node, 1] <= ends[parent, 1]
            siblings = np.flatnonzero(axis.parents == parent)
            assert np.allclose(np.diff(ends[siblings]), ends[node, 1] - ends[node, 0])
    for x in axis.leaves.tolist():
        for y, z in combinations([leaf for leaf in axis.leaves.tolist() if leaf != x], 2):
            near, far = _intersecting(axis, x, y), _intersecting(axis, x, z)
            if near != far and near in _path(axis, far_down=x) and axis.depths[near] > axis.depths[far]:
                assert _gap(ends, x, y) < _gap(ends, x, z)


def _path(axis: Hierarchy, far_down: int) -> list[int]:
    found = [far_down]
    while axis.parents[found[-1]] >= 0:
        found.append(int(axis.parents[found[-1]]))
    return found


def _intersecting(axis: Hierarchy, x: int, y: int) -> int:
    others = set(_path(axis, y))
    return next(node for node in _path(axis, x) if node in others)


def _gap(ends: np.ndarray, x: int, y: int) -> float:
    return float(max(ends[x, 0], ends[y, 0]) - min(ends[x, 1], ends[y, 1]))


@given(st.floats(0, 1), st.integers(0, 99))
def test_noise_never_turns_a_rectangle_inside_out(noise: float, seed: int) -> None:
    low, high = np.zeros((20, 2)), np.full((20, 2), 0.3)
    moved_low, moved_high = with_noise(low, high, noise, seed, np.arange(20))
    assert (moved_low <= moved_high).all()
    assert np.abs(moved_low - low).max() <= 0.15 * noise + 1e-12


@given(populations())
def test_a_table_of_interests_reads_back(before: Interests) -> None:
    if before.counts.any():
        assert (Interests.read(before.table(), before.axes, before.regions).counts == before.counts).all()


def test_the_hottest_go_first() -> None:
    axis = Hierarchy.of("topic", [("all", None), ("a", "all"), ("b", "all"), ("c", "all")])
    before = Interests((axis,), ("x", "y"), np.array([[0.0, 0], [5, 5], [9, 0], [0, 11]]))
    assert remove_hot(before, 1).popularity.tolist() == [0, 10, 9, 0]
    assert remove_hot(before, 2).popularity.tolist() == [0, 0, 9, 0]
    with pytest.raises(ConfigError, match="too many interests"):
        remove_hot(before, 3)


def test_independent_variables_have_no_mutual_information() -> None:
    assert mutual_information(np.multiply.outer([1.0, 2, 3], [5.0, 7])) == pytest.approx(0, abs=1e-12)
    axis = Hierarchy.of("topic", [("all", None), ("a", "all"), ("b", "all")])
    found = correlations(Interests((axis,), ("x", "y"), np.array([[0.0, 0], [4, 0], [0, 4]])))
    assert found == {"topic": pytest.approx(1.0)}


@pytest.mark.parametrize(
    ("ids", "parents", "message"),
    [
        (["a", "b", "c"], [None, "c", "b"], "a cycle.*table='topics', column='parent', row=2"),
        (["a", "b"], [None, "z"], "an orphan.*table='topics', column='parent', row=2, value='z'"),
        (["a", "a"], [None, None], "duplicate id.*row=2"),
        (["a", None], [None, "a"], "missing.*column='id', row=2"),
        (["a"], ["a"], "a cycle"),
    ],
)
def test_an_invalid_hierarchy_is_reported_with_its_node(ids: list[str], parents: list[str], message: str) -> None:
    with pytest.raises(SummaryError, match=message):
        Hierarchy.read("topic", pa.table({"id": ids, "parent": pa.array(parents, pa.string())}), "topics")


def test_several_roots_get_one_above_them() -> None:
    axis = Hierarchy.read("topic", pa.table({"id": [1, 2], "parent": pa.nulls(2, pa.string())}), "topics")
    assert axis.ids == ("1", "2", "*")
    assert Hierarchy.read("topic", axis.table(), "topics").ids == axis.ids


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_p_outside_its_limits_is_refused(p: float) -> None:
    axis = Hierarchy.of("topic", [("all", None)])
    with pytest.raises(ConfigError, match="from 0 to 1"):
        diffuse(Interests((axis,), ("x",), np.ones((1, 1))), p)
