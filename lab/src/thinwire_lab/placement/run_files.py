"""Files of measured runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from thinwire.clock import Clock
from thinwire.edge.placement_files import read_json, write_json
from thinwire_lab.bench.machine import this_machine
from thinwire_lab.placement.measured_runs import MeasuredRun, runs_document, runs_of

RUNS = "edge-runs.json"
"""name of the file of measured runs in a folder of data"""


def read_runs(path: Path) -> list[MeasuredRun]:
    """Read measured runs."""
    return runs_of(read_json(path))


def write_runs(path: Path, runs: Sequence[MeasuredRun], clock: Clock, how: str) -> None:
    """Write measured runs with the machine and the date."""
    write_json(path, runs_document(runs, machine=this_machine(), date=format_date(clock), how=how))


def format_date(clock: Clock) -> str:
    """Return the current date in UTC."""
    return datetime.fromtimestamp(clock.now(), UTC).date().isoformat()
