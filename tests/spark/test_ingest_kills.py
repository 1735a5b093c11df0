"""Writing a topic to a table while processes are killed: every event is in the table once."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import Popen

import pytest
from ingest_setup import batch_under_way, finish, kill_all, landed, start, wait_until, workers
from spark_setup import as_events, as_rows, broker, publish, rooms

TOPIC = "building.rooms"
COUNT = 1_500

pytestmark = pytest.mark.slow


def verb(url: str, table: Path, master: str) -> list[str]:
    options = ["--servers", url, "--master", master, "--batch", "80", "--tolerance", "t=0.5"]
    return ["ingest", TOPIC, "--to", str(table), "--once", "--json", *options]


def test_ingest_survives_killed_workers_a_killed_driver_and_an_early_stop(tmp_path: Path) -> None:
    table = tmp_path / "rooms"
    with broker() as url:
        live = publish(url, rooms(TOPIC), COUNT)
        job = start(*verb(url, table, "local[2,8]"))
        reached = _kill_workers(table, job)
        reached = _wait_beyond(table, reached, job)
        kill_all(job)
        job = start(*(word for word in verb(url, table, "local[2]") if word != "--once"), "--trigger", "1s")
        _wait_beyond(table, reached, job)
        job.terminate()
        code, out, err = finish(job)
        assert code == 130, err
        assert 0 < json.loads(out)["rows"] <= len(landed(table)) <= COUNT
        code, out, err = finish(start(*verb(url, table, "local[2]")))
        assert code == 0, err
        rows = landed(table)
        assert len(rows) == COUNT
        assert as_rows(rows) == as_events(live)
        assert json.loads(out)["rows"] < COUNT


def _kill_workers(table: Path, job: Popen[str]) -> int:
    """Kill Python workers during a batch and return its number."""
    number = _wait_beyond(table, 0, job)
    for worker in wait_until(lambda: workers(job), job):
        worker.kill()
    return number


def _wait_beyond(table: Path, before: int, job: Popen[str]) -> int:
    """Return the number of a running batch after this one."""
    return wait_until(lambda: max(batch_under_way(table / "_checkpoint") or 0, before) - before, job) + before
