"""Base classes of the roles of worker processes, and subscribers that record what they receive."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from time import monotonic
from typing import Any

import thinwire as tw
from thinwire import Bus, Publisher, Subscription
from thinwire_lab.live.background_tasks import cancel_tasks
from thinwire_lab.live.delivery_audit import AuditResult, DeliveryRecord

POLL = 0.05
SETTLE = 1.0
"""seconds after the last expected event in which surplus events can still arrive"""


class CommandRole:
    """A worker process. Its command `x` runs the method `do_x`, whose result is the answer."""

    def __init__(self) -> None:
        self.resources = AsyncExitStack()
        self.tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Prepare to execute commands."""

    async def execute(self, command: dict[str, Any]) -> dict[str, Any]:
        """Execute a command and return the answer."""
        arguments = dict(command)
        method = getattr(self, f"do_{arguments.pop('do')}")
        return await method(**arguments) or {}

    async def close(self) -> None:
        await cancel_tasks(self.tasks)
        await self.resources.aclose()

    def start_task(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` until the worker is closed."""
        self.tasks.append(asyncio.create_task(work))

    async def wait_until(self, is_done: Callable[[], bool], timeout: float, settle: float = SETTLE) -> bool:
        """Wait until a condition holds, then for `settle` seconds. Return whether it held in time.

        The error of a failed task is raised.
        """
        deadline = monotonic() + timeout
        while not is_done():
            if monotonic() > deadline:
                return False
            for task in self.tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(POLL)
        await asyncio.sleep(settle)
        return True


class BusRole(CommandRole):
    """A worker with client connections to a broker."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url

    async def connect(self) -> Bus:
        return await self.resources.enter_async_context(tw.connect(self.url))

    async def open_publisher(self, topic: str, **settings: Any) -> Publisher:
        bus = await self.connect()
        return await self.resources.enter_async_context(bus.publisher(topic, **settings))

    async def subscribe(self, topic: str, **request: Any) -> Subscription:
        """Subscribe on a connection of its own."""
        bus = await self.connect()
        return await self.resources.enter_async_context(bus.subscribe(topic, **request))


class AuditedClassesRole(BusRole):
    """One subscriber of each demand class. Each one records its events for the audit.

    tolerances: of the classes, in the unit that `subscribe_class` and `audit_class` expect
    """

    def __init__(self, url: str, tolerances: Sequence[float]) -> None:
        super().__init__(url)
        self.tolerances = tolerances
        self.last_received = 0.0
        self._subscriptions: list[Subscription] = []
        self._records: list[DeliveryRecord] = []

    async def do_connect(self) -> None:
        """Connect all subscribers. This can take longer than the time in which a worker must be ready."""
        for tolerance in self.tolerances:
            subscription, record = await self.subscribe_class(tolerance)
            self._subscriptions.append(subscription)
            self._records.append(record)
            self.start_task(self._record_events(subscription, record))

    async def do_feeds(self) -> dict[str, Any]:
        """Return what each subscriber reads: "log" or "channel"."""
        return {"feeds": [subscription.feed for subscription in self._subscriptions]}

    async def do_audit(self, max_wait: float, **arguments: Any) -> dict[str, Any]:
        """Wait for all required events and return the audit of each subscriber, and when the last event arrived."""
        audits = [self.audit_class(tolerance, **arguments) for tolerance in self.tolerances]
        required = [count for count, _ in audits]
        await self.wait_until(
            lambda: all(len(r.rows) >= n for r, n in zip(self._records, required, strict=True)), max_wait
        )
        results = [audit(record) for (_, audit), record in zip(audits, self._records, strict=True)]
        return {"results": [result._asdict() for result in results], "last_received": self.last_received}

    @abstractmethod
    async def subscribe_class(self, tolerance: float) -> tuple[Subscription, DeliveryRecord]:
        """Subscribe with a tolerance. Return the subscription and an empty record for its events."""

    @abstractmethod
    def audit_class(self, tolerance: float, **arguments: Any) -> tuple[int, Callable[[DeliveryRecord], AuditResult]]:
        """Return the number of events that the class must receive, and the audit of its record."""

    async def _record_events(self, subscription: Subscription, record: DeliveryRecord) -> None:
        async for batch in subscription.batches():
            record.add(batch)
            self.last_received = monotonic()
