"""The log of a topic as the input of `thinwire analyze`, compared with the same events in a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from spark_setup import broker, publish, rooms

from thinwire.analysis import EXACT, AnalysisRequest, Level, analyze_files, grid
from thinwire.cli.main import main
from thinwire.topics.topic_plan import load_plan

TOPIC = "building.rooms"
COUNT = 800


def test_a_topic_is_analysed_as_its_events_in_a_file_are(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(SparkSession, "stop", lambda self: None)  # the session is shared by all tests
    plan = tmp_path / "plan.toml"
    with broker() as url:
        live = publish(url, rooms(TOPIC), COUNT)
        options = ["--subscribe", TOPIC, "--servers", url, "--levels", "0,1", "--linger", "0.1", "--plan", str(plan)]
        code = main(["analyze", *options, "--master", "local[2]", "--json"])
    reported = capsys.readouterr()
    assert code == 0, reported.err
    found = json.loads(reported.out)
    assert (found["held_out"], found["rejected"]) == (COUNT // 2, 0)

    file = tmp_path / "rooms.jsonl"
    file.write_text("".join(json.dumps(event) + "\n" for event in live))
    strategies = grid((EXACT, Level("1 %", 0.01)), lingers=(0.1,))
    alone = analyze_files([file], AnalysisRequest(TOPIC, strategies, schema=rooms(TOPIC)))
    names = ("frame_bytes", "link_bytes", "messages")
    totals = {one.name: one.outcome.total for one in alone.strategies}
    assert {one["strategy"]: tuple(one[name] for name in names) for one in found["strategies"]} == {
        name: (total.frame, total.link, total.messages) for name, total in totals.items()
    }
    assert load_plan(plan).topic(TOPIC).schema.fingerprint == rooms(TOPIC).fingerprint
