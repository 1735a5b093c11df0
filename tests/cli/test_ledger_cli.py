"""`thinwire ledger show`: a table for people, a document for programs, one line for a damaged file."""

import json

import pytest

from thinwire.analysis.ledger_files import append
from thinwire.cli.main import main
from thinwire.ledger import RowTally


@pytest.fixture
def file(tmp_path):
    """Two runs of two topics; a subscriber of one class has one bound violation."""
    path = tmp_path / "runs" / "demo.jsonl"
    for run, size in (("plain", 885), ("thinwire", 12)):
        for topic in ("rooms", "tanks"):
            publisher = RowTally(run, topic, "edge", "strict", "publisher")
            publisher.count(events=1000, raw_bytes=885_000, data_bytes=1000 * size, link_bytes=1000 * (size + 300))
            subscriber = RowTally(run, topic, "edge", "strict", "subscriber")
            subscriber.count(events=1000)
            for error in [0.25] * 99 + [0.5]:
                subscriber.error("temperature", error, 0.5)
            subscriber.latencies([0.005] * 100)
            subscriber.latency(61.5, virtual=True)
            append(path, [publisher.row(), subscriber.row()])
    broken = RowTally("thinwire", "tanks", "edge", "coarse", "subscriber")
    broken.error("pressure", 3.0, 2.0)
    append(path, [broken.row()])
    return path


def shown(capsys, *arguments):
    assert main(["ledger", "show", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def document(capsys, *arguments):
    return json.loads(shown(capsys, *arguments, "--json"))


def test_every_row_is_a_line(file, capsys):
    out = shown(capsys, file)
    assert out.count("publisher") == 4
    assert out.count("subscriber") == 5
    for text in ("885,000", "12,000", "312,000", "98.6%", "100%", "150%, 1 BROKEN", "5 / 5", "61,500 / 61,500"):
        assert text in out


def test_grouping_keeps_runs_and_roles_apart(file, capsys):
    rows = document(capsys, file, "--by", "topic")["rows"]
    assert [(row["run"], row["topic"], row["role"]) for row in rows] == [
        (run, topic, role)
        for run in ("plain", "thinwire")
        for topic in ("rooms", "tanks")
        for role in ("publisher", "subscriber")
    ]
    assert [row["broken"] for row in rows] == [0] * 7 + [1]
    assert rows[-1]["class"] == "*"
    by_link = document(capsys, file, "--by", "link")["rows"]
    assert [(row["run"], row["role"], row["events"]) for row in by_link] == [
        (run, role, 2000) for run in ("plain", "thinwire") for role in ("publisher", "subscriber")
    ]
    by_class = document(capsys, file, "--by", "class")["rows"]
    assert [row["class"] for row in by_class] == ["strict"] * 4 + ["coarse"]


def test_the_document_contains_derived_figures(file, capsys):
    shown_document = document(capsys, file)
    assert (shown_document["file"], shown_document["by"]) == (str(file), None)
    publisher, subscriber = shown_document["rows"][4:6]
    assert publisher["frame_bytes"] == 12_000
    assert publisher["saved"] == pytest.approx(1 - 12 / 885)
    assert publisher["error_max"] is None
    assert (subscriber["error_max"], subscriber["virtual_p99"]) == (1.0, 61.5)
    assert subscriber["error_p99"] == pytest.approx(0.5, rel=0.05)


def test_an_empty_ledger_is_reported(tmp_path, capsys):
    path = tmp_path / "empty.jsonl"
    path.touch()
    assert "has no rows" in shown(capsys, path)
    assert document(capsys, path)["rows"] == []


def test_damage_is_reported_in_one_line_with_its_position(file, capsys):
    with file.open("a") as text:
        text.write('{"version":1,"run":"r","events":-1}\n')
    assert main(["ledger", "show", str(file)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "line=10" in captured.err
    assert "'events'" in captured.err


def test_a_missing_file_is_named(tmp_path, capsys):
    assert main(["ledger", "show", str(tmp_path / "none.jsonl")]) == 2
    assert "none.jsonl" in capsys.readouterr().err
