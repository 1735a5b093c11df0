"""Reads a range of a log through a pull consumer.

The messages in transit are limited in number and bytes. More are requested when half of them have arrived, so that the
server does not idle. If the connection is lost, the consumer vanishes or a delivery is missing, a new consumer is
created after the last message that was read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np

from thinwire.brokers.nats.blocking.delivery_scanner import (
    OTHER,
    BlockBuffer,
    Deliveries,
    DeliveryReader,
)
from thinwire.brokers.nats.blocking.session import BlockingConnection, NatsMessage
from thinwire.brokers.nats.blocking.socket_connection import BlockingSocket, ConnectionLost
from thinwire.brokers.nats.jetstream_api import JetStreamRefusal
from thinwire.brokers.nats.protocol_core import (
    MAX_MESSAGE,
    ProtocolError,
    parse_headers,
    parse_status,
    random_name,
)
from thinwire.brokers.nats.server_pool import connection_error
from thinwire.brokers.nats.streams import NANOSECONDS, JetStreamStore
from thinwire.brokers.protocol import Block, is_same_log, run_inline
from thinwire.errors import BrokerRefused, UnknownLog

MAX_REQUESTED = 16_384
"""messages in transit"""
MAX_REQUESTED_BYTES = 4 << 20
"""bytes in transit; more only if a message is larger"""
MESSAGE_OVERHEAD = 1 << 16
"""bytes of subject and headers of a message"""
SILENCE_TIMEOUT = 10.0
"""seconds without a delivery after which a new consumer is created"""
INACTIVE_THRESHOLD = 30
"""seconds after which the server removes an unused consumer"""
_NO_MESSAGES, _TIMEOUT, _ENDED, _NO_RESPONDERS = 404, 408, 409, 503
_REGULAR_ENDS = ("completed", "maxbytes")
"""words in the status of a request that was answered completely"""


class LogRange:
    """The messages of a log from one offset to another, both included.

    is_complete: all messages are read; is_released: the consumer is deleted and the connection can be reused
    """

    def __init__(
        self, connection: BlockingConnection, log: str, first: int, last: int, subjects: Sequence[str]
    ) -> None:
        self.log, self.subjects = log, tuple(subjects)
        self.is_complete = self.is_released = False
        self._connection, self._store = connection, JetStreamStore(connection)
        self._next, self._last = max(first, 1), last
        self._log_id: str | None = None
        self._buffer, self._reader = BlockBuffer(), DeliveryReader()
        self._deadline = connection.deadline()
        self._silence_timeout, self._request_bytes = SILENCE_TIMEOUT, MAX_REQUESTED_BYTES
        self._last_data = time.monotonic()
        self._forget_consumer()

    def blocks(self) -> Iterator[Block]:
        """Yield the messages in order, each once. Raise `UnknownLog` if the log was deleted."""
        self._check_log()
        while not self.is_complete:
            try:
                self._create_consumer()
                yield from self._receive_blocks()
            except (ConnectionLost, ProtocolError):
                self._connection.disconnect()
                self._forget_consumer()
                if time.monotonic() >= self._deadline:
                    raise connection_error(TimeoutError(), self._connection.url) from None
                self._check_log()
        block = self._buffer.take()
        if block is not None:
            yield block
        self._release()

    def _check_log(self) -> None:
        """Limit the range to the content of the log. Raise `UnknownLog` if the log was created again."""
        span = run_inline(self._store.span(self.log, self._deadline))
        if self._log_id is None:
            self._log_id = span.log_id
            self._last = min(self._last, span.last)
            self._next = max(self._next, span.first)
        elif not is_same_log(span.log_id, self._log_id):
            raise UnknownLog("it was deleted and created again: start from its beginning", log=self.log)
        self.is_complete = self._next > self._last

    def _receive_blocks(self) -> Iterator[Block]:
        while not self.is_complete:
            self._request_more()
            self._receive()
            if self._buffer.is_full and (block := self._buffer.take()):
                yield block
                self._on_data()  # the time that the caller took does not count

    def _on_data(self) -> None:
        """Restart all timeouts."""
        self._last_data = time.monotonic()
        self._deadline, self._silence_timeout = self._connection.deadline(), SILENCE_TIMEOUT

    def _create_consumer(self) -> None:
        self._name = random_name(5)  # short: every message contains the name
        config = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self._next,
            "ack_policy": "none",
            "inactive_threshold": INACTIVE_THRESHOLD * NANOSECONDS,
        }
        try:
            created = run_inline(
                self._store.create_consumer(self.log, self._name, self.subjects, config, self._deadline)
            )
        except JetStreamRefusal as refusal:
            raise refusal.translate(log=self.log) from None
        self.is_complete = not int(created.get("num_pending", 1))
        self._inbox = f"{self._connection.prefix}.{self._name}"
        self._sid = self._connection.subscribe(f"{self._inbox}.*")
        max_payload = self._connection.socket(self._deadline).info.max_payload
        self._request_bytes = max(self._request_bytes, 2 * (max_payload + MESSAGE_OVERHEAD))
        self._last_data = time.monotonic()

    def _forget_consumer(self) -> None:
        self._sid, self._name, self._inbox = 0, "", ""
        self._next_number = 1
        self._requested = self._requested_bytes = 0

    def _request_more(self) -> None:
        """Request messages if half of those in transit have arrived. The reply subject contains their number."""
        if self._requested > MAX_REQUESTED // 2 and self._requested_bytes > self._request_bytes // 2:
            return
        count = min(MAX_REQUESTED, self._last - self._next + 1) - self._requested
        if count <= 0:
            return
        size = max(self._request_bytes - self._requested_bytes, self._request_bytes // 2)
        body = b'{"batch":%d,"max_bytes":%d,"no_wait":true}' % (count, size)
        verb = f"$JS.API.CONSUMER.MSG.NEXT.{self.log}.{self._name}"
        self._connection.publish(verb, body, f"{self._inbox}.{count}")
        self._requested += count
        self._requested_bytes += size

    def _receive(self) -> None:
        socket = self._connection.socket(self._deadline)
        deliveries, reason = self._reader.take(socket, self._sid)
        if deliveries is not None:
            self._accept(deliveries)
        elif reason != OTHER or not self._connection.parse(socket, limit=1):
            self._wait(socket)
        elif (message := self._connection.pop_message()) and message.subject.startswith(self._inbox.encode() + b"."):
            self._on_status(message)

    def _wait(self, socket: BlockingSocket) -> None:
        """Receive more bytes. Silence means a slow server, a lost delivery or a dead connection."""
        if not socket.receive(min(self._last_data + self._silence_timeout, self._deadline) - time.monotonic()):
            self._silence_timeout *= 2
            raise ConnectionLost

    def _accept(self, deliveries: Deliveries) -> None:
        """Buffer the messages that are in order and within the range."""
        block, count = deliveries.block, len(deliveries.numbers)
        self._requested -= count
        self._requested_bytes -= deliveries.size
        expected = np.arange(self._next_number, self._next_number + count)
        in_order = int(np.argmin(np.append(deliveries.numbers == expected, False)))
        in_range = int(np.searchsorted(block.offsets[:in_order], self._last, "right"))
        if in_range:
            self._buffer.add(block.slice(0, in_range), deliveries.size)
            self._next = int(block.offsets[in_range - 1]) + 1
            self._on_data()
        if in_range < in_order or self._next > self._last or (in_order == count and not deliveries.pending):
            self.is_complete = True
        elif in_order < count:
            raise ConnectionLost
        self._next_number += count

    def _on_status(self, message: NatsMessage) -> None:
        """A status ends a request and names the messages that were not delivered."""
        status, text = parse_status(message.headers), (message.headers or b"").decode("utf-8", "replace")
        is_regular = any(word in text.lower() for word in _REGULAR_ENDS)
        if status == _NO_RESPONDERS or (status == _ENDED and not is_regular):
            raise ConnectionLost  # the consumer was removed
        if status not in (_NO_MESSAGES, _TIMEOUT, _ENDED):
            raise BrokerRefused(text.strip(), log=self.log)
        fields = parse_headers(message.headers)
        count = int(message.subject.rpartition(b".")[2])
        missing = min(int(fields.get("Nats-Pending-Messages", count)), count)
        self._requested -= missing
        self._requested_bytes -= int(fields.get("Nats-Pending-Bytes", 0))
        if missing == count and status == _ENDED:
            self._request_bytes = min(2 * self._request_bytes, MAX_MESSAGE)  # the next message is larger than requested
        if self._requested <= 0:
            self._requested = self._requested_bytes = 0
            self.is_complete = status != _ENDED

    def _release(self) -> None:
        """Delete the consumer; the server would remove it after some time."""
        if self._sid:
            with suppress(ConnectionLost):
                self._connection.unsubscribe(self._sid)
                verb = f"$JS.API.CONSUMER.DELETE.{self.log}.{self._name}"
                self._connection.publish(verb, b"", f"{self._connection.prefix}.0")
        self._forget_consumer()
        self.is_released = True
