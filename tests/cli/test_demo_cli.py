"""`thinwire demo`: checks, results, interruption, failures, and what remains afterwards."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

import pytest
from rich.console import Console

from thinwire.analysis.ledger_files import read
from thinwire.cli import demo_view
from thinwire.cli.demo_view import facts
from thinwire.cli.main import main
from thinwire.demo.delivery_check import CheckResult
from thinwire.demo.demo_run import DemoView, SubscriberView
from thinwire.demo.demo_scenario import SUBSCRIPTIONS, DemoSubscription
from thinwire.demo.spark_table import ParquetView
from thinwire.ledger import Row
from thinwire.spark.session import MIN_JAVA, java_version

HAS_SPARK = find_spec("pyspark") is not None and java_version() >= MIN_JAVA
needs_spark = pytest.mark.skipif(not HAS_SPARK, reason="extra spark, and Java")
needs_broker = pytest.mark.skipif(find_spec("nats") is None, reason="extra nats")


class Run:
    """A demonstration in a process of its own. `mark` is in the environment of all its processes."""

    def __init__(self, folder, *options, spark=False):
        self.ledger = folder / "ledger.jsonl"
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        self.mark = uuid4().hex
        source = str(Path(__file__).parents[2] / "src")
        settings = {"PYTHONPATH": source, "TMPDIR": str(self.temporary), "THINWIRE_TEST": self.mark}
        command = [sys.executable, "-u", "-m", "thinwire", "demo", "--ledger", str(self.ledger), *options]
        command += [] if spark else ["--no-spark"]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | settings,
            start_new_session=True,
        )

    def processes(self):
        """Return its running processes."""
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
        assert self.processes() == []
        assert list(self.temporary.iterdir()) == []


@contextmanager
def running(folder, *options, spark=False):
    run = Run(folder, *options, spark=spark)
    try:
        yield run
    finally:
        if run.process.poll() is None:
            run.process.kill()
        run.process.communicate()


NAMES = [subscription.name for subscription in SUBSCRIPTIONS]


@needs_broker
def test_every_event_is_checked_and_the_document_has_all_figures(tmp_path):
    with running(tmp_path, "--seconds", "8", "--rate", "100", "--json") as run:
        out, err = run.process.communicate()
        assert run.process.returncode == 0, err
        run.assert_nothing_left()
    document = json.loads(out)
    assert document["kept"]
    assert document["events"] >= 590
    assert [phase["in_force"] for phase in document["phases"]] == ["1", "0.5 to 1", "0.5", "0"]
    assert sum(phase["events"] for phase in document["phases"]) == document["events"]
    _check_subscribers(document["subscribers"], document["events"])
    _check_translator(document["translator"])
    _check_ledger(run.ledger, document)
    assert document["spark"] is None


def _check_subscribers(subscribers, events):
    assert [one["class"] for one in subscribers] == NAMES
    counts = [one["events"] for one in subscribers]
    assert counts[0] == events > counts[2] > counts[3] > counts[4]
    for one in subscribers:
        assert one["checked"] >= one["events"] > 0
        assert one["checked"] == one["events"] or one["emit"] == "changes"
        assert (one["broken"], one["lost"]) == (0, 0)
        assert 0 < one["frame_bytes"] < one["link_bytes"]
        assert 0 < one["latency_sent"]["p50"] <= one["latency_sent"]["p99"]
        assert one["worst_error"] <= 1
    assert subscribers[0]["link_bytes"] < subscribers[0]["json_link_bytes"]
    assert subscribers[4]["worst_error"] == 0
    assert [one["reads"] for one in subscribers] == ["channel"] * 4 + ["log"]


def _check_translator(translator):
    assert translator["events"] > 0 < translator["cpu_seconds_per_event"]
    classes = translator["classes"]
    assert [one["class"] for one in classes] == NAMES
    assert [one["frames"] > 0 for one in classes] == [True] * 4 + [False]
    assert all(0 < one["frame_bytes"] < one["link_bytes"] for one in classes[:4])


def _check_ledger(ledger, document):
    rows = list(read(ledger))
    assert [row.role for row in rows] == [
        *["publisher"] * 4,
        *["translator"] * 5,
        *["subscriber"] * 5,
        *["broker"] * 2,
    ]
    assert {row.run for row in rows} == {document["run"]}
    assert sum(row.events for row in rows[:4]) == document["events"]
    assert [(row.link, row.class_) for row in rows[4:9]] == [("log", ""), *(("channel", name) for name in NAMES[:4])]
    assert [row.class_ for row in rows[9:14]] == NAMES
    assert [(row.link, row.stored_bytes) for row in rows[14:]] == [
        (kept["link"], kept["stored_bytes"]) for kept in document["stored"]
    ]


@needs_broker
def test_an_interrupt_ends_with_the_summary_so_far(tmp_path):
    """Also while Spark is still starting."""
    with running(tmp_path, "--seconds", "120", spark=HAS_SPARK) as run:
        run.wait_for("log: tolerance 1,")
        os.killpg(run.process.pid, signal.SIGINT)
        rest, err = run.process.communicate()
        assert run.process.returncode == 0, err
        run.assert_nothing_left()
    assert "at 15 s" in rest
    assert "thinwire ledger show" in rest
    roles = [row.role for row in read(run.ledger)]
    assert [role for role in roles if role != "table"] == ["publisher", "translator"] + ["subscriber"] * 5 + ["broker"]
    assert ("there is no table" in rest) is HAS_SPARK


@needs_broker
@pytest.mark.slow
def test_a_process_that_dies_is_named_and_the_others_end(tmp_path):
    with running(tmp_path, "--seconds", "120") as run:
        run.wait_for("log: tolerance 1,")
        victim = next(process for process in run.processes() if "demo publisher" in process.cmdline())
        victim.kill()
        rest, _ = run.process.communicate()
        assert run.process.returncode == 1
        run.assert_nothing_left()
    assert "publisher" in rest
    assert "failed: the process has ended" in rest


@needs_broker
@pytest.mark.slow
def test_all_at_once_is_one_phase_with_the_strictest_tolerance(tmp_path, monkeypatch):
    """Without Java the demo runs without the table."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with running(tmp_path, "--seconds", "3", "--all-at-once", "--json", spark=True) as run:
        out, err = run.process.communicate()
        assert run.process.returncode == 0, err
    document = json.loads(out)
    assert [phase["in_force"] for phase in document["phases"]] == ["0"]
    everything = [one for one in document["subscribers"] if one["emit"] == "all"]
    assert [one["events"] for one in everything] == [document["events"]] * 4
    assert [one["early"] for one in document["subscribers"]] == [0] * 5
    assert [one["reads"] for one in document["subscribers"]] == ["channel"] * 4 + ["log"]
    assert document["spark"] is None
    [line] = (line for line in err.splitlines() if "without the table" in line)
    assert "Java 17 or newer is needed" in line or "thinwire[EXTRA]" in line


