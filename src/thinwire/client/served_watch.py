"""What a watcher writes so that a watch is evaluated for it: the watch, where nobody has asked for it, and itself."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Literal, cast

from thinwire.brokers.protocol_broker import NOTHING, Broker, Bucket, Listener
from thinwire.clock import Clock
from thinwire.errors import ConfigError, Conflict, TooManyWatches, WatchFailed
from thinwire.filters.composite.feed_sequencer_sequencing import LatePolicy
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


class WatchAsking:
    """One watcher's word that it follows a watch; it answers while it lives.

    durable: its word stays when it leaves
    """

    def __init__(self, broker: Broker, clock: Clock, document: WatchDocument, identity: str, *, durable: bool) -> None:
        self.document = document
        self.watcher = WatcherDocument(document.watch, identity, durable, clock.now())
        self._broker = broker
        self._listener: Listener | None = None

    async def ask(self) -> None:
        """Say it. Raises ConfigError where the durable name belongs to another watch, TooManyWatches at the limit."""
        bucket = await self._bucket()
        await self._check_name(bucket)
        self._listener = await self._broker.listen(alive_subject(self.watcher.identity), _alive)
        await bucket.delete(failed_key(self.document.watch))  # of an attempt before this one
        # The watcher first: who is about to end the watch looks for watchers after it has taken the watch back.
        await bucket.put(self.watcher.key, self.watcher.encode())
        await self._describe(bucket)

    async def is_known(self) -> bool:
        """Is it written that it follows the watch?"""
        known = await (await self._bucket()).get(self.watcher.key)
        return known is not None and known.value is not None

    async def check(self) -> None:
        """Is it still known, and can the watch be evaluated? Who was away for long may have been taken for gone."""
        bucket = await self._bucket()
        failed = await bucket.get(failed_key(self.document.watch))
        if failed is not None and failed.value is not None:
            raise WatchFailed(failed.value.decode(errors="replace"), watch=self.document.watch)
        if not await self.is_known():
            await bucket.put(self.watcher.key, self.watcher.encode())
        await self._describe(bucket)

    async def end(self) -> None:
        """Follow it no more; a durable one only leaves."""
        if self._listener is None:
            return
        await self._listener.close()
        if not self.watcher.durable:
            await (await self._bucket()).delete(self.watcher.key)

    async def _describe(self, bucket: Bucket) -> None:
        """Make sure that the watch is known."""
        entry = await bucket.get(self.document.key)
        if entry is not None and entry.value is not None:
            return
        if len(await bucket.entries(watch_key())) >= MAX_WATCHES:
            await bucket.delete(self.watcher.key)
            raise TooManyWatches(limit=MAX_WATCHES)
        with suppress(Conflict):  # somebody else asked for it at the same time
            await bucket.put(self.document.key, self.document.encode(), revision=NOTHING)

    async def _check_name(self, bucket: Bucket) -> None:
        """A durable name belongs to one watch."""
        if not self.watcher.durable:
            return
        for entry in await bucket.entries(watcher_key("*", self.watcher.identity)):
            if entry.value is not None and entry.key != self.watcher.key:
                detail = "this durable name belongs to another watch: forget it (`bus.forget_watch`), or choose another"
                raise ConfigError(detail, durable=self.watcher.identity)

    async def _bucket(self) -> Bucket:
        return await self._broker.bucket(WATCHES)


async def forget_watcher(bucket: Bucket, durable: str) -> None:
    """End a durable watcher for good."""
    for entry in await bucket.entries(watcher_key("*", durable)):
        await bucket.delete(entry.key)


def watch_options(
    max_delay: float, late_policy: LatePolicy, start: Literal["latest", "earliest"] | datetime
) -> WatchOptions:
    """What is asked of a watch beside its expression. Raises ConfigError where it cannot begin at `start`.

    >>> watch_options(1.0, "drop", "latest").late_policy
    'drop'
    """
    return WatchOptions(max_delay, late_policy, _begins(start))


def _begins(start: Literal["latest", "earliest"] | datetime) -> WatchStart:
    if start in ("latest", "earliest"):
        return cast(WatchStart, start)
    if not isinstance(start, datetime):
        raise ConfigError("start is 'latest', 'earliest' or a datetime", start=start)
    if start.tzinfo is None:
        raise ConfigError("give the start a time zone, such as timezone.utc", start=start)
    return start.timestamp()


async def _alive(subject: str, payload: bytes) -> bytes | None:
    return b"here"
