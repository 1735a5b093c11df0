"""The log of a watch: notification records and, at intervals, state records.

Every append is fenced, so an evaluator that lost its lease is refused with `Superseded`. Its successor continues from
the last record. A reader of the log therefore receives every notification once.

A record is a JSON object. Under `.d` it holds the messages of one evaluation step, the notices of that step, and the
offset of each topic log up to which it was read. Under `.k` it holds the complete state, from which another evaluator
resumes and a new watcher starts.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

from thinwire.brokers.protocol import Broker, Retention, StoredMessage
from thinwire.errors import CorruptWatchLog, Superseded, WatchFailed
from thinwire.filters.composite.watch_messages import WatchMessage, WatchState, from_document, to_document
from thinwire.topics.fenced_writer import FencedWriter, RetryWarnings
from thinwire.topics.log_selection import read_range
from thinwire.topics.names import watch_log_of, watch_subject, watch_subjects
from thinwire.topics.watches.watch_documents import MAX_NOTICES, WatchNotice

MAX_RECORD = 65_536
"""bytes of messages in one record; a larger message is stored alone"""
MAX_MESSAGES = 4_096
MAX_RECORDS = 65_536
"""records that retention keeps; two state records are always closer together than this"""
_MARGIN = 1_024
"""bytes of a broker message that are not available for the record"""

_log = logging.getLogger("thinwire.watches")


class WatchStep(NamedTuple):
    """Result of one evaluation step, and content of a `.d` record.

    read: offset of each topic log up to which the last message covers all publishers
    """

    messages: Sequence[WatchMessage]
    notices: Sequence[WatchNotice]
    read: Mapping[str, int]


class WatchProgress(NamedTuple):
    """Progress of a watch, and content of a `.k` record.

    state: the evaluator's state after all stored messages
    start_offsets: last offset of each topic log before the watch began
    read: offset of each topic log up to which `state` covers all publishers
    """

    state: WatchState
    start_offsets: Mapping[str, int]
    read: Mapping[str, int]


class WatchLog:
    """Restores the progress of a watch from its log and appends new records.

    records_since_state: number of records after the last state record
    """

    def __init__(self, broker: Broker, watch: str) -> None:
        self.watch = watch
        self.records_since_state = 0
        self._broker = broker
        self._log = watch_log_of(watch)
        self._limit = broker.max_payload - _MARGIN
        self._read: dict[str, int] = {}
        self._writer = FencedWriter(
            broker,
            self._log,
            watch_subjects(watch),
            superseded_error=lambda _: Superseded("another evaluator has written to the log of the watch", watch=watch),
            on_retry=RetryWarnings(_log, lambda: f"cannot write the log of watch {watch}"),
            always_fenced=True,
        )

    @property
    def last(self) -> int:
        """Offset of the last record."""
        return self._writer.last

    async def open(self) -> None:
        """Create the log if it does not exist."""
        retention = Retention(max_age=None, max_messages=MAX_RECORDS)
        await self._broker.ensure_log(self._log, [watch_subjects(self.watch)], retention)

    async def recover(self, fingerprint: str) -> WatchProgress | None:
        """Return the progress after the last record; None for a new watch."""
        self._writer.last = (await self._broker.span(self._log)).last
        key = await self._broker.last(self._log, watch_subject(self.watch, key=True))
        if key is None:
            if await self._broker.last(self._log, watch_subjects(self.watch)) is not None:
                raise CorruptWatchLog("records without a state", watch=self.watch)
            return None
        progress = await self._replay(key, decode_state(key.payload, fingerprint))
        self._read = dict(progress.read)
        return progress

    async def write_step(self, step: WatchStep) -> None:
        """Append the messages and notices of an evaluation step. Retries while the broker is unavailable."""
        parts = list(split_records(step.messages, step.notices, min(MAX_RECORD, self._limit)))
        for number, part in enumerate(parts, start=1):
            # Only the last message of the step covers every publisher up to the offsets in `step.read`.
            read = dict(step.read) if number == len(parts) and step.messages else self._read
            await self._writer.append(watch_subject(self.watch), encode_record(part, read, self._limit))
            self._read = read
            self.records_since_state += 1

    async def write_state(self, progress: WatchProgress) -> None:
        """Append a state record."""
        await self._writer.append(watch_subject(self.watch, key=True), encode_state(progress, self._limit))
        self._read, self.records_since_state = dict(progress.read), 0

    async def delete(self) -> None:
        await self._broker.delete_log(self._log)

    async def _replay(self, key: StoredMessage, progress: WatchProgress) -> WatchProgress:
        """Apply the records after a state record to its progress."""
        state, read, first = progress.state, progress.read, key.offset + 1
        records = read_range(self._broker, self._log, first, self.last, [watch_subjects(self.watch)])
        async with aclosing(records):
            async for stored in records:
                record = decode_record(stored.payload)
                for message in record.messages:
                    state = state.advance(message)
                read = record.read
                self.records_since_state += 1
        return WatchProgress(state, progress.start_offsets, read)


def split_records(messages: Sequence[WatchMessage], notices: Sequence[WatchNotice], limit: int) -> Iterator[list[Any]]:
    """Split messages, as plain values, into parts that fit a record each. The first part contains the notices."""
    notice_values, part, size = [notice.to_fields() for notice in notices], list[Any](), 0
    for message in messages:
        document = to_document(message)
        length = len(json.dumps(document))
        if part and (size + length > limit or len(part) >= MAX_MESSAGES):
            yield [part, notice_values]
            notice_values, part, size = [], [], 0
        part.append(document)
        size += length
    if part or notice_values:
        yield [part, notice_values]


def encode_record(part: list[Any], read: Mapping[str, int], limit: int) -> bytes:
    messages, notices = part
    return _encode({"messages": messages, "notices": notices, "read": dict(read)}, limit)


def encode_state(progress: WatchProgress, limit: int) -> bytes:
    state = to_document(progress.state.to_message())
    return _encode({"state": state, "begins": dict(progress.start_offsets), "read": dict(progress.read)}, limit)


def decode_record(payload: bytes) -> WatchStep:
    """Decode a `.d` record."""
    document = _object(payload)
    messages, notices = _list(document, "messages", MAX_MESSAGES), _list(document, "notices", MAX_NOTICES)
    parsed = [WatchNotice.from_fields(one) for one in notices]
    return WatchStep([from_document(one) for one in messages], parsed, _offsets(document, "read"))


def decode_state(payload: bytes, fingerprint: str) -> WatchProgress:
    """Decode a `.k` record."""
    document = _object(payload)
    message = from_document(document.get("state"))
    state = WatchState(fingerprint, number=message.number).advance(message)
    return WatchProgress(state, _offsets(document, "begins"), _offsets(document, "read"))


def _encode(document: Mapping[str, Any], limit: int) -> bytes:
    payload = json.dumps(document, separators=(",", ":")).encode()
    if len(payload) > limit:
        detail = "the state is larger than the broker's message limit: watch fewer sources, or split the watch"
        raise WatchFailed(detail, size=len(payload), limit=limit)
    return payload


def _object(payload: bytes) -> dict[str, Any]:
    try:
        document = json.loads(payload)
    except (ValueError, RecursionError):
        raise CorruptWatchLog("a record is not JSON") from None
    if not isinstance(document, dict):
        raise CorruptWatchLog("a record is not a JSON object")
    return document


def _list(document: Mapping[str, Any], name: str, limit: int) -> list[Any]:
    value = document.get(name, [])
    if not isinstance(value, list) or len(value) > limit:
        raise CorruptWatchLog(f"{name} is not a list of at most {limit} items")
    return value


def _offsets(document: Mapping[str, Any], name: str) -> dict[str, int]:
    value = document.get(name)
    if not isinstance(value, dict) or not all(type(offset) is int and offset >= 0 for offset in value.values()):
        raise CorruptWatchLog(f"{name} is not a map from topic to offset")
    return value
