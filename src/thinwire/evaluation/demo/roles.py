"""Publishers and subscribers of the demonstration, each a process of its own that reports when it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from time import process_time
from typing import Any

import thinwire as tw
from thinwire.client import Subscription, TopicPublisher
from thinwire.evaluation.bench.references import compact_json
from thinwire.evaluation.demo.phases import Phases
from thinwire.evaluation.demo.plants import TOPIC, Pace, Plant, rehearse
from thinwire.evaluation.demo.witness import Witness
from thinwire.evaluation.live.measure import micros
from thinwire.ledger import Row, Tally, to_document
from thinwire.transports.overhead import link_bytes

MAX_SLEEP = 0.05
"""seconds after which a publisher looks around although nothing is due"""
FLUSH = 15.0
_POLL = 0.02


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
        publisher = bus.publisher(TOPIC, name=f"plant-{self.plant + 1}")
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
        await self._out.flush(FLUSH)

    def _report(self) -> dict[str, Any]:
        if self._task is not None and self._task.done():
            self._task.result()
        rows = self._phases.rows()
        rows[-1] = replace(rows[-1], cpu_seconds={"publisher": process_time() - self._cpu})
        return {"rows": [to_document(row) for row in rows], "last": {self._plant.name: self._published}}


class SubscribingRole:
    """One subscriber. Commands: join, begin, report, end."""

    def __init__(self, url: str, run: str, tolerance: float) -> None:
        self.url = url
        self.run = run
        self.tolerance = tolerance
        self._opened = AsyncExitStack()
        self._tally = Tally(run, TOPIC, "subscriber", f"{tolerance:g}", "subscriber")
        self._json_link_bytes = 0
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        rehearse()
        self._witness = Witness(self.tolerance, self._tally)

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        match command["do"]:
            case "join":
                self._witness.begin(whole=command["whole"])
                await self._join()
            case "begin":
                self._task = asyncio.create_task(self._take_all(Pace(command["start"], command["period"])))
            case "end":
                await self._end(command["last"], command["patience"])
        return self._report()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._opened.aclose()

    async def _join(self) -> None:
        self._cpu = process_time()
        bus = await self._opened.enter_async_context(tw.connect(self.url))
        asked = bus.subscribe(TOPIC, default_tolerance=self.tolerance, on_notice=self._note)
        self._subscription: Subscription = await self._opened.enter_async_context(asked)
        self._read_back = sum(counts.frame_bytes for counts in self._subscription.counts.values())

    async def _take_all(self, pace: Pace) -> None:
        begun = micros()
        async for events in self._subscription.batches():
            now = micros()
            for event in events:
                truth = self._witness.take(event)
                self._tally.count(events=1, suppressed_events=int(event.virtual))
                if truth is not None:
                    self._weigh(truth)
                    instant = pace.instant(self._witness.plants[truth["plant"]].number, event.ordinal)
                    if instant >= begun:  # what was sent while it joined says nothing about the way
                        self._tally.latency(max(0, now - instant) / 1e6, virtual=event.virtual)

    def _weigh(self, truth: Mapping[str, Any]) -> None:
        raw = len(compact_json(truth))
        self._tally.count(raw_bytes=raw)
        self._json_link_bytes += link_bytes(TOPIC, raw)

    def _note(self, notice: Any) -> None:
        if isinstance(notice, tw.Missed):
            self._tally.count(told_missing=1)

    async def _end(self, last: Mapping[str, int], patience: float) -> None:
        """Wait until everything has come, or patience is over."""
        try:
            async with asyncio.timeout(patience):
                while not self._witness.complete(last):
                    self._raise_failure()
                    await asyncio.sleep(_POLL)
        except TimeoutError:
            pass
        self._witness.expect(last)

    def _raise_failure(self) -> None:
        if self._task is not None and self._task.done():
            self._task.result()

    def _report(self) -> dict[str, Any]:
        self._raise_failure()
        facts = ("checked", "broken", "lost", "early", "breach")
        return {
            "row": to_document(self._row()),
            "json_link_bytes": self._json_link_bytes,
            "read_back": self._read_back,
            **{name: getattr(self._witness, name) for name in facts},
        }

    def _row(self) -> Row:
        links = self._subscription.counts.values()
        sums = {
            name: sum(getattr(counts, name) for counts in links)
            for name in ("frames", "data_bytes", "key_bytes", "control_bytes")
        }
        return replace(self._tally.row(), **sums, cpu_seconds={"subscriber": process_time() - self._cpu})
