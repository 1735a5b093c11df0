"""Experiments on placement at small sizes: cells, figures, the stored model."""

import json
from pathlib import Path

import pytest

from thinwire.clock import VirtualClock
from thinwire.edge.placement_files import read_model
from thinwire.errors import ConfigError
from thinwire.placement import Host, TopicLoad
from thinwire_lab.bench.benchmark import Setting, run_benchmark
from thinwire_lab.bench.placement_bench import MODEL_BENCHMARKS
from thinwire_lab.placement.measured_runs import MeasuredRun, TopicResult
from thinwire_lab.placement.model_training import simulate_runs, store, store_published
from thinwire_lab.placement.published_model import PublishedModel
from thinwire_lab.placement.queue_simulator import random_runs, simulate
from thinwire_lab.placement.run_files import RUNS, write_runs
from thinwire_lab.reproduce.experiment import find
from thinwire_lab.reproduce.placement import placement_cells as cells
from thinwire_lab.reproduce.placement.placement_cells import (
    CLASSES,
    PlacementExperiment,
    PlacementScale,
    request,
    unknown_host,
)
from thinwire_lab.reproduce.placement.placement_figures import FIGURES, TABLES, measured, select_items, sensitivity

SMALL = PlacementScale(runs=10, fresh=5, reruns=1, requests=1, sizes=(6,))


def test_a_cell_is_plain_figures():
    found = cells.placement("uni", "ours", 1, n=12, train_runs=0)
    assert json.loads(json.dumps(found)) == found
    assert found["bound"] <= found["hosts"] <= 3
    assert 0 <= found["over"] <= 1


@pytest.mark.parametrize(("field", "value"), [("kind", "odd"), ("solver", "luck")])
def test_unknown_cells_are_refused(field, value):
    with pytest.raises(ConfigError, match="choose_from"):
        cells.placement(**{"kind": "uni", "solver": "ours", "seed": 1, field: value, "train_runs": 0})


@pytest.mark.parametrize("kind", CLASSES)
def test_requests_stay_below_what_a_topic_sustains(kind):
    topics = request(kind, 40, seed=2)
    assert len(topics) == 40
    assert all(0 < topic.load < 1.1 for topic in topics)
    assert topics == request(kind, 40, seed=2)


def test_a_training_set_in_pieces_is_the_same():
    pieces = simulate_runs(130, (1,), seed=3)[1]
    assert pieces == random_runs(130, 1, seed=3)
    assert simulate_runs(130, (1,), seed=3, turn=1)[1] != pieces


def test_the_stored_model_has_its_provenance():
    model = read_model(None)
    assert model.origin["how"].startswith("simulated")
    assert {"date", "machine", "runs"} <= set(model.origin)
    assert 0.02 < model.p90([TopicLoad("t", 10, 0.0273)], Host())[0] < 0.1


def test_training_writes_a_model_that_can_be_read(tmp_path):
    path = tmp_path / "model.json"
    origin = store(path, VirtualClock(0.0), count=10)
    assert origin["date"] == "1970-01-01"
    assert read_model(path).origin == origin


def test_the_published_model_is_stored_as_data(tmp_path):
    path = tmp_path / "model.json"
    origin = store_published(path, VirtualClock(0.0), count=10)
    model = PublishedModel.from_document(json.loads(path.read_text()))
    assert model.origin == origin
    assert sorted(model.together) == [2, 3, 4, 5, 6]


def test_runs_on_an_unknown_host_help():
    found = unknown_host(read_model(None), Host(cores=2, speed=2.0), (0, 6), fresh=20)
    assert found[6] > found[0]


def test_every_figure_is_there():
    assert list(map(str, sorted(find("placement").figures))) == sorted(FIGURES) == ["1", "2", "3", "4"]
    assert list(TABLES) == ["I"]
    with pytest.raises(ConfigError, match="choose_from"):
        select_items(figure="5")


def test_sensitivity_finds_the_published_rates(tmp_path):
    pytest.importorskip("matplotlib")
    background, alone, company = sensitivity(PlacementExperiment(SMALL, tmp_path))
    assert background.rows[-1][2] > 1.5 * background.rows[0][2]
    for _, published, simulated, *_ in alone.rows:
        assert simulated == pytest.approx(published, rel=0.15)
    rates = [row[2] for row in company.rows]
    assert rates == sorted(rates, reverse=True)


@pytest.mark.slow
def test_figures_at_a_small_size(tmp_path):
    pytest.importorskip("matplotlib")
    experiment = PlacementExperiment(SMALL, tmp_path)
    for figure in ("2", "3", "4"):
        sheets = [sheet for make in FIGURES[figure] for sheet in make(experiment)]
        assert all(sheet.rows for sheet in sheets), figure
        assert all(len(row) == len(sheet.columns) for sheet in sheets for row in sheet.rows), figure
        assert all(path.exists() for sheet in sheets for path in sheet.pictures), figure
        assert json.dumps([sheet.document for sheet in sheets]), figure


def test_measured_runs_stand_apart(tmp_path):
    runs = []
    for rate in (5, 15, 25, 35):
        topic = TopicLoad("t", rate, 0.02)
        (seen,) = simulate([topic], Host(cores=2), [1, rate], seconds=20)
        result = TopicResult(topic, seen.messages, seen.p50, seen.p90, seen.p90, 0.02)
        runs.append(MeasuredRun(Host("box", cores=2), (result,), "poisson", 20, 5))
    write_runs(tmp_path / RUNS, runs, VirtualClock(0.0), how="simulated, for a test")
    released = tmp_path / "edgent"
    released.mkdir()
    (released / "pubsub_p90_by_publishers_subscribers.csv").write_text(
        "#pub,#sub,p90,mean\n1,5,1.5,1\n2,5,9,1\n1,5,2.5,1\n"
    )
    theirs, ours, fitted = measured(PlacementExperiment(SMALL, tmp_path, data=tmp_path))
    assert theirs.rows == [(5, 2.0, 2)]
    assert len(ours.rows) == 4
    assert [row[0] for row in fitted.rows] == ["fitted to", "held out"]
    assert not list(measured(PlacementExperiment(SMALL, tmp_path)))


@pytest.mark.slow
def test_every_benchmark_can_be_measured():
    for benchmark in MODEL_BENCHMARKS:
        rows = run_benchmark(benchmark, Setting(quick=True, data=Path("nowhere")))
        assert rows, benchmark.name
        assert [row.invalid for row in rows] == [""] * len(rows)
