"""`thinwire reproduce`: published beside ours, and pictures."""

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

from thinwire.cli.main import main
from thinwire.errors import SparkUnavailable


def test_the_list_has_a_command_for_every_figure(capsys):
    assert main(["reproduce", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["experiments"]
    named = {
        name: [row["figure"] for row in listed if row["name"] == name] for name in ("virtual-events", "dictionaries")
    }
    assert named["virtual-events"] == ["figure 5", "figure 6", "figure 7"]
    assert {"table 5.4.4", "figure 5.2.1"} <= set(named["dictionaries"])
    for row in listed:
        kind, number = row["figure"].split()
        assert row["command"] == f"thinwire reproduce {row['name']} --{kind} {number}"


def test_a_table_of_dictionaries_without_spark(capsys, tmp_path, monkeypatch):
    def no_java(*, remote=False):
        raise SparkUnavailable("Java 17 or newer is needed")

    pytest.importorskip("pyspark")
    monkeypatch.setattr("thinwire.spark.session.check", no_java)
    args = ["dictionaries", "--table", "5.4.2", "--quick", "--events", "300", "--out", str(tmp_path), "--json"]
    assert main(["reproduce", *args]) == 0
    output = capsys.readouterr()
    sheet = json.loads(output.out)["table 5.4.2"]
    assert sheet["rows"]
    assert "in this process" in output.err
    assert "Compression in Publish/Subscribe Systems" in output.err


@pytest.mark.slow
def test_a_table_of_dictionaries_on_spark(tmp_path):
    pytest.importorskip("pyspark")
    from thinwire.spark.session import check

    try:
        check()
    except SparkUnavailable as problem:
        pytest.skip(str(problem))
    args = ["dictionaries", "--table", "5.4.2", "--quick", "--events", "300", "--out", str(tmp_path), "--json"]
    command = [sys.executable, "-m", "thinwire", "reproduce", *args, "--master", "local[2]"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["table 5.4.2"]["rows"]
    assert "in this process" not in done.stderr


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


@pytest.mark.parametrize(
    "args",
    [
        ("moon",),
        ("virtual-events", "--figure", "4"),
        ("--events", "1"),
        ("virtual-events", "--table", "5.4.4"),
        ("dictionaries", "--table", "9.9.9"),
        ("dictionaries", "--figure", "9.9.9"),
    ],
)
def test_bad_requests_are_refused(args):
    assert main(["reproduce", *args]) == 2