@needs_broker
@needs_spark
@pytest.mark.slow
def test_the_table_has_every_published_event(tmp_path):
    with running(tmp_path, "--seconds", "6", "--rate", "100", "--json", spark=True) as run:
        out, err = run.process.communicate()
        assert run.process.returncode == 0, err
        run.assert_nothing_left()
    document = json.loads(out)
    table = document["spark"]
    assert (table["complete"], table["problem"]) == (True, "")
    assert table["rows"] == table["published"] == document["events"] >= 590
    assert 0 < table["bytes_read"] < table["link_bytes"]
    assert table["stored_bytes"] > 0 < table["first"]
    assert [phase["in_force"] for phase in document["phases"]] == ["1", "0.5 to 1", "0.5", "0"]
    [row] = (row for row in read(run.ledger) if row.role == "table")
    assert (row.link, row.class_, row.events, row.link_bytes) == ("log", "1", table["rows"], table["link_bytes"])


def test_a_rate_that_is_too_high_to_check_is_refused(capsys):
    assert main(["demo", "--rate", "100000"]) == 2
    assert "--rate" in capsys.readouterr().err


def view(**facts):
    row = Row("r", "t", "channel", "0.5", events=10, raw_bytes=8_780, data_bytes=70, suppressed_events=2)
    made = Row("r", "t", "channel", "0.5", "translator", events=10, frames=8, data_bytes=50)
    half, exact = DemoSubscription("0.5", 0.5), DemoSubscription("0", 0.0)
    check = CheckResult(checked=10, **facts)
    reads_channel = SubscriberView(
        half, 0.0, replace(row, link_bytes=20_000), made, has_joined=True, log_bytes=100, check=check
    )
    reads_log = SubscriberView(
        exact, 10.0, Row("r", "t", "log", "0", link_bytes=30_000), Row("r"), has_joined=True, log_bytes=100
    )
    waiting = SubscriberView(DemoSubscription("later", 0.0), 15.0, Row("r"), Row("r"))
    took = Row("r", "t", "log", role="translator", events=12, cpu_seconds={"translator": 0.0024})
    return DemoView(4.0, (reads_channel, reads_log, waiting), took, (replace(row, class_="0 to 0.5"),))


