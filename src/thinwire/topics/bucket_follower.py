"""Reading along in buckets: what there is, then every change, across losses of the broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import aclosing
from typing import NamedTuple

from thinwire.brokers.protocol import Broker, BucketEntry
from thinwire.errors import TransportClosed, TransportError
from thinwire.topics.leases import Leases

RETRY = 1.0
BREATH = 32


class BucketHandler(NamedTuple):
    """What happens with the entries of a bucket, and when all have been read that there are."""

    take: Callable[[BucketEntry], object]
    complete: Callable[[], None]


class BucketFollower:
    """Read along in several buckets, each with `follow`.

    readings: for each bucket what makes a reading of it, from the beginning
    quiet: buckets whose changes need no attention
    complete: everything there is has been read; changed: something may have to be done about it
    """

    def __init__(
        self,
        broker: Broker,
        readings: Mapping[str, Callable[[], BucketHandler]],
        log: logging.Logger,
        quiet: Collection[str] = (),
    ) -> None:
        self.broker = broker
        self.complete = asyncio.Event()
        self.changed = asyncio.Event()
        self._readings = dict(readings)
        self._quiet = quiet
        self._unread = set(self._readings)
        self._log = log

    @property
    def buckets(self) -> list[str]:
        """What there is to follow."""
        return list(self._readings)

    async def follow(self, name: str) -> None:
        """Read along in a bucket; after a loss of the broker that outlasts its patience, from the beginning."""
        while True:
            try:
                bucket = await self.broker.bucket(name)
                async with aclosing(bucket.watch()) as changes:
                    await self._read(name, changes)
                raise TransportClosed(url=self.broker.url)
            except TransportClosed:
                raise
            except TransportError as problem:
                self._log.warning("waiting for the broker: %s", problem)
                await asyncio.sleep(RETRY)

    async def _read(self, name: str, changes: AsyncGenerator[BucketEntry | None, None]) -> None:
        reading, read = self._readings[name](), 0
        async for entry in changes:
            read += 1
            if read % BREATH == 0:
                await asyncio.sleep(0)  # thousands may come at once: others want to be heard as well
            if entry is not None:
                reading.take(entry)
            else:
                # what was read so far is all there is: only now conclusions may be drawn from what is missing
                reading.complete()
                self._unread.discard(name)
            if not self._unread:
                self.complete.set()
                if name not in self._quiet:
                    self.changed.set()


def leased(leases: Leases) -> BucketHandler:
    """The reading of a bucket of leases."""
    now = asyncio.get_running_loop().time
    return BucketHandler(lambda entry: leases.saw(entry, now()), lambda: None)
