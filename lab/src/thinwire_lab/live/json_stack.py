"""The reference stacks: JSON in the broker's log, one message for each event or for each batch.

Both wait for the broker's acknowledgement, as thinwire does. With one message for each event, several messages are in
flight, those of a source in order. With batches one is in flight while the next one is collected.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

from thinwire.brokers.broker_url import open_broker, read_url
from thinwire.brokers.protocol import Broker, LogReader
from thinwire_lab.live.background_tasks import cancel_tasks, wait_unless_failed
from thinwire_lab.live.stacks import Route, StackReceiver, StackSender, stored_bytes

LANES = 16
"""messages of a publisher in flight, if every event is a message"""
MAX_BATCH = 512
"""events of a batch, about 50 kB"""
UNREAD = 1024
"""messages that a subscriber buffers"""


class _JsonStack:
    """Log and receiver of both references."""

    async def prepare(self, route: Route) -> None:
        async with AsyncExitStack() as resources:
            broker, _ = await open_broker(read_url(route.url), {}, resources)
            await broker.ensure_log(_log(route), [f"json.{route.topic}.*.*"])

    async def receiver(self, route: Route, resources: AsyncExitStack) -> StackReceiver:
        broker, _ = await open_broker(read_url(route.url), {}, resources)
        reader = await broker.read(_log(route), max_unacknowledged=UNREAD)
        resources.push_async_callback(reader.close)
        return _JsonReceiver(reader)

    async def stored(self, route: Route) -> int:
        return await stored_bytes(route, _log(route))


class JsonEvents(_JsonStack):
    """One message for each event."""

    async def sender(self, route: Route, name: str, resources: AsyncExitStack) -> StackSender:
        broker, _ = await open_broker(read_url(route.url), {}, resources)
        sender = _EventSender(broker, route, name)
        resources.push_async_callback(cancel_tasks, sender.tasks)
        return sender


class JsonBatches(_JsonStack):
    """One message for all events within the linger."""

    async def sender(self, route: Route, name: str, resources: AsyncExitStack) -> StackSender:
        broker, _ = await open_broker(read_url(route.url), {}, resources)
        sender = BatchSender(broker, _log(route), f"json.{route.topic}.{name}.0", route.linger, _pack_json)
        resources.push_async_callback(cancel_tasks, [sender.task])
        return sender


class _EventSender:
    """Sources are assigned to lanes in turn; each lane has one message in flight."""

    def __init__(self, broker: Broker, route: Route, name: str) -> None:
        self.sent = self.delivered_events = 0
        self._broker = broker
        self._log = _log(route)
        self._dimensions = [p["name"] for p in route.schema["properties"] if p.get("role") == "dimension"]
        self._lanes: dict[tuple[Any, ...], asyncio.Queue[dict[str, Any]]] = {}
        self._queues: list[asyncio.Queue[dict[str, Any]]] = [asyncio.Queue() for _ in range(LANES)]
        self.tasks = [
            asyncio.create_task(self._send(f"json.{route.topic}.{name}.{lane}", queue))
            for lane, queue in enumerate(self._queues)
        ]

    async def publish(self, events: Sequence[dict[str, Any]]) -> None:
        for event in events:
            self._lane(event).put_nowait(event)
        self.sent = self.delivered_events = self.delivered_events + len(events)

    async def flush(self) -> None:
        await wait_unless_failed(self._drain(), self.tasks)

    async def _drain(self) -> None:
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
    """Collects events for the linger and while a message is in flight. `pack` makes one message of them."""

    def __init__(
        self, broker: Broker, log: str, subject: str, linger: float, pack: Callable[[list[Any]], bytes]
    ) -> None:
        self.sent = self.delivered_events = 0
        self._broker = broker
        self._log = log
        self._subject = subject
        self._linger = linger
        self._pack = pack
        self._pending: deque[Any] = deque()
        self._has_events = asyncio.Event()
        self._is_empty = asyncio.Event()
        self._is_empty.set()
        self.task = asyncio.create_task(self._send())

    async def publish(self, events: Sequence[Any]) -> None:
        if events:
            self._pending.extend(events)
            self.sent = self.delivered_events = self.delivered_events + len(events)
            self._is_empty.clear()
            self._has_events.set()

    async def flush(self) -> None:
        await wait_unless_failed(self._is_empty.wait(), [self.task])

    async def _send(self) -> None:
        while True:
            await self._has_events.wait()
            if len(self._pending) < MAX_BATCH:
                await asyncio.sleep(self._linger)
            batch = [self._pending.popleft() for _ in range(min(MAX_BATCH, len(self._pending)))]
            if not self._pending:
                self._has_events.clear()
            await self._broker.append(self._log, self._subject, self._pack(batch))
            if not self._pending:
                self._is_empty.set()


class _JsonReceiver:
    """Receiver of both kinds of message."""

    missed = 0
    feed = "log"

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._last = 0
        self.delivered = 0

    async def next(self) -> Sequence[dict[str, Any]]:
        # the previous message is processed when the next one is requested
        self._reader.done(self._last)
        while (stored := await self._reader.next()) is None:
            pass
        self._last = stored.offset
        document = json.loads(stored.payload)
        events = document if isinstance(document, list) else (document,)
        self.delivered += len(events)
        return events

    def sent(self, events: Sequence[Any]) -> Sequence[Any]:
        return events


def _pack_json(events: list[Any]) -> bytes:
    return json.dumps(events).encode()


def _log(route: Route) -> str:
    return "json_" + route.topic.replace(".", "~")
