"""Hosts with cores of their own on a machine that has not as many: a message occupies a core by timer.

Busy topics share the cores evenly and every busy core slows the others a little, as in
`thinwire.placement.queue_simulator`, but in real time: what is left of every service runs down at the pace of the
moment.

Who does the work of a topic: a process of its own, which may fail in any way without harming another topic.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from thinwire.edge import worker_process as inside
from thinwire.errors import FunctionUnusable
from thinwire.placement import Host

START = 60.0
"""seconds that loading a function may take"""
MAX_RESULT = 8 << 20
"""bytes of a result; a broker takes less"""
PRIVATE = frozenset({"THINWIRE_TOKEN"})
"""variables that are the host's business"""

_log = logging.getLogger("thinwire.edge")

Kind = Literal["result", "nothing", "raised", "garbage", "memory", "hung", "died"]
_KINDS: dict[int, Kind] = {
    inside.RESULT: "result",
    inside.NOTHING: "nothing",
    inside.RAISED: "raised",
    inside.GARBAGE: "garbage",
    inside.MEMORY: "memory",
}


@dataclass(frozen=True)
class WorkerOutcome:
    """What became of a message.

    body: the result, or what went wrong
    start, end: in seconds since the epoch; cpu: processor seconds
    """

    kind: Kind
    body: bytes
    start: float
    end: float
    cpu: float

    @property
    def failed(self) -> bool:
        return self.kind not in ("result", "nothing")


class TopicWorker(Protocol):
    """Does the work on one topic, one message at a time."""

    async def start(self) -> None: ...

    async def process(self, body: bytes, seconds: float) -> WorkerOutcome:
        """Process a message in at most so many seconds; never raises because of what the function does."""

    async def close(self) -> None: ...


class ProcessWorker:
    """A function in a process of its own.

    function: `module:function`; path: folders where modules are looked for first
    megabytes: what it may grow by, once loaded; Linux sees to it
    model: the model that the function shall go by at the moment, where there is one
    """

    def __init__(
        self,
        function: str,
        megabytes: int = 512,
        path: Sequence[str] = (),
        model: Callable[[], bytes | None] = lambda: None,
    ) -> None:
        self.function = function
        self.megabytes = megabytes
        self.path = tuple(path)
        self.model = model
        self.starts = 0
        self._learned: bytes | None = None
        self._refused: bytes | None = None
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        """The process, where there is one."""
        return self._process.pid if self._process is not None else None

    async def start(self) -> None:
        """Load the function; `FunctionUnusable` where that fails."""
        if self._process is not None:
            return
        self._process = await self._spawn()
        try:
            async with asyncio.timeout(START):
                status, outcome = await self._answer()
        except (TimeoutError, asyncio.IncompleteReadError):
            await self.close()
            raise FunctionUnusable("it could not be loaded in time", function=self.function, seconds=START) from None
        except BaseException:
            await self.close()
            raise
        if status == inside.RAISED:
            await self.close()
            raise FunctionUnusable(outcome.body.decode("utf-8", "replace"), function=self.function)

    async def process(self, body: bytes, seconds: float) -> WorkerOutcome:
        await self.start()
        await self._learn(seconds)
        return await self._exchange(inside.MESSAGE, body, seconds)

    async def _learn(self, seconds: float) -> None:
        """Hand over a new model. One that the function does not take is not tried again: it goes on without."""
        model = self.model()
        if model is None or model in (self._learned, self._refused):
            return
        self._refused = model
        outcome = await self._exchange(inside.MODEL, model, seconds)
        if outcome.failed:
            _log.warning("%s does not take its model: %s", self.function, outcome.body.decode("utf-8", "replace"))
            await self.start()
        else:
            self._learned, self._refused = model, None

    async def _exchange(self, kind: int, body: bytes, seconds: float) -> WorkerOutcome:
        """One question and its answer; where there is none, what became of the process."""
        began = inside.now()
        try:
            async with asyncio.timeout(seconds):
                return await self._ask(kind, body)
        except TimeoutError:
            await self.close()
            return WorkerOutcome("hung", f"no answer in {seconds:g} s".encode(), began, inside.now(), seconds)
        except (asyncio.IncompleteReadError, OSError):
            code = await self._buried()
            return WorkerOutcome("died", f"its process ended with {code}".encode(), began, inside.now(), 0.0)
        except BaseException:
            await self.close()  # half a conversation cannot be taken up again
            raise

    async def close(self) -> None:
        """End the process, whatever it does."""
        await self._buried()

    async def _ask(self, kind: int, body: bytes) -> WorkerOutcome:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(inside.QUESTION.pack(kind, len(body)) + body)
        await self._process.stdin.drain()
        _, outcome = await self._answer()
        if outcome.kind == "memory":
            await self.close()
        return outcome

    async def _answer(self) -> tuple[int, WorkerOutcome]:
        assert self._process is not None
        assert self._process.stdout is not None
        head = await self._process.stdout.readexactly(inside.ANSWER.size)
        status, start, end, cpu, length = inside.ANSWER.unpack(head)
        if length > MAX_RESULT:
            await self.close()
            told = f"a result of {length} bytes, above the limit of {MAX_RESULT}"
            return status, WorkerOutcome("garbage", told.encode(), start, end, cpu)
        body = await self._process.stdout.readexactly(length)
        return status, WorkerOutcome(_KINDS.get(status, "garbage"), body, start, end, cpu)

    async def _spawn(self) -> asyncio.subprocess.Process:
        self.starts += 1
        self._learned = None
        script = Path(inside.__file__)
        known = [*self.path, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {name: value for name, value in os.environ.items() if name not in PRIVATE}
        if known:
            environment["PYTHONPATH"] = os.pathsep.join(known)
        return await asyncio.create_subprocess_exec(
            sys.executable,
            str(script),
            self.function,
            str(self.megabytes),
            str(os.getpid()),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=environment,
        )

    async def _buried(self) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)  # its own kill() would take away the code that wait() is to tell
        transport = process._transport  # type: ignore[attr-defined]
        try:
            # what it still says is not read, and while a pipe waits to be read the process counts as there
            transport.get_pipe_transport(1).close()
            return await process.wait()
        finally:  # also where nobody waits to the end: its pipes stay open until they are collected
            transport.close()


