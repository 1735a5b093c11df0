"""`thinwire place propose` and `explain`: output and errors."""

import json

import pytest

from thinwire.cli.main import main

TOPICS = '[[topic]]\nname = "{name}"\nrate = {rate}\ninterval = 0.03\n'


@pytest.fixture
def files(tmp_path):
    (tmp_path / "topics.toml").write_text("".join(TOPICS.format(name=f"gps-{n}", rate=5 + n) for n in range(8)))
    (tmp_path / "hosts.toml").write_text('[[host]]\nname = "edge"\ncores = 4\n')
    return ["--topics", str(tmp_path / "topics.toml"), "--hosts", str(tmp_path / "hosts.toml")]


def test_a_proposal_as_json(files, capsys):
    assert main(["place", "propose", *files, "-k", "6", "--promise", "p90=1s", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["hosts"] == len(document["assignments"]) == 2
    assert document["lower_bound"] == 2
    assert sorted(name for host in document["assignments"] for name in host["topics"]) == [f"gps-{n}" for n in range(8)]
    assert all(bound <= 1 for host in document["assignments"] for bound in host["bounds"])
    assert document["tightened"]["0.5"] >= 2
    assert document["model"]["date"]


def test_a_proposal_and_an_explanation_as_text(files, capsys):
    assert main(["place", "propose", *files]) == 0
    assert "lower bound 2" in capsys.readouterr().out
    assert main(["place", "explain", "gps-3", *files]) == 0
    output = capsys.readouterr().out
    assert "gps-3 is on edge-" in output
    assert "limit 1000 ms" in output


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (["-k", "0"], "'-k'"),
        (["--host", "moon"], "choose_from=['edge']"),
        (["--promise", "p99=1s"], "write it as p90=1s"),
        (["--promise", "p90=soon"], "such as 5s"),
        (["--promise", "p90=1ms"], "cannot meet its latency limit"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_invalid_settings_are_reported(files, capsys, more, complaint):
    assert main(["place", "propose", *files, *more]) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[[topic]", "not TOML"),
        ("[[topic]]\nname = 'a'\nrate = 1\n", "topic[0].interval"),
        ("[[topic]]\nname = 'a'\nrate = 1\ninterval = 0.1\ncolour = 1\n", "topic[0].colour"),
        ("[[topic]]\nname = 'a'\nrate = 'x'\ninterval = 0.1\n", "field='rate'"),
        ("[[topic]]\nname = 1\nrate = 1\ninterval = 0.1\n", "topic[0].name"),
        ("topic = 1\n", "[[topic]]"),
    ],
    ids=lambda value: "" if "\n" in value else value,
)
def test_invalid_files_are_reported(files, tmp_path, capsys, text, complaint):
    (tmp_path / "topics.toml").write_text(text)
    assert main(["place", "propose", *files]) == 2
    assert complaint in capsys.readouterr().err


def test_an_unknown_topic_cannot_be_explained(files, capsys):
    assert main(["place", "explain", "nobody", *files]) == 2
    assert "no such topic" in capsys.readouterr().err


def test_an_invalid_model_file_is_refused(files, tmp_path, capsys):
    (tmp_path / "model.json").write_text("[]")
    assert main(["place", "propose", *files, "--model", str(tmp_path / "model.json")]) == 2
    assert "JSON object" in capsys.readouterr().err
