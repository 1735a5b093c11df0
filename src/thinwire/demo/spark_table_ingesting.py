"""The table's side of the demonstration: `thinwire ingest` as a process of its own, on Spark.

Spark takes its time to start, and a stream on a machine that is very busy may end by itself. It goes on where it
stopped when it is started again, so it is.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from types import TracebackType

from thinwire.demo.demo_scenario import Guest
from thinwire.demo.demo_scenario_plants import TOPIC
from thinwire.demo.process_group_processes import environment
from thinwire.demo.spark_table_landed import LandedTable

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
            self.problem = f"`thinwire ingest` ended {STARTS} times by itself. Its last words:\n{self._last_words()}"

    def _last_words(self) -> str:
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
