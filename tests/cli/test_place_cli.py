"""The verbs of placement: what they print, and how they complain."""

import json

import pytest

from thinwire.analysis.placement_files import write_runs
from thinwire.cli.main import main
from thinwire.clock import VirtualClock
from thinwire.errors import SparkUnavailable
from thinwire.placement import Host, TopicLoad, simulate
from thinwire.placement.measured_runs import MeasuredRun, Met

TOPICS = '[[topic]]\nname = "{name}"\nrate = {rate}\ninterval = 0.03\n'


@pytest.fixture
def files(tmp_path):
    (tmp_path / "topics.toml").write_text("".join(TOPICS.format(name=f"gps-{n}", rate=5 + n) for n in range(8)))
    (tmp_path / "hosts.toml").write_text('[[host]]\nname = "edge"\ncores = 4\n')
    return ["--topics", str(tmp_path / "topics.toml"), "--hosts", str(tmp_path / "hosts.toml")]


def test_a_proposal_as_json(files, capsys):
    assert main(["place", "propose", *files, "-k", "6", "--promise", "p90=1s", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["hosts"] == len(document["seats"]) == 2
    assert document["lower_bound"] == 2
    assert sorted(name for seat in document["seats"] for name in seat["topics"]) == [f"gps-{n}" for n in range(8)]
    assert all(bound <= 1 for seat in document["seats"] for bound in seat["bounds"])
    assert document["tightened"]["0.5"] >= 2
    assert document["model"]["date"]


def test_a_proposal_and_an_explanation_for_people(files, capsys):
    assert main(["place", "propose", *files]) == 0
    assert "lower bound 2" in capsys.readouterr().out
    assert main(["place", "explain", "gps-3", *files]) == 0
    told = capsys.readouterr().out
    assert "gps-3 is on edge-" in told
    assert "promised 1000 ms" in told


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (["-k", "0"], "field='k'"),
        (["--host", "moon"], "choose_from=['edge']"),
        (["--promise", "p99=1s"], "write it as p90=1s"),
        (["--promise", "p90=soon"], "such as 5s"),
        (["--promise", "p90=1ms"], "cannot keep its promise alone"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_bad_settings_are_named(files, capsys, more, complaint):
    assert main(["place", "propose", *files, *more]) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[[topic]", "this is no TOML"),
        ("[[topic]]\nname = 'a'\nrate = 1\n", "topic[0].interval"),
        ("[[topic]]\nname = 'a'\nrate = 1\ninterval = 0.1\ncolour = 1\n", "topic[0].colour"),
        ("[[topic]]\nname = 'a'\nrate = 'x'\ninterval = 0.1\n", "field='rate'"),
        ("[[topic]]\nname = 1\nrate = 1\ninterval = 0.1\n", "topic[0].name"),
        ("topic = 1\n", "[[topic]]"),
    ],
    ids=lambda value: "" if "\n" in value else value,
)
def test_bad_files_are_named(files, tmp_path, capsys, text, complaint):
    (tmp_path / "topics.toml").write_text(text)
    assert main(["place", "propose", *files]) == 2
    assert complaint in capsys.readouterr().err


def test_an_unknown_topic_cannot_be_explained(files, capsys):
    assert main(["place", "explain", "nobody", *files]) == 2
    assert "no such topic" in capsys.readouterr().err


def test_a_model_that_is_none_is_refused(files, tmp_path, capsys):
    (tmp_path / "model.json").write_text("[]")
    assert main(["place", "propose", *files, "--model", str(tmp_path / "model.json")]) == 2
    assert "JSON object" in capsys.readouterr().err


def test_a_measured_host_is_calibrated_and_can_be_placed_on(files, tmp_path, capsys):
    runs = [_measured(rate, turn) for rate in (5, 15, 25, 35) for turn in (1, 2)]
    write_runs(tmp_path / "runs.json", runs, VirtualClock(0.0), how="simulated, for a test")
    hosts = tmp_path / "box.toml"
    assert main(["place", "calibrate", str(tmp_path / "runs.json"), "--to", str(hosts), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["fresh"]["runs"] == found["seen"]["runs"] == 4
    assert found["fresh"]["off"] < 0.5
    assert main(["place", "propose", *files[:2], "--hosts", str(hosts), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hosts"] >= 1


def _measured(rate, turn):
    topic, host = TopicLoad("t", rate, 0.02), Host("box", cores=2)
    (seen,) = simulate([topic], host, [turn, rate], seconds=20, warm_up=1)
    return MeasuredRun(host, (Met(topic, seen.messages, seen.p50, seen.p90, seen.p90, 0.02),), "poisson", 20, 1)


def test_runs_that_are_none_are_refused(tmp_path, capsys):
    (tmp_path / "runs.json").write_text("{}")
    assert main(["place", "calibrate", str(tmp_path / "runs.json")]) == 2
    assert "edge runs" in capsys.readouterr().err


def test_an_unknown_model_is_not_trained(tmp_path, capsys):
    assert main(["place", "train", "--to", str(tmp_path / "m.json"), "--model", "luck"]) == 2
    assert "choose_from=['ours', 'published']" in capsys.readouterr().err


def test_training_without_spark_writes_a_model(files, tmp_path, capsys, monkeypatch):
    def no_java(*, remote=False):
        raise SparkUnavailable("Java 17 or newer is needed")

    pytest.importorskip("pyspark")
    monkeypatch.setattr("thinwire.spark.session.check", no_java)
    model = str(tmp_path / "m.json")
    assert main(["place", "train", "--to", model, "--runs", "40", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["runs"] == 240
    assert "in one process" in said.err
    assert main(["place", "propose", *files, "--model", model]) == 0
