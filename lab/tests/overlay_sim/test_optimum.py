"""The optimum has the fewest deliveries, by exhaustive search; online decisions need more, sometimes many more."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from subscriber_values import within

from thinwire_lab.overlay_sim.filters.greedy_filter import greedy
from thinwire_lab.overlay_sim.filters.published_filters import costs, global_optimum

STREAMS = st.lists(st.integers(-12, 12), max_size=25).map(lambda drawn: np.array(drawn, dtype=np.int64))


def fewest(values, threshold):
    """Return the fewest deliveries, by dynamic programming over the index delivered last."""
    size = len(values)
    best = {0: 1} if size else {}
    for last in range(1, size):
        ways = [
            count
            for before, count in best.items()
            if all(abs(values[k] - values[before]) <= threshold for k in range(before, last))
        ]
        if ways:
            best[last] = min(ways) + 1
    ends = [
        count
        for last, count in best.items()
        if all(abs(values[k] - values[last]) <= threshold for k in range(last, size))
    ]
    return min(ends, default=0)


@given(STREAMS, st.integers(0, 9))
def test_no_solution_has_fewer_deliveries(values, threshold):
    indexes = global_optimum(values, threshold)
    assert indexes.size == fewest(values, threshold)
    assert within(values, indexes, threshold)


@given(STREAMS, st.integers(0, 9))
def test_greedy_meets_the_threshold_with_at_least_as_many_deliveries(values, threshold):
    indexes = greedy(values, threshold)
    assert within(values, indexes, threshold)
    assert indexes.size >= global_optimum(values, threshold).size


def test_online_decisions_may_need_a_delivery_for_every_value():
    values = np.where(np.arange(100) % 2, 6, 0)
    assert greedy(values, 5).size == 100
    calmer = np.concatenate([[0], np.where(np.arange(99) % 2, 6, 3)])
    assert (greedy(calmer, 4).size, global_optimum(calmer, 4).size) == (2, 2)
    worst = np.concatenate([[0], np.where(np.arange(98) % 2, 6, -6), [0]])
    assert (greedy(worst, 6).size, greedy(worst, 5).size, global_optimum(worst, 6).size) == (1, 100, 1)


def test_the_best_is_found_in_a_long_walk():
    values = np.cumsum(np.random.default_rng(5).integers(-3, 4, 50_000))
    ratio = greedy(values, 40).size / global_optimum(values, 40).size
    assert 1.3 < ratio < 1.9


def test_costs_have_the_shape_of_the_schemes():
    rng = np.random.default_rng(7)
    jumps = np.where(rng.random(4000) < 0.005, rng.normal(0, 20, 4000), 0)
    values = np.rint(np.cumsum(rng.normal(0, 2, 4000) + jumps)).astype(np.int64)
    table = {cost.scheme: cost for cost in costs(values, range(1, 64))}
    assert table["SF"].evaluations == 63
    assert table["SRI"].evaluations < 4 < table["MFD"].evaluations < table["MCF"].evaluations < 40
    assert table["SF"].fired == table["MCF"].fired == table["SRI"].fired < table["MFD"].fired
