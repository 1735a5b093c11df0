"""Documents under keys as NATS key-value buckets, compatible with other NATS clients."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from thinwire.brokers.nats.appender import JetStreamAppender
from thinwire.brokers.nats.connection import NatsConnection
from thinwire.brokers.nats.jetstream_api import OPERATION, expected_last_fields
from thinwire.brokers.nats.log_reader import NatsReader
from thinwire.brokers.nats.protocol_core import encode_headers, parse_headers
from thinwire.brokers.nats.streams import JetStreamStore
from thinwire.brokers.protocol import ANY, NOTHING, BucketEntry, StoredMessage
from thinwire.brokers.subjects import check_pattern
from thinwire.errors import BadSubject, Conflict, TransportClosed

_KEY = re.compile(r"[A-Za-z0-9_=/-]+(\.[A-Za-z0-9_=/-]+)*")
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_DELETED = frozenset({"DEL", "PURGE"})
"""operations after which a key has no document"""
_EMPTY_POLL_INTERVAL = 0.5
"""seconds between checks whether a watched bucket has no documents"""
_MAX_UNACKNOWLEDGED = 256


def bucket_log(bucket: str) -> str:
    """Return the stream of a bucket."""
    return f"KV_{bucket}"


def key_prefix(bucket: str) -> str:
    """Return the part of a document's subject before its key."""
    return f"$KV.{bucket}."


async def read_entry(store: JetStreamStore, bucket: str, key: str) -> BucketEntry | None:
    """Return the newest entry of a key, which has no value if the key was deleted."""
    found = await store.newest_message(bucket_log(bucket), key_prefix(bucket) + key)
    return None if found is None else _entry(bucket, *found)


async def read_entries(store: JetStreamStore, bucket: str, pattern: str) -> list[BucketEntry]:
    """Return all documents whose key matches, ordered by revision."""
    subjects = await store.subjects(bucket_log(bucket), key_prefix(bucket) + pattern)
    found = [_entry(bucket, *newest) for newest in await store.newest_messages(bucket_log(bucket), list(subjects))]
    return sorted((entry for entry in found if entry.value is not None), key=lambda entry: entry.revision)


def _entry(bucket: str, message: StoredMessage, headers: Mapping[str, str]) -> BucketEntry:
    value = None if headers.get(OPERATION) in _DELETED else message.payload
    return BucketEntry(message.subject.removeprefix(key_prefix(bucket)), value, message.offset)


class NatsBucket:
    """Implements `thinwire.brokers.protocol.Bucket`. The revision of a document is its offset in the stream."""

    def __init__(
        self, name: str, connection: NatsConnection, store: JetStreamStore, appender: JetStreamAppender
    ) -> None:
        self.name = name
        self._log, self._prefix = bucket_log(name), key_prefix(name)
        self._connection, self._store, self._appender = connection, store, appender

    async def open(self) -> None:
        """Create the bucket unless it exists."""
        if not _NAME.fullmatch(self.name):
            raise BadSubject("a bucket name has only letters, digits, _ and -", bucket=self.name)
        config = {"max_msgs_per_subject": 1, "discard": "new", "deny_delete": True, "allow_rollup_hdrs": True}
        await self._store.create_stream({"name": self._log, "subjects": [f"{self._prefix}>"], **config})

    async def get(self, key: str) -> BucketEntry | None:
        entry = await self._newest(key)
        return None if entry is None or entry.value is None else entry

    async def put(self, key: str, value: bytes, *, revision: int = ANY) -> int:
        subject = self._subject(key)
        if revision == ANY:
            return await self._appender.put(self._log, subject, value)
        try:
            return await self._put_after(subject, value, revision)
        except Conflict as conflict:
            deleted = await self._newest(key) if revision == NOTHING else None
            if deleted is None or deleted.value is not None:
                raise Conflict(key=key, revision=revision) from conflict
            return await self._put_after(subject, value, deleted.revision)

    async def delete(self, key: str, *, revision: int = ANY) -> None:
        if await self.get(key) is None:
            return
        fields = {OPERATION: "DEL"} | ({} if revision == ANY else expected_last_fields(revision))
        try:
            await self._appender.put(self._log, self._subject(key), b"", headers=encode_headers(fields))
        except Conflict:
            if await self.get(key) is not None:  # otherwise an earlier attempt or another client has deleted it
                raise Conflict(key=key, revision=revision) from None

    async def entries(self, pattern: str = ">") -> list[BucketEntry]:
        return await read_entries(self._store, self.name, pattern)

    async def watch(self, pattern: str = ">") -> AsyncGenerator[BucketEntry | None, None]:
        check_pattern(pattern)
        reader: NatsReader[tuple[BucketEntry, bool]] = NatsReader(
            self._connection,
            self._store,
            self._log,
            [self._prefix + pattern],
            self._make_entry,
            position=0,
            max_unacknowledged=_MAX_UNACKNOWLEDGED,
            start_with_newest=True,
        )
        await reader.open()
        try:
            async with aclosing(_iterate_entries(reader)) as entries:
                async for entry in entries:
                    yield entry
        except TransportClosed:
            return
        finally:
            await reader.close()

    async def _put_after(self, subject: str, value: bytes, revision: int) -> int:
        return await self._appender.append(self._log, subject, value, revision, "", self._connection.options.timeout)

    async def _newest(self, key: str) -> BucketEntry | None:
        _check_key(key)
        return await read_entry(self._store, self.name, key)

    def _make_entry(
        self, offset: int, subject: str, payload: bytes, time: float, headers: bytes | None, pending: int
    ) -> tuple[BucketEntry, bool]:
        message = StoredMessage(offset, subject, payload, time)
        return _entry(self.name, message, parse_headers(headers)), pending == 0

    def _subject(self, key: str) -> str:
        _check_key(key)
        return self._prefix + key


def _check_key(key: str) -> None:
    if not _KEY.fullmatch(key):
        raise BadSubject("a key is tokens of letters, digits, _ - = / joined by dots", key=key)


async def _iterate_entries(
    reader: NatsReader[tuple[BucketEntry, bool]],
) -> AsyncGenerator[BucketEntry | None, None]:
    """Yield the current documents without deleted ones, None, then every change."""
    is_loaded = reader.is_empty
    if is_loaded:
        yield None
    while True:
        item = await reader.next(None if is_loaded else _EMPTY_POLL_INTERVAL)
        if item is None:
            is_last = reader.is_empty
        else:
            entry, is_last = item
            reader.done(entry.revision)
            if is_loaded or entry.value is not None:
                yield entry
        if is_last and not is_loaded:
            is_loaded = True
            yield None
