"""Processes of the demonstration: `python -m thinwire.demo.process_group ROLE SETTINGS`.

They are the workers of the live benches with other roles, each in a session of its own: Ctrl-C is for the one who
watches, who then ends the others in order.

The parent's side of a chain of processes: start them, command them, and leave none behind.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from time import time_ns
from types import TracebackType
from typing import IO, Any

from thinwire.demo import process_worker as demo_worker
from thinwire.demo.process_worker import LINE
from thinwire.errors import ThinwireError

START = 60.0
"""seconds in which a process must be ready: a busy machine compiles kernels first"""
LEAVE = 10.0
_TAIL = 2_000

_log = logging.getLogger("thinwire.evaluation")


class WorkerFailed(ThinwireError):
    summary = "a process of the chain failed"
    advice = "Its last words are in the log."


class WorkerProcess:
    """One process; see `thinwire.demo.process_worker`.

    name: what it is called in samples and complaints
    """

    def __init__(self, name: str, role: str, settings: Mapping[str, Any]) -> None:
        self.name = name
        self.role = role
        self.settings = dict(settings)
        self._process: asyncio.subprocess.Process | None = None
        self._words: IO[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int:
        return self._present().pid

    async def start(self) -> None:
        """Start it and wait until it is ready."""
        await self.launch()
        await self.answer(START)

    async def launch(self) -> None:
        """Start it; its first answer says that it is ready."""
        if self._words is None:
            self._words = TemporaryFile()  # noqa: SIM115 - closed when it leaves; it lives through restarts
        command = [sys.executable, "-m", "thinwire.demo.process_worker", self.role, json.dumps(self.settings)]
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=self._words, limit=LINE, env=environment()
        )

    async def send_command(self, **command: Any) -> None:
        """Give a command."""
        stdin = self._present().stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps(command).encode() + b"\n")
            await stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise self._failure("it is gone") from None

    async def answer(self, timeout: float) -> dict[str, Any]:
        """What it says next."""
        stdout = self._present().stdout
        assert stdout is not None
        try:
            async with asyncio.timeout(timeout):
                line = await stdout.readline()
        except TimeoutError:
            raise self._failure("no answer", waited=timeout) from None
        if not line:
            raise self._failure("it is gone")
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def ask(self, timeout: float, **command: Any) -> dict[str, Any]:
        """Give a command and wait for its answer."""
        await self.send_command(**command)
        return await self.answer(timeout)

    async def kill(self) -> None:
        """kill -9; it can be started again."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
        await process.wait()
        if process.stdin is not None:
            process.stdin.close()
        # read to the end, or the transport stays open
        if process.stdout is not None:
            await process.stdout.read()

    async def leave(self) -> None:
        """Let it close what it has open; kill it if that takes too long."""
        with suppress(ThinwireError):
            await self.ask(LEAVE, do="leave")
        await self.kill()
        if self._words is not None:
            self._words.close()
            self._words = None

    def _present(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise WorkerFailed("it does not run", name=self.name)
        return self._process

    def _failure(self, what: str, **facts: Any) -> WorkerFailed:
        said = self._last_output()
        if said:
            _log.error("%s said:\n%s", self.name, said)
            what += f", its last line was: {said.splitlines()[-1]}"
        return WorkerFailed(what, name=self.name, **facts)

    def _last_output(self) -> str:
        if self._words is None:
            return ""
        size = self._words.seek(0, os.SEEK_END)
        self._words.seek(max(0, size - _TAIL))
        return self._words.read().decode(errors="replace").strip()


class Crew:
    """Processes that start together and leave together."""

    def __init__(self, workers: list[WorkerProcess]) -> None:
        self.workers = workers

    async def __aenter__(self) -> Crew:
        try:
            for worker in self.workers:
                await worker.launch()
            await asyncio.gather(*(worker.answer(START) for worker in self.workers))
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(*(worker.leave() for worker in self.workers))

    def of(self, role: str) -> list[WorkerProcess]:
        return [worker for worker in self.workers if worker.role == role]

    async def ask(self, role: str, timeout: float, **command: Any) -> list[dict[str, Any]]:
        """The same command to all of a role, and their answers."""
        return list(await asyncio.gather(*(worker.ask(timeout, **command) for worker in self.of(role))))


@asynccontextmanager
async def two_cores() -> AsyncIterator[None]:
    """Let this process and all it starts meanwhile run on two cores, where the system can say so."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(sorted(before)[:2]))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def environment() -> dict[str, str]:
    """Of a child: ours, with this very package in front, so that a checkout measures itself."""
    import thinwire

    root = str(Path(thinwire.__file__).parents[1])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def micros() -> int:
    """Microseconds since the epoch, the same in all processes of a machine."""
    return time_ns() // 1000


ROLES = {
    "publishing": "thinwire.demo.demo_publisher:PublishingRole",
    "subscribing": "thinwire.demo.demo_subscriber:SubscribingRole",
    "translating": "thinwire.demo.demo_translator:TranslatingRole",
}


class Child(WorkerProcess):
    """One process of the demonstration."""

    async def launch(self) -> None:
        """Start it; its first answer says that it is ready."""
        if self._words is None:
            self._words = TemporaryFile()  # noqa: SIM115 - closed when it leaves
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", __name__, self.role, json.dumps(self.settings)),
            stdin=pipe,
            stdout=pipe,
            stderr=self._words,
            limit=demo_worker.LINE,
            env=environment(),
            start_new_session=True,
        )


if __name__ == "__main__":
    demo_worker.ROLES.update(ROLES)
    demo_worker.main(sys.argv[1], sys.argv[2])
