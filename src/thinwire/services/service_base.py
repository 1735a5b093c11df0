"""Base of every service: it follows buckets, answers requests and runs background tasks until it is cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack
from typing import Any

from thinwire.brokers.protocol import Broker, Handler
from thinwire.errors import TransportClosed, TransportError
from thinwire.topics.bucket_follower import BucketFollower

RETRY_DELAY = 1.0
"""seconds until request handlers are registered again after an error"""


class ServiceBase:
    """A service on one broker connection. Run `run` as a task and cancel it to stop the service.

    kind: name of the service in logs and task names
    follower: reads the buckets that the service depends on
    """

    def __init__(self, broker: Broker, kind: str, follower: BucketFollower, log: logging.Logger) -> None:
        self.broker = broker
        self.kind = kind
        self._follower = follower
        self._log = log
        self._initialized = asyncio.Event()
        self._has_handlers = asyncio.Event()

    async def ready(self) -> None:
        """Wait until the service has read its buckets and answers requests, or ends."""
        await self._initialized.wait()
        await self._has_handlers.wait()

    async def run(self) -> None:
        """Serve until cancelled or until the connection is closed."""
        try:
            async with asyncio.TaskGroup() as group:
                for bucket in self._follower.buckets:
                    group.create_task(self._follower.follow(bucket), name=f"{self.kind} follows {bucket}")
                for name, task in self._tasks().items():
                    group.create_task(task, name=f"{self.kind} {name}")
                group.create_task(self._answer_requests(self._handlers()), name=f"{self.kind} answers requests")
        except* TransportClosed:
            self._log.info("connection closed; %s stopped", self.kind)
        finally:
            self._initialized.set()
            self._has_handlers.set()
            await self._stop()

    def _tasks(self) -> Mapping[str, Coroutine[Any, Any, None]]:
        """Return the background tasks, by name."""
        return {}

    def _handlers(self) -> Mapping[str, Handler]:
        """Return the request handlers, by subject."""
        return {}

    async def _stop(self) -> None:
        """Release resources after the tasks have ended."""

    async def _answer_requests(self, handlers: Mapping[str, Handler]) -> None:
        while True:
            try:
                async with AsyncExitStack() as stack:
                    for subject, handler in handlers.items():
                        stack.push_async_callback((await self.broker.listen(subject, handler)).close)
                    self._has_handlers.set()
                    await asyncio.Event().wait()
            except TransportClosed:
                raise
            except TransportError as problem:
                self._log.warning("%s cannot answer requests; retrying: %s", self.kind, problem)
                await asyncio.sleep(RETRY_DELAY)


def loop_time() -> float:
    """Return the monotonic time of the event loop; lease terms are measured by it."""
    return asyncio.get_running_loop().time()
