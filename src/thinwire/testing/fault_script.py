"""Faults at given times: broker outages, lost connections, and processes that are paused, killed and restarted.

A process of a fault script is an async function that runs as a task and connects to the memory broker under the name of
the process. A script is a list of faults, written by hand or drawn from a seed. The repr of a fault is the call that
creates it.

>>> import thinwire as tw
>>> from thinwire.testing import run
>>> rooms = tw.Schema("rooms", [tw.Property("room", "string", "dimension"), tw.Property("t", "number", step="0.1")])
>>> async def publish():
...     async with tw.connect("memory://site", name="roof", services=False) as bus, bus.publisher("rooms") as out:
...         for t in range(100):
...             await out.publish({"room": "11.1", "t": float(t)})
...             await asyncio.sleep(0.5)
>>> async def receive_under_faults():
...     async with tw.connect("memory://site", name="reader") as bus:
...         await bus.register(rooms)
...         script = FaultScript(LocalServer.named("site"), [At(5, outage(2)), At(9, kill("roof", restart_after=3))])
...         async with bus.subscribe("rooms") as events, script:
...             script.start("roof", publish)
...             received = [await anext(events) for _ in range(30)]
...         return received[-1].incarnation, received[-1]["t"] < 30
>>> run(receive_under_faults())
(2, True)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from random import Random
from types import TracebackType
from typing import Any, NamedTuple, Self

from thinwire.brokers.memory import LocalServer
from thinwire.testing.virtual_time import PauseSwitch

Main = Callable[[], Coroutine[Any, Any, None]]


class Fault(NamedTuple):
    """One fault. Created by `outage`, `disconnect`, `lose_acknowledgements`, `redeliver`, `pause` and `kill`.

    target: name of the process or client; seconds: duration of the fault; messages: number of affected messages
    """

    kind: str
    target: str = ""
    seconds: float | None = None
    messages: int = 0

    def __repr__(self) -> str:
        values = [repr(value) for value in self[1:3] if value not in ("", None)]
        return f"{self.kind}({', '.join([*values, *([str(self.messages)] if self.messages else [])])})"


class At(NamedTuple):
    """A fault and its time in seconds after the start of the script."""

    time: float
    fault: Fault


def outage(seconds: float) -> Fault:
    """The broker stops for some seconds. What it has stored remains."""
    return Fault("outage", seconds=seconds)


def disconnect(name: str, seconds: float) -> Fault:
    """The clients with this name lose their connection for some seconds."""
    return Fault("disconnect", name, seconds)


def lose_acknowledgements(count: int) -> Fault:
    """The broker stores the next messages, but the connection is lost before their acknowledgements arrive."""
    return Fault("lose_acknowledgements", messages=count)


def redeliver(count: int) -> Fault:
    """The broker delivers the last messages of every log again."""
    return Fault("redeliver", messages=count)


def pause(name: str, seconds: float) -> Fault:
    """A process stops for some seconds, as after `kill -STOP`. Its timers expire meanwhile."""
    return Fault("pause", name, seconds)


def kill(name: str, restart_after: float | None = None) -> Fault:
    """A process ends at once, as after `kill -9`, and is started again after some seconds, or never."""
    return Fault("kill", name, restart_after)


def draw_faults(
    seed: int | str, seconds: float, count: int, *, processes: Sequence[str], clients: Sequence[str] = ()
) -> list[At]:
    """Return random faults in the given time. The same seed returns the same faults.

    processes: names of those to pause, kill and disconnect; clients: names of others to disconnect

    >>> draw_faults(3, 30, 2, processes=["translator"])
    [At(time=7.1, fault=pause('translator', 12.0)), At(time=16.3, fault=lose_acknowledgements(1))]
    """
    random = Random(seed)
    fault_makers: list[Callable[[float], Fault]] = [
        outage,
        lambda duration: lose_acknowledgements(random.randint(1, 3)),
        lambda duration: redeliver(random.randint(1, 20)),
    ]
    if processes:
        fault_makers += 2 * [
            lambda duration: pause(random.choice(processes), duration),
            lambda duration: kill(random.choice(processes), duration),
        ]
    if names := [*processes, *clients]:
        fault_makers.append(lambda duration: disconnect(random.choice(names), duration))
    times = sorted(round(random.uniform(0, seconds), 1) for _ in range(count))
    return [At(time, random.choice(fault_makers)(random.choice((0.3, 1.0, 3.0, 6.0, 12.0)))) for time in times]


class SimulatedProcess:
    """An async function that runs in a task, and can be paused, killed and started again.

    main: opens its connections under the name of the process, and closes them at the end
    is_killed: it was killed and has not been started again

    `kill` closes the connections before it cancels the task, so that nothing the task does at its end has an effect.
    """

    def __init__(self, server: LocalServer, name: str, main: Main) -> None:
        self.server = server
        self.name = name
        self.main = main
        self.is_killed = False
        self._switch = PauseSwitch()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        if not self.is_running:
            self.is_killed = False
            self._switch = PauseSwitch()
            self._task = self._switch.create_task(self.main(), self.name)

    def pause(self) -> None:
        self._switch.pause()

    def resume(self) -> None:
        self._switch.resume()

    async def kill(self) -> None:
        self.is_killed = True
        clients = [client for client in self.server.clients if client.name == self.name]
        await self._end(*[asyncio.create_task(client.close()) for client in clients])

    async def stop(self) -> None:
        """Cancel the task. Raises its error if it had failed before."""
        task = self._task
        has_failed = task is not None and task.done() and not task.cancelled()
        await self._end()
        if task is not None and has_failed:
            task.result()

    async def _end(self, *closing: asyncio.Task[None]) -> None:
        if self._task is not None:
            self._task.cancel()
            self._switch.resume()
            await asyncio.gather(*closing, self._task, return_exceptions=True)


class FaultScript:
    """Runs processes, and applies faults to them and to the broker while the script is open.

    server: the memory broker; faults: faults with the times at which they begin
    on_fault: called with each fault when it begins
    """

    def __init__(
        self, server: LocalServer, faults: Iterable[At], on_fault: Callable[[Fault], None] | None = None
    ) -> None:
        self.server = server
        self.faults = sorted(faults, key=lambda at: at.time)
        self.processes: dict[str, SimulatedProcess] = {}
        self._on_fault = on_fault
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, name: str, main: Main) -> SimulatedProcess:
        """Start a process. It is stopped at the end of the script; its error, if it failed, is raised then."""
        process = self.processes[name] = SimulatedProcess(self.server, name, main)
        process.start()
        return process

    async def finish(self) -> None:
        """Wait until all faults are over."""
        for task in self._tasks:  # the first one appends the others
            await task

    async def __aenter__(self) -> Self:
        self._tasks.append(asyncio.create_task(self._run()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.server.start()
        self.server.restore()
        for process in reversed(self.processes.values()):
            await process.stop()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        for time, fault in self.faults:
            await asyncio.sleep(started + time - loop.time())
            if self._on_fault is not None:
                self._on_fault(fault)
            self._tasks.append(asyncio.create_task(self._apply(fault)))

    async def _apply(self, fault: Fault) -> None:
        clients = [client for client in self.server.clients if client.name == fault.target]
        process = self.processes.get(fault.target)
        match fault.kind:
            case "outage":
                self.server.stop()
                await asyncio.sleep(fault.seconds or 0)
                self.server.start()
            case "disconnect":
                for client in clients:
                    self.server.cut(client)
                await asyncio.sleep(fault.seconds or 0)
                for client in clients:
                    self.server.restore(client)
            case "lose_acknowledgements":
                self.server.lose_acknowledgements(fault.messages)
            case "redeliver":
                self.server.redeliver(fault.messages)
            case "pause" if process is not None:
                process.pause()
                await asyncio.sleep(fault.seconds or 0)
                process.resume()
            case "kill" if process is not None:
                await process.kill()
                if fault.seconds is not None:
                    await asyncio.sleep(fault.seconds)
                    process.start()
