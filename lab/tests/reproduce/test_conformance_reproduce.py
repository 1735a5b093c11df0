"""The conformance figures at small sizes: every point is measured and has the theoretical shape."""

from __future__ import annotations

import gzip
import json
from importlib.util import find_spec
from xml.etree import ElementTree

import numpy as np
import pytest

from thinwire.cli.main import main
from thinwire.errors import ConfigError, MissingData, SparkUnavailable
from thinwire_lab.bench.benchmark import Setting
from thinwire_lab.bench.conformance_bench import OVERLAY_BENCHMARKS
from thinwire_lab.reproduce.conformance import conformance_cells as cells
from thinwire_lab.reproduce.conformance.conformance_cells import ConformanceScale, describe_curves
from thinwire_lab.reproduce.conformance.conformance_figures import FIGURES
from thinwire_lab.streams.threshold_streams import attack, bars, jumping, recorded_bars, sample_bars, scaled, walk


def no_spark(monkeypatch):
    """Run cells in this process; their execution on Spark has its own tests."""

    def no_java(*, remote=False):
        raise SparkUnavailable("Java 17 or newer is needed")

    if find_spec("pyspark"):
        monkeypatch.setattr("thinwire.spark.session.check", no_java)


SMALL = ConformanceScale(nodes=200, subscriptions=60, sources=2)


@pytest.fixture
def recordings(tmp_path):
    folder = tmp_path / "data" / "market"
    folder.mkdir(parents=True)
    lines = ["symbol,date,ms,open,high,low,close,volume"]
    walks = {name: 1_000_000 + 100 * walk(200, seed) for seed, name in enumerate(("aig", "ibm"))}
    for name, prices in walks.items():
        # The first bar is before the session.
        lines += [f"{name},20131004,{34_140_000 + 60_000 * n},1,1,1,{price},9" for n, price in enumerate(prices)]
    with gzip.open(folder / "us_equity_minute_trade_20131004.csv.gz", "wt") as file:
        file.write("\n".join(lines) + "\n")
    return tmp_path / "data", walks


def test_recorded_bars_are_closes_of_the_session_in_cents(recordings):
    folder, walks = recordings
    found = recorded_bars(folder)
    assert list(found) == ["aig/20131004", "ibm/20131004"]
    assert found["ibm/20131004"].tolist() == (walks["ibm"][1:] // 100).tolist()
    assert list(bars(folder, sources=1)) == ["aig/20131004"]


def test_missing_recordings_are_named(tmp_path):
    with pytest.raises(MissingData, match="minute_trade"):
        recorded_bars(tmp_path)


@pytest.mark.parametrize("sigma", [2.0, 20.0])
def test_a_tick_is_chosen_by_how_much_a_stream_moves(sigma):
    for cents in sample_bars(3).values():
        # Rounding to ticks adds a little.
        assert np.sqrt(np.mean(np.diff(scaled(cents, sigma)) ** 2)) == pytest.approx(sigma, abs=0.15)


def test_a_constant_stream_has_any_tick():
    assert scaled(np.array([5, 5, 5]), 2.0).tolist() == [5, 5, 5]
    with pytest.raises(ConfigError, match="sigma"):
        scaled(np.array([1, 2]), 0.0)


def test_the_attack_hits_thresholds_exactly():
    steps = np.diff(attack(5_000, seed=1))
    assert np.abs(steps).max() == 4
    assert set(np.abs(steps)) == {1, 2, 3, 4}
    assert np.abs(np.diff(walk(1_000, 1))).max() <= 3
    assert np.abs(np.diff(jumping(5_000, 1))).max() > 20


def test_an_attack_makes_decomposed_filters_deliver_more():
    plain, attacked = (cells.dissemination(100, 100, synthetic=share, sources=2) for share in (0.0, 1.0))
    assert attacked["MFD fired_thresholds"] > attacked["SF fired_thresholds"] > plain["SF fired_thresholds"]
    assert attacked["MCF fired_thresholds"] == attacked["SF fired_thresholds"]


def test_greedy_is_never_better_than_the_optimum():
    found = cells.ratio(threshold=5, sources=3)
    assert set(found) == {"all ratio", "sample ratio"}
    assert 1.0 <= found["all ratio"] < 2.0


def test_churn_is_a_cell_too(recordings):
    found = cells.churn_costs(share=0.1, nodes=60, subscriptions=60, data=str(recordings[0]), sources=1)
    assert found["SRI missed"] > 0
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize("number", sorted(FIGURES))
def test_every_figure_has_all_its_points(number):
    figure = FIGURES[number]
    grid = figure.cells(SMALL)
    assert json.loads(json.dumps(grid)) == grid
    ends = [grid[0], grid[-1]]
    rows = [{**cell, **figure.function(**cell)} for cell in ends]
    for measure in figure.measures.values():
        assert any(f"{name} {measure}" in rows[0] for name in figure.series)
        assert "->" in describe_curves(rows, figure, measure)


def test_sizes_double_up_to_the_largest():
    assert ConformanceScale(nodes=1_600).sizes == [100, 200, 400, 800, 1_600]
    assert ConformanceScale(nodes=100_000).sizes[-2:] == [51_200, 100_000]
    assert ConformanceScale(nodes=100).sizes == [100]
    with pytest.raises(ConfigError, match="nodes"):
        ConformanceScale(nodes=50)


def test_the_verb_prints_the_published_shape_beside_ours(capsys, tmp_path, recordings, monkeypatch):
    pytest.importorskip("matplotlib")
    no_spark(monkeypatch)
    folder, _ = recordings
    arguments = ["--figure", "4.7", "--nodes", "200", "--subscriptions", "40", "--data", str(folder), "--json"]
    assert main(["reproduce", "conformance", *arguments, "--out", str(tmp_path / "out")]) == 0
    document = json.loads(capsys.readouterr().out)
    shown = document["figure 4.7"]
    assert "30 % below MFD" in shown["published"]
    assert [list(table[0]) for table in shown["tables"].values()] == 3 * [["nodes", "SF", "MFD", "MCF", "SRT", "SRI"]]
    pictures = sorted((tmp_path / "out" / "conformance").iterdir())
    assert [path.name for path in pictures] == ["figure-4.7.png", "figure-4.7.svg"]
    assert ElementTree.parse(pictures[1]).getroot().tag.endswith("svg")


def test_unknown_figures_are_refused(capsys):
    assert main(["reproduce", "conformance", "--figure", "4.3"]) == 2
    assert "4.10" in capsys.readouterr().err


def overlay_rows(data=None):
    setting = Setting(quick=True, data=data)
    return [row for benchmark in OVERLAY_BENCHMARKS for row in benchmark.measure(setting)]


def test_bars_hold_or_report_the_difference(recordings):
    rows = {row.name: row for row in overlay_rows(data=recordings[0])}
    assert rows["maintenance: SRI to SF, recorded bars"].holds
    assert rows["simulator: a trading day"].holds
    assert all(row.value is not None for row in rows.values())
    without = [row for row in overlay_rows() if "recorded" in row.name]
    assert without
    assert all(row.value is None for row in without)
