"""What a team would do without us: JSON in the broker's log, a message an event or a message a batch.

Both wait for the broker's acknowledgement, as ours does. One message an event keeps several messages on their way,
each source's in order; batches have one on its way and gather meanwhile.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from thinwire.brokers.protocol import Broker, LogReader
from thinwire_lab.live.stacks import Route, StackReceiver, StackSender

LANES = 16
"""messages of one publisher on their way at once, where every event is a message"""
MAX_BATCH = 512
"""events of a batch, about 50 kB"""
UNREAD = 1024
"""messages a subscriber lets come before it has worked off the first"""


class _Json:
    """What both have in common: a log of the topic's name, read as it grows."""

    async def prepare(self, route: Route) -> None:
        broker = await _connect(route)
        await broker.open_log(_log(route), [f"json.{route.topic}.*.*"])
        await broker.close()

    async def receiver(self, route: Route, name: str) -> StackReceiver:
        broker = await _connect(route)
        return _JsonReceiver(broker, await broker.read(_log(route), limit=UNREAD))

    async def stored(self, route: Route) -> int:
        broker = await _connect(route)
        try:
            return (await broker.span(_log(route))).stored_bytes
        finally:
            await broker.close()


class JsonEvents(_Json):
    """One message an event."""

    async def sender(self, route: Route, name: str) -> StackSender:
        return _EventSender(await _connect(route), route, name)


class JsonBatches(_Json):
    """One message for all events of a linger."""

    async def sender(self, route: Route, name: str) -> StackSender:
        return BatchSender(await _connect(route), _log(route), f"json.{route.topic}.{name}.0", route.linger, _listed)


class _EventSender:
    """Sources take turns on a few lanes; a lane has one message on its way."""

    def __init__(self, broker: Broker, route: Route, name: str) -> None:
        self.sent = self.delivered_events = 0
        self._broker = broker
        self._log = _log(route)
        self._dimensions = [p["name"] for p in route.schema["properties"] if p.get("role") == "dimension"]
        self._lanes: dict[tuple[Any, ...], asyncio.Queue[dict[str, Any]]] = {}
        self._queues: list[asyncio.Queue[dict[str, Any]]] = [asyncio.Queue() for _ in range(LANES)]
        subjects = [f"json.{route.topic}.{name}.{lane}" for lane in range(LANES)]
        self._tasks = [
            asyncio.create_task(self._send(subject, queue))
            for subject, queue in zip(subjects, self._queues, strict=True)
        ]

    async def publish(self, events: Sequence[dict[str, Any]]) -> None:
        for event in events:
            self._lane(event).put_nowait(event)
        self.sent = self.delivered_events = self.delivered_events + len(events)

    async def flush(self) -> None:
        await _unless_failed(self._drained(), self._tasks)

    async def close(self) -> None:
        await _end(self._tasks)
        await self._broker.close()

    async def _drained(self) -> None:
        for queue in self._queues:
            await queue.join()

    def _lane(self, event: dict[str, Any]) -> asyncio.Queue[dict[str, Any]]:
        source = tuple([event[name] for name in self._dimensions])
        lane = self._lanes.get(source)
        if lane is None:
            lane = self._lanes[source] = self._queues[len(self._lanes) % LANES]
        return lane

    async def _send(self, subject: str, queue: asyncio.Queue[dict[str, Any]]) -> None:
        while True:
            event = await queue.get()
            await self._broker.append(self._log, subject, json.dumps(event).encode())
            queue.task_done()


class BatchSender:
    """Events gather for the linger, and while a message is on its way; `pack` makes one message of them."""

    def __init__(
        self, broker: Broker, log: str, subject: str, linger: float, pack: Callable[[list[Any]], bytes]
    ) -> None:
        self.sent = self.delivered_events = 0
        self._broker = broker
        self._log = log
        self._subject = subject
        self._linger = linger
        self._pack = pack
        self._waiting: deque[Any] = deque()
        self._some = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._task = asyncio.create_task(self._send())

    async def publish(self, events: Sequence[Any]) -> None:
        if events:
            self._waiting.extend(events)
            self.sent = self.delivered_events = self.delivered_events + len(events)
            self._empty.clear()
            self._some.set()

    async def flush(self) -> None:
        await _unless_failed(self._drained(), [self._task])

    async def close(self) -> None:
        await _end([self._task])
        await self._broker.close()

    async def _drained(self) -> None:
        await self._empty.wait()

    async def _send(self) -> None:
        while True:
            await self._some.wait()
            if len(self._waiting) < MAX_BATCH:
                await asyncio.sleep(self._linger)
            batch = [self._waiting.popleft() for _ in range(min(MAX_BATCH, len(self._waiting)))]
            if not self._waiting:
                self._some.clear()
            await self._broker.append(self._log, self._subject, self._pack(batch))
            if not self._waiting:
                self._empty.set()


class _JsonReceiver:
    """Either kind of message; the standard library's parser reads both in one call."""

    missed = 0
    feed = "log"

    def __init__(self, broker: Broker, reader: LogReader) -> None:
        self._broker = broker
        self._reader = reader
        self._last = 0
        self.taken = 0

    async def next(self) -> Sequence[dict[str, Any]]:
        # what was handed out last time is worked off now
        self._reader.done(self._last)
        while (stored := await self._reader.next()) is None:
            pass
        self._last = stored.offset
        found = json.loads(stored.payload)
        events = found if isinstance(found, list) else (found,)
        self.taken += len(events)
        return events

    def sent(self, events: Sequence[Any]) -> Sequence[Any]:
        return events

    async def close(self) -> None:
        await self._reader.close()
        await self._broker.close()


async def _connect(route: Route) -> Broker:
    from thinwire.brokers.nats.broker import connect

    return await connect(route.url)


def _listed(events: list[Any]) -> bytes:
    return json.dumps(events).encode()


def _log(route: Route) -> str:
    return "json_" + route.topic.replace(".", "~")


async def _unless_failed(work: Coroutine[Any, Any, None], tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait for the work; what ends a sending task meanwhile is raised."""
    waiting = asyncio.create_task(work)
    await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        if task.done():
            waiting.cancel()
            task.result()
    await waiting


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
