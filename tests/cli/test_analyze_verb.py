"""`thinwire analyze`: files in, a table, a page and a plan out; what cannot be analysed is named."""

import json
import subprocess
import sys

import pytest

from thinwire.cli.main import main
from thinwire.errors import SparkUnavailable
from thinwire.topics.topic_plan import load_plan
from thinwire_lab.streams.sensor_stream import sensor_batch

BROKEN = [
    ([], "give files"),
    (["none.jsonl"], "no such file"),
    (["{file}", "--subscribe", "rooms"], "give files"),
    (["{file}", "--linger", "soon"], "separated by commas"),
    (["{file}", "--levels", "-1"], "at least zero"),
    (["{file}", "--packing", "none,zip"], "none, deflate or dictionary"),
    (["{file}", "--levels", "150"], "share of the range"),
    (["{file}", "--tolerance", "t"], "NAME=VALUE"),
    (["{file}", "--master", "spark://host:7077"], "--work"),
]


@pytest.mark.parametrize(("args", "message"), BROKEN, ids=range(len(BROKEN)))
def test_invalid_options_are_reported_before_spark_starts(tmp_path, capsys, args, message):
    file = tmp_path / "rooms.jsonl"
    file.write_text('{"time": 1, "t": 2}\n')
    assert main(["analyze", *(arg.format(file=file) for arg in args)]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert not captured.out


@pytest.mark.slow
def test_the_verb_writes_a_page_and_a_plan(tmp_path):
    pytest.importorskip("pyspark", reason="extra spark")
    from thinwire.spark.session import check

    try:
        check()
    except SparkUnavailable as problem:
        pytest.skip(str(problem))
    path, page, plan = tmp_path / "machines.jsonl", tmp_path / "out" / "report.html", tmp_path / "out" / "plan.toml"
    events = sensor_batch(600, sources=3).to_pylist()
    path.write_text("".join(json.dumps(event) + "\n" for event in events) + "no event\n")
    files = ["--report", str(page), "--plan", str(plan)]
    args = ["--levels", "0,1", "--linger", "0.005,2", "--tolerance", "speed=5", "--source", "machine", "--json"]
    command = [sys.executable, "-m", "thinwire", "analyze", str(path), *files, *args]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["held_out"], found["rejected"], found["rejects"][0]["line"]) == (300, 1, 601)
    assert len(found["strategies"]) == 3 * (3 + 1) * 2
    [chosen] = [one for one in found["strategies"] if one["chosen"]]
    assert chosen["front"]
    assert all(one["kept"] for one in found["strategies"])
    assert "as asked" in {one["strategy"].split(", ")[1] for one in found["strategies"]}
    assert found["sentence"] in page.read_text()
    expected = load_plan(plan).topic("machines").expected
    assert expected["link_saving"] == pytest.approx(chosen["link_saving"], abs=1e-4)
