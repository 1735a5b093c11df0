"""The market: the same from a seed, on its grid, in its range, and with the stated volatility."""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from thinwire.errors import ConfigError
from thinwire.schema.timestamps import to_ticks
from thinwire_lab.workload.samples import market

DAY = market.DAY_MINUTES


@pytest.fixture(scope="module")
def week() -> pa.Table:
    return pa.Table.from_batches(market.batches(5 * DAY * 4, seed=1, sources=4))


def test_the_stream_is_frozen():
    """Figures that were printed rest on these bytes."""
    text = "\n".join(json.dumps(event) for event in market.events(2_000, seed=1, sources=3))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "e6259d9b935f8da5"


def test_columns_are_those_of_the_schema(week):
    assert week.column_names == [p.name for p in market.schema()]
    assert week.num_rows == 5 * DAY * 4


def test_a_bar_holds_together(week):
    opened, high, low, close = (week[name].to_numpy() for name in ("open", "high", "low", "close"))
    assert (low <= np.minimum(opened, close)).all()
    assert (np.maximum(opened, close) <= high).all()
    assert low.min() >= 1
    assert week["volume"].to_numpy().min() >= 0


def test_prices_are_whole_cents(week):
    for value in week["close"].unique().to_pylist():
        assert (Fraction(repr(value)) / market.schema()["close"].step).denominator == 1


def test_minutes_are_trading_minutes(week):
    seen = week.filter(pc.equal(week["symbol"], "AAA"))["timestamp"].to_pylist()
    assert seen[0] == "2024-01-08T14:30:00Z"
    assert seen[DAY - 1 : DAY + 1] == ["2024-01-08T20:59:00Z", "2024-01-09T14:30:00Z"]
    assert seen == sorted(seen)
    form = market.schema()["timestamp"].form
    assert to_ticks(seen[1], form) - to_ticks(seen[0], form) == 60
    after = list(islice(market.events(5 * DAY + 1), 5 * DAY, None))
    assert after[0]["timestamp"] == "2024-01-15T14:30:00Z"


def test_closes_are_those_of_the_bars(week):
    bars = week.filter(pc.equal(week["symbol"], "AAC"))["close"].to_numpy()
    assert (market.closes(5 * DAY, seed=1, source=2) == np.rint(100 * bars)).all()


def test_a_longer_stream_begins_with_the_shorter():
    long, short = list(market.events(25_000, seed=4, sources=3)), list(market.events(700, seed=4, sources=3))
    assert long[:700] == short
    assert list(market.events(10, seed=4, first=2)) == [e for e in short if e["symbol"] == "AAC"][:10]


def test_stocks_differ_and_jump():
    moves = [np.diff(market.closes(DAY * 20, seed=1, source=k)) for k in range(30)]
    spreads = np.array([np.std(move) for move in moves])
    assert spreads.max() > 10 * spreads.min()
    jumps = [np.abs(move).max() / np.std(move) for move in moves]
    assert min(jumps) > 4


@pytest.mark.parametrize(("field", "kwargs"), [("seed", {"seed": -1}), ("first", {"source": -1})])
def test_bad_requests_are_refused(field, kwargs):
    with pytest.raises(ConfigError, match=field):
        market.closes(10, **kwargs)
    with pytest.raises(ConfigError, match="sources"):
        market.batches(10, sources=0)
