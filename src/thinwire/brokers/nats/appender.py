"""Storing a message once, over a connection that may break at any moment.

An ordinary message carries no headers. When its acknowledgement does not come, it is open whether it was stored: the
appender looks at what the log holds under the subject since the last offset it knows, and only then sends again, this
time insisting on what it has seen, so that a first copy that is still on its way is noticed.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass

from thinwire.brokers.nats.connection import NatsConnection
from thinwire.brokers.nats.jetstream_api import PAUSE, JetStreamRefusal, NobodyThere, Unanswered, expectation
from thinwire.brokers.nats.streams import Store, check_log
from thinwire.brokers.protocol import ANY
from thinwire.brokers.subjects import check_pattern, check_subject
from thinwire.errors import BrokerUnavailable, UnknownLog

_REMEMBERED = 4096
_SILENT = "it answers and does not acknowledge (is its disk full? its log tells); "


@dataclass(slots=True)
class _Message:
    """A message on its way."""

    log: str
    subject: str
    payload: bytes
    after: int
    within: str
    deadline: float
    base: int
    """the last offset under the subject that is surely not this message"""
    headers: bytes = b""
    sent: bool = False
    """was it sent without an answer?"""


class JetStreamAppender:
    """Stores messages, one at a time under a subject."""

    def __init__(self, connection: NatsConnection, store: Store) -> None:
        self._connection, self._store = connection, store
        self._known: dict[str, int] = {}
        self._open: dict[str, bytes] = {}
        """messages whose caller gave up while it was open whether they are stored"""

    async def append(self, log: str, subject: str, payload: bytes, *, after: int, within: str, timeout: float) -> int:
        """Store it and return its offset."""
        check_subject(subject)
        deadline = self._connection.deadline(timeout)
        message = _Message(log, subject, payload, after, within, deadline, self._known.get(subject, ANY))
        if after != ANY:
            message.headers, message.base = expectation(after, within), after
            if within:
                check_pattern(within)
        elif message.base == ANY:
            newest = await self._store.last(log, subject, deadline=deadline)
            message.base = newest.offset if newest else 0
        if self._open and self._open.pop(subject, None) == payload:
            message.sent = True
        return await self._store_once(message)

    async def _store_once(self, message: _Message) -> int:
        try:
            offset = await self._sent_before(message) if message.sent else None
            while offset is None:
                offset = await self._attempt(message)
        except (BrokerUnavailable, asyncio.CancelledError) as error:
            self._remember(message.subject, message.base)
            if not message.sent:
                raise
            self._open[message.subject] = message.payload
            if isinstance(error, asyncio.CancelledError):
                raise
            why = _SILENT if self._connection.connected else ""
            raise BrokerUnavailable(f"{why}it is open whether the message was stored", **error.facts) from error
        self._remember(message.subject, offset)
        return offset

    async def _attempt(self, message: _Message) -> int | None:
        """The offset, or None if it has to be tried again."""
        connection = self._connection
        await connection.still_time(message.deadline)
        patience = connection.attempt(message.deadline)
        before, message.sent = message.sent, True  # also when this call is cancelled
        try:
            answer = await connection.ask(message.subject, message.payload, headers=message.headers, patience=patience)
        except Unanswered:
            return await self._sent_before(message)
        except NobodyThere:
            message.sent = before
            await self._store.info(message.log, deadline=message.deadline)  # UnknownLog, or it is about to be there
            await asyncio.sleep(PAUSE)
            return None
        return await self._acknowledged(message, answer.payload, before)

    async def _acknowledged(self, message: _Message, answer: bytes, before: bool) -> int | None:
        reply = json.loads(answer)
        if "error" not in reply:
            if reply["stream"] != message.log:
                raise UnknownLog("the subject belongs to another log", log=message.log, other=reply["stream"])
            return int(reply["seq"])
        refused = JetStreamRefusal(reply["error"])
        message.sent = before
        if refused.passing:
            await asyncio.sleep(PAUSE)
            return None
        if refused.conflict and before:
            offset = await self._sent_before(message)
            if offset is not None or message.after == ANY:
                return offset
        raise refused.translated(log=message.log, subject=message.subject)

    async def _sent_before(self, message: _Message) -> int | None:
        """Where an earlier attempt has stored it; None: nowhere yet, and the next attempt insists on that."""
        seen = message.base
        while True:
            found = await self._store.next_under(message.log, message.subject, seen + 1, message.deadline)
            if found is None:
                break
            if found.payload == message.payload:
                return found.offset
            seen = found.offset
        if message.after == ANY:
            message.base, message.headers = seen, expectation(seen)
        return None

    def _remember(self, subject: str, offset: int) -> None:
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[subject] = offset

    async def put(self, log: str, subject: str, payload: bytes, *, headers: bytes = b"") -> int:
        """Store what may be stored twice: the last one counts."""
        check_log(log)
        connection = self._connection
        connection.check_size(payload, headers)
        deadline = connection.deadline()
        while True:
            await connection.still_time(deadline)
            try:
                patience = connection.attempt(deadline)
                answer = await connection.ask(subject, payload, headers=headers, patience=patience)
            except Unanswered:
                continue
            except NobodyThere:
                await self._store.info(log, deadline=deadline)
                await asyncio.sleep(PAUSE)
                continue
            reply = json.loads(answer.payload)
            if "error" not in reply:
                return int(reply["seq"])
            refused = JetStreamRefusal(reply["error"])
            if not refused.passing:
                raise refused.translated(subject=subject)
            await asyncio.sleep(PAUSE)
