"""The table of the demonstration: `thinwire ingest` writes the topic to Parquet while the subscribers run.

At the end the table must contain every published event once.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO
from urllib.parse import unquote

import pyarrow.parquet as pq

from thinwire.brokers.embedded import LOOPBACK
from thinwire.brokers.proxy import Proxy
from thinwire.demo.demo_scenario import SUBSCRIPTIONS, TOPIC
from thinwire.demo.process_group import environment, read_tail
from thinwire.ledger import Row

SUBSCRIPTION = SUBSCRIPTIONS[0]
"""the table requests the loosest tolerance, so that publishers do not send more because of it"""
SINK_LOG = "_spark_metadata"
"""folder in which Spark records the files of finished batches"""
TRIGGER = "2s"
MAX_STARTS = 3
"""starts of `thinwire ingest`, after which it has failed"""
STOP_TIMEOUT = 60.0
"""seconds for Spark to stop, which includes the running batch"""
COMMIT_TIMEOUT = 600.0
"""seconds until all events must be in the table; on a busy machine Spark may still be starting"""
POLL_INTERVAL = 0.1
_SOCKET_TIMEOUT = 120
"""seconds that Spark waits for a Python process to start"""


@dataclass(frozen=True)
class ParquetView:
    """Figures of the Parquet table.

    row: figures as a row of the ledger: rows of the table as events, bytes on Spark's sockets, bytes of the files
    bytes_read: bytes from the broker to Spark
    first_rows_after: seconds from the start of Spark to the first rows
    all_rows_after: seconds from the last published event to its row
    published: number of published events, None before the last one
    events: number of different events in the table, counted at the end
    problem: why the table was not written; empty without a problem
    """

    row: Row
    bytes_read: int = 0
    first_rows_after: float | None = None
    all_rows_after: float | None = None
    published: int | None = None
    events: int = 0
    problem: str = ""

    @property
    def rows(self) -> int:
        return self.row.events

    @property
    def is_complete(self) -> bool | None:
        """Whether the table has every published event once. None before the last event."""
        if self.problem:
            return False
        return None if self.published is None else self.rows == self.events == self.published


@asynccontextmanager
async def open_spark_table(run: str, proxy: Proxy) -> AsyncIterator[SparkTable]:
    """Write a table in a temporary folder until the block ends.

    run: name of the run in the ledger
    proxy: proxy between Spark and the broker
    """
    with (
        TemporaryDirectory(prefix="thinwire-demo-", ignore_cleanup_errors=True) as folder,
        TemporaryFile() as output,
    ):
        table = SparkTable(run, proxy, Path(folder).resolve(), output)
        try:
            yield table
        finally:
            await table.stop()


class SparkTable:
    """Runs `thinwire ingest`. If the process ends, as it may on a busy machine, another one is started.

    folder: for the table and temporary files
    output: file for the output of the process
    """

    def __init__(self, run: str, proxy: Proxy, folder: Path, output: IO[bytes]) -> None:
        self.run = run
        self.proxy = proxy
        self.folder = folder
        self.table = folder / "table"
        self.problem = ""
        self._output = output
        self._first_rows_after: float | None = None
        self._stopping = False
        self._started = time.monotonic()
        self._task = asyncio.create_task(self._run())

    def view(self) -> ParquetView:
        """Return the figures so far."""
        files = committed_files(self.table)
        rows = sum(pq.read_metadata(file).num_rows for file in files)
        if rows and self._first_rows_after is None:
            self._first_rows_after = time.monotonic() - self._started
        counters = {
            "events": rows,
            "link_bytes": self.proxy.to_broker + self.proxy.from_broker,
            "stored_bytes": sum(file.stat().st_size for file in files),
        }
        row = Row(self.run, TOPIC, "log", SUBSCRIPTION.name, "table", **counters)
        return ParquetView(row, self.proxy.from_broker, self._first_rows_after, problem=self.problem)

    async def finish(self, published: int, stopping: asyncio.Event) -> ParquetView | None:
        """Wait for all rows and count the events. Return None if `stopping` is set before the first rows."""
        begin = time.monotonic()
        while (view := self.view()).rows < published and not self.problem:
            if stopping.is_set() and not view.rows:
                break
            if time.monotonic() > begin + COMMIT_TIMEOUT:
                self.problem = f"not all events were in the table {COMMIT_TIMEOUT:g} s after the last one"
            await asyncio.sleep(POLL_INTERVAL)
        all_rows_after = time.monotonic() - begin
        await self.stop()
        view, events = self.view(), count_events(self.table)
        if not view.rows and not view.problem:
            return None
        return replace(view, all_rows_after=all_rows_after, published=published, events=events)

    async def stop(self) -> None:
        """Stop `thinwire ingest` and all its child processes, after the running batch."""
        self._stopping = True
        await self._task

    async def _run(self) -> None:
        for _ in range(MAX_STARTS):
            process = await self._start()
            while process.returncode is None and not self._stopping:
                await asyncio.sleep(POLL_INTERVAL)
            await _stop_group(process)
            if self._stopping:
                return
        output = read_tail(self._output) or "(none)"
        self.problem = f"`thinwire ingest` ended {MAX_STARTS} times. The end of its output:\n{output}"

    async def _start(self) -> asyncio.subprocess.Process:
        folder = str(self.folder)
        timeout = f"--conf spark.python.authenticate.socketTimeout={_SOCKET_TIMEOUT}s pyspark-shell"
        return await asyncio.create_subprocess_exec(
            *self._command(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            cwd=folder,
            env={"PYSPARK_SUBMIT_ARGS": timeout, **environment(), "TMPDIR": folder, "SPARK_LOCAL_DIRS": folder},
            start_new_session=True,
        )

    def _command(self) -> list[str]:
        request = SUBSCRIPTION.request
        tolerances = ["--default-tolerance", f"{request['default_tolerance']:g}"]
        for name, tolerance in request["tolerance"].items():
            tolerances += ["--tolerance", f"{name}={tolerance:g}"]
        # a low priority, because subscribers wait for their events and a table does not
        program = ["nice", "-n", "10", sys.executable, "-m", "thinwire", "ingest", TOPIC, "--to", str(self.table)]
        servers = f"nats://{LOOPBACK}:{self.proxy.port}"
        options = ["--master", "local[1]", "--trigger", TRIGGER, "--from", "earliest", "--servers", servers, "--json"]
        return [*program, *tolerances, *options]


async def _stop_group(process: asyncio.subprocess.Process) -> None:
    """Terminate a process, wait until its process group is empty, and kill the remaining processes of the group."""
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
    with suppress(TimeoutError, ProcessLookupError, PermissionError):  # macOS refuses signals to zombies
        async with asyncio.timeout(STOP_TIMEOUT):
            await process.wait()
            while True:
                os.killpg(process.pid, 0)
                await asyncio.sleep(POLL_INTERVAL)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def committed_files(table: Path) -> list[Path]:
    """Return the files that Spark's sink log contains. Other files may belong to an unfinished batch."""
    lines = {line for entry in (table / SINK_LOG).glob("[0-9]*") for line in entry.read_text().splitlines()[1:]}
    return sorted({Path(unquote(json.loads(line)["path"].removeprefix("file://"))) for line in lines})


def count_events(table: Path) -> int:
    """Return the number of different events in the table, each identified by source and ordinal."""
    columns = (pq.ParquetFile(file).read(["_source", "_ordinal"]).to_pydict() for file in committed_files(table))
    return len({event for part in columns for event in zip(*part.values(), strict=True)})
