"""Solvers compared with exhaustive search, and valid lower bounds."""

from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placement_models import random_feasibility, small_model, without_margin

from thinwire.errors import ConfigError
from thinwire.placement import Host
from thinwire.placement.column_generation import best_bound, dive, relax
from thinwire.placement.feasibility import HostFeasibility, lighter, steps
from thinwire.placement.heuristics import fewest, first_fit, pairs
from thinwire.placement.load_balance import balanced, spread
from thinwire.placement.matching import maximum_matching
from thinwire.placement.pattern_pricing import PatternSearch
from thinwire.placement.simplex import Master
from thinwire_lab.placement.published_heuristics import largest_sets

SOLVERS = {
    "first fit": first_fit,
    "largest sets": largest_sets,
    "hybrid": lambda feasibility, k: largest_sets(feasibility, k, first=min(3, k)),
    "ours": lambda feasibility, k: dive(feasibility, k, relax(feasibility, k)),
}


def check(feasibility, placed, k):
    """Check that every topic is placed once, within the capacity of hosts and all latency limits."""
    assert sorted(chain(*placed)) == list(range(len(feasibility.types)))
    assert all(len(shared) <= k for shared in placed)
    assert all(feasibility.is_feasible(feasibility.pattern_of(shared)) for shared in placed if shared)


@pytest.mark.parametrize("name", sorted(SOLVERS))
@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_every_solver_meets_every_latency_limit(name, k):
    feasibility = random_feasibility(16, 3, high=0.8)
    check(feasibility, SOLVERS[name](feasibility, k), k)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5), st.sampled_from([0.0, 0.4]))
def test_our_solution_and_the_optimum_lie_between_the_bound_and_first_fit(seed, k, low):
    feasibility = random_feasibility(8, seed, low=low, high=0.8)
    best = fewest(feasibility, k)
    check(feasibility, best, k)
    relaxed = relax(feasibility, k)
    ours = dive(feasibility, k, relaxed)
    assert best_bound(feasibility, k, relaxed) <= len(best) <= len(ours) <= len(first_fit(feasibility, k))


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000))
def test_an_interrupted_search_still_gives_a_bound(seed):
    feasibility = random_feasibility(8, seed, low=0.4, high=0.8)
    assert relax(feasibility, 4, budget=50).bound <= len(fewest(feasibility, 4))


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000))
def test_pairs_are_the_fewest_hosts_for_two(seed):
    feasibility = random_feasibility(9, seed, low=0.5, high=0.8)
    placed = pairs(feasibility, range(9))
    check(feasibility, placed, 2)
    assert len(placed) == len(fewest(feasibility, 2))
    relaxed = relax(feasibility, 2)
    assert relaxed.bound == len(dive(feasibility, 2, relaxed)) == len(placed)


def test_pricing_finds_the_most_valuable_pattern():
    feasibility = random_feasibility(10, 5, low=0.3)
    prices = np.random.Generator(np.random.PCG64(1)).random(len(feasibility.rates))
    search = PatternSearch(feasibility, prices, 3, budget=100_000, slack=1e-6, enough=100_000)
    search.run()
    sets = [feasibility.pattern_of(c) for size in (1, 2, 3) for c in combinations(range(10), size)]
    best = max(sum(prices[kind] for kind in pattern) for pattern in sets if feasibility.is_feasible(pattern))
    assert search.worth == pytest.approx(best)
    assert search.best_patterns()[0] @ prices == pytest.approx(best)


@pytest.mark.parametrize("overhead", [0.0, 0.05])
@pytest.mark.parametrize("model", [small_model(), without_margin(small_model())], ids=["margin", "no margin"])
def test_the_fast_check_agrees_with_the_model(overhead, model):
    dice = np.random.Generator(np.random.PCG64(3))
    feasibility = random_feasibility(30, 4, low=0.3)
    feasibility = HostFeasibility(model, Host(overhead=overhead), feasibility.topics)
    for size in (1, 3, 6):
        sets = dice.integers(0, len(feasibility.rates), (200, size))
        assert feasibility.check_sets(sets).tolist() == (feasibility.violations(sets) <= 0).all(axis=1).tolist()


def test_a_lighter_topic_fits_wherever_a_heavier_one_does():
    feasibility, dice = random_feasibility(30, 4, low=0.3), np.random.Generator(np.random.PCG64(3))
    pairs_of = steps(lighter(feasibility))
    assert len(pairs_of) >= 20
    sets = dice.integers(0, len(feasibility.rates), (100, 4))
    for light, heavy in pairs_of:
        beside = np.column_stack((sets, np.full(len(sets), heavy)))
        instead = np.column_stack((sets, np.full(len(sets), light)))
        assert (feasibility.check_sets(instead) >= feasibility.check_sets(beside)).all()


def test_dense_requests_are_placed_close_to_a_tight_bound():
    feasibility = random_feasibility(30, 1, low=0.5, high=0.9)
    relaxed = relax(feasibility, 6)
    placed = dive(feasibility, 6, relaxed)
    check(feasibility, placed, 6)
    assert relaxed.complete
    assert len(placed) <= relaxed.bound + 1
    assert len(first_fit(feasibility, 6)) >= len(placed) >= relaxed.bound > 5


def test_spreading_keeps_the_number_of_hosts_and_lowers_the_highest_load():
    feasibility = random_feasibility(24, 2, high=0.85)
    placed = first_fit(feasibility, 6)
    after = balanced(feasibility, placed, 6)
    check(feasibility, after, 6)
    assert len(after) <= len(placed)
    worst = [
        max(feasibility.violations(np.array([feasibility.pattern_of(s)])).max() for s in hosts if s)
        for hosts in (placed, after)
    ]
    assert worst[1] <= worst[0]


def test_spreading_fills_no_host_beyond_k():
    feasibility = random_feasibility(12, 2)
    assert sorted(map(len, spread(feasibility, 2, 6))) == [6, 6]


@given(st.integers(1, 9), st.sets(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=16))
def test_matching_is_the_largest(count, edges):
    edges = sorted({tuple(sorted(edge)) for edge in edges if edge[0] != edge[1] and max(edge) < count})
    partner = maximum_matching(count, edges)
    assert all(b < 0 or (partner[b] == a and tuple(sorted((a, b))) in edges) for a, b in enumerate(partner))
    assert sum(b >= 0 for b in partner) // 2 == _largest(edges)


def _largest(edges):
    if not edges:
        return 0
    (a, b), rest = edges[0], edges[1:]
    return max(_largest(rest), 1 + _largest([edge for edge in rest if not {a, b} & set(edge)]))


@given(st.lists(st.integers(1, 9), min_size=2, max_size=4))
def test_the_relaxation_covers_every_demand(demands):
    master = Master(np.array(demands, float))
    for pair in combinations(range(len(demands)), 2):
        master.offer(np.bincount(pair, minlength=len(demands)))
    master.solve()
    covered = sum((pattern * share for pattern, share in master.used), np.zeros(len(demands)))
    assert (covered >= np.array(demands) - 1e-6).all()
    assert master.value == pytest.approx(max(sum(demands) / 2, *demands))


def test_a_too_large_exhaustive_search_is_rejected():
    with pytest.raises(ConfigError, match="limit=14"):
        fewest(random_feasibility(15, 1), 2)
