"""Documents under keys: NATS key-value buckets, as every other NATS client sees them."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing

from thinwire.brokers.nats.appender import JetStreamAppender
from thinwire.brokers.nats.connection import NatsConnection
from thinwire.brokers.nats.jetstream_api import OPERATION, expectation, fields_of, headers_block
from thinwire.brokers.nats.log_reader import NatsSubscription
from thinwire.brokers.nats.streams import Store
from thinwire.brokers.protocol import ANY, NOTHING, BucketEntry
from thinwire.brokers.subjects import check_pattern
from thinwire.errors import BadSubject, ConfigError, Conflict, TransportClosed

_KEY = re.compile(r"[A-Za-z0-9_=/-]+(\.[A-Za-z0-9_=/-]+)*")
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_MAX_HISTORY = 64
GONE = frozenset({"DEL", "PURGE"})
_DELETED = headers_block({OPERATION: "DEL"})
_LOOK = 0.5
"""seconds between looks at whether there was nothing to begin with"""
_AHEAD = 256


class NatsBucket:
    """One bucket; a document's revision is its offset in the stream below."""

    def __init__(self, name: str, connection: NatsConnection, store: Store, appender: JetStreamAppender) -> None:
        self.name = name
        self._log, self._prefix = f"KV_{name}", f"$KV.{name}."
        self._connection, self._store, self._appender = connection, store, appender

    async def open(self, history: int) -> None:
        """Make it where there is none."""
        if not _NAME.fullmatch(self.name):
            raise BadSubject("the name of a bucket is one word of letters, digits, _ and -", bucket=self.name)
        if not 1 <= history <= _MAX_HISTORY:
            raise ConfigError(f"1 to {_MAX_HISTORY} revisions of a document", history=history)
        config = {"max_msgs_per_subject": history, "discard": "new", "deny_delete": True, "allow_rollup_hdrs": True}
        await self._store.make({"name": self._log, "subjects": [f"{self._prefix}>"], **config})

    async def get(self, key: str) -> BucketEntry | None:
        entry = await self._newest(key)
        return None if entry is None or entry.value is None else entry

    async def put(self, key: str, value: bytes, *, revision: int = ANY) -> int:
        subject = self._subject(key)
        if revision == ANY:
            return await self._appender.put(self._log, subject, value)
        try:
            return await self._insist(subject, value, revision)
        except Conflict as conflict:
            marker = await self._newest(key) if revision == NOTHING else None
            if marker is None or marker.value is not None:
                raise Conflict(key=key, revision=revision) from conflict
            return await self._insist(subject, value, marker.revision)

    async def delete(self, key: str, *, revision: int = ANY) -> None:
        if await self.get(key) is None:
            return
        headers = _DELETED
        if revision != ANY:
            headers = expectation(revision).removesuffix(b"\r\n") + _DELETED.partition(b"\r\n")[2]
        try:
            await self._appender.put(self._log, self._subject(key), b"", headers=headers)
        except Conflict:
            if await self.get(key) is not None:  # else an earlier attempt, or somebody else, has done it
                raise Conflict(key=key, revision=revision) from None

    async def entries(self, pattern: str = ">") -> list[BucketEntry]:
        found: list[BucketEntry] = []
        watching = self._watch(pattern)
        try:
            async for entry in watching:
                if entry is None:
                    return found
                found.append(entry)
        finally:
            await watching.aclose()
        raise TransportClosed()

    def watch(self, pattern: str = ">") -> AsyncGenerator[BucketEntry | None, None]:
        check_pattern(pattern)
        return self._watch(pattern)

    async def _watch(self, pattern: str) -> AsyncGenerator[BucketEntry | None, None]:
        feed: NatsSubscription[tuple[BucketEntry, bool]] = NatsSubscription(
            self._connection,
            self._store,
            self._log,
            [self._prefix + pattern],
            self._entry,
            position=0,
            limit=_AHEAD,
            newest=True,
        )
        await feed.open()
        try:
            async with aclosing(_iterate_entries(feed)) as told:
                async for entry in told:
                    yield entry
        except TransportClosed:
            return
        finally:
            await feed.close()

    async def _insist(self, subject: str, value: bytes, revision: int) -> int:
        timeout = self._connection.options.timeout
        return await self._appender.append(self._log, subject, value, after=revision, within="", timeout=timeout)

    async def _newest(self, key: str) -> BucketEntry | None:
        found = await self._store.get(self._log, self._subject(key))
        if found is None:
            return None
        message, fields = found
        return BucketEntry(key, None if fields.get(OPERATION) in GONE else message.payload, message.offset)

    def _entry(
        self, offset: int, subject: str, payload: bytes, time: float, headers: bytes | None, ahead: int
    ) -> tuple[BucketEntry, bool]:
        gone = fields_of(headers).get(OPERATION) in GONE
        return BucketEntry(subject.removeprefix(self._prefix), None if gone else payload, offset), ahead == 0

    def _subject(self, key: str) -> str:
        if not _KEY.fullmatch(key):
            raise BadSubject("a key is words of letters, digits, _ - = / joined by dots", key=key)
        return self._prefix + key


async def _iterate_entries(
    feed: NatsSubscription[tuple[BucketEntry, bool]],
) -> AsyncGenerator[BucketEntry | None, None]:
    """What is there now without what was deleted, None, then every change."""
    last = feed.empty
    if last:
        yield None
    while True:
        item = await feed.next(None if last else _LOOK)
        if item is None:
            complete = feed.empty
        else:
            entry, complete = item
            feed.done(entry.revision)
            if last or entry.value is not None:
                yield entry
        if complete and not last:
            last = True
            yield None
