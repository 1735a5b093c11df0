"""`thinwire reproduce`: published beside ours, and pictures."""

import json
from importlib.util import find_spec

import pytest

from thinwire.cli.main import main


def test_the_list_has_a_command_for_every_figure(capsys):
    assert main(["reproduce", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["experiments"]
    assert [row["figure"] for row in listed] == ["figure 5", "figure 6", "figure 7"]
    assert all(row["command"].startswith("thinwire reproduce virtual-events --figure ") for row in listed)


def figure(number, capsys, tmp_path, *args):
    pytest.importorskip("matplotlib")
    command = ["reproduce", "--figure", str(number), "--events", "100", "--out", str(tmp_path), "--json", *args]
    assert main(command) == 0
    assert {path.name for path in tmp_path.iterdir()} == {f"figure-{number}.{kind}" for kind in ("png", "svg")}
    return json.loads(capsys.readouterr().out)[f"figure {number}"]


def test_figure_5_with_pictures(capsys, tmp_path):
    shown = figure(5, capsys, tmp_path)
    assert [row["published MB"] for row in shown["rows"]] == [885, 390, 392, 505]


def test_figure_6_with_pictures(capsys, tmp_path):
    shown = figure(6, capsys, tmp_path)
    assert shown["published"] == "JSON falls below one tenth of the raw size"
    assert len(shown["rows"]) == 5
    live = ["live: thinwire json, last", "live: thinwire compact, last", "live: thinwire compact, auto"]
    assert [row["format"] for row in shown["live rows"]] == (live if find_spec("nats") else [])


@pytest.mark.slow
def test_figure_7_with_pictures(capsys, tmp_path):
    pytest.importorskip("nats")
    shown = figure(7, capsys, tmp_path, "--runs", "1")
    assert {row["chain"] for row in shown["rows"]} == {"plain JSON", "thinwire"}
    assert shown["stored bytes an event"]["thinwire"] < shown["stored bytes an event"]["plain JSON"]
    assert shown["events lost"] == 0


def test_tables_for_people_cite_the_paper(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    assert main(["reproduce", "virtual-events", "--figure", "5", "--events", "50", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "Using Virtual Events for Edge-based Data Stream Reduction" in out
    assert "figure 6" not in out


@pytest.mark.parametrize("args", [("moon",), ("virtual-events", "--figure", "4"), ("--events", "1")])
def test_bad_requests_are_refused(args):
    assert main(["reproduce", *args]) == 2
