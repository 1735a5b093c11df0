"""Appending a message to a log exactly once over a connection that can be lost.

Unless the caller requires a last offset, a message is first sent without headers. If the acknowledgement does not
arrive, the message may be stored or not. The appender then reads the messages under the subject after the last offset
that it knows. If the message is not among them, it is sent again with the last offset as a requirement, so that a first
copy that is still in transit is refused with a conflict.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from thinwire.brokers.nats.connection import NatsConnection
from thinwire.brokers.nats.jetstream_api import (
    RETRY_PAUSE,
    JetStreamRefusal,
    NoReply,
    NoResponders,
    expected_last_fields,
)
from thinwire.brokers.nats.protocol_core import encode_headers
from thinwire.brokers.nats.streams import JetStreamStore, check_log
from thinwire.brokers.protocol import ANY, NOTHING
from thinwire.brokers.subjects import check_pattern, check_subject
from thinwire.errors import BrokerUnavailable, UnknownLog

_MAX_REMEMBERED = 4096
_NO_ACKNOWLEDGEMENT = (
    "the NATS server is connected but does not acknowledge: check its log file, for example for a full disk; "
)


@dataclass(slots=True)
class _Message:
    """A message that is being stored.

    expected_last: as in `Broker.append`
    known_last: last offset under the subject that is known to belong to another message
    headers: the required last offset, empty if none is required
    is_sent: the message was sent and not acknowledged, so it may be stored
    """

    log: str
    subject: str
    payload: bytes
    expected_last: int
    deadline: float
    known_last: int
    headers: bytes = b""
    is_sent: bool = False


class JetStreamAppender:
    """Stores messages. Callers must not append concurrently under the same subject."""

    def __init__(self, connection: NatsConnection, store: JetStreamStore) -> None:
        self._connection, self._store = connection, store
        self._last_offsets: dict[str, int] = {}
        self._undecided: dict[str, bytes] = {}
        """by subject: payload of a message whose caller timed out before it was known whether the message is stored"""

    async def append(
        self, log: str, subject: str, payload: bytes, expected_last: int, last_pattern: str, timeout: float
    ) -> int:
        """Store a message and return its offset, as `Broker.append` specifies."""
        check_subject(subject)
        deadline = self._connection.deadline(timeout)
        message = _Message(log, subject, payload, expected_last, deadline, self._last_offsets.get(subject, ANY))
        if expected_last != ANY:
            message.headers = encode_headers(expected_last_fields(expected_last, last_pattern))
            message.known_last = expected_last
            if last_pattern:
                check_pattern(last_pattern)
        elif message.known_last == ANY:
            newest = await self._store.last(log, subject, deadline=deadline)
            message.known_last = newest.offset if newest else NOTHING
        if self._undecided and self._undecided.pop(subject, None) == payload:
            message.is_sent = True
        return await self._store_once(message)

    async def put(self, log: str, subject: str, payload: bytes, *, headers: bytes = b"") -> int:
        """Store a message at least once. Suitable for documents, where a second copy has no effect."""
        check_log(log)
        self._connection.check_size(payload, headers)
        deadline = self._connection.deadline()

        async def attempt(timeout: float) -> dict[str, Any]:
            return await self._connection.request_json(subject, payload, headers=headers, timeout=timeout)

        try:
            result = await self._connection.repeat(
                attempt, deadline, lambda: self._store.explain_no_responders(log, deadline)
            )
        except JetStreamRefusal as refusal:
            raise refusal.translate(subject=subject) from None
        return int(result["seq"])

    async def _store_once(self, message: _Message) -> int:
        try:
            offset = await self._find_sent(message) if message.is_sent else None
            while offset is None:
                offset = await self._attempt(message)
        except (BrokerUnavailable, asyncio.CancelledError) as error:
            self._remember(message.subject, message.known_last)
            if not message.is_sent:
                raise
            self._undecided[message.subject] = message.payload
            if isinstance(error, asyncio.CancelledError):
                raise
            reason = _NO_ACKNOWLEDGEMENT if self._connection.connected else ""
            raise BrokerUnavailable(f"{reason}it is unknown whether the message was stored", **error.facts) from error
        self._remember(message.subject, offset)
        return offset

    async def _attempt(self, message: _Message) -> int | None:
        """Return the offset, or None if another attempt is needed."""
        connection = self._connection
        await connection.wait_connected(message.deadline)
        timeout = connection.attempt_timeout(message.deadline)
        was_sent, message.is_sent = message.is_sent, True  # before the request, because this call can be cancelled
        try:
            reply = await connection.request(message.subject, message.payload, headers=message.headers, timeout=timeout)
        except NoReply:
            return await self._find_sent(message)
        except NoResponders:
            message.is_sent = was_sent
            await self._store.explain_no_responders(message.log, message.deadline)
            await asyncio.sleep(RETRY_PAUSE)
            return None
        return await self._receive_acknowledgement(message, reply.payload, was_sent)

    async def _receive_acknowledgement(self, message: _Message, payload: bytes, was_sent: bool) -> int | None:
        result = json.loads(payload)
        if "error" not in result:
            if result["stream"] != message.log:
                raise UnknownLog("the subject belongs to another log", log=message.log, other=result["stream"])
            return int(result["seq"])
        refusal = JetStreamRefusal(result["error"])
        message.is_sent = was_sent
        if refusal.is_temporary:
            await asyncio.sleep(RETRY_PAUSE)
            return None
        if refusal.is_conflict and was_sent:
            offset = await self._find_sent(message)
            if offset is not None or message.expected_last == ANY:
                return offset
        raise refusal.translate(log=message.log, subject=message.subject)

    async def _find_sent(self, message: _Message) -> int | None:
        """Return the offset at which an earlier attempt was stored; None if none was.

        Without a stored attempt, the next one requires the last offset that was read here.
        """
        last = message.known_last
        while True:
            found = await self._store.first_message(message.log, message.subject, last + 1, message.deadline)
            if found is None:
                break
            if found.payload == message.payload:
                return found.offset
            last = found.offset
        if message.expected_last == ANY:
            message.known_last, message.headers = last, encode_headers(expected_last_fields(last))
        return None

    def _remember(self, subject: str, offset: int) -> None:
        if len(self._last_offsets) >= _MAX_REMEMBERED:
            self._last_offsets.clear()
        self._last_offsets[subject] = offset
