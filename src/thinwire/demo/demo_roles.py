"""Roles of the demonstration's processes: registry, translator, publisher and subscriber.

A command names a method of the role and its arguments. The answer to every command is the report of the role.
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
from thinwire.client.local_services import run_service
from thinwire.clock import WallClock
from thinwire.codec import EventsMissed, Watermark
from thinwire.demo.delivery_check import DeliveryCheck
from thinwire.demo.demo_scenario import SUBSCRIPTIONS, TOPIC, PlantEvents, SendSchedule, compile_kernels
from thinwire.demo.process_group import micros
from thinwire.ledger import Row, RowTally, to_document
from thinwire.services.translator.translation import Translation
from thinwire.services.translator.translator_service import TranslatorService

FLUSH_TIMEOUT = 15.0
"""seconds for a publisher to store its last events"""
POLL_INTERVAL = 0.02
MAX_SLEEP = 0.05
"""seconds between two checks for due events, and for new demand classes"""
END_TIMEOUT = 20.0
"""seconds for a subscriber to receive the last events"""
STREAM_COUNTERS = ("frames", "data_bytes", "key_bytes", "control_bytes")


class DemoRole:
    """Base of the roles: connections and tasks that end with the process, and the processor time."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self._cpu_start = process_time()

    async def execute(self, command: dict[str, Any]) -> dict[str, Any]:
        """Call the method that the command names, then report."""
        arguments = dict(command)
        await getattr(self, arguments.pop("do"))(**arguments)
        for task in self._tasks:
            if task.done():
                task.result()  # raises the error of a failed task
        return self._report()

    async def report(self) -> None:
        """Do nothing. The answer is the report."""

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()

    def _report(self) -> dict[str, Any]:
        return {}

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work))

    def _cpu_seconds(self) -> float:
        return process_time() - self._cpu_start


class DemoRegistryRole(DemoRole):
    """Runs the registry."""

    async def open(self) -> None:
        broker, _ = await open_broker(read_url(self.url), {}, self._stack)
        self._tasks.append(await run_service("registry", broker, WallClock(), self._stack))


class DemoTranslatorRole(DemoRole):
    """Runs the translator."""

    async def open(self) -> None:
        compile_kernels()
        broker, _ = await open_broker(read_url(self.url), {}, self._stack)
        self._service = TranslatorService(broker, WallClock())
        self._log_bytes_before: dict[str, int] = {}
        """frame bytes of the log when the channel of a demand class was opened, by class id"""
        self._start_task(self._service.run())
        self._start_task(self._watch_classes())
        await self._service.ready()

    async def begin(self, **schedule: int) -> None:
        """Measure the processor time from now on."""
        self._cpu_start = process_time()

    async def _watch_classes(self) -> None:
        while True:
            self._read_classes()
            await asyncio.sleep(MAX_SLEEP)

    def _read_classes(self) -> tuple[int, dict[str, Any]]:
        """Return the number of events that the translator has read, and the figures of each demand class."""
        # the service translates a topic from the time at which a demand class needs a channel
        translation: Translation | None = getattr(self._service.active_work.get(TOPIC), "translation", None)
        if translation is None:
            return 0, {}
        log_bytes = sum(decoder.counts.frame_bytes for decoder in translation.decoders.values())
        classes = {}
        for class_id, counts in translation.counts.classes.items():
            before = self._log_bytes_before.setdefault(class_id, log_bytes)
            figures = {name: getattr(counts, name) for name in ("events", *STREAM_COUNTERS)}
            classes[class_id] = {**figures, "log_bytes": log_bytes - before}
        return translation.counts.events, classes

    def _report(self) -> dict[str, Any]:
        events, classes = self._read_classes()
        return {"events": events, "cpu": self._cpu_seconds(), "classes": classes}


