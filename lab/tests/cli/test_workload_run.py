"""`thinwire workload run`: a scenario on a live broker, its document and its ledger."""

import json

from thinwire.analysis.ledger_files import read
from thinwire.cli.main import main

SCENARIO = """
name = "verb"
duration = 1
settle = 0.5

[topics.verb-trade]
source = "market"
sources = 2
rate = 60

[[subscribers]]
topic = "verb-trade"
count = 2

[[subscribers]]
topic = "verb-trade"
where = "symbol = 'AAA'"
"""


def test_a_scenario_is_run_and_reported(url, tmp_path, capsys):
    scenario, ledger = tmp_path / "verb.toml", tmp_path / "runs.jsonl"
    scenario.write_text(SCENARIO)
    assert main(["workload", "run", str(scenario), "--to", url, "--ledger", str(ledger), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (trade,), (unfiltered, chosen) = document["topics"], document["audiences"]
    assert (trade["events"], unfiltered["events"], chosen["events"]) == (60, 120, 30)
    assert unfiltered["missed"] == chosen["missed"] == 0
    assert {row.role for row in read(ledger)} == {"publisher", "subscriber", "run"}
    assert sum(row.events for row in read(ledger) if row.role == "subscriber") == 150


def test_a_scenario_has_a_broker_of_its_own(tmp_path, capsys):
    scenario = tmp_path / "own.toml"
    scenario.write_text(SCENARIO)
    assert main(["workload", "run", str(scenario), "--to", "embedded://", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["events"] for one in document["audiences"]] == [120, 30]


def test_a_bad_scenario_names_the_field(tmp_path, capsys):
    scenario = tmp_path / "bad.toml"
    scenario.write_text(SCENARIO.replace("rate = 60", "rate = 'fast'"))
    assert main(["workload", "run", str(scenario), "--to", "memory://nowhere"]) == 2
    assert "field='topics.verb-trade.rate'" in capsys.readouterr().err
