"""Histograms: approximate quantiles in bounded memory, independent of how values are added."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.errors import LedgerError
from thinwire.ledger import Histogram
from thinwire.ledger.histogram import ACCURACY, CEILING, FLOOR, TOP, merge_histograms

values = st.one_of(
    st.floats(0, CEILING), st.floats(0, 1), st.floats(-14, 14).map(math.exp).map(lambda v: min(v, CEILING))
)
shares = st.floats(0, 1)


def histogram_of(column):
    histogram = Histogram()
    for value in column:
        histogram.add(value)
    return histogram


@given(st.lists(values, min_size=1, max_size=200), shares)
def test_quantiles_are_near_those_of_the_sorted_values(column, share):
    true = sorted(column)[max(1, math.ceil(share * len(column))) - 1]
    found = histogram_of(column).quantile(share)
    assert abs(found - true) <= true * ACCURACY + FLOOR


@given(st.lists(values, min_size=1, max_size=50))
def test_the_ends_are_exact(column):
    histogram = histogram_of(column)
    assert (histogram.quantile(0), histogram.quantile(1)) == (min(column), max(column))
    assert histogram.count == len(column)


@given(st.lists(values, max_size=50))
def test_quantiles_are_monotonic(column):
    found = [histogram_of(column).quantile(share / 20) for share in range(21)]
    assert found == sorted(found) if column else found == [None] * 21


@given(st.lists(st.floats(0), max_size=80))
def test_a_column_and_single_values_give_the_same_histogram(column):
    at_once = Histogram()
    at_once.add_many(column)
    one_by_one = histogram_of(column)
    assert (at_once.count, at_once.least, at_once.most) == (one_by_one.count, one_by_one.least, one_by_one.most)
    # The two logarithms may differ in the last bit, so a value on the border may be a bucket off.
    assert all(abs(one - other) <= 1 for one, other in zip(_expanded(at_once), _expanded(one_by_one), strict=True))


@given(st.lists(st.lists(values, max_size=20), max_size=4))
def test_merging_equals_counting_all_values(columns):
    assert merge_histograms(map(histogram_of, columns)) == histogram_of(
        [value for column in columns for value in column]
    )


def test_memory_is_bounded():
    histogram = Histogram()
    histogram.add_many(np.logspace(-12, 12, 200_000))
    assert histogram.count == 200_000
    assert len(histogram.buckets) <= TOP + 1


def test_several_of_a_value():
    histogram = Histogram()
    for _ in range(99):
        histogram.add(0.25)
    histogram.add(4.0)
    assert histogram.quantile(0.98) == pytest.approx(0.25, rel=ACCURACY)
    assert histogram.quantile(1.0) == 4.0


def test_values_above_the_largest_bucket_are_counted():
    histogram = histogram_of([1.0, math.inf, math.inf])
    assert (histogram.quantile(0.3), histogram.quantile(0.6)) == (1.0, math.inf)


@pytest.mark.parametrize("value", [-1.0, math.nan])
def test_invalid_values_are_rejected(value):
    histogram = Histogram()
    with pytest.raises(LedgerError, match="non-negative"):
        histogram.add(value)
    with pytest.raises(LedgerError, match="non-negative"):
        histogram.add_many([1.0, value])
    assert histogram == Histogram()


@pytest.mark.parametrize("share", [-0.1, 1.1, math.nan])
def test_a_share_is_between_0_and_1(share):
    with pytest.raises(LedgerError, match="share"):
        histogram_of([1.0]).quantile(share)


def _expanded(histogram):
    return [bucket for bucket in sorted(histogram.buckets) for _ in range(histogram.buckets[bucket])]