class VirtualCores:
    """The cores of one emulated host."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._work = 0.0
        """what a service that never ended would have got by now, in seconds of a core"""
        self._since = 0.0
        self._busy: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def speed(self) -> float:
        """How fast each busy topic gets on, against a core to itself."""
        busy, cores = max(1, len(self._busy)), self.host.cores
        return min(1.0, cores / busy) / (1.0 + self.host.contention * (min(busy, cores) - 1))

    async def occupy(self, seconds: float) -> None:
        """Occupy a core until so many seconds of it were had."""
        self._advance()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (self._work + seconds, next(self._order), done)
        heapq.heappush(self._busy, entry)
        self._schedule()
        try:
            await done
        finally:
            if entry in self._busy:  # whoever waits was cancelled
                self._advance()
                self._busy.remove(entry)
                heapq.heapify(self._busy)
                self._schedule()

    def _advance(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._busy:
            self._work += (now - self._since) * self.speed
        self._since = now

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._busy:
            left = max(0.0, self._busy[0][0] - self._work) / self.speed
            self._timer = asyncio.get_running_loop().call_later(left, self._due)

    def _due(self) -> None:
        self._advance()
        while self._busy and self._busy[0][0] <= self._work + 1e-9:
            done = heapq.heappop(self._busy)[2]
            if not done.done():
                done.set_result(None)
        self._schedule()


class TimedWorker:
    """Work that is only time: every message takes what its topic says, spread a little, and is its own result."""

    def __init__(self, cores: VirtualCores, interval: float) -> None:
        self.cores = cores
        self.interval = interval

    async def start(self) -> None:
        """There is nothing to load."""

    async def process(self, body: bytes, seconds: float) -> WorkerOutcome:
        mean = self.interval / self.cores.host.speed
        shape = 1.0 / self.cores.host.spread**2
        dice = np.random.Generator(np.random.PCG64(int.from_bytes(blake2b(body, digest_size=8).digest())))
        work = float(dice.gamma(shape, mean / shape))
        start = time.time()
        await self.cores.occupy(work)
        return WorkerOutcome("result", body, start, time.time(), work)

    async def close(self) -> None:
        """There is nothing to end."""
