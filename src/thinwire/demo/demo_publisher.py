"""What a publisher spent while each configuration was in force.

The tolerances in force change between two events, whenever the registry says so. The key frames with which a publisher
goes over to others belong to the new phase.

A publisher of the demonstration: a process of its own that reports when it is asked.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from time import process_time
from typing import Any

import thinwire as tw
from thinwire.analysis.json_baseline import compact_json
from thinwire.client import Publisher
from thinwire.codec import Demand
from thinwire.demo.demo_scenario import TOPIC, PlantEvents, SendSchedule, describe_demand, rehearse
from thinwire.demo.process_group import micros
from thinwire.ledger import COUNTERS, Row, to_document

Sums = dict[str, int]


class Phases:
    """The ledger of one publisher: a row for whatever was in force, in their order."""

    def __init__(self, run: str, out: Publisher) -> None:
        self.run = run
        self._out = out
        self._raw = 0
        self._known: tuple[Demand, str] = (self._demand, describe_demand(self._demand))
        self._name = self.in_force
        self._begun: Sums = dict.fromkeys(COUNTERS, 0)
        self._seen = self._sums()
        self._closed: list[Row] = []

    @property
    def in_force(self) -> str:
        """The tolerances that are in force now, in words."""
        if self._known[0] is not self._demand:
            self._known = self._demand, describe_demand(self._demand)
        return self._known[1]

    def look(self) -> None:
        """Before events are published: have other tolerances come into force since the last ones?"""
        if self.in_force != self._name:
            self._closed.append(self._row(self._seen))
            self._begun, self._name = self._seen, self.in_force

    def published(self, raw_bytes: int) -> None:
        """After events were published, which as plain JSON are so many bytes."""
        self._raw += raw_bytes
        self._seen = self._sums()

    def rows(self) -> list[Row]:
        """What each phase took, the present one up to now."""
        return [*self._closed, self._row(self._sums())]

    @property
    def _demand(self) -> Demand:
        return self._out.encoder.config.demand

    def _row(self, until: Sums) -> Row:
        taken: dict[str, Any] = {name: until[name] - self._begun[name] for name in until}
        return Row(self.run, TOPIC, "publishers", self._name, "publisher", **taken)

    def _sums(self) -> Sums:
        out = self._out
        return {
            **{name: getattr(out.counts, name) for name in ("events", "frames", "rejected")},
            **{name: getattr(out.counts, name) for name in ("data_bytes", "key_bytes", "control_bytes")},
            **{name: getattr(out.encoder, name) for name in ("suppressed_events", "suppressed_values")},
            "dictionary_bytes": out.dictionary_bytes,
            "messages": out.messages,
            "raw_bytes": self._raw,
        }


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
        self._plant = PlantEvents(self.plant)

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        match command["do"]:
            case "connect":
                await self._connect()
            case "begin":
                self._cpu = process_time()
                self._task = asyncio.create_task(self._publish(SendSchedule(command["start"], command["period"])))
            case "stop":
                await self._stop()
        return self._report()

    async def close(self) -> None:
        await self._opened.aclose()

    async def _connect(self) -> None:
        bus = await self._opened.enter_async_context(tw.connect(self.url))
        publisher = bus.publisher(TOPIC, name=self._plant.publisher)
        self._out: Publisher = await self._opened.enter_async_context(publisher)
        self._phases = Phases(self.run, self._out)
        self._cpu = process_time()

    async def _publish(self, pace: SendSchedule) -> None:
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
