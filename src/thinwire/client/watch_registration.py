"""Registration of a watch and of its watcher, so that a watch service evaluates it."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Literal, cast

from thinwire.brokers.protocol import NOTHING, Broker, Bucket, Listener
from thinwire.clock import Clock
from thinwire.errors import ConfigError, Conflict, LimitExceeded, WatchFailed
from thinwire.filters.composite.feed_sequencer import LatePolicy
from thinwire.topics.names import WATCHES, alive_subject
from thinwire.topics.watches.watch_documents import (
    MAX_WATCHES,
    WatchDocument,
    WatcherDocument,
    WatchOptions,
    WatchStart,
    failed_key,
    watch_key,
    watcher_key,
)

_TOO_MANY = "Share one: equal expressions with equal options are one watch. Or remove durable ones (`forget_watch`)."


class WatchRegistration:
    """The documents of one watcher. While it is open, it answers requests whether the watcher is alive.

    durable: the documents stay when it is closed
    """

    def __init__(self, broker: Broker, clock: Clock, document: WatchDocument, identity: str, *, durable: bool) -> None:
        self.document = document
        self.watcher = WatcherDocument(document.watch, identity, durable, clock.now())
        self._broker = broker
        self._listener: Listener | None = None

    async def open(self) -> None:
        """Register watcher and watch.

        Raises ConfigError for a durable name of another watch, LimitExceeded if there are too many watches.
        """
        bucket = await self._bucket()
        await self._check_name(bucket)
        self._listener = await self._broker.listen(alive_subject(self.watcher.identity), _alive)
        await bucket.delete(failed_key(self.document.watch))  # of an earlier attempt
        # The watcher first: a service that removes an unused watch looks for watchers afterwards.
        await bucket.put(self.watcher.key, self.watcher.encode())
        await self._add_watch(bucket)

    async def is_registered(self) -> bool:
        known = await (await self._bucket()).get(self.watcher.key)
        return known is not None and known.value is not None

    async def renew(self) -> None:
        """Register again if the service has removed the watcher. Raises WatchFailed if it cannot evaluate the watch."""
        bucket = await self._bucket()
        failed = await bucket.get(failed_key(self.document.watch))
        if failed is not None and failed.value is not None:
            raise WatchFailed(failed.value.decode(errors="replace"), watch=self.document.watch)
        if not await self.is_registered():
            await bucket.put(self.watcher.key, self.watcher.encode())
        await self._add_watch(bucket)

    async def close(self) -> None:
        if self._listener is None:
            return
        await self._listener.close()
        if not self.watcher.durable:
            await (await self._bucket()).delete(self.watcher.key)

    async def _add_watch(self, bucket: Bucket) -> None:
        entry = await bucket.get(self.document.key)
        if entry is not None and entry.value is not None:
            return
        if len(await bucket.entries(watch_key())) >= MAX_WATCHES:
            await bucket.delete(self.watcher.key)
            raise LimitExceeded("too many watches", advice=_TOO_MANY, limit=MAX_WATCHES)
        with suppress(Conflict):  # another watcher has registered it concurrently
            await bucket.put(self.document.key, self.document.encode(), revision=NOTHING)

    async def _check_name(self, bucket: Bucket) -> None:
        if not self.watcher.durable:
            return
        for entry in await bucket.entries(watcher_key("*", self.watcher.identity)):
            if entry.value is not None and entry.key != self.watcher.key:
                detail = "this durable name belongs to another watch: use another, or remove it with `bus.forget_watch`"
                raise ConfigError(detail, durable=self.watcher.identity)

    async def _bucket(self) -> Bucket:
        return await self._broker.bucket(WATCHES)


async def forget_watcher(bucket: Bucket, durable: str) -> None:
    """Remove a durable watcher."""
    for entry in await bucket.entries(watcher_key("*", durable)):
        await bucket.delete(entry.key)


def make_options(
    max_delay: float, late_policy: LatePolicy, start: Literal["latest", "earliest"] | datetime
) -> WatchOptions:
    """Return the options of a watch. Raises ConfigError for an invalid one.

    >>> make_options(1.0, "drop", "latest").late_policy
    'drop'
    """
    return WatchOptions(max_delay, late_policy, _start(start))


def _start(start: Literal["latest", "earliest"] | datetime) -> WatchStart:
    if start in ("latest", "earliest"):
        return cast(WatchStart, start)
    if not isinstance(start, datetime):
        raise ConfigError("start is 'latest', 'earliest' or a datetime", start=start)
    if start.tzinfo is None:
        raise ConfigError("start needs a time zone, such as timezone.utc", start=start)
    return start.timestamp()


async def _alive(subject: str, payload: bytes) -> bytes | None:
    return b"here"
