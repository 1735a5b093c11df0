"""Benchmarks of robustness: altered inputs and simulated worlds under faults, none of which may fail.

The worlds are tests, so they are run with `tests/worlds/run_seeds.py` of the checkout in the working directory.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from thinwire_lab.bench.benchmark import Benchmark, Row, Setting

SCRIPT = Path("tests/worlds/run_seeds.py")
SEED = 1

NEEDS_CHECKOUT = f"not measured: needs {SCRIPT}; run in a checkout"


def measure_fuzz(setting: Setting) -> Iterator[Row]:
    """Decode altered bytes: only the documented errors may be raised."""
    name = "fuzz: inputs with any other outcome"
    found = run_script("fuzz", setting.size(1_000_000, 20_000))
    if found is None:
        yield Row(name, "failures", note=NEEDS_CHECKOUT)
        return
    refused = sum(found["refused"].values())
    how = f"{found['inputs']:,} inputs from seed {SEED}, {refused:,} refused by name, peak {found['peak']:,} B"
    note = found["failures"][0] if found["failures"] else ""
    yield Row(name, "failures", len(found["failures"]), high=0, how=how, note=note)


def measure_worlds(kind: str, setting: Setting) -> Iterator[Row]:
    """Run simulated worlds with kills, pauses, outages, lost and damaged messages: none may violate a guarantee."""
    name = f"world of {kind}: seeds with a violation"
    found = run_script(kind, setting.size(10_000, 40))
    if found is None:
        yield Row(name, "failures", note=NEEDS_CHECKOUT)
        return
    counts = [f"{value:,} {name.replace('_', ' ')}" for name, value in found["counts"].items()]
    failed = sorted(map(int, found["failed"]))
    note = f"to repeat: python {SCRIPT} {kind} {failed[0]}" if failed else ""
    yield Row(name, "failures", len(failed), high=0, how=", ".join([f"{found['seeds']:,} seeds", *counts]), note=note)


def run_script(kind: str, count: int) -> Any:
    """Return what the script prints as JSON; None outside of a checkout."""
    if not SCRIPT.exists():
        return None
    command = [sys.executable, str(SCRIPT), kind, str(SEED), str(count), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True)
    return json.loads(done.stdout)


WIRE = [Benchmark("fuzz", measure_fuzz), Benchmark("world of streams", partial(measure_worlds, "streams"))]
CLASSES = [Benchmark("world of services", partial(measure_worlds, "services"))]
DICTIONARIES = [Benchmark("world of dictionaries", partial(measure_worlds, "dictionaries"))]
