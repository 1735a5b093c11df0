"""The table of the demonstration: `thinwire ingest` writes the topic to Parquet while the subscribers run.

At the end the rows are compared with the events of a subscriber that reads the log from its start.

>>> expected = pa.table({"_source": ["a", "a"], "_ordinal": [1, 2], "t": [20.5, None]})
>>> count_differences(expected, expected), count_differences(expected.slice(1), expected)
(0, 1)
>>> count_differences(expected.set_column(2, "t", [[20.5, 0.0]]), expected)
1
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from types import TracebackType
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from thinwire.brokers.embedded import LOOPBACK
from thinwire.brokers.proxy import Proxy
from thinwire.client.bus import Bus
from thinwire.codec.arrow_columns import arrow_schema
from thinwire.codec.interned_values import source_text
from thinwire.codec.record_batch_builder import value_at
from thinwire.demo.demo_scenario import SCHEMA, SUBSCRIPTIONS, TOPIC
from thinwire.demo.process_group import environment, read_tail
from thinwire.ledger import Row
from thinwire.schema import Event

COLUMNS = pa.schema([field for field in arrow_schema(SCHEMA) if field.name not in ("_offset", "_time")])
"""columns that are compared; a subscriber does not get the offset and the time in the log"""
SUBSCRIPTION = SUBSCRIPTIONS[0]
"""the table requests the loosest tolerance, so that publishers do not send more because of it"""
SINK_LOG = "_spark_metadata"
"""folder in which Spark records the files of finished batches"""
TRIGGER = "2s"
MAX_STARTS = 3
"""number of times that `thinwire ingest` is started before the table is given up"""
STOP_TIMEOUT = 60.0
"""seconds for Spark to stop, which includes the running batch"""
COMMIT_TIMEOUT = 600.0
"""seconds until all events must be in the table; on a busy machine Spark may still be starting"""
READ_TIMEOUT = 60.0
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
    published: number of published events
    delivered: number of events delivered to the subscriber of the comparison, None before the comparison
    differing: number of rows that would have to be added, removed or changed
    problem: why the table was not written; empty without a problem
    """

    row: Row
    bytes_read: int = 0
    first_rows_after: float | None = None
    all_rows_after: float | None = None
    published: int = 0
    delivered: int | None = None
    differing: int = 0
    problem: str = ""

    @property
    def rows(self) -> int:
        return self.row.events

    @property
    def is_equal(self) -> bool | None:
        """Whether rows, delivered and published events are the same. None before the comparison."""
        if self.problem:
            return False
        if self.delivered is None:
            return None
        return self.rows == self.delivered == self.published and not self.differing


class SparkTable:
    """Runs `thinwire ingest`. If the process ends, as it may on a busy machine, another one is started.

    run: name of the run in the ledger
    proxy: proxy between Spark and the broker
    bus: connection of the subscriber with whose events the table is compared
    """

    def __init__(self, run: str, proxy: Proxy, bus: Bus) -> None:
        self.run = run
        self.proxy = proxy
        self.bus = bus
        self.problem = ""
        self._first_rows_after: float | None = None
        self._stopping = False

    async def __aenter__(self) -> SparkTable:
        self._folder = TemporaryDirectory(prefix="thinwire-demo-", ignore_cleanup_errors=True)
        self._output = TemporaryFile()  # noqa: SIM115 - closed in __aexit__
        self.table = Path(self._folder.name).resolve() / "table"
        self._started = time.monotonic()
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
        self._output.close()
        self._folder.cleanup()

    async def view(self) -> ParquetView:
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

    async def finish(self, last: Mapping[str, int], stopping: asyncio.Event) -> ParquetView | None:
        """Wait for all rows and compare them. Return None if `stopping` is set before the first rows.

        last: ordinal of the last event of each plant
        """
        published, begin = sum(last.values()), time.monotonic()
        while (view := await self.view()).rows < published and not self.problem:
            if stopping.is_set() and not view.rows:
                break
            if time.monotonic() > begin + COMMIT_TIMEOUT:
                self.problem = f"not all events were in the table {COMMIT_TIMEOUT:g} s after the last one"
            await asyncio.sleep(POLL_INTERVAL)
        all_rows_after = time.monotonic() - begin
        await self.stop()
        view = replace(await self.view(), all_rows_after=all_rows_after, published=published)
        if not view.rows and not view.problem:
            return None
        events = await read_events(self.bus, last)
        differing = count_differences(read_table(self.table), as_table(events))
        return replace(view, delivered=len(events), differing=differing)

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
        folder = self._folder.name
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


def read_table(table: Path) -> pa.Table:
    """Return the rows of the table, from the files of finished batches."""
    parts = [pq.ParquetFile(file).read(COLUMNS.names).select(COLUMNS.names) for file in committed_files(table)]
    return pa.concat_tables([COLUMNS.empty_table(), *(part.cast(COLUMNS) for part in parts)])


async def read_events(bus: Bus, last: Mapping[str, int], timeout: float = READ_TIMEOUT) -> list[Event]:
    """Return the events of a subscriber that reads the log from its start; after the timeout, those received so far.

    It requests exact values, so that it reads the log and not a channel.
    """
    events: list[Event] = []
    missing = {name for name, ordinal in last.items() if ordinal}
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout), bus.subscribe(TOPIC, start="earliest") as subscription:
            while missing:
                events.append(await anext(subscription))
                name = str(events[-1].source[0])
                if events[-1].ordinal >= last[name]:
                    missing.discard(name)
    return events


def as_table(events: Sequence[Event]) -> pa.Table:
    """Return delivered events in the columns of the Parquet table."""
    metadata = {
        "_source": [source_text(event.source) for event in events],
        "_ordinal": [event.ordinal for event in events],
        "_virtual": [event.virtual for event in events],
        "_bound": [dict(event.bound) for event in events],
    }
    values = {name: metadata.get(name) or [value_at(event, name) for event in events] for name in COLUMNS.names}
    return pa.table(values, schema=COLUMNS)


def count_differences(table: pa.Table, expected: pa.Table) -> int:
    """Return how many rows would have to be added, removed or changed. The order does not matter, every bit does."""
    rows, expected_rows = (Counter(map(repr, rows.to_pylist())) for rows in (table, expected))
    return max((rows - expected_rows).total(), (expected_rows - rows).total())
