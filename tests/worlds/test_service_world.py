"""No check fails in the worlds of services and dictionaries."""

import subprocess
import sys
from pathlib import Path

import pytest
from run_seeds import describe, main, run_seeds

PORTION = 10


@pytest.mark.parametrize("first", range(0, 40, PORTION))
def test_no_check_fails_with_services(first):
    totals = run_seeds("services", first, PORTION)
    assert totals.failed == {}
    assert min(totals.counts["delivered"], totals.counts["channel_batches"]) > 0


@pytest.mark.parametrize("first", range(0, 20, PORTION))
def test_no_check_fails_with_dictionaries(first):
    totals = run_seeds("dictionaries", first, PORTION)
    assert totals.failed == {}
    assert min(totals.counts["packed"], totals.counts["dictionaries"], totals.counts["delivered"]) > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["services", "dictionaries"])
def test_no_check_fails_in_many_worlds(kind):
    totals = run_seeds(kind, 10_000, 100, processes=2)
    assert totals.failed == {}
    assert totals.counts["channel_batches" if kind == "services" else "packed"] > 0


@pytest.mark.parametrize("arguments", [["services", "4"], ["dictionaries", "3"]], ids=" ".join)
def test_a_seed_repeats_exactly_in_another_process(arguments):
    kind, seed = arguments
    text, is_good = describe(kind, int(seed))
    command = [sys.executable, str(Path(__file__).with_name("run_seeds.py")), *arguments]
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert again.stdout == text + "\n"
    assert is_good


def test_a_violation_sets_the_exit_status(monkeypatch, capsys):
    monkeypatch.setattr("service_checks.SubscriberChecks.check_end", lambda self, log, **rest: self._fail(1, "wrong"))
    monkeypatch.setattr("service_checks.SubscriberChecks._fail", lambda self, run, text: self.violations.append(text))
    assert main(["services", "4"]) == 1
    assert "VIOLATION wrong" in capsys.readouterr().out
