"""The published schemes: claims that hold, and streams on which claims do not hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared_readings import READINGS, delivered
from subscriber_values import within

from thinwire.errors import ConfigError, DemandError
from thinwire_lab.overlay_sim.filters.greedy_filter import greedy
from thinwire_lab.overlay_sim.filters.published_filters import Cooperative, Decomposed
from thinwire_lab.overlay_sim.filters.threshold_decomposition import (
    base_for,
    chosen_chains,
    decompositions,
    digit_chains,
    digits,
    first_level,
    splits,
)
from thinwire_lab.overlay_sim.filters.threshold_index import IntervalIndex

UNIT = st.lists(st.sampled_from([-1, 1]), max_size=200)
BOUNDED = st.lists(st.integers(-2, 2), max_size=200)
JUMPS = st.lists(st.sampled_from([-60, -31, -9, -1, 0, 1, 2, 8, 30, 61]), max_size=60)
SETS = st.sets(st.integers(0, 63), min_size=1, max_size=25)


def stream(steps):
    return np.cumsum([0, *steps])


def delivered_values(scheme, values):
    """Return the deliveries of each threshold after the first value, as indexes in the stream."""
    passage = scheme.run(values[1:])
    return lambda threshold: [0, *(passage.indexes[passage.thresholds == threshold] + 1).tolist()]


def ramp(end, step=-1):
    return np.arange(0, end + step, step)


@given(st.one_of(UNIT, BOUNDED, JUMPS), SETS)
def test_cooperative_filters_deliver_what_greedy_does(steps, thresholds):
    values = stream(steps)
    given_to = delivered_values(Cooperative(chosen_chains(thresholds, step=1).values(), 0), values)
    assert all(given_to(c) == greedy(values, c).tolist() for c in thresholds)


@given(st.one_of(UNIT, BOUNDED, JUMPS), SETS, st.integers(2, 8))
def test_decomposed_filters_keep_the_copy_within_the_threshold(steps, thresholds, base):
    values = stream(steps)
    given_to = delivered_values(Decomposed(digit_chains(thresholds, base), 0), values)
    assert all(within(values, np.array(given_to(c)), c) for c in thresholds)


def test_decomposed_filters_may_deliver_more_or_less():
    def indexes(threshold, values):
        return delivered_values(Decomposed(digit_chains([threshold], base=4), 0), np.array(values))(threshold)

    assert (indexes(5, [0, 5]), greedy(np.array([0, 5]), 5).tolist()) == ([0, 1], [0])
    assert (indexes(6, range(7)), greedy(np.arange(7), 6).tolist()) == ([0, 6], [0])
    fewer = [0, -5, -9, -3]
    assert (indexes(5, fewer), greedy(np.array(fewer), 5).tolist()) == ([0, 1], [0, 2, 3])


FIXED_STEP = [(c, *pair) for c in range(3, 40) for pair in splits(c, step=0)]


def test_two_levels_are_exact_for_unit_steps():
    """Even with BasicMove, where the first filter moves by an integer fraction of the second."""
    rng = np.random.default_rng(1)
    walks = [np.cumsum(rng.choice([-1, 1], 600, p=[p, 1 - p])) for p in (0.3, 0.5)]
    for c, first, second in FIXED_STEP:
        for walk in [*walks, np.arange(600), -np.arange(600)]:
            values = walk - walk[0]
            assert delivered_values(Decomposed([(first, second)], 0), values)(c) == greedy(values, c).tolist()


def test_three_levels_by_the_same_formula_are_not():
    assert delivered_values(Decomposed([(3, 6, 14)], 0), np.arange(30))(23)[1] == 16
    for values in (np.arange(400), stream(np.random.default_rng(2).choice([-1, 1], 3000))):
        assert delivered_values(Decomposed([(3, 8, 24)], 0), values)(35) == greedy(values, 35).tolist()


@given(JUMPS, st.integers(1, 9), st.integers(0, 20))
def test_two_cooperating_levels_are_exact_on_any_stream(steps, first, more):
    values, c = stream(steps), 2 * first + more
    assert delivered_values(Cooperative([(first, first + more)], 0), values)(c) == greedy(values, c).tolist()


@given(st.sampled_from([((2, 3, 6), 1), ((4, 6, 12), 2), ((2, 3, 6, 12), 1)]), st.data())
def test_more_cooperating_levels_are_exact_where_steps_are_small(case, data):
    chain, step = case
    values = stream(data.draw(st.lists(st.integers(-step, step), max_size=150)))
    assert delivered_values(Cooperative([chain], 0), values)(sum(chain)) == greedy(values, sum(chain)).tolist()


@given(JUMPS)
def test_more_cooperating_levels_always_keep_the_copy_within_the_threshold(steps):
    values = stream(steps)
    assert within(values, np.array(delivered_values(Cooperative([(1, 2, 4, 9)], 0), values)(16)), 16)


def test_more_cooperating_levels_deliver_more_after_a_jump():
    assert delivered_values(Cooperative([(1, 2, 4)], 0), np.array([0, -7]))(7) == [0, 1]
    assert greedy(np.array([0, -7]), 7).tolist() == [0]


def test_an_upper_filter_moves_though_the_value_is_near_its_centre():
    scheme = Cooperative([(3, 8)], 0)
    scheme.run(np.array([4]))
    assert scheme.centres.tolist() == [[4, 0]]
    scheme.run(np.array([5]))
    assert scheme.centres.tolist() == [[8, 0]]


def test_joining_late_below_a_shared_filter_delivers_too_early():
    scheme = Decomposed([(3, 8)], 0)
    scheme.centres[0] = 1
    assert scheme.run(np.arange(1, 20)).indexes[0] + 1 == 9
    assert greedy(np.arange(1, 20), 11, start=0)[0] + 1 == 12


@pytest.mark.parametrize(("last", "deliveries"), [(-11, [-24]), (-35, [-24, -35])])
def test_delayed_state_of_the_lower_filter_loses_and_adds_deliveries(last, deliveries):
    """The upper filter of (3, 8) has the state of the lower one before the latest value."""
    y, z, delayed, got = 0, 0, 0, []
    for x in (-24, last):
        before = z
        edge = next((e for e in (delayed - 8, delayed + 8) if abs(x - e) <= 3), None)
        if edge is not None:
            y = edge
        elif abs(x - y) > 3:
            y = x
            if abs(x - z) > 8:
                z = x
                got.append(x)
        delayed = before
    values = np.array([0, -24, last])
    assert got == deliveries
    assert got != values[greedy(values, 11)].tolist()[1:]


SMALL, LARGE = (4, 8), (8, 12)
FAILURES = [
    ("V1", SMALL, ramp(-8), 0),
    ("V2", SMALL, ramp(-8), 0),
    ("V3 farthest", LARGE, ramp(-32, -2), 1),
    ("V3 last", SMALL, ramp(-8), 0),
    ("V3 nearest", SMALL, ramp(-8), 0),
    ("V3 smallest", SMALL, ramp(-12), 1),
    ("V4", SMALL, ramp(-12), 1),
]


def test_every_interpretation_is_tried():
    assert [name for name, *_ in FAILURES] == sorted(READINGS)


@pytest.mark.parametrize(("reading", "radii", "values", "loser"), FAILURES, ids=[name for name, *_ in FAILURES])
def test_a_shared_upper_filter_loses_values(reading, radii, values, loser):
    """One of two thresholds misses the last value of the stream, its copy differs by more than the threshold."""
    got = delivered(reading, radii, values.tolist())[loser]
    threshold = 3 + radii[loser]
    assert values[greedy(values, threshold)[-1]] == values[-1]
    assert values[-1] not in got
    indexes = np.flatnonzero(np.isin(values, [0, *got]))
    assert not within(values, indexes, threshold)


@pytest.mark.parametrize(("reading", "radii", "values", "loser"), FAILURES, ids=[name for name, *_ in FAILURES])
def test_correct_schemes_pass_where_shared_readings_fail(reading, radii, values, loser):
    thresholds = [3 + radius for radius in radii]
    given_to = delivered_values(Cooperative([(3, radius) for radius in radii], 0), values)
    assert all(given_to(c) == greedy(values, c).tolist() for c in thresholds)
    assert IntervalIndex(thresholds, 0).offer_many(values)[0][-1] == len(values) - 1


def test_without_alignment_a_shared_filter_only_adds():
    values = np.array([0, -2, -4, -6, -7, -9])
    shared = Decomposed([(3, 8), (3, 12)], 0)
    assert shared.parents.tolist() == [-1, 0, 0]
    given_to = delivered_values(shared, values)
    assert (given_to(11), greedy(values, 11).tolist()) == ([0, 5], [0])
    assert given_to(15) == [0]


PRIMES = [p for p in range(2, 1002) if all(p % q for q in range(2, int(p**0.5) + 1))]


def test_thresholds_before_a_prime_have_no_decomposition():
    for p in PRIMES[:40]:
        assert decompositions(p - 1, step=0) == [(p - 1,)]


@pytest.mark.parametrize(
    ("largest", "sizes"),
    [(63, {0: 18, 1: 19, 2: 31, 4: 36, 8: 44}), (1000, {0: 168, 1: 169, 2: 265, 4: 270, 8: 278})],
)
def test_the_first_level_is_as_large_as_primes_make_it(largest, sizes):
    found = {step: len(first_level(chosen_chains(range(1, largest + 1), step))) for step in sizes}
    assert found == sizes
    assert found[0] == sum(p <= largest + 1 for p in PRIMES)


def test_few_thresholds_have_three_levels():
    def deep(step):
        return sum(max(map(len, decompositions(c, step, levels=3))) == 3 for c in range(1, 64))

    assert {step: deep(step) for step in (1, 3, 8)} == {1: 19, 3: 7, 8: 0}


@given(st.integers(0, 63), st.integers(0, 5), st.integers(1, 3))
def test_decompositions_add_up_and_respect_the_step(threshold, step, levels):
    for chain in decompositions(threshold, step, levels):
        assert sum(chain) == threshold
        if len(chain) > 1:
            assert chain[0] > step
            assert all(chain[i] >= sum(chain[:i]) + step for i in range(1, len(chain)))


@given(st.integers(0, 10_000), st.integers(2, 50))
def test_digits_add_up(threshold, base):
    assert sum(digits(threshold, base)) == threshold


def test_invalid_settings_are_reported():
    for call, error in (
        (lambda: base_for(63, 0), ConfigError),
        (lambda: digits(5, 1), ConfigError),
        (lambda: digit_chains([-1], 4), DemandError),
        (lambda: Cooperative([(3,)], 0).run(np.array([1 << 61])), DemandError),
    ):
        with pytest.raises(error, match="field="):
            call()
