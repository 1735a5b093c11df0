"""`thinwire reproduce`: published beside ours, and pictures."""

import json

import pytest

from thinwire.cli.main import main


def test_the_list_has_a_command_for_every_figure(capsys):
    assert main(["reproduce", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["experiments"]
    assert [row["figure"] for row in listed] == ["figure 5", "figure 6"]
    assert all(row["command"].startswith("thinwire reproduce virtual-events --figure ") for row in listed)


def test_both_figures_with_pictures(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    assert main(["reproduce", "--events", "100", "--out", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["published MB"] for row in document["figure 5"]["rows"]] == [885, 390, 392, 505]
    assert document["figure 6"]["published"] == "JSON falls below one tenth of the raw size"
    assert len(document["figure 6"]["rows"]) == 5
    assert {path.name for path in tmp_path.iterdir()} == {
        f"figure-{n}.{kind}" for n in (5, 6) for kind in ("png", "svg")
    }


def test_tables_for_people_cite_the_paper(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    assert main(["reproduce", "virtual-events", "--figure", "5", "--events", "50", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "Using Virtual Events for Edge-based Data Stream Reduction" in out
    assert "figure 6" not in out


@pytest.mark.parametrize("args", [("moon",), ("virtual-events", "--figure", "4"), ("--events", "1")])
def test_bad_requests_are_refused(args):
    assert main(["reproduce", *args]) == 2
