"""Jobs in separate processes that tests kill, and topics with given events."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import psutil
import pyarrow.parquet as pq

import thinwire as tw

SOURCE = str(Path(__file__).parents[2] / "src")
TIMEOUT = 600
PATIENT = f"--conf spark.python.authenticate.socketTimeout={TIMEOUT}s pyspark-shell"
"""on a busy machine a worker takes longer to start than Spark waits by default"""


def publish_events(url: str, schema: tw.Schema, events: Iterable[Mapping[str, Any]], name: str = "p") -> None:
    """Register a topic that retains its events, and publish events."""

    async def story() -> None:
        async with tw.connect(url, services=False) as bus:
            await bus.register(schema, retain=True)
            async with bus.publisher(schema.name, name=name) as out:
                for event in events:
                    await out.publish(event)

    asyncio.run(story())


def start(*args: str) -> subprocess.Popen[str]:
    """A command in its own process group."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("THINWIRE_")}
    return subprocess.Popen(
        [sys.executable, "-m", "thinwire", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment, "PYTHONPATH": SOURCE, "PYSPARK_SUBMIT_ARGS": PATIENT},
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Return the exit code and the output."""
    out, err = process.communicate(timeout=TIMEOUT)
    return process.returncode, out, err


def kill_all(process: subprocess.Popen[str]) -> None:
    """Kill the driver and all its child processes at once."""
    started = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGKILL)
    for one in started:
        if one.is_running():
            one.kill()
    process.communicate(timeout=TIMEOUT)


def workers(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Return the processes that run Python tasks."""
    found = []
    for one in psutil.Process(process.pid).children(recursive=True):
        try:
            line, above = one.cmdline(), one.parent()
            if "pyspark.daemon" in line and "pyspark.worker" in line and above and above.cmdline() == line:
                found.append(one)
        except psutil.NoSuchProcess:
            continue
    return found


def wait_until(condition: Callable[[], Any], process: subprocess.Popen[str]) -> Any:
    """Wait until a condition that depends on the process holds."""
    deadline = time.monotonic() + TIMEOUT
    while not (found := condition()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


class Row(dict[str, Any]):
    """A row of a file, with the method of Spark's rows that comparisons use."""

    def asDict(self) -> dict[str, Any]:
        return self


def landed(table: Path) -> list[Row]:
    """Return the rows of the files that are in the sink log of the table."""
    log = [file for file in (table / "_spark_metadata").iterdir() if file.name[0].isdigit()]
    compacted = max((int(file.stem) for file in log if file.suffix == ".compact"), default=-1)
    files = [file for file in log if int(file.stem) > compacted or file.name == f"{compacted}.compact"]
    entries = [json.loads(line) for file in files for line in file.read_text().splitlines()[1:]]
    paths = [unquote(entry["path"].removeprefix("file://")) for entry in entries]
    assert len(paths) == len(set(paths))
    rows = [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()]
    return [Row({**row, "_bound": Row(row["_bound"])}) for row in rows]


def batch_under_way(checkpoint: Path) -> int | None:
    """Return the number of a planned batch that is not committed yet, except the first."""
    planned, done = _numbers(checkpoint / "offsets"), _numbers(checkpoint / "commits")
    last = max(planned, default=-1)
    return last if last > 0 and last not in done else None


def _numbers(folder: Path) -> set[int]:
    return {int(file.name) for file in folder.glob("*") if file.name.isdigit()}
