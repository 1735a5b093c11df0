"""A publisher of the demonstration: a process of its own that reports when it is asked."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from time import process_time
from typing import Any

import thinwire as tw
from thinwire.analysis.json_baseline_references import compact_json
from thinwire.client import TopicPublisher
from thinwire.demo.demo_publisher import Phases
from thinwire.demo.demo_scenario_plants import TOPIC, Pace, Plant, rehearse
from thinwire.demo.process_group_processes import micros
from thinwire.ledger import to_document

MAX_SLEEP = 0.05
"""seconds after which a publisher looks around although nothing is due"""
FLUSH = 15.0


class PublishingRole:
    """One plant's publisher. Commands: connect, begin, report, stop."""

    def __init__(self, url: str, run: str, plant: int) -> None:
        self.url = url
        self.run = run
        self.plant = plant
        self._opened = AsyncExitStack()
        self._task: asyncio.Task[None] | None = None
        self._published = 0
        self._stopping = False
        self._stopped = 0.0

    async def open(self) -> None:
        rehearse()
        self._plant = Plant(self.plant)

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        match command["do"]:
            case "connect":
                await self._connect()
            case "begin":
                self._cpu = process_time()
                self._task = asyncio.create_task(self._publish(Pace(command["start"], command["period"])))
            case "stop":
                await self._stop()
        return self._report()

    async def close(self) -> None:
        await self._opened.aclose()

    async def _connect(self) -> None:
        bus = await self._opened.enter_async_context(tw.connect(self.url))
        publisher = bus.publisher(TOPIC, name=self._plant.publisher)
        self._out: TopicPublisher = await self._opened.enter_async_context(publisher)
        self._phases = Phases(self.run, self._out)
        self._cpu = process_time()

    async def _publish(self, pace: Pace) -> None:
        """An open loop: events are due at their instants whatever became of those before."""
        while not self._stopping:
            self._phases.look()
            self._phases.published(await self._publish_until(pace.due(self.plant, micros())))
            wait = (pace.instant(self.plant, self._published + 1) - micros()) / 1e6
            await asyncio.sleep(min(max(0.0, wait), MAX_SLEEP))

    async def _publish_until(self, ordinal: int) -> int:
        """Publish what is due, and return its bytes as plain JSON."""
        raw = 0
        while self._published < ordinal:
            event = self._plant.event(self._published + 1)
            await self._out.publish(event)
            self._published += 1
            raw += len(compact_json(event))
        return raw

    async def _stop(self) -> None:
        self._stopping = True
        if self._task is not None:
            await self._task
        self._phases.look()
        self._stopped = micros() / 1e6
        await self._out.flush(FLUSH)

    def _report(self) -> dict[str, Any]:
        if self._task is not None and self._task.done():
            self._task.result()
        rows = self._phases.rows()
        rows[-1] = replace(rows[-1], cpu_seconds={"publisher": process_time() - self._cpu})
        return {
            "rows": [to_document(row) for row in rows],
            "last": {self._plant.name: self._published},
            "stopped": self._stopped,
        }
