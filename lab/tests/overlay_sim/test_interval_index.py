"""The index fires what one filter per threshold delivers, for any values and changing thresholds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.errors import DemandError, WrongType
from thinwire_lab.overlay_sim.filters.greedy_filter import greedy
from thinwire_lab.overlay_sim.filters.threshold_index import IntervalIndex
from thinwire_lab.overlay_sim.filters.thresholds import MAX_THRESHOLDS, TICK_LIMIT, checked_count

EDGES = [-TICK_LIMIT, -(1 << 61), -1, 0, 1, 1 << 61, TICK_LIMIT]


def walks(steps):
    """Return a random walk from any start."""
    return st.tuples(st.integers(-50, 50), st.lists(steps, max_size=120)).map(
        lambda drawn: np.cumsum([drawn[0], *drawn[1]])
    )


STREAMS = st.one_of(
    walks(st.sampled_from([-1, 1])),
    walks(st.integers(-3, 3)),
    walks(st.sampled_from([0, 0, 0, 1, -400, 400])),
    walks(st.sampled_from([-9999, 9999, 0])),
    st.lists(st.sampled_from(EDGES), min_size=1, max_size=30).map(np.array),
    st.integers(1, 60).map(lambda n: np.full(n, 7)),
)
SETS = st.one_of(
    st.sets(st.integers(0, 70), max_size=40),
    st.integers(1, 300).map(lambda n: set(range(1, n + 1))),
    st.sets(st.sampled_from([0, 1, 5, 1 << 40, TICK_LIMIT])),
)


def expected(values, thresholds, start):
    """Return the pairs of single filters in the order of the index."""
    pairs = [(at, c) for c in thresholds for at in greedy(values, c, start).tolist()]
    return sorted(pairs)


def pairs_of(answer):
    return list(zip(*(column.tolist() for column in answer), strict=True))


@given(STREAMS, SETS, st.integers(-5, 5))
def test_a_batch_fires_what_single_filters_deliver(values, thresholds, start):
    index = IntervalIndex(thresholds, start)
    assert pairs_of(index.offer_many(values)) == expected(values, thresholds, start)
    assert index.thresholds.tolist() == sorted(thresholds)
    for name, centre in zip(index.thresholds.tolist(), index.centres.tolist(), strict=True):
        indexes = greedy(values, name, start)
        assert centre == (values[indexes[-1]] if indexes.size else start)


@given(STREAMS, SETS, st.data())
def test_single_values_and_batches_give_the_same_result(values, thresholds, data):
    cut = data.draw(st.integers(0, len(values)))
    index = IntervalIndex(thresholds, 0)
    singles = [(at, c) for at, value in enumerate(values[:cut].tolist()) for c in index.offer(value).tolist()]
    rest = [(at + cut, c) for at, c in pairs_of(index.offer_many(values[cut:]))]
    assert singles + rest == expected(values, thresholds, 0)


def test_switching_to_the_scan_and_back_changes_no_result():
    """All fire, none fire, a few fire: the method changes and the result does not."""
    rng = np.random.default_rng(3)
    loud = np.cumsum(rng.choice([-5000, 5000], 40))
    values = np.concatenate([loud, np.full(50, loud[-1]), loud[-1] + np.cumsum(rng.integers(-3, 4, 400)), loud])
    thresholds = np.arange(1, 3001)
    index = IntervalIndex(thresholds, 0)
    answer = index.offer_many(values)
    indexes, fired = answer
    for c in (1, 2, 31, 32, 33, 1000, 1024, 1025, 2999, 3000):
        assert indexes[fired == c].tolist() == greedy(values, c, 0).tolist()
    assert indexes.size == sum(greedy(values, c, 0).size for c in thresholds.tolist())
    assert np.array_equal(np.lexsort((fired, indexes)), np.arange(indexes.size))


def test_results_are_split_without_loss():
    values = np.where(np.arange(300) % 2, 10_000, -10_000)
    index, again = (IntervalIndex(range(1000), 0) for _ in range(2))
    pieces = list(index.offer_batches(values))
    assert len(pieces) > 1
    assert max(indexes.size for indexes, _ in pieces) <= (1 << 16) + 1024
    assert np.array_equal(np.concatenate([indexes for indexes, _ in pieces]), np.repeat(np.arange(300), 1000))
    assert np.array_equal(np.concatenate([fired for _, fired in pieces]), again.offer_many(values)[1])


def test_an_index_without_thresholds_fires_nothing():
    index = IntervalIndex([], 0)
    assert index.offer(5).size == 0
    assert index.offer_many(np.array([1, 2, 3]))[0].size == 0
    assert len(index) == 0


BAD = {
    "negative": (lambda: IntervalIndex([-1], 0), DemandError, "value=-1"),
    "negative in a column": (lambda: IntervalIndex(np.array([-4, 3]), 0), DemandError, "value=-4"),
    "not whole": (lambda: IntervalIndex([0.5], 0), WrongType, "field='threshold'"),
    "nan": (lambda: IntervalIndex([1], float("nan")), WrongType, "field='value'"),
    "too large": (lambda: IntervalIndex([1 << 62], 0), DemandError, f"limit={TICK_LIMIT}"),
    "value too large": (lambda: IntervalIndex([1], 0).offer(-(1 << 62)), DemandError, "field='value'"),
    "values too large": (lambda: IntervalIndex([1], 0).offer_many(np.array([1 << 62])), DemandError, "field='values'"),
    "floats": (lambda: IntervalIndex([1], 0).offer_many(np.array([1.0])), WrongType, "float64"),
    "too many": (lambda: checked_count(MAX_THRESHOLDS + 1), DemandError, f"limit={MAX_THRESHOLDS}"),
}


@pytest.mark.parametrize("name", sorted(BAD))
def test_invalid_input_is_reported(name):
    call, error, message = BAD[name]
    with pytest.raises(error) as raised:
        call()
    assert message in str(raised.value)
