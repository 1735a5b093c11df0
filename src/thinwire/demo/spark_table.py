"""Does a table have what a subscriber of the log is handed? Row for event, bit for bit.

>>> heard = pa.table({"_source": ["a", "a"], "_ordinal": [1, 2], "t": [20.5, None]})
>>> differing(heard, heard), differing(heard.slice(1), heard), differing(pa.concat_tables([heard, heard]), heard)
(0, 1, 2)
>>> differing(heard.set_column(2, "t", [[20.5, 0.0]]), heard)
1

The table that Spark lands the stream in, as one finds it on the disk.

The table's side of the demonstration: `thinwire ingest` as a process of its own, on Spark.

Spark takes its time to start, and a stream on a machine that is very busy may end by itself. It goes on where it
stopped when it is started again, so it is.

The leg of the demonstration that goes over Spark: the stream lands in a table, which is compared in the end.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from types import TracebackType
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from thinwire.brokers.embedded import LOOPBACK
from thinwire.brokers.proxy import Proxy
from thinwire.client import Bus
from thinwire.codec.arrow_columns import arrow_schema
from thinwire.codec.interned_values import source_text
from thinwire.codec.record_batch_builder import value_at
from thinwire.demo.demo_scenario import GUESTS, SCHEMA, TOPIC, Guest
from thinwire.demo.process_group import environment
from thinwire.demo.view_model import TableView
from thinwire.ledger import Row
from thinwire.schema import Event

WHO = ("_source", "_ordinal")
"""columns that tell an event from all others: publishers of the demonstration have one life each"""
PLACED = ("_offset", "_time")
"""columns that tell where the log has it, which a subscriber is not told"""

COLUMNS = pa.schema([field for field in arrow_schema(SCHEMA) if field.name not in PLACED])


async def read_subscriber_events(bus: Bus, last: Mapping[str, int], patience: float) -> pa.Table:
    """What a subscriber is handed that begins with the first event of the log.

    It is as strict as anybody, so it reads the log itself and no channel.

    last: the number of the last event of each plant; patience: seconds after which it makes do with what has come
    """
    events: list[Event] = []
    owed = {name for name, ordinal in last.items() if ordinal}
    with suppress(TimeoutError):
        async with asyncio.timeout(patience), bus.subscribe(TOPIC, start="earliest") as subscription:
            while owed:
                events.append(await anext(subscription))
                name = str(events[-1].source[0])
                if events[-1].ordinal >= last[name]:
                    owed.discard(name)
    return as_rows(events)


def as_rows(events: Sequence[Event]) -> pa.Table:
    """Events in the columns in which they land."""
    about = {
        "_source": [source_text(event.source) for event in events],
        "_ordinal": [event.ordinal for event in events],
        "_virtual": [event.virtual for event in events],
        "_bound": [dict(event.bound) for event in events],
    }
    columns = [about.get(name) or [value_at(event, name) for event in events] for name in COLUMNS.names]
    kinds = (field.type for field in COLUMNS)
    arrays = [pa.array(column, type=kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.Table.from_arrays(arrays, schema=COLUMNS)


def differing(landed: pa.Table, heard: pa.Table) -> int:
    """Rows that only one of both has, that one has twice, or that are not the same to the last bit."""
    here, there = _places(landed), _places(heard)
    common = sorted(here.keys() & there.keys())
    alone: int = landed.num_rows + heard.num_rows - 2 * len(common)
    ours, theirs = (
        rows.take(pa.array([places[key] for key in common], pa.int64())).flatten()
        for rows, places in ((landed, here), (heard, there))
    )
    unequal: Any = pa.scalar(False)
    for name in theirs.column_names:
        unequal = pc.or_(unequal, _unequal(ours[name].combine_chunks(), theirs[name].combine_chunks()))
    changed: int = pc.sum(unequal).as_py() or 0
    return alone + changed


def _places(rows: pa.Table) -> dict[tuple[str, int], int]:
    """Where each event is."""
    keys = zip(*(rows[name].to_pylist() for name in WHO), strict=True)
    return {key: place for place, key in enumerate(keys)}


def _unequal(ours: pa.Array, theirs: pa.Array) -> pa.Array:
    """By row: are the values two? Nothing and nothing is the same, and so is only the same pattern of bits."""
    one_is_null = pc.xor(ours.is_null(), theirs.is_null())
    if pa.types.is_floating(theirs.type):
        ours, theirs = ours.view(pa.int64()), theirs.view(pa.int64())
    return pc.or_(one_is_null, pc.fill_null(pc.not_equal(ours, theirs), False))


SINK_LOG = "_spark_metadata"


class LandedTable:
    """Parquet files that count once Spark's own log has them: before that they may be half of a batch.

    place: its folder, which need not be there yet

    rows, stored_bytes, files: as of the last look
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        self.rows = 0
        self.stored_bytes = 0
        self.files: set[Path] = set()
        self._taken: set[Path] = set()

    def look(self) -> None:
        """Take note of what has landed since the last look; some entries of the log repeat all that came before."""
        entries = set((self.place / SINK_LOG).glob("[0-9]*")) - self._taken
        self._taken |= entries
        for file in {file for entry in entries for file in _files(entry)} - self.files:
            self.files.add(file)
            self.rows += pq.read_metadata(file).num_rows
            self.stored_bytes += file.stat().st_size

    def read(self, columns: pa.Schema) -> pa.Table:
        """All rows as of the last look, with these columns."""
        parts = [pq.ParquetFile(file).read(columns.names).select(columns.names) for file in sorted(self.files)]
        return pa.concat_tables([columns.empty_table(), *(part.cast(columns) for part in parts)])


