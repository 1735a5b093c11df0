"""Intervals by index: a value leaves exactly the intervals that do not contain it, after any earlier changes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.filters.interval_table import EMPTY, UNBOUNDED, IntervalTable, Workspace

TICKS = st.integers(-60, 60)
INTERVALS = st.tuples(TICKS, st.integers(0, 40)).map(lambda pair: (pair[0], pair[0] + pair[1]))


def table_of(intervals, workspace=None):
    low, high = (np.array([one[side] for one in intervals], dtype=np.int64) for side in (0, 1))
    return IntervalTable(low, high, workspace)


@given(
    st.lists(INTERVALS | st.sampled_from([UNBOUNDED, EMPTY]), min_size=1, max_size=90),
    st.lists(st.tuples(st.integers(0, 89), INTERVALS | st.just(EMPTY), TICKS), max_size=30),
)
def test_a_value_leaves_exactly_those_it_lies_outside_of(intervals, moves):
    line = table_of(intervals)
    for index, interval, value in moves:
        intervals[index % len(intervals)] = interval
        line.put(index % len(intervals), *interval)
        expected = [k for k, (low, high) in enumerate(intervals) if not low <= value <= high]
        assert line.outside(value).tolist() == expected
        assert line.interval(index % len(intervals)) == interval


@pytest.mark.parametrize("count", [1, 31, 32, 33, 1024, 1025, 40_000])
def test_lines_of_any_size_share_a_workspace(count):
    workspace = Workspace()
    small, line = table_of([(0, 1)], workspace), table_of([(-c, c) for c in range(count)], workspace)
    assert line.outside(3).tolist() == list(range(min(count, 3)))
    assert line.outside(-count).tolist() == list(range(count))
    assert small.outside(2).tolist() == [0]
