"""`thinwire samples`: lines that other programs can read."""

import json

import pytest

from thinwire.cli.main import main
from thinwire.demo import building
from thinwire.schema import Schema
from thinwire.schema.turtle import from_turtle
from thinwire_lab.workload.samples import market


def run(capsys, *args, code=0):
    assert main(["samples", *args]) == code
    return capsys.readouterr()


def test_without_a_name_the_samples_are_listed(capsys):
    assert "building" in run(capsys).out
    assert json.loads(run(capsys, "--json").out)["samples"][0]["name"] == "building"


def test_events_are_json_lines(capsys):
    lines = run(capsys, "building", "-n", "4", "--seed", "3", "--sources", "2").out.splitlines()
    assert [json.loads(line) for line in lines] == list(building.events(4, seed=3, sources=2))


def test_market_sample(capsys):
    lines = run(capsys, "market", "-n", "3", "--sources", "2").out.splitlines()
    assert [json.loads(line) for line in lines] == list(market.events(3, sources=2))
    assert Schema.from_document(json.loads(run(capsys, "market", "--schema").out)) == market.schema()
    assert "no published original" in run(capsys, "market", "--calibration", code=2).err


def test_events_as_one_document(capsys):
    document = json.loads(run(capsys, "building", "-n", "2", "--json").out)
    assert document["events"] == list(building.events(2))


def test_the_schema_can_be_read_back(capsys):
    assert Schema.from_document(json.loads(run(capsys, "building", "--schema").out)) == building.schema()
    assert from_turtle(run(capsys, "building", "--turtle").out) == building.schema()


def test_calibration_reports_within_or_outside(capsys):
    assert "within" in run(capsys, "building", "--calibration", "--events", "200").out
    rows = json.loads(run(capsys, "building", "--calibration", "--events", "200", "--json").out)["rows"]
    assert {row["within"] for row in rows} <= {"within", "outside", None}
    assert rows[0]["published"] == 885


def test_taxi_sample(capsys):
    lines = run(capsys, "taxi", "-n", "3", "--sources", "3").out.splitlines()
    assert [json.loads(line)["taxi"] for line in lines] == ["taxi-00001", "taxi-00002", "taxi-00003"]
    assert "no published original" in run(capsys, "taxi", "--calibration", code=2).err


@pytest.mark.parametrize(
    ("args", "complaint"),
    [(("castle",), "building"), (("building", "-n", "-1"), "-n"), (("building", "--seed", "x"), "--seed")],
)
def test_invalid_arguments_are_refused(capsys, args, complaint):
    assert complaint in run(capsys, *args, code=2).err
