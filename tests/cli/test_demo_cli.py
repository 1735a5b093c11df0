"""`thinwire demo`: every part is a process; it checks everything, ends when told, and leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

import pytest
from rich.console import Console

from thinwire.cli import demo_view
from thinwire.cli.main import main
from thinwire.evaluation.demo import Phase, Seat, View
from thinwire.evaluation.ledgers import read
from thinwire.ledger import Row

needs_broker = pytest.mark.skipif(find_spec("nats") is None, reason="extra nats")


class Run:
    """A demonstration in a process of its own, as from a terminal; `mark` is in the environment of all its parts."""

    def __init__(self, folder, *options):
        self.ledger = folder / "ledger.jsonl"
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        self.mark = uuid4().hex
        source = str(Path(__file__).parents[2] / "src")
        settings = {"PYTHONPATH": source, "TMPDIR": str(self.temporary), "THINWIRE_TEST": self.mark}
        command = [sys.executable, "-u", "-m", "thinwire", "demo", "--ledger", str(self.ledger), *options]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | settings,
            start_new_session=True,
        )

    def parts(self):
        """The processes of it that run now."""
        psutil = pytest.importorskip("psutil")
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("THINWIRE_TEST") == self.mark:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def wait_for(self, text):
        for line in self.process.stdout:
            if text in line:
                return
        raise AssertionError(self.process.stderr.read())

    def assert_nothing_left(self):
        assert self.parts() == []
        assert list(self.temporary.iterdir()) == []


@contextmanager
def running(folder, *options):
    run = Run(folder, *options)
    try:
        yield run
    finally:
        if run.process.poll() is None:
            run.process.kill()
        run.process.communicate()


@needs_broker
def test_every_event_is_checked_and_the_document_tells_all(tmp_path):
    with running(tmp_path, "--seconds", "4", "--rate", "100", "--json") as run:
        out, err = run.process.communicate()
        assert run.process.returncode == 0, err
        run.assert_nothing_left()
    document = json.loads(out)
    assert document["kept"]
    assert document["events"] >= 390
    assert [phase["tolerance"] for phase in document["phases"]] == [1.0, 0.5, 0.0]
    assert sum(phase["events"] for phase in document["phases"]) == document["events"]
    seats = document["subscribers"]
    assert [seat["tolerance"] for seat in seats] == [1.0, 0.5, 0.0]
    assert seats[0]["events"] == document["events"] > seats[1]["events"] > seats[2]["events"]
    for seat in seats:
        assert seat["checked"] == seat["events"] > 0
        assert (seat["broken"], seat["lost"]) == (0, 0)
        assert 0 < seat["frame_bytes"] < seat["link_bytes"]
        assert 0 < seat["latency_sent"]["p50"] <= seat["latency_sent"]["p99"]
    assert seats[0]["link_bytes"] < seats[0]["json_link_bytes"]
    assert seats[0]["worst_error"] <= 1
    assert seats[2]["worst_error"] == 0
    _check_ledger(run.ledger, document)


def _check_ledger(ledger, document):
    rows = list(read(ledger))
    assert [row.role for row in rows] == ["publisher"] * 3 + ["subscriber"] * 3 + ["broker"]
    assert {row.run for row in rows} == {document["run"]}
    assert sum(row.events for row in rows[:3]) == document["events"]
    assert [row.class_ for row in rows[3:6]] == ["1", "0.5", "0"]
    assert rows[6].stored_bytes == document["stored_bytes"] > 0


@needs_broker
def test_an_interrupt_ends_with_the_summary_so_far(tmp_path):
    with running(tmp_path, "--seconds", "120") as run:
        run.wait_for("the strictest asks for 1")
        os.killpg(run.process.pid, signal.SIGINT)
        rest, err = run.process.communicate()
        assert run.process.returncode == 0, err
        run.assert_nothing_left()
    assert "from 40 s" in rest
    assert "thinwire ledger show" in rest
    assert [row.role for row in read(run.ledger)] == ["publisher"] + ["subscriber"] * 3 + ["broker"]


@needs_broker
@pytest.mark.slow
def test_a_process_that_dies_is_named_and_the_others_end(tmp_path):
    with running(tmp_path, "--seconds", "120") as run:
        run.wait_for("the strictest asks for 1")
        victim = next(process for process in run.parts() if "publishing" in process.cmdline())
        victim.kill()
        rest, _ = run.process.communicate()
        assert run.process.returncode == 1
        run.assert_nothing_left()
    assert "the publisher of plant" in rest
    assert "it is gone" in rest


@needs_broker
@pytest.mark.slow
def test_all_at_once_is_one_phase_as_exact_as_the_strictest_asks(tmp_path):
    with running(tmp_path, "--seconds", "3", "--all-at-once", "--json") as run:
        out, err = run.process.communicate()
        assert run.process.returncode == 0, err
    document = json.loads(out)
    assert [phase["tolerance"] for phase in document["phases"]] == [0.0]
    assert [seat["events"] for seat in document["subscribers"]] == [document["events"]] * 3
    assert [seat["early"] for seat in document["subscribers"]] == [0, 0, 0]


def test_a_rate_that_nothing_could_check_is_refused(capsys):
    assert main(["demo", "--rate", "100000"]) == 2
    assert "--rate" in capsys.readouterr().err


def view(**facts):
    row = Row("r", "t", events=10, raw_bytes=8_780, data_bytes=70, suppressed_events=2)
    seat = Seat(0.5, 0.0, row, joined=True, checked=10, **facts)
    return View(4.0, (seat, Seat(0.0, 15.0, Row("r"))), (Phase(0.5, row),))


def drawn(view):
    console = Console(width=80)
    with console.capture() as capture:
        console.print(demo_view.tables(view, 45))
    return capture.get()


def test_the_tables_say_what_was_kept_and_who_is_still_to_come():
    text = drawn(view())
    assert "99.2 %" in text
    assert "from 15 s" in text
    assert "…" not in text
    assert demo_view.verdict(view()) == ["every promise was kept and no event was lost: 10 deliveries checked."]


def test_a_broken_promise_and_a_lost_event_cannot_be_overlooked():
    assert "BROKEN" in drawn(view(broken=1, breach="t is off"))
    assert "LOST" in drawn(view(lost=3))
    said = "within 0.5: 1 events beyond their promise, 3 lost; t is off"
    assert demo_view.verdict(view(broken=1, lost=3, breach="t is off")) == [said]


def test_what_joining_took_is_told():
    told, _ = demo_view.verdict(view(early=7, read_back=2_400))
    assert "7 events came before publishers knew of it" in told
    assert "read back 2.4 kB" in told
