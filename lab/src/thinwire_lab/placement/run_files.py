"""Files of measured runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from thinwire.clock import Clock
from thinwire.edge.placement_files import read_json
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


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON file; a reader sees the old content or all of the new one."""
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(path)


def format_date(clock: Clock) -> str:
    """Return the current date in UTC."""
    return datetime.fromtimestamp(clock.now(), UTC).date().isoformat()