def _files(entry: Path) -> list[Path]:
    """The first line tells the version of the log, each of the others of a file."""
    lines = entry.read_text().splitlines()[1:]
    return [Path(unquote(json.loads(line)["path"].removeprefix("file://"))) for line in lines]


STARTS = 3
TRIGGER = "2s"
LEAVE = 60.0
"""seconds in which it must end, the batch that runs included"""
CONNECT = 120
"""seconds that Spark waits for a Python process on a busy machine"""
_POLL = 0.1
_TAIL = 2_000


class Ingest:
    """Lands the topic in a table of its own while the block lasts; the table goes with it.

    url: of the broker; guest: what the table asks for. Who asks for no more than others makes the log no finer
    """

    def __init__(self, url: str, guest: Guest) -> None:
        self.url = url
        self.guest = guest
        self.first: float | None = None
        """seconds until the first rows were there"""
        self.problem = ""
        """why it has been given up, in words"""
        self._starts = 0
        self._ending = False

    async def __aenter__(self) -> Ingest:
        self._folder = TemporaryDirectory(prefix="thinwire-demo-", ignore_cleanup_errors=True)
        self._words = TemporaryFile()  # noqa: SIM115 - closed with the block
        self.table = LandedTable(Path(self._folder.name).resolve() / "table")
        self._begun = time.monotonic()
        await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
        self._words.close()
        self._folder.cleanup()

    async def look(self) -> int:
        """The rows that have landed; what ended too early is started again, a few times."""
        if self._process.returncode is not None and not (self._ending or self.problem):
            await self._start_again()
        self.table.look()
        if self.table.rows and self.first is None:
            self.first = time.monotonic() - self._begun
        return self.table.rows

    async def land(self, rows: int, patience: float, stopping: asyncio.Event) -> float:
        """Wait until so many rows are there, and end. Returns how many seconds that took.

        stopping: whoever has seen enough is not kept waiting for the first rows
        """
        begun = time.monotonic()
        while await self.look() < rows and not self.problem and (self.table.rows or not stopping.is_set()):
            if time.monotonic() > begun + patience:
                self.problem = f"not everything was in the table {patience:g} s after the last event"
            await asyncio.sleep(_POLL)
        took = time.monotonic() - begun
        await self.stop()
        return took

    async def stop(self) -> None:
        """Let it end behind the batch that runs, with everything that it has started."""
        process, self._ending = self._process, True
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE):
                await process.wait()
                while _lives(process.pid):
                    await asyncio.sleep(_POLL)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()

    async def _start(self) -> None:
        self._starts += 1
        folder = self._folder.name
        patient = f"--conf spark.python.authenticate.socketTimeout={CONNECT}s pyspark-shell"
        places = {"TMPDIR": folder, "SPARK_LOCAL_DIRS": folder}
        self._process = await asyncio.create_subprocess_exec(
            *self._command(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=self._words,
            stderr=self._words,
            cwd=folder,
            env={"PYSPARK_SUBMIT_ARGS": patient, **environment(), **places},
            start_new_session=True,
        )

    def _command(self) -> list[str]:
        # subscribers wait for their events, the table does not
        python = ["nice", "-n", "10", sys.executable]
        asked = ["--default-tolerance", f"{self.guest.tolerance:g}", "--tolerance", f"timestamp={self.guest.time:g}"]
        how = ["--master", "local[1]", "--trigger", TRIGGER, "--from", "earliest", "--servers", self.url, "--json"]
        return [*python, "-m", "thinwire", "ingest", TOPIC, "--to", str(self.table.place), *asked, *how]

    async def _start_again(self) -> None:
        if self._starts < STARTS:
            await self._start()
        else:
            self.problem = f"`thinwire ingest` ended {STARTS} times by itself. Its last words:\n{self._last_output()}"

    def _last_output(self) -> str:
        size = self._words.seek(0, os.SEEK_END)
        self._words.seek(max(0, size - _TAIL))
        return self._words.read().decode(errors="replace").strip() or "(none)"


def _lives(group: int) -> bool:
    """Is anybody left of a group of processes?"""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):  # some systems refuse where all are dead and nobody has asked yet
        return False
    return True


