"""Predictor objects run the arithmetic of the source table and stay within its limits."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinwire.codec import Demand, resolve
from thinwire.codec.predictors import Seasonal, Trend, by_name, find_period, names
from thinwire.codec.row_snapshot import restore_row, snapshot_row
from thinwire.codec.source_table import SourceTable
from thinwire.codec.ticks import ABSENT, TICK_LIMIT, decode_residual, encode_residual
from thinwire.errors import ConfigError, CorruptFrame
from thinwire.schema import Property, Schema
from thinwire.wire.control_frames import PredictorChange

ticks = st.one_of(st.integers(-1000, 1000), st.integers(-TICK_LIMIT, TICK_LIMIT))


def table_with(name):
    schema = Schema("s", [Property("n", "integer", period=3)])
    table = SourceTable(resolve(schema, Demand(predictor=name)))
    table.add()
    return table


@pytest.mark.parametrize("name", names())
@settings(max_examples=50)
@given(series=st.lists(ticks, min_size=1, max_size=12))
def test_predictor_objects_and_the_source_table_agree(name, series):
    table, model = table_with(name), by_name(name, period=3)
    for ordinal, x in enumerate(series):
        table.set_value(0, 0, x)
        table.cells[0] = ordinal + 1
        model.observe(x)
        assert table.predicted(0, 0) == model.predict()
        assert abs(model.predict()) <= TICK_LIMIT


@pytest.mark.parametrize("name", names())
@settings(max_examples=50)
@given(series=st.lists(st.none() | ticks, min_size=1, max_size=12))
def test_a_restored_row_continues_like_the_original(name, series):
    table, copy = table_with(name), table_with(name)
    for x in series:
        table.set_raw(0, 0, ABSENT) if x is None else table.set_value(0, 0, x)
        table.cells[0] += 1
    state = snapshot_row(table, 0)
    restore_row(copy, 0, state, table.ordinal(0))
    assert snapshot_row(copy, 0) == state
    for _ in range(4):
        assert copy.predicted(0, 0) == table.predicted(0, 0)
        table.advance(0)
        copy.advance(0)
    assert snapshot_row(copy, 0) == snapshot_row(table, 0)


@given(st.integers(-(1 << 62), 1 << 62), st.integers(0, 1 << 60), st.booleans())
def test_a_decoded_residual_is_within_half_a_bin(miss, tolerance, fine):
    half = 0 if fine else tolerance
    if abs(miss) <= tolerance:
        return
    code = encode_residual(miss, tolerance, half)
    assert code >= 0
    assert abs(decode_residual(code, tolerance, half) - miss) <= half


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
def test_find_period(series, period):
    assert find_period(series) == period


def test_invalid_predictor_settings_are_rejected():
    with pytest.raises(ConfigError, match="gain is 0 to 256"):
        Trend(alpha=300)
    with pytest.raises(ConfigError, match="period out of range"):
        Seasonal(1)
    table = table_with("last")
    for change in (
        PredictorChange(5, 0, 0, 0),
        PredictorChange(0, 9, 0, 0),
        PredictorChange(0, 64, 0, 0),
        PredictorChange(0, 2, 1 << 30, 0),
    ):
        with pytest.raises(CorruptFrame):
            table.switch(0, change)