def summary(view):
    return demo_view.summary(view, with_spark=True)


def drawn(view):
    console = Console(width=80)
    with console.capture() as capture:
        console.print(demo_view.tables(view, 45))
    return capture.get()


def test_the_tables_show_joined_and_waiting_subscribers():
    text = drawn(view())
    assert "99.2" in text
    assert "at 15 s" in text
    assert "…" not in text
    assert "10 events checked: all within their bound, none lost" in summary(view())


def test_each_channel_is_compared_with_the_log():
    text = drawn(view())
    channel, log = (line.split() for line in text.splitlines() if line.rstrip().endswith(("0.02", "0.03")))
    assert channel == ["0.5", "10", "8", "5.00", "0.05", "0.10", "50", "0.02"]
    assert log == ["0", "-", "-", "-", "-", "0.10", "-", "0.03"]
    assert "200 us of CPU per event" in text
    assert "log: tolerance 0 to 0.5, " in text


def test_tables_of_a_long_run_fit_eighty_columns():
    many = Row("r", "t", "channel", "0.5 tanks", events=598_765, raw_bytes=525_001_234, data_bytes=9_876_543)
    for seconds in (0.234, 4.321):
        many.latency_sent.add(seconds)
        many.latency_virtual.add(seconds)
    made = Row("r", "t", "channel", "0.5 tanks", "translator", events=598_765, frames=598_765, data_bytes=8_765_432)
    subscriber = SubscriberView(
        SUBSCRIPTIONS[2],
        0.0,
        many,
        made,
        has_joined=True,
        log_bytes=12_345_678,
        link_bytes=123_456_789,
        json_link_bytes=987_654_321,
        check=CheckResult(violations=1),
    )
    took = Row("r", "t", "log", role="translator", events=598_765, cpu_seconds={"translator": 123.0})
    text = drawn(DemoView(600.0, (subscriber,), took, (many,)))
    assert "…" not in text
    assert "598,765" in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_document_has_every_class():
    document = facts(view())
    assert [one["class"] for one in document["subscribers"]] == ["0.5", "0", "later"]
    assert [one["class"] for one in document["translator"]["classes"]] == ["0.5", "0"]
    assert document["translator"]["classes"][0]["less"] == 0.5
    assert document["phases"][0]["in_force"] == "0 to 0.5"


def test_a_violation_and_a_lost_event_are_shown():
    assert "BROKEN" in drawn(view(violations=1, first_violation="t is off"))
    assert "LOST" in drawn(view(lost=3))
    text = "subscriber 0.5: 1 events violate their bound, 3 were lost; t is off"
    assert text in summary(view(violations=1, lost=3, first_violation="t is off"))


def test_events_from_before_the_tolerance_was_applied_are_shown():
    assert any(line.startswith("7 of them had a larger bound") for line in summary(view(early=7)))


def parquet_table(**facts):
    row = Row("r", "t", "log", "1", "table", events=10, link_bytes=81_000, stored_bytes=123_456_789)
    return ParquetView(row, 71_234, 18.3, **facts)


def with_table(**facts):
    return replace(view(), parquet=parquet_table(**facts))


def test_a_table_with_every_event():
    same = with_table(all_rows_after=2.1, published=10, events=10)
    assert same.is_guarantee_met
    cells = ["1", "10", "10", "0.07", "123", "18.3", "2.1"]
    assert cells in [line.split() for line in drawn(same).splitlines()]
    assert max(map(len, drawn(same).splitlines())) <= 80
    assert "Spark: the table has all 10 published events, each once" in summary(same)
    assert facts(same)["spark"]["complete"] is True


def test_a_growing_table_is_not_checked():
    growing = with_table()
    assert growing.is_guarantee_met
    assert growing.parquet.is_complete is None
    assert ["1", "10", "-", "0.07", "123", "18.3", "-"] in [line.split() for line in drawn(growing).splitlines()]
    assert "Spark: 10 rows" in demo_view.line(growing)


@pytest.mark.parametrize(
    "wrong",
    [
        {"published": 10, "events": 9},
        {"published": 11, "events": 10},
        {"published": 9, "events": 9},
    ],
)
def test_a_missing_or_repeated_event_in_the_table_fails_the_run(wrong):
    different = with_table(all_rows_after=2.1, **wrong)
    assert not different.is_guarantee_met
    assert any("THE TABLE IS WRONG" in line for line in summary(different))


def test_a_table_that_could_not_be_written_fails_the_run():
    different = with_table(problem="`thinwire ingest` ended 3 times.")
    assert not different.is_guarantee_met
    assert "Spark: `thinwire ingest` ended 3 times." in summary(different)
