"""Roles of the demonstration's processes: registry, translator, publisher and subscriber.

Each answers the command `report` with its figures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from time import process_time
from typing import Any

import thinwire as tw
from thinwire.analysis.json_baseline import compact_json
from thinwire.brokers.broker_url import open_broker, read_url
from thinwire.brokers.protocol_overhead import link_bytes
from thinwire.client.local_services import run_registry
from thinwire.clock import WallClock
from thinwire.codec import EventsMissed, Watermark
from thinwire.demo.delivery_check import DeliveryCheck
from thinwire.demo.demo_scenario import SUBSCRIPTIONS, TOPIC, PlantEvents, SendSchedule, compile_kernels
from thinwire.demo.process_group import micros
from thinwire.ledger import Row, RowTally, to_document
from thinwire.services.translator.translation import Translation
from thinwire.services.translator.translator_service import TranslatorService

FLUSH_TIMEOUT = 15.0
POLL_INTERVAL = 0.02
MAX_SLEEP = 0.05
"""seconds between two checks for due events, and for new demand classes"""
CLASS_COUNTERS = ("events", "frames", "data_bytes", "key_bytes", "control_bytes")


class DemoRole:
    """Base of the roles: an exit stack, background tasks, and the processor time."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self._cpu_start = process_time()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work))

    def _raise_failures(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()

    def _cpu_seconds(self) -> float:
        return process_time() - self._cpu_start


class DemoRegistryRole(DemoRole):
    """Runs the registry. It has no commands."""

    async def open(self) -> None:
        broker, _ = await open_broker(read_url(self.url), {}, self._stack)
        self._tasks.append(await run_registry(broker, WallClock(), self._stack))

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        return {}


class DemoTranslatorRole(DemoRole):
    """Runs the translator. Commands: begin, report."""

    async def open(self) -> None:
        compile_kernels()
        broker, _ = await open_broker(read_url(self.url), {}, self._stack)
        self._service = TranslatorService(broker, WallClock())
        self._log_bytes_at_start: dict[str, int] = {}
        self._start_task(self._service.run())
        self._start_task(self._watch_classes())
        await self._service.ready()

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        if command["do"] == "begin":
            self._cpu_start = process_time()
        self._raise_failures()
        self._record_new_classes()
        report: dict[str, Any] = {"events": 0, "cpu": self._cpu_seconds(), "classes": {}}
        translation = self._translation()
        if translation is not None:
            report["events"] = translation.counts.events
            for class_id, counts in translation.counts.classes.items():
                figures = {name: getattr(counts, name) for name in CLASS_COUNTERS}
                figures["log_bytes"] = _log_bytes(translation) - self._log_bytes_at_start[class_id]
                report["classes"][class_id] = figures
        return report

    async def _watch_classes(self) -> None:
        while True:
            self._record_new_classes()
            await asyncio.sleep(MAX_SLEEP)

    def _record_new_classes(self) -> None:
        translation = self._translation()
        if translation is not None:
            for class_id in translation.counts.classes:
                self._log_bytes_at_start.setdefault(class_id, _log_bytes(translation))

    def _translation(self) -> Translation | None:
        """Return the translation of the topic, None before the first class needs a channel."""
        return getattr(self._service.active_work.get(TOPIC), "translation", None)


def _log_bytes(translation: Translation) -> int:
    return sum(decoder.counts.frame_bytes for decoder in translation.decoders.values())


class DemoPublisherRole(DemoRole):
    """Publishes the events of one plant. Commands: connect, begin, report, stop."""

    def __init__(self, url: str, run: str, plant: int) -> None:
        super().__init__(url)
        self.run = run
        self.plant = plant
        self._published = self._raw_bytes = 0
        self._stopped = 0.0

    async def open(self) -> None:
        compile_kernels()
        self._plant = PlantEvents(self.plant)

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        match command["do"]:
            case "connect":
                bus = await self._stack.enter_async_context(tw.connect(self.url))
                publisher = bus.publisher(TOPIC, name=self._plant.publisher)
                self._publisher = await self._stack.enter_async_context(publisher)
            case "begin":
                self._cpu_start = process_time()
                self._start_task(self._publish(SendSchedule(command["start"], command["period"])))
            case "stop":
                await self._stop()
        return self._report()

    async def _publish(self, schedule: SendSchedule) -> None:
        """Publish each event when it is due, independent of how long earlier events took."""
        while not self._stopped:
            due = schedule.due(self.plant, micros())
            while self._published < due:
                event = self._plant.event(self._published + 1)
                await self._publisher.publish(event)
                self._published += 1
                self._raw_bytes += len(compact_json(event))
            wait = (schedule.instant(self.plant, self._published + 1) - micros()) / 1e6
            await asyncio.sleep(min(max(0.0, wait), MAX_SLEEP))

    async def _stop(self) -> None:
        self._stopped = micros() / 1e6
        await asyncio.gather(*self._tasks)
        await self._publisher.flush(FLUSH_TIMEOUT)

    def _report(self) -> dict[str, Any]:
        self._raise_failures()
        last = {self._plant.name: self._published}
        return {"row": to_document(self._row()), "last": last, "stopped": self._stopped}

    def _row(self) -> Row:
        publisher = self._publisher
        counted = ("events", "frames", "rejected", "data_bytes", "key_bytes", "control_bytes")
        counters: dict[str, Any] = {name: getattr(publisher.counts, name) for name in counted}
        return Row(
            *(self.run, TOPIC, "publishers", "", "publisher"),
            **counters,
            suppressed_events=publisher.encoder.suppressed_events,
            suppressed_values=publisher.encoder.suppressed_values,
            dictionary_bytes=publisher.dictionary_bytes,
            messages=publisher.messages,
            raw_bytes=self._raw_bytes,
            cpu_seconds={"publisher": self._cpu_seconds()},
        )


class DemoSubscriberRole(DemoRole):
    """Makes one of the subscriptions. Commands: join, begin, report, end.

    subscription: index in `SUBSCRIPTIONS`
    """

    def __init__(self, url: str, run: str, subscription: int) -> None:
        super().__init__(url)
        self.request = SUBSCRIPTIONS[subscription]
        self._tally = RowTally(run, TOPIC, "log", self.request.name, "subscriber")
        self._json_link_bytes = 0
        self._watermarks: dict[str, float] = {}

    async def open(self) -> None:
        compile_kernels()
        self._check = DeliveryCheck(self.request, self._tally)

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        match command["do"]:
            case "join":
                self._check.start(from_first_event=command["from_first_event"])
                await self._subscribe()
            case "begin":
                self._start_task(self._receive(SendSchedule(command["start"], command["period"])))
            case "end":
                await self._end(command["last"], command["stopped"], command["timeout"])
        return self._report()

    async def _subscribe(self) -> None:
        self._cpu_start = process_time()
        bus = await self._stack.enter_async_context(tw.connect(self.url))
        subscription = bus.subscribe(TOPIC, on_notice=self._on_notice, **self.request.request)
        self._subscription = await self._stack.enter_async_context(subscription)
        self._read_back = sum(counts.frame_bytes for counts in self._subscription.counts.values())

    async def _receive(self, schedule: SendSchedule) -> None:
        begin = micros()
        async for events in self._subscription.batches():
            now = micros()
            for event in events:
                original = self._check.receive(event)
                self._tally.count(events=1, suppressed_events=int(event.virtual))
                if original is not None:
                    self._count_as_json(original)
                    instant = schedule.instant(self._check.plants[original["plant"]].number, event.ordinal)
                    if instant >= begin:  # earlier events waited for this subscription, not for the broker
                        self._tally.latency(max(0, now - instant) / 1e6, virtual=event.virtual)

    def _count_as_json(self, event: Mapping[str, Any]) -> None:
        """Count what the event would cost as a JSON message with the selected properties."""
        raw_bytes = len(compact_json(self.request.project(event)))
        self._tally.count(raw_bytes=raw_bytes)
        self._json_link_bytes += link_bytes(TOPIC, raw_bytes)

    def _on_notice(self, notice: Any) -> None:
        if isinstance(notice, Watermark):
            self._watermarks[notice.publisher] = notice.time
        elif isinstance(notice, EventsMissed):
            self._tally.count(told_missing=1)

    async def _end(self, last: Mapping[str, int], stopped: float, timeout: float) -> None:
        """Wait for the last events, then count those that are missing."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while not self._is_complete(last, stopped):
                    self._raise_failures()
                    await asyncio.sleep(POLL_INTERVAL)
        self._check.finish(last, complete=self._is_complete(last, stopped))

    def _is_complete(self, last: Mapping[str, int], stopped: float) -> bool:
        """Return whether nothing more will be delivered. A subscription to changes waits for the last watermarks."""
        if self.request.emit == "all":
            return all(self._check.last.get(name, ordinal) >= ordinal for name, ordinal in last.items())
        publishers = (self._check.plants[name].publisher for name in self._check.last)
        return all(self._watermarks.get(publisher, 0.0) >= stopped for publisher in publishers)

    def _report(self) -> dict[str, Any]:
        self._raise_failures()
        figures = ("checked", "broken", "lost", "early", "breach")
        return {
            "row": to_document(self._row()),
            "json_link_bytes": self._json_link_bytes,
            "read_back": self._read_back,
            **{name: getattr(self._check, name) for name in figures},
        }

    def _row(self) -> Row:
        counts = self._subscription.counts.values()
        counters: dict[str, Any] = {
            name: sum(getattr(part, name) for part in counts)
            for name in ("frames", "data_bytes", "key_bytes", "control_bytes")
        }
        counters["dictionary_bytes"] = self._subscription.dictionary_bytes
        cpu_seconds = {"subscriber": self._cpu_seconds()}
        return replace(self._tally.row(), link=self._subscription.feed, cpu_seconds=cpu_seconds, **counters)
