"""`thinwire demo`: it runs, ends when told, and writes down what happened."""

import json
import signal
import subprocess
import sys
from pathlib import Path

from thinwire.cli.main import main
from thinwire.evaluation.ledgers import read


def test_it_summarises_and_writes_a_ledger(capsys, tmp_path):
    ledger = tmp_path / "run" / "ledger.jsonl"
    assert main(["demo", "--seconds", "0.3", "--rate", "500", "--ledger", str(ledger)]) == 0
    out = capsys.readouterr().out
    assert f"thinwire ledger show {ledger}" in out.replace("\n", "")
    assert [row.role for row in read(ledger)] == ["publisher", "subscriber"] * 3


def test_json_is_one_document(capsys, tmp_path):
    assert main(["demo", "--seconds", "0.1", "--json", "--ledger", str(tmp_path / "l.jsonl")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [lane["tolerance"] for lane in document["lanes"]] == [0.0, 0.5, 1.0]
    assert all(lane["kept"] and lane["saved"] > 0.5 for lane in document["lanes"])


def test_an_interrupt_ends_with_the_summary_so_far(tmp_path):
    ledger = tmp_path / "ledger.jsonl"
    source = str(Path(__file__).parents[2] / "src")
    command = [sys.executable, "-u", "-m", "thinwire", "demo", "--seconds", "120", "--ledger", str(ledger)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": source}) as demo:
        assert demo.stdout is not None
        while "events  within" not in demo.stdout.readline():
            pass
        demo.send_signal(signal.SIGINT)
        rest = demo.stdout.read()
    assert demo.returncode == 0
    assert "thinwire ledger show" in rest
    assert len(list(read(ledger))) == 6
