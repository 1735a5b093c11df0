"""Traces the Python calls of one steady-state event: files, calls and changes of package in thinwire code.

Calls inside the codec and the wire format are not counted: their cost is per value, not per layer.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dis import opname
from inspect import CO_COROUTINE, CO_GENERATOR
from itertools import count, pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import thinwire as tw

ROOT = str(Path(tw.__file__).parent) + "/"
CODEC = ("codec", "wire", "dictionaries")
EVENTS = 40
"""events traced; the one with the fewest files, then calls, is a cycle without periodic work"""


class Call(NamedTuple):
    """A call of a thinwire function outside of the codec."""

    package: str
    file: str
    function: str
    task: str


class PathCost(NamedTuple):
    """What one event costs on a path."""

    files: int
    calls: int
    changes: int

    @classmethod
    def of(cls, calls: list[Call]) -> PathCost:
        changes = sum(a.package != b.package for a, b in pairwise(calls))
        return cls(len({call.file for call in calls}), len(calls), changes)


class Tracer:
    """Records the calls of thinwire functions in this thread while it is active."""

    def __init__(self, codec: tuple[str, ...] = CODEC) -> None:
        self.calls: list[Call] = []
        self._codec = codec
        self._locations: dict[CodeType, tuple[str, str] | None] = {}

    def __enter__(self) -> Tracer:
        sys.setprofile(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _trace(self, frame: FrameType, event: str, arg: Any) -> None:
        if event != "call":
            return
        location = self._locate(frame.f_code)
        if location is None or self._is_resumed(frame) or self._in_codec(frame):
            return
        self.calls.append(Call(*location, frame.f_code.co_qualname, _task_name()))

    def _is_resumed(self, frame: FrameType) -> bool:
        """Report whether a coroutine or generator continues; only its creation counts as a call."""
        if not frame.f_code.co_flags & (CO_COROUTINE | CO_GENERATOR) or frame.f_lasti < 0:
            return False
        operation, argument = frame.f_code.co_code[frame.f_lasti : frame.f_lasti + 2]
        name = opname[operation]
        return name in ("YIELD_VALUE", "RETURN_GENERATOR") or (name == "RESUME" and argument != 0)

    def _in_codec(self, frame: FrameType | None) -> bool:
        while frame is not None:
            location = self._locate(frame.f_code)
            if location is not None and location[0] in self._codec:
                return True
            frame = frame.f_back
        return False

    def _locate(self, code: CodeType) -> tuple[str, str] | None:
        if code not in self._locations:
            inside = code.co_filename.startswith(ROOT)
            file = code.co_filename.removeprefix(ROOT)
            self._locations[code] = (file.partition("/")[0], file) if inside else None
        return self._locations[code]


def _task_name() -> str:
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return ""
    return task.get_name() if task is not None else ""


def is_publishing(call: Call) -> bool:
    return call.task == "main" or call.task.startswith("outbox")


async def trace_events(
    publish: Callable[[], Awaitable[None]], received: asyncio.Event, codec: tuple[str, ...] = CODEC
) -> list[list[Call]]:
    """The calls of one event after another, each from `publish` until a subscriber waits for the next one."""
    traces = []
    for _ in range(EVENTS):
        await asyncio.sleep(0.02)
        received.clear()
        with Tracer(codec) as tracer:
            await publish()
            await received.wait()
            await asyncio.sleep(0.02)
        traces.append(tracer.calls)
    return traces


def schema_of(name: str) -> tw.Schema:
    return tw.Schema(
        name,
        [tw.Property("room", "string", "dimension"), tw.Property("t", "number", step="0.1", minimum=-1e6, maximum=1e6)],
    )


@asynccontextmanager
async def _reading(subscription: tw.Subscription, name: str, received: asyncio.Event) -> Any:
    async def read() -> None:
        async for _ in subscription:
            received.set()

    task = asyncio.create_task(read(), name=name)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def trace_paths(codec: tuple[str, ...] = CODEC) -> dict[str, list[Call]]:
    """The cheapest traced event on each path: `publish`, `log` and `channel`."""
    asyncio.current_task().set_name("main")  # type: ignore[union-attr]
    schema, received = schema_of("event.path"), asyncio.Event()
    async with tw.connect("memory://event-path") as bus:
        await bus.register(schema)
        async with bus.publisher(schema.name, name="p1", linger=0) as out, bus.subscribe(schema.name) as strict:
            numbers = count()

            async def publish() -> None:
                n = next(numbers)
                await out.publish({"room": "11.1", "t": 20.0 + 7 * n * n})

            async with _reading(strict, "strict", received):
                await publish()
                await asyncio.sleep(0.3)
                log = await trace_events(publish, received, codec)
                ignored = asyncio.Event()
                async with bus.subscribe(schema.name, tolerance={"t": 1.0}) as coarse:
                    async with asyncio.timeout(20):
                        while coarse.feed != "channel":
                            await publish()
                            await anext(coarse)
                            await asyncio.sleep(0.01)
                    async with _reading(coarse, "coarse", ignored):
                        await publish()
                        await asyncio.sleep(0.5)
                        channel = await trace_events(publish, ignored, codec)
    return {
        "publish": _cheapest(log, is_publishing),
        "log": _cheapest(log, lambda call: call.task == "strict"),
        "channel": _cheapest(channel, lambda call: not is_publishing(call) and call.task != "strict"),
    }


def _cheapest(traces: list[list[Call]], belongs: Callable[[Call], bool]) -> list[Call]:
    return min(([call for call in trace if belongs(call)] for trace in traces), key=PathCost.of)
