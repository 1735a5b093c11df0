"""Worker processes that execute commands: control of workers in the parent process, and the program of a worker.

A worker is started with `python -m thinwire.demo.process_group ROLE SETTINGS`. Its role is a class that executes the
commands. The worker writes `{"ready": true}` to its standard output, then reads one command per line from its standard
input and answers each with one line. It ends after the command "exit", and when its standard input ends, so that no
worker outlives its parent.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from tempfile import TemporaryFile
from time import time_ns
from typing import IO, Any, Protocol

from thinwire.errors import ThinwireError

START_TIMEOUT = 60.0
"""seconds until a worker must be ready; on a busy machine it compiles kernels first"""
EXIT_TIMEOUT = 10.0
"""seconds until a worker that does not exit is killed"""
MAX_LINE = 1 << 24
"""largest command or answer in bytes"""
_TAIL = 2_000
"""bytes of output in an error"""

Answer = dict[str, Any]

ROLES = {
    "demo registry": "thinwire.demo.demo_roles:DemoRegistryRole",
    "demo translator": "thinwire.demo.demo_roles:DemoTranslatorRole",
    "demo publisher": "thinwire.demo.demo_roles:DemoPublisherRole",
    "demo subscriber": "thinwire.demo.demo_roles:DemoSubscriberRole",
}
"""name -> `module:class` of a role. Other distributions add roles through the entry point group `thinwire.roles`."""

_log = logging.getLogger("thinwire.demo")


class WorkerFailed(ThinwireError, summary="a worker process failed"):
    advice = "The end of its output is in the log."


class WorkerProcess:
    """One worker process. Ctrl-C in the terminal does not reach the process.

    name: name of the worker in errors and log lines
    role: key of `ROLES`
    settings: arguments of the role's constructor
    """

    def __init__(self, name: str, role: str, settings: Mapping[str, Any]) -> None:
        self.name = name
        self.role = role
        self.settings = dict(settings)
        self._process: asyncio.subprocess.Process | None = None
        self._stderr: IO[bytes] | None = None

    @property
    def pid(self) -> int:
        return self._running_process().pid

    async def start(self) -> None:
        """Start the process and wait until it is ready."""
        await self.launch()
        await self.read_answer(START_TIMEOUT)

    async def launch(self) -> None:
        """Start the process without waiting until it is ready. Its first answer reports that."""
        if self._stderr is None:
            self._stderr = TemporaryFile()  # noqa: SIM115 - used again after a restart, closed by `exit`
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "thinwire.demo.process_group", self.role, json.dumps(self.settings)),
            stdin=pipe,
            stdout=pipe,
            stderr=self._stderr,
            limit=MAX_LINE,
            env=environment(),
            start_new_session=True,
        )

    async def send_command(self, **command: Any) -> None:
        """Send a command without waiting for its answer."""
        stdin = self._running_process().stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps(command).encode() + b"\n")
            await stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise self._failure("the process has ended") from None

    async def read_answer(self, timeout: float) -> Answer:
        """Wait for the next answer and return it."""
        stdout = self._running_process().stdout
        assert stdout is not None
        try:
            async with asyncio.timeout(timeout):
                line = await stdout.readline()
        except TimeoutError:
            raise self._failure("no answer", waited=timeout) from None
        if not line:
            raise self._failure("the process has ended")
        answer: Answer = json.loads(line)
        return answer

    async def request(self, timeout: float, /, **command: Any) -> Answer:
        """Send a command, wait for its answer and return it."""
        await self.send_command(**command)
        return await self.read_answer(timeout)

    async def kill(self) -> None:
        """Kill the process with SIGKILL. It can be started again."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        if process.stdin is not None:
            process.stdin.close()
        if process.stdout is not None:
            await process.stdout.read()  # the transport stays open until everything was read

    async def exit(self) -> None:
        """Let the process close its connections and exit; kill it after a timeout."""
        with suppress(ThinwireError):
            await self.request(EXIT_TIMEOUT, do="exit")
        await self.kill()
        if self._stderr is not None:
            self._stderr.close()
            self._stderr = None

    def _running_process(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise WorkerFailed("the process does not run", name=self.name)
        return self._process

    def _failure(self, reason: str, **facts: Any) -> WorkerFailed:
        output = read_tail(self._stderr) if self._stderr is not None else ""
        if output:
            _log.error("output of %s:\n%s", self.name, output)
            reason += f"; its last line was: {output.splitlines()[-1]}"
        return WorkerFailed(reason, name=self.name, **facts)


@asynccontextmanager
async def process_group(workers: Sequence[WorkerProcess]) -> AsyncIterator[None]:
    """Start worker processes together and stop them together."""
    try:
        for worker in workers:
            await worker.launch()
        await gather_answers(worker.read_answer(START_TIMEOUT) for worker in workers)
        yield
    finally:
        await asyncio.gather(*(worker.exit() for worker in workers))


async def gather_answers(requests: Iterable[Coroutine[Any, Any, Answer]]) -> list[Answer]:
    """Return the answers of several workers.

    All answers are read before a failure is raised: an unread answer would be taken for the answer to the next command.
    """
    tasks = [asyncio.ensure_future(request) for request in requests]
    await asyncio.gather(*tasks, return_exceptions=True)
    return [task.result() for task in tasks]


def environment() -> dict[str, str]:
    """Return the environment of a child process: this copy of the package is first in its PYTHONPATH."""
    import thinwire

    root = str(Path(thinwire.__file__).parents[1])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def read_tail(file: IO[bytes]) -> str:
    """Return the end of the text in a file."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _TAIL))
    return file.read().decode(errors="replace").strip()


def micros() -> int:
    """Return the microseconds since the epoch, which are the same in all processes of a machine."""
    return time_ns() // 1000


class ProcessRole(Protocol):
    """What a worker does. The settings are passed to its constructor by name."""

    async def open(self) -> None:
        """Prepare to execute commands."""

    async def execute(self, command: dict[str, Any]) -> Answer:
        """Execute a command and return the answer. `do` is the name of the command."""

    async def close(self) -> None: ...


def main(role_name: str, settings: str) -> None:
    """Run a worker process."""
    if role_name not in ROLES:
        for entry in entry_points(group="thinwire.roles"):
            ROLES.update(entry.load())
    module, _, name = ROLES[role_name].partition(":")
    role: ProcessRole = getattr(import_module(module), name)(**json.loads(settings))
    asyncio.run(_run(role))


async def _run(role: ProcessRole) -> None:
    await role.open()
    _write_line({"ready": True})
    async for command in _read_commands():
        if command["do"] == "exit":
            break
        _write_line(await role.execute(command))
    await role.close()
    _write_line({"exited": True})


async def _read_commands() -> AsyncIterator[dict[str, Any]]:
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    reader = asyncio.StreamReader(limit=MAX_LINE)
    task = asyncio.create_task(_read_lines(reader, lines))
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    try:
        while True:
            yield json.loads(await lines.get())
    finally:
        task.cancel()
        transport.close()


async def _read_lines(reader: asyncio.StreamReader, lines: asyncio.Queue[bytes]) -> None:
    """Read ahead, so that the end of the parent is detected while a command is executed."""
    while line := await reader.readline():
        lines.put_nowait(line)
    os._exit(1)


def _write_line(document: dict[str, Any]) -> None:
    print(json.dumps(document), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
