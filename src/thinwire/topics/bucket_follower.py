"""Following buckets: the current entries, then every change, across reconnects."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import aclosing
from typing import NamedTuple

from thinwire.brokers.protocol import Broker, BucketEntry
from thinwire.errors import TransportClosed, TransportError
from thinwire.topics.leases import Leases

RETRY_DELAY = 1.0
YIELD_INTERVAL = 32
"""entries between two returns to the event loop"""


class BucketHandler(NamedTuple):
    """Receives the entries of a bucket.

    on_complete: called once all current entries have been passed to `on_entry`; other documents do not exist
    """

    on_entry: Callable[[BucketEntry], object]
    on_complete: Callable[[], None]


class BucketFollower:
    """Follows several buckets, each with `follow`.

    handlers: for each bucket a function that creates its handler, called whenever the bucket is read from the start
    quiet: buckets whose entries do not set `changed`
    complete: set when all current entries of all buckets have been read
    changed: set by every entry after that
    """

    def __init__(
        self,
        broker: Broker,
        handlers: Mapping[str, Callable[[], BucketHandler]],
        log: logging.Logger,
        quiet: Collection[str] = (),
    ) -> None:
        self.broker = broker
        self.complete = asyncio.Event()
        self.changed = asyncio.Event()
        self._handlers = dict(handlers)
        self._quiet = quiet
        self._unread = set(self._handlers)
        self._log = log

    @property
    def buckets(self) -> list[str]:
        """The names of the buckets."""
        return list(self._handlers)

    async def follow(self, name: str) -> None:
        """Follow a bucket. After an outage longer than the broker's timeout, read it again from the start."""
        while True:
            try:
                bucket = await self.broker.bucket(name)
                async with aclosing(bucket.watch()) as changes:
                    await self._read(name, changes)
                raise TransportClosed(url=self.broker.url)
            except TransportClosed:
                raise
            except TransportError as problem:
                self._log.warning("broker unavailable, retrying: %s", problem)
                await asyncio.sleep(RETRY_DELAY)

    async def _read(self, name: str, changes: AsyncGenerator[BucketEntry | None, None]) -> None:
        handler, read = self._handlers[name](), 0
        async for entry in changes:
            read += 1
            if read % YIELD_INTERVAL == 0:
                await asyncio.sleep(0)  # thousands of entries may arrive at once and would block the event loop
            if entry is not None:
                handler.on_entry(entry)
            else:
                handler.on_complete()
                self._unread.discard(name)
            if not self._unread:
                self.complete.set()
                if name not in self._quiet:
                    self.changed.set()


def lease_handler(leases: Leases) -> Callable[[], BucketHandler]:
    """Return the factory of handlers of a bucket of leases."""
    handler = BucketHandler(lambda entry: leases.apply(entry, asyncio.get_running_loop().time()), lambda: None)
    return lambda: handler
