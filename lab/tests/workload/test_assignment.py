"""Assigning subscribers to brokers: what each way costs, counted by hand and compared."""

from __future__ import annotations

import numpy as np
import pytest
from assignment_population import AssignmentPopulation, compute_costs, group_subscriptions
from hypothesis import given
from hypothesis import strategies as st

from thinwire.errors import ConfigError
from thinwire_lab.workload.assignment.assignment_costs import MAX_EVENTS, EventSample, group_keys
from thinwire_lab.workload.assignment.assignment_kernels import count_events
from thinwire_lab.workload.assignment.broker_assignment import (
    Policy,
    assign_by_interest,
    assign_by_proximity,
    assign_jointly,
    policies,
)
from thinwire_lab.workload.builtin_summary import builtin
from thinwire_lab.workload.recipe import Recipe, WorkloadPlan


def two_towns() -> AssignmentPopulation:
    """Two brokers 10 ms apart, and in both towns readers of the left and of the right end of the event space."""
    low = np.array([[0.0], [0.8], [0.0], [0.8]])
    locations = np.array([[0.0], [0.0], [10.0], [10.0]])
    events = np.linspace(0.0, 1.0, 11)[:, None]
    return AssignmentPopulation(low, low + 0.2, locations, np.array([[0.0], [10.0]]), events)


def drawn(count: int) -> AssignmentPopulation:
    plan = WorkloadPlan(builtin(), Recipe(subscriptions=count, events=300, brokers=12, seed=5))
    rows, events = plan.subscriptions(np.arange(count)), plan.events(np.arange(300))
    low, high = (
        np.stack([rows[f"{axis}_{end}"].to_numpy() for axis in ("topic", "language")], axis=1)
        for end in ("low", "high")
    )
    locations = np.stack([rows[f"at_{lane}"].to_numpy() for lane in range(5)], axis=1)
    points = np.stack([events[f"{axis}_at"].to_numpy() for axis in ("topic", "language")], axis=1)
    return AssignmentPopulation(low, high, locations, plan.brokers.points, points)


def test_assignment_by_location_wastes_bandwidth_and_by_interest_adds_latency() -> None:
    town = two_towns()
    groups, of = group_subscriptions(town)
    near = compute_costs(town, groups, of, assign_by_proximity(groups))
    assert near.p90 == 0.0
    assert near.delivered == pytest.approx(2.0)  # both boxes cover everything
    assert near.wasted == pytest.approx(2 * 5 / 11)  # the five events in the middle, twice
    similar = compute_costs(town, groups, of, assign_by_interest(groups))
    assert similar.wasted == pytest.approx(0.0)
    assert similar.p90 == 10.0


def test_a_limit_is_respected_and_a_wide_one_changes_nothing() -> None:
    town = two_towns()
    groups, of = group_subscriptions(town)
    assert compute_costs(town, groups, of, assign_jointly(groups, 5.0)).p99 == 0.0
    assert compute_costs(town, groups, of, assign_jointly(groups, 50.0, price=0.0)).wasted == pytest.approx(0.0)


def test_subscribers_of_one_interest_go_where_most_of_them_are() -> None:
    """Going by interest alone sends the readers of either end to the broker far from most of them."""
    low = np.array([[0.8]] * 5 + [[0.0]] * 5)
    locations = np.array([[0.0]] * 4 + [[10.0]] + [[10.0]] * 4 + [[0.0]])
    town = two_towns()._replace(low=low, high=low + 0.2, locations=locations, brokers=np.array([[10.0], [0.0]]))
    groups, of = group_subscriptions(town)
    near = compute_costs(town, groups, of, assign_jointly(groups, np.inf))
    assert near.wasted == 0.0
    assert near.p50 == 0.0


def test_groups_are_those_of_one_interest_near_one_broker() -> None:
    town = drawn(3_000)
    groups, of = group_subscriptions(town)
    assert groups.weight.sum() == 3_000
    assert (groups.low[of] == town.low).all()
    distances = np.linalg.norm(town.locations[:, None] - town.brokers, axis=2)
    assert (groups.nearest[of] == distances.argmin(axis=1)).all()
    assert np.bincount(of, distances.min(axis=1)) / groups.weight == pytest.approx(groups.distance)
    names = group_keys(groups.low, groups.high, groups.nearest)
    assert (np.searchsorted(names, names) == np.arange(len(names))).all()


@given(st.integers(1, 3), st.integers(1, 200), st.integers(0, 999))
def test_sets_of_bits_count_what_boxes_hold(axes: int, count: int, seed: int) -> None:
    dice = np.random.default_rng(seed)
    events = dice.integers(0, 8, size=(count, axes)) / 8  # many on the very edges
    corners = np.sort(dice.integers(0, 9, size=(2, 20, axes)) / 8, axis=0)
    sample = EventSample.of(events)
    for low, high, begin, end in zip(*corners, *sample.ranges(*corners), strict=True):
        assert count_events(sample.events_before, begin, end) == ((events >= low) & (events <= high)).all(axis=1).sum()


def test_costs_are_those_counted_by_hand() -> None:
    town = drawn(1_000)
    groups, of = group_subscriptions(town)
    chosen = assign_by_interest(groups)
    own = chosen[of]
    delivered = useful = 0
    for broker in np.unique(own):
        low, high = town.low[own == broker], town.high[own == broker]
        inside = (town.events >= low.min(axis=0)) & (town.events <= high.max(axis=0))
        delivered += int(inside.all(axis=1).sum())
        held = (town.events[:, None] >= low) & (town.events[:, None] <= high)
        useful += int(held.all(axis=2).any(axis=1).sum())
    found = compute_costs(town, groups, of, chosen)
    assert found.delivered == pytest.approx(delivered / 300)
    assert found.wasted == pytest.approx((delivered - useful) / 300)
    latency = np.linalg.norm(town.locations - town.brokers[own], axis=1)
    assert found.p90 == pytest.approx(np.quantile(latency, 0.9))


def test_the_joint_policies_beat_both_extremes() -> None:
    town = drawn(3_000)
    groups, of = group_subscriptions(town)
    found = {
        policy.name: compute_costs(town, groups, of, policy.choose(groups)) for policy in policies("all", [1.1, np.inf])
    }
    near, similar = found["proximity"], found["interest"]
    assert near.p90 == min(cost.p90 for cost in found.values())
    assert found["joint, 1.1x"].p90 <= 1.1 * near.p90
    assert found["joint, 1.1x"].wasted <= 0.8 * near.wasted
    assert found["joint, no limit"].wasted <= 1.1 * similar.wasted
    assert found["joint, no limit"].p90 <= 0.8 * similar.p90


def test_policies_have_names() -> None:
    assert [policy.name for policy in policies("joint", [1.5])] == ["joint, 1.5x"]
    assert policies("interest") == [Policy("interest")]
    with pytest.raises(ConfigError, match=r"no such policy.*'all'"):
        policies("nearest")
    with pytest.raises(ConfigError, match="above 0"):
        policies("joint", [0.0])


def test_missing_brokers_and_invalid_limits_are_rejected() -> None:
    town = two_towns()
    groups, _ = group_subscriptions(town)
    with pytest.raises(ConfigError, match="one broker"):
        assign_by_interest(groups._replace(brokers=np.zeros((0, 1))))
    with pytest.raises(ConfigError, match="limit=0"):
        assign_jointly(groups, 0)
    with pytest.raises(ConfigError, match="mean load"):
        assign_by_interest(groups, max_load=0.5)
    with pytest.raises(ConfigError, match="smaller"):
        EventSample.of(np.zeros((MAX_EVENTS + 1, 1)))
