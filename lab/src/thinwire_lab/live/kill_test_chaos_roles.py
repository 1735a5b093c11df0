"""Publishers and subscribers that can be killed at any moment and started again."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Literal

import thinwire as tw
from thinwire.client import TopicPublisher
from thinwire.schema import Event
from thinwire_lab.live.delivery_audit_numbered import TOPIC, Line, numbered

LINGER = 0.005
_POLL = 0.05


class NumberingRole:
    """Publishes numbered events of some sources, and goes on after the last one that its earlier life had told.

    rate: events a second of each source
    """

    def __init__(self, url: str, name: str, sensors: list[str], rate: float) -> None:
        self.url = url
        self.name = name
        self.sensors = sensors
        self.rate = rate
        self._opened = AsyncExitStack()
        self._next: dict[str, int] = {}
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self._out: TopicPublisher | None = None

    async def open(self) -> None:
        bus = await self._opened.enter_async_context(tw.connect(self.url))
        publisher = bus.publisher(TOPIC, name=self.name, linger=LINGER, recover=True)
        self._out = await self._opened.enter_async_context(publisher)
        told = self._out.told
        self._next = {s: told[(s,)]["number"] + 1 if (s,) in told else 0 for s in self.sensors}
        self._task = asyncio.create_task(self._count(self._out))

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        """`pack`: wait until there is a dictionary to pack with, and say which.

        `finish`: stop counting, store everything, and say how far each source came.
        """
        assert self._task is not None
        assert self._out is not None
        if command["do"] == "pack":
            return {"dictionary": await _packing(self._out, command["patience"])}
        self._stopping = True
        await self._task
        await self._out.flush()
        return {"last": {sensor: number - 1 for sensor, number in self._next.items()}}

    async def close(self) -> None:
        await self._opened.aclose()

    async def _count(self, out: TopicPublisher) -> None:
        while not self._stopping:
            for sensor in self.sensors:
                await out.publish(numbered(sensor, self._next[sensor]))
                self._next[sensor] += 1
            await asyncio.sleep(1 / self.rate)


async def _packing(out: TopicPublisher, patience: float) -> str:
    """The hash of the dictionary that a publisher packs with; empty where it has none in time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(patience):
            while not out.dictionary:
                await asyncio.sleep(_POLL)
    return out.dictionary.hex()


class RecordingRole:
    """Writes what a durable subscription brings into a file, a line an event, before it asks for more.

    After a restart it is handed again what its earlier life had not acknowledged: of that, what the file has is left
    out, once each; anything else that comes twice is written twice, for the judge to see.
    """

    def __init__(self, url: str, durable: str, path: str, tolerance: float, emit: Literal["all", "changes"]) -> None:
        self.url = url
        self.durable = durable
        self.path = Path(path)
        self.tolerance = tolerance
        self.emit = emit
        self._opened = AsyncExitStack()
        self._last: dict[str, int] = {}
        self._recorded: set[tuple[str, int]] = set()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        _cut_torn_line(self.path)
        for sensor, number, _, _ in read_record(self.path):
            self._recorded.add((sensor, number))
            self._last[sensor] = number
        bus = await self._opened.enter_async_context(tw.connect(self.url))
        asked = bus.subscribe(
            TOPIC, tolerance={"value": self.tolerance}, emit=self.emit, durable=self.durable, start="earliest"
        )
        subscription = await self._opened.enter_async_context(asked)
        self._task = asyncio.create_task(self._record(subscription))

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        """`reach`: wait until every source has come as far as `last` says."""
        complete = await self._wait_for(command["last"], command["patience"])
        return {"complete": complete}

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._opened.aclose()

    async def _wait_for(self, last: Mapping[str, int], patience: float) -> bool:
        assert self._task is not None
        try:
            async with asyncio.timeout(patience):
                while any(self._last.get(sensor, -1) < number for sensor, number in last.items()):
                    if self._task.done():
                        self._task.result()
                    await asyncio.sleep(_POLL)
        except TimeoutError:
            return False
        # whatever should not come any more would come now
        await asyncio.sleep(1.0)
        return True

    async def _record(self, subscription: Any) -> None:
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            async for batch in subscription.batches():
                lines = [_line(event) for event in batch if self._is_new(event)]
                os.write(file, "".join(lines).encode())
        finally:
            os.close(file)

    def _is_new(self, event: Event) -> bool:
        identity = (event["sensor"], event["number"])
        self._last[identity[0]] = max(identity[1], self._last.get(identity[0], -1))
        if identity in self._recorded:
            self._recorded.discard(identity)
            return False
        return True


def read_record(path: Path) -> list[Line]:
    """The lines of a record; a subscriber that was never handed anything has none."""
    if not path.exists():
        return []
    return [tuple(json.loads(line)) for line in path.read_text().splitlines()]


def _line(event: Event) -> str:
    return json.dumps([event["sensor"], event["number"], event["value"], event.bound["value"]]) + "\n"


def _cut_torn_line(path: Path) -> None:
    if path.exists():
        text = path.read_bytes()
        os.truncate(path, text.rfind(b"\n") + 1)
