"""Runs the processing function of a topic in a process of its own, so that its failure affects no other topic."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from thinwire.edge import worker_process
from thinwire.errors import FunctionUnusable

LOAD_TIMEOUT = 60.0
"""seconds for loading a function"""
MAX_RESULT = 8 << 20
"""bytes of a result; the broker's limit is lower"""
PRIVATE_VARIABLES = frozenset({"THINWIRE_TOKEN"})
"""environment variables that are not passed to functions"""

_log = logging.getLogger("thinwire.edge")

Kind = Literal["result", "nothing", "raised", "garbage", "memory", "hung", "died"]
_KINDS: dict[int, Kind] = {
    worker_process.RESULT: "result",
    worker_process.NOTHING: "nothing",
    worker_process.RAISED: "raised",
    worker_process.GARBAGE: "garbage",
    worker_process.MEMORY: "memory",
}


@dataclass(frozen=True)
class WorkerOutcome:
    """The outcome of a message.

    body: the result, or a description of the error
    start, end: in seconds since the epoch
    cpu: processor seconds
    """

    kind: Kind
    body: bytes
    start: float
    end: float
    cpu: float

    @property
    def has_failed(self) -> bool:
        return self.kind not in ("result", "nothing")


class TopicWorker(Protocol):
    """Processes the messages of one topic, one at a time."""

    async def start(self) -> None: ...

    async def process(self, body: bytes, seconds: float) -> WorkerOutcome:
        """Process a message in at most this many seconds. Errors of the function are returned, not raised."""

    async def close(self) -> None: ...


@dataclass(eq=False)
class ProcessWorker:
    """A function in a process of its own.

    function: `module:function`
    megabytes: memory that the process may allocate after loading; enforced on Linux
    path: folders that are searched first for the module
    model: returns the current model of the function; None if there is none
    """

    function: str
    megabytes: int = 512
    path: Sequence[str] = ()
    model: Callable[[], bytes | None] = lambda: None
    _loaded_model: bytes | None = field(default=None, init=False)
    _rejected_model: bytes | None = field(default=None, init=False)
    _process: asyncio.subprocess.Process | None = field(default=None, init=False)

    async def start(self) -> None:
        """Start the process and load the function. Raises `FunctionUnusable` if that fails."""
        if self._process is not None:
            return
        self._process = await self._spawn()
        try:
            async with asyncio.timeout(LOAD_TIMEOUT):
                outcome = await self._read_answer()
            if outcome.kind == "raised":
                raise FunctionUnusable(outcome.body.decode("utf-8", "replace"), function=self.function)
        except BaseException as problem:
            await self.close()
            if isinstance(problem, TimeoutError | asyncio.IncompleteReadError):
                reason = "loading timed out or the process ended"
                raise FunctionUnusable(reason, function=self.function, seconds=LOAD_TIMEOUT) from None
            raise

    async def process(self, body: bytes, seconds: float) -> WorkerOutcome:
        await self.start()
        await self._load_model(seconds)
        return await self._exchange(worker_process.MESSAGE, body, seconds)

    async def _load_model(self, seconds: float) -> None:
        """Pass a new model to the function. A rejected model is not passed again."""
        model = self.model()
        if model is None or model in (self._loaded_model, self._rejected_model):
            return
        self._rejected_model = model
        outcome = await self._exchange(worker_process.MODEL, model, seconds)
        if outcome.has_failed:
            _log.warning("function %s rejects its model: %s", self.function, outcome.body.decode("utf-8", "replace"))
            await self.start()
        else:
            self._loaded_model, self._rejected_model = model, None

    async def _exchange(self, kind: int, body: bytes, seconds: float) -> WorkerOutcome:
        """Send a request and return the answer, or how the process failed."""
        started = time.time()
        try:
            async with asyncio.timeout(seconds):
                return await self._request(kind, body)
        except TimeoutError:
            await self.close()
            return WorkerOutcome("hung", f"no answer in {seconds:g} s".encode(), started, time.time(), seconds)
        except (asyncio.IncompleteReadError, OSError):
            process = self._process
            await self.close()
            code = process.returncode if process is not None else None
            return WorkerOutcome("died", f"process ended with code {code}".encode(), started, time.time(), 0.0)
        except BaseException:
            await self.close()  # an interrupted exchange cannot be resumed
            raise

    async def _request(self, kind: int, body: bytes) -> WorkerOutcome:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(worker_process.REQUEST.pack(kind, len(body)) + body)
        await self._process.stdin.drain()
        outcome = await self._read_answer()
        if outcome.kind == "memory":
            await self.close()
        return outcome

    async def _read_answer(self) -> WorkerOutcome:
        assert self._process is not None
        assert self._process.stdout is not None
        head = await self._process.stdout.readexactly(worker_process.ANSWER.size)
        status, start, end, cpu, length = worker_process.ANSWER.unpack(head)
        if length > MAX_RESULT:
            await self.close()
            reason = f"result of {length} bytes is above the limit of {MAX_RESULT}"
            return WorkerOutcome("garbage", reason.encode(), start, end, cpu)
        body = await self._process.stdout.readexactly(length)
        return WorkerOutcome(_KINDS.get(status, "garbage"), body, start, end, cpu)

    async def _spawn(self) -> asyncio.subprocess.Process:
        self._loaded_model = None
        folders = [*self.path, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {name: value for name, value in os.environ.items() if name not in PRIVATE_VARIABLES}
        if folders:
            environment["PYTHONPATH"] = os.pathsep.join(folders)
        return await asyncio.create_subprocess_exec(
            sys.executable,
            str(Path(worker_process.__file__)),
            self.function,
            str(self.megabytes),
            str(os.getpid()),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=environment,
        )

    async def close(self) -> None:
        """Kill the process."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)  # process.kill() would lose the code that wait() returns
        transport = process._transport  # type: ignore[attr-defined]
        try:
            # wait() does not return while unread output is in the pipe
            transport.get_pipe_transport(1).close()
            await process.wait()
        finally:  # also after a cancellation, else the pipes stay open until garbage collection
            transport.close()