class DemoPublisherRole(DemoRole):
    """Publishes the events of one plant.

    run: name of the run in the ledger
    plant: number of the plant, from 0
    """

    def __init__(self, url: str, run: str, plant: int) -> None:
        super().__init__(url)
        self.run = run
        self.plant = plant
        self._published = self._raw_bytes = 0
        self._stop_time = 0.0

    async def open(self) -> None:
        compile_kernels()
        self._events = PlantEvents(self.plant)

    async def connect(self) -> None:
        bus = await self._stack.enter_async_context(tw.connect(self.url))
        self._publisher = await self._stack.enter_async_context(bus.publisher(TOPIC, name=self._events.publisher))

    async def begin(self, start: int, period: int) -> None:
        """Publish according to the schedule."""
        self._cpu_start = process_time()
        self._start_task(self._publish(SendSchedule(start, period)))

    async def stop(self) -> None:
        """Publish no more events, and wait until the published ones are stored."""
        self._stop_time = micros() / 1e6
        await asyncio.gather(*self._tasks)
        await self._publisher.flush(FLUSH_TIMEOUT)

    async def _publish(self, schedule: SendSchedule) -> None:
        """Publish each event when it is due, independent of how long earlier events took."""
        while not self._stop_time:
            due = schedule.due(self.plant, micros())
            while self._published < due:
                event = self._events.event(self._published + 1)
                await self._publisher.publish(event)
                self._published += 1
                self._raw_bytes += len(compact_json(event))
            wait = (schedule.instant(self.plant, self._published + 1) - micros()) / 1e6
            await asyncio.sleep(min(max(0.0, wait), MAX_SLEEP))

    def _report(self) -> dict[str, Any]:
        publisher = self._publisher
        row = Row(
            self.run,
            TOPIC,
            link="publishers",
            role="publisher",
            **{name: getattr(publisher.counts, name) for name in ("events", "rejected", *STREAM_COUNTERS)},
            suppressed_events=publisher.encoder.suppressed_events,
            suppressed_values=publisher.encoder.suppressed_values,
            dictionary_bytes=publisher.dictionary_bytes,
            messages=publisher.messages,
            raw_bytes=self._raw_bytes,
            cpu_seconds={"publisher": self._cpu_seconds()},
        )
        return {"row": to_document(row), "last": {self._events.name: self._published}, "stop_time": self._stop_time}


class DemoSubscriberRole(DemoRole):
    """Makes one of the subscriptions and checks what is delivered.

    run: name of the run in the ledger
    subscription: index in `SUBSCRIPTIONS`
    """

    def __init__(self, url: str, run: str, subscription: int) -> None:
        super().__init__(url)
        self.requested = SUBSCRIPTIONS[subscription]
        self._tally = RowTally(run, TOPIC, "log", self.requested.name, "subscriber")
        self._json_link_bytes = 0
        self._watermarks: dict[str, float] = {}

    async def open(self) -> None:
        compile_kernels()
        self._check = DeliveryCheck(self.requested, self._tally)

    async def join(self) -> None:
        self._cpu_start = process_time()
        bus = await self._stack.enter_async_context(tw.connect(self.url))
        subscription = bus.subscribe(TOPIC, on_notice=self._on_notice, **self.requested.request)
        self._subscription = await self._stack.enter_async_context(subscription)

    async def begin(self, start: int, period: int, joined: int) -> None:
        """Receive events. All events that are due after the subscription has joined must be delivered."""
        schedule = SendSchedule(start, period)
        self._check.start({name: schedule.due(plant.number, joined) for name, plant in self._check.plants.items()})
        self._start_task(self._receive(schedule, joined))

    async def end(self, last: Mapping[str, int], stop_time: float) -> None:
        """Wait for the last events, then count the missing ones.

        last: ordinal of the last event of each plant
        stop_time: when the publishers stopped, in seconds since the epoch
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(END_TIMEOUT):
                while not self._has_caught_up(last, stop_time) and not any(task.done() for task in self._tasks):
                    await asyncio.sleep(POLL_INTERVAL)
        self._check.finish(last, has_caught_up=self._has_caught_up(last, stop_time))

    async def _receive(self, schedule: SendSchedule, joined: int) -> None:
        async for events in self._subscription.batches():
            now = micros()
            for event in events:
                generated = self._check.receive(event)
                self._tally.count(events=1, suppressed_events=int(event.virtual))
                if generated is not None:
                    # the event as a JSON message with the selected properties
                    raw_bytes = len(compact_json(self.requested.project(generated)))
                    self._tally.count(raw_bytes=raw_bytes)
                    self._json_link_bytes += link_bytes(TOPIC, raw_bytes)
                    instant = schedule.instant(self._check.plants[generated["plant"]].number, event.ordinal)
                    if instant >= joined:  # earlier events waited for this subscription, not for the broker
                        self._tally.latency(max(0, now - instant) / 1e6, virtual=event.virtual)

    def _on_notice(self, notice: Any) -> None:
        if isinstance(notice, Watermark):
            self._watermarks[notice.publisher] = notice.time
        elif isinstance(notice, EventsMissed):
            self._tally.count(told_missing=1)

    def _has_caught_up(self, last: Mapping[str, int], stop_time: float) -> bool:
        """Return whether no event is missing or, for a subscription to changes, whether the last watermarks arrived."""
        if self.requested.emit == "all":
            return self._check.is_complete(last)
        publishers = (self._check.plants[name].publisher for name, ordinal in last.items() if ordinal)
        return all(self._watermarks.get(publisher, 0.0) >= stop_time for publisher in publishers)

    def _report(self) -> dict[str, Any]:
        counts = self._subscription.counts.values()
        row = replace(
            self._tally.row(),
            link=self._subscription.feed,
            dictionary_bytes=self._subscription.dictionary_bytes,
            cpu_seconds={"subscriber": self._cpu_seconds()},
            **{name: sum(getattr(publisher, name) for publisher in counts) for name in STREAM_COUNTERS},
        )
        return {"row": to_document(row), "json_link_bytes": self._json_link_bytes, "check": vars(self._check.result)}
