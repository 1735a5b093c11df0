"""Thresholds over tables: per source the deliveries of a filter, for any distribution of rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from thinwire.cli.output import Output
from thinwire.errors import ConfigError, DemandError, NotFinite
from thinwire_lab.cli import deliver as command
from thinwire_lab.overlay_sim.filters.greedy_filter import greedy
from thinwire_lab.spark.threshold_delivery import count_deliveries, deliver, deliver_rows, table_at, totals

SYMBOLS = ("aaa", "bbb", None)


def walks(size: int = 400) -> dict[str | None, np.ndarray]:
    rng = np.random.default_rng(11)
    return {name: 1000 + np.cumsum(rng.integers(-6, 7, size)) for name in SYMBOLS}


def table(path: Path, cents: dict[str | None, np.ndarray]) -> str:
    """Return prices of all symbols in random order, with some rows without a price."""
    rows = [(name, at, int(value) / 100) for name, of in cents.items() for at, value in enumerate(of)]
    rows += [("aaa", at, None) for at in range(5)] + [("bbb", 3, float("nan"))]
    np.random.default_rng(1).shuffle(rows)
    columns = dict(zip(("symbol", "at", "price"), map(list, zip(*rows, strict=True)), strict=True))
    types = pa.schema([("symbol", pa.string()), ("at", pa.int64()), ("price", pa.float64())])
    pq.write_table(pa.table(columns, schema=types), path / "trades.parquet", row_group_size=100)
    return str(path / "trades.parquet")


def test_counts_and_rows_are_those_of_single_filters(spark: SparkSession, tmp_path: Path) -> None:
    cents = walks()
    frame = table_at(spark, table(tmp_path, cents))
    options = {"step": 0.01, "source": ["symbol"], "order": ["at"]}
    counts = deliver(frame, "price", "0.05,0.20..0.22", **options)
    found = {(row.symbol, round(100 * row.threshold)): row for row in counts.collect()}
    assert sorted(found, key=str) == sorted(((name, c) for name in cents for c in (5, 20, 21, 22)), key=str)
    for (name, c), row in found.items():
        indexes = greedy(cents[name], c)
        held = cents[name][indexes[np.searchsorted(indexes, np.arange(400), side="right") - 1]]
        silence = np.diff([*indexes, 400]).max() - 1
        assert (row.events, row.delivered, row.longest_silence) == (400, indexes.size, silence)
        assert row.largest_gap == pytest.approx(np.abs(cents[name] - held).max() / 100)
        assert row.share == pytest.approx(indexes.size / 400)
    (total,) = totals(counts).where("threshold = 0.05").collect()
    assert (total.sources, total.events) == (3, 1200)
    rows = deliver(frame, "price", [0.05], rows=True, **options).collect()
    triples = sorted((str(row.symbol), row["at"], round(100 * row.price)) for row in rows)
    assert triples == sorted((str(n), at, of[at]) for n, of in cents.items() for at in greedy(of, 5).tolist())


def test_sources_may_lie_across_batches() -> None:
    values = np.array([0, 9, 1, 1, 9, 0, 0, 9])
    complete = pa.RecordBatch.from_arrays(
        [pa.array(["a", "a", "a", "b", "b", None, None, "c"]), pa.array(values.astype(float))], names=["s", "v"]
    )
    for size in range(1, 9):
        batches = [complete.slice(at, size) for at in range(0, 8, size)]
        found = pa.Table.from_batches(count_deliveries(batches, (5,), 1.0, keys=1))
        assert found.column("s").to_pylist() == ["a", "b", None, "c"]
        assert found.column("delivered").to_pylist() == [3, 2, 1, 1]
        rows = pa.Table.from_batches(deliver_rows(batches, (5,), 1.0, keys=1))
        assert rows.column("v").to_pylist() == [0, 9, 1, 1, 9, 0, 9]
    assert list(count_deliveries([], (5,), 1.0, keys=1)) == []
    with pytest.raises(NotFinite):
        list(count_deliveries([pa.record_batch({"v": [1.0, float("inf")]})], (5,), 1.0, keys=0))


BAD = {
    "column": ({"property": "cost"}, ConfigError, "choose_from"),
    "finer than the step": ({"thresholds": [0.005]}, DemandError, "step=0.01"),
    "negative": ({"thresholds": [-0.01]}, DemandError, "value=-1"),
    "no numbers": ({"property": "symbol", "source": []}, ConfigError, "string"),
    "no order": ({"order": []}, ConfigError, "field='order'"),
    "none": ({"thresholds": []}, ConfigError, "thresholds"),
    "nan": ({"thresholds": [float("nan")]}, DemandError, "field='threshold'"),
    "downwards": ({"thresholds": "3..1"}, DemandError, "below the first"),
    "step": ({"step": 0}, DemandError, "field='step'"),
}


@pytest.mark.parametrize("name", sorted(BAD))
def test_invalid_options_are_reported(name: str, spark: SparkSession) -> None:
    options, error, message = BAD[name]
    frame = spark.createDataFrame([("a", 1, 2.5)], "symbol string, at long, price double")
    complete = {"property": "price", "thresholds": [1], "step": 0.01, "source": ["symbol"], "order": ["at"], **options}
    with pytest.raises(error) as raised:
        deliver(frame, **complete)
    assert message in str(raised.value)


def test_a_missing_path_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        table_at(spark, str(tmp_path / "gone.csv"))


def test_the_verb_reads_writes_and_shows(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["symbol,at,price", *(f"aaa,{at},{at % 7}" for at in range(70))]
    (tmp_path / "trades.csv").write_text("\n".join(lines))
    request = {"property": "price", "thresholds": "0..40", "step": 1.0, "source": ["symbol"], "order": ["at"]}
    to, rows = str(tmp_path / "counts"), str(tmp_path / "told")
    found = command._run(spark, str(tmp_path / "trades.csv"), request, to, rows, None)
    command._show(Output(json=True), "trades.csv", "price", found)
    document = json.loads(capsys.readouterr().out)
    values = np.arange(70) % 7
    assert [row["delivered"] for row in document["thresholds"]] == [greedy(values, c).size for c in range(41)]
    assert len(document["thresholds"]) == spark.read.parquet(to).count() == 41
    assert spark.read.parquet(rows).count() == sum(row["delivered"] for row in found)
    command._show(Output(), "trades.csv", "price", found)
    assert "20 of 41 thresholds are shown" in capsys.readouterr().out
