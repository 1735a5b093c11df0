"""`thinwire bench`: a table, its exit code, and the same table for programs and documents."""

import json

import pytest

from thinwire.cli.main import main
from thinwire_lab.bench.benchmark import Benchmark, Row
from thinwire_lab.cli import bench as verb

GOOD = Row("bytes: ours to theirs", "part", 1 / 17, high=1 / 14, how="10 events")
BAD = Row("time: ours to theirs", "times", 0.9, high=0.5)
GONE = Row("real data", "part", high=0.1, note="not measured: needs --data")


@pytest.fixture
def area(monkeypatch):
    """Install benchmarks of the given rows; return the settings that they receive."""
    settings = []

    def install(*rows):
        def measure(row):
            return lambda setting: settings.append(setting) or setting.progress(0.5) or [row]

        monkeypatch.setattr(verb, "find_benchmarks", lambda name: [Benchmark(row.name, measure(row)) for row in rows])
        return settings

    return install


def test_it_succeeds_when_all_measured_results_hold(area, capsys):
    area(GOOD, GONE)
    assert main(["bench", "wire"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("machine: ")
    assert "1/17" in out
    assert "not measured: needs --data" in out


def test_a_missed_result_is_reported(area, capsys):
    area(GOOD, BAD)
    assert main(["bench", "wire"]) == 1
    out = capsys.readouterr().out
    assert "NO" in out
    assert "1 required results hold, 1 do not" in out


def test_json_is_one_document(area, capsys):
    area(GOOD, BAD, GONE)
    assert main(["bench", "wire", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["machine"]
    assert [row["holds"] for row in document["rows"]] == [True, False, None]
    assert document["rows"][0]["value"] == pytest.approx(1 / 17)


def test_markdown_has_a_line_a_row(area, capsys):
    area(GOOD, GONE)
    assert main(["bench", "wire", "--markdown"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert len(lines) == 4
    assert lines[2] == "| bytes: ours to theirs | 1/17 | part | at most 1/14 | yes | 10 events |"


def test_options_reach_the_benchmarks(area, tmp_path):
    settings = area(GOOD, GONE)
    assert main(["bench", "wire", "--quick", "--data", str(tmp_path), "--only", "bytes"]) == 0
    (setting,) = settings
    assert setting.quick
    assert setting.data == tmp_path


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["moon"], "'live', 'placement', 'spark', 'wire', 'workload']"),
        (["wire", "--only", "moon"], "building frames"),
        (["wire", "--data", "no/such/folder"], "no/such/folder"),
    ],
)
def test_bad_requests_are_refused(capsys, args, complaint):
    assert main(["bench", *args]) == 2
    assert complaint in capsys.readouterr().err
