"""Predictors: the replica that explains one series runs the arithmetic of the columns, and stays in bounds."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinwire.codec import Demand, resolve
from thinwire.codec import row_snapshot as snapshots
from thinwire.codec import ticks as residual
from thinwire.codec.predictors import Seasonal, Trend, by_name, find_period, names
from thinwire.codec.source_table import SourceTable
from thinwire.codec.ticks import ABSENT, TICK_LIMIT
from thinwire.errors import ConfigError, CorruptFrame
from thinwire.schema import Property, Schema
from thinwire.wire.control_frames import PredictorChange

ticks = st.one_of(st.integers(-1000, 1000), st.integers(-TICK_LIMIT, TICK_LIMIT))


def columns_with(name):
    schema = Schema("s", [Property("n", "integer", period=3)])
    columns = SourceTable(resolve(schema, Demand(predictor=name)))
    columns.add()
    return columns


@pytest.mark.parametrize("name", names())
@settings(max_examples=50)
@given(series=st.lists(ticks, min_size=1, max_size=12))
def test_replica_and_columns_agree(name, series):
    columns, model = columns_with(name), by_name(name, period=3)
    for ordinal, x in enumerate(series):
        columns.set_value(0, 0, x)
        columns.table[0] = ordinal + 1
        model.observe(x)
        assert columns.expected(0, 0) == model.predict()
        assert abs(model.predict()) <= TICK_LIMIT


@pytest.mark.parametrize("name", names())
@settings(max_examples=50)
@given(series=st.lists(st.none() | ticks, min_size=1, max_size=12))
def test_a_restored_row_goes_on_as_the_original(name, series):
    columns, copy = columns_with(name), columns_with(name)
    for x in series:
        columns.put(0, 0, ABSENT) if x is None else columns.set_value(0, 0, x)
        columns.table[0] += 1
    told = snapshots.take(columns, 0)
    snapshots.restore(copy, 0, told, columns.ordinal(0))
    assert snapshots.take(copy, 0) == told
    for _ in range(4):
        assert copy.expected(0, 0) == columns.expected(0, 0)
        columns.advance(0)
        copy.advance(0)
    assert snapshots.take(copy, 0) == snapshots.take(columns, 0)


@given(st.integers(-(1 << 62), 1 << 62), st.integers(0, 1 << 60), st.booleans())
def test_a_residual_comes_back_within_half_a_bin(miss, tolerance, fine):
    half = 0 if fine else tolerance
    if abs(miss) <= tolerance:
        return
    code = residual.encode(miss, tolerance, half)
    assert code >= 0
    assert abs(residual.decode(code, tolerance, half) - miss) <= half


@pytest.mark.parametrize(
    ("series", "period"),
    [
        ([round(100 * math.sin(2 * math.pi * k / 24)) for k in range(240)], 24),
        ([0, 0, 0, 50, 50, 10] * 12, 6),
        ([k + 20 * (k % 7 == 0) for k in range(140)], 7),
        (list(range(100)), None),
        ([5] * 100, None),
        ([1, 2, 3], None),
    ],
)
def test_a_period_is_found_where_there_is_one(series, period):
    assert find_period(series) == period


def test_what_does_not_exist_is_refused():
    with pytest.raises(ConfigError, match="gain is 0 to 256"):
        Trend(alpha=300)
    with pytest.raises(ConfigError, match="period outside its limit"):
        Seasonal(1)
    columns = columns_with("last")
    for change in (
        PredictorChange(5, 0, 0, 0),
        PredictorChange(0, 9, 0, 0),
        PredictorChange(0, 64, 0, 0),
        PredictorChange(0, 2, 1 << 30, 0),
    ):
        with pytest.raises(CorruptFrame):
            columns.switch(0, change)