LOOSEST = GUESTS[0]
"""the table asks for what the first guest asks for, so that it makes the log no finer; it reads the log all the same"""
LANDING = 300.0
"""seconds in which everything must be in the table: on a busy machine Spark may still be starting"""
READING = 60.0


class SparkLeg:
    """Spark behind a wire of its own; use it with `async with`.

    run: the name of the run in the ledger; port: of the broker
    """

    def __init__(self, run: str, port: int) -> None:
        self.run = run
        self._wire = Proxy(LOOPBACK, port)
        self._opened = AsyncExitStack()

    async def __aenter__(self) -> SparkLeg:
        try:
            await self._opened.enter_async_context(self._wire)
            ingest = Ingest(f"nats://{LOOPBACK}:{self._wire.port}", LOOSEST)
            self._ingest = await self._opened.enter_async_context(ingest)
        except BaseException:
            await self._opened.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._opened.aclose()

    async def look(self) -> TableView:
        """What has landed so far."""
        rows = await self._ingest.look()
        links = self._wire.to_broker + self._wire.from_broker
        stored = self._ingest.table.stored_bytes
        row = Row(self.run, TOPIC, "log", LOOSEST.name, "table", events=rows, link_bytes=links, stored_bytes=stored)
        return TableView(row, self._wire.from_broker, self._ingest.first, problem=self._ingest.problem)

    async def end(self, bus: Bus, last: Mapping[str, int], stopping: asyncio.Event) -> TableView | None:
        """Wait until everything has landed, and compare it with what a subscriber of the log is handed.

        None where somebody had seen enough before the first rows were there: there is nothing to compare then.

        last: the number of the last event of each plant
        """
        published = sum(last.values())
        seconds = await self._ingest.land(published, LANDING, stopping)
        landing = replace(await self.look(), seconds=seconds)
        if not landing.rows and not landing.problem:
            return None
        heard = await read_subscriber_events(bus, last, READING)
        return landing.compared(published, heard.num_rows, differing(self._ingest.table.read(COLUMNS), heard))
