"""`thinwire place-model`: training, calibration, and invalid input."""

import json

import pytest

from thinwire.cli.main import main
from thinwire.clock import VirtualClock
from thinwire.errors import SparkUnavailable
from thinwire.placement import Host, TopicLoad
from thinwire_lab.placement.measured_runs import MeasuredRun, TopicResult
from thinwire_lab.placement.queue_simulator import simulate
from thinwire_lab.placement.run_files import write_runs

TOPICS = '[[topic]]\nname = "{name}"\nrate = {rate}\ninterval = 0.03\n'


@pytest.fixture
def files(tmp_path):
    (tmp_path / "topics.toml").write_text("".join(TOPICS.format(name=f"gps-{n}", rate=5 + n) for n in range(8)))
    (tmp_path / "hosts.toml").write_text('[[host]]\nname = "edge"\ncores = 4\n')
    return ["--topics", str(tmp_path / "topics.toml"), "--hosts", str(tmp_path / "hosts.toml")]


def test_a_measured_host_is_calibrated_and_can_be_placed_on(files, tmp_path, capsys):
    runs = [_measured(rate, turn) for rate in (5, 15, 25, 35) for turn in (1, 2)]
    write_runs(tmp_path / "runs.json", runs, VirtualClock(0.0), how="simulated, for a test")
    hosts = tmp_path / "box.toml"
    assert main(["place-model", "calibrate", str(tmp_path / "runs.json"), "--to", str(hosts), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["fresh"]["runs"] == found["seen"]["runs"] == 4
    assert found["fresh"]["off"] < 0.5
    assert main(["place", "propose", *files[:2], "--hosts", str(hosts), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hosts"] >= 1


def _measured(rate, turn):
    topic, host = TopicLoad("t", rate, 0.02), Host("box", cores=2)
    (seen,) = simulate([topic], host, [turn, rate], seconds=20, warm_up=1)
    return MeasuredRun(host, (TopicResult(topic, seen.messages, seen.p50, seen.p90, seen.p90, 0.02),), "poisson", 20, 1)


def test_an_invalid_runs_file_is_refused(tmp_path, capsys):
    (tmp_path / "runs.json").write_text("{}")
    assert main(["place-model", "calibrate", str(tmp_path / "runs.json")]) == 2
    assert "edge runs" in capsys.readouterr().err


def test_an_unknown_model_name_is_refused(tmp_path, capsys):
    assert main(["place-model", "train", "--to", str(tmp_path / "m.json"), "--model", "luck"]) == 2
    assert "choose_from=['ours', 'published']" in capsys.readouterr().err


def test_training_without_spark_writes_a_model(files, tmp_path, capsys, monkeypatch):
    def no_java(*, remote=False):
        raise SparkUnavailable("Java 17 or newer is needed")

    pytest.importorskip("pyspark")
    monkeypatch.setattr("thinwire.spark.session.check", no_java)
    model = str(tmp_path / "m.json")
    assert main(["place-model", "train", "--to", model, "--runs", "40", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["runs"] == 240
    assert "in this process" in captured.err
    assert main(["place", "propose", *files, "--model", model]) == 0
