"""Reader of a log: messages in order, each once, across reconnects.

The server pushes messages through a consumer that it holds in memory. The consumer can vanish when the server restarts,
and messages can be lost with the connection. Delivery numbers and heartbeats reveal both. The reader then creates a new
consumer that starts after the last message that the reader returned.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from thinwire.brokers.nats.asyncio_socket import log as logger
from thinwire.brokers.nats.connection import NatsConnection
from thinwire.brokers.nats.jetstream_api import JetStreamRefusal
from thinwire.brokers.nats.protocol_core import parse_headers, parse_status, random_name
from thinwire.brokers.nats.streams import NANOSECONDS, JetStreamStore
from thinwire.brokers.protocol import StoredMessage, is_same_log
from thinwire.errors import ThinwireError, TransportClosed, UnknownLog

T = TypeVar("T")
MakeItem = Callable[[int, str, bytes, float, bytes | None, int], T]
"""converts offset, subject, payload, time, header block and number of pending messages to the item of a reader"""

HEARTBEAT = 5.0
"""seconds without a message after which the server sends a heartbeat"""
_MAX_SILENT_INTERVALS = 3
_ACK_WAIT = 365 * 86_400 * NANOSECONDS
"""long, so that the server never redelivers to a slow reader"""
_HEARTBEAT_STATUS = 100
_CONSUMER_NAME_TAKEN = frozenset({10013, 10105, 10148})
_REPLY_TOKENS = 9
_OFFSET_INDEX, _OFFSET_INDEX_WITH_DOMAIN = 5, 7
"""index of the offset among the tokens of a reply subject; number, time and pending follow"""


class PushConsumer:
    """A consumer on the server, from its creation until it is replaced.

    The server numbers the deliveries of a consumer 1, 2, 3; a gap reveals a lost message. The server stops at
    `max_unacknowledged` messages. An acknowledgement covers all earlier messages, so few acknowledgements are needed.

    The reply subject of a delivery is $JS.ACK.<stream>.<consumer>.<deliveries>.<offset>.<number>.<time>.<pending>,
    with domain and account before the stream if the server has a domain.

    sid: id of the subscription to the deliveries; 0 if there is none
    silent_intervals: number of heartbeat intervals since the last message or heartbeat

    >>> consumer = PushConsumer("abc", max_unacknowledged=4)
    >>> consumer.accept(b"$JS.ACK.rooms.abc.1.17.1.1700000000000000000.3")
    (17, 1700000000000000000, 3)
    >>> consumer.mark_done(17), consumer.acknowledgement()
    (True, b'PUB $JS.ACK.rooms.abc.1.17.1.0.0 0\\r\\n\\r\\n')
    """

    def __init__(self, name: str, max_unacknowledged: int) -> None:
        self.name, self.max_unacknowledged = name, max_unacknowledged
        self.sid = 0
        self.silent_intervals = 0
        self._next_number = 1
        self._acknowledgement_parts = b"", b""
        self._unacknowledged: deque[int] = deque()
        self._last_done = 0
        self._acknowledged_number = 0
        self._acknowledgement_interval = max(1, max_unacknowledged // 4)

    def accept(self, reply: bytes) -> tuple[int, int, int] | None:
        """Return offset, time in nanoseconds and number of pending messages of a delivery; None after a gap."""
        tokens = reply.split(b".")
        begin = _OFFSET_INDEX if len(tokens) == _REPLY_TOKENS else _OFFSET_INDEX_WITH_DOMAIN
        number = self._next_number
        if int(tokens[begin + 1]) != number:
            return None
        if number == 1:
            self._acknowledgement_parts = b".".join(tokens[: begin - 1]), b".".join([b".0.0", *tokens[begin + 4 :]])
        self._next_number = number + 1
        offset = int(tokens[begin])
        self._unacknowledged.append(offset)
        return offset, int(tokens[begin + 2]), int(tokens[begin + 3])

    def has_missed(self, heartbeat: bytes) -> bool:
        """Return whether the last delivery according to a heartbeat is not the last one that was received."""
        last = self._next_number - 1
        return int(parse_headers(heartbeat).get("Nats-Last-Consumer", last)) != last

    def mark_done(self, offset: int) -> bool:
        """Mark all messages up to `offset` as done. Return whether an acknowledgement should be sent now."""
        unacknowledged = self._unacknowledged
        while unacknowledged and unacknowledged[0] <= offset:
            self._last_done = unacknowledged.popleft()
        return self._done_number >= self._acknowledged_number + self._acknowledgement_interval

    @property
    def is_blocked(self) -> bool:
        """Whether the server waits for an acknowledgement that can be sent."""
        last, acknowledged = self._next_number - 1, self._acknowledged_number
        return self._done_number > acknowledged and last >= acknowledged + self.max_unacknowledged

    def acknowledgement(self) -> bytes | None:
        """Return the command that acknowledges all messages that are done; None if there is none to acknowledge."""
        if self._done_number <= self._acknowledged_number:
            return None
        # the server reads only offset and number of the subject; time and pending are zeros
        before, after = self._acknowledgement_parts
        number = self._acknowledged_number = self._done_number
        return b"PUB %b.1.%d.%d%b 0\r\n\r\n" % (before, self._last_done, number, after)

    @property
    def _done_number(self) -> int:
        """The number of the last delivery that is done."""
        return self._next_number - 1 - len(self._unacknowledged)


def make_stored_message(
    offset: int, subject: str, payload: bytes, time: float, headers: bytes | None, pending: int
) -> StoredMessage:
    return StoredMessage(offset, subject, payload, time)


class NatsReader(Generic[T]):
    """Messages of a log after an offset.

    position: offset after which the reader starts
    start_with_newest: start with the newest message of every subject instead of `position`
    is_empty: the log had no message for the reader when the consumer was created
    """

    def __init__(
        self,
        connection: NatsConnection,
        store: JetStreamStore,
        log: str,
        subjects: Sequence[str],
        make_item: MakeItem[T],
        *,
        position: int,
        max_unacknowledged: int,
        start_with_newest: bool = False,
    ) -> None:
        self.log, self.subjects, self.max_unacknowledged = log, tuple(subjects), max_unacknowledged
        self.log_id = ""
        self.is_empty = False
        self._connection, self._store, self._make_item = connection, store, make_item
        self._received = self._returned = position
        self._start_with_newest = start_with_newest
        self._queue: deque[tuple[int, T]] = deque()
        self._consumer = PushConsumer("", max_unacknowledged)
        self._waiter: asyncio.Future[bool] | None = None
        self._replacement: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._error: ThinwireError | None = None

    async def open(self) -> None:
        """Create the consumer. Raise `UnknownLog` if the log does not exist."""
        deadline = self._connection.deadline()
        self.log_id = (await self._store.span(self.log, deadline)).log_id
        created = False
        try:
            while not created:
                await self._connection.wait_connected(deadline)
                created = await self._create_consumer(deadline)
        finally:
            if not created:
                self._drop_consumer()
        self._connection.on_reconnect[self._replace_consumer] = None
        self._connection.on_close[self.close] = None
        self._timer = asyncio.get_running_loop().call_later(HEARTBEAT, self._on_heartbeat_timer)

    async def next(self, timeout: float | None = None) -> T | None:
        while not self._queue:
            if self._error is not None:
                raise self._error
            if self._consumer.is_blocked:
                self._acknowledge()
            if not await self._wait(timeout):
                return None
        self._returned, item = self._queue.popleft()
        return item

    def done(self, offset: int) -> None:
        if self._consumer.mark_done(offset):
            self._acknowledge()

    async def close(self) -> None:
        self._fail(TransportClosed("the reader is closed"))
        self._queue.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._connection.on_reconnect.pop(self._replace_consumer, None)
        self._connection.on_close.pop(self.close, None)
        if self._replacement is not None:
            self._replacement.cancel()
            await asyncio.gather(self._replacement, return_exceptions=True)
        self._drop_consumer()

    def _on_message(self, subject: bytes, reply: bytes, payload: bytes, headers: bytes | None) -> None:
        consumer = self._consumer
        consumer.silent_intervals = 0
        if headers is not None and parse_status(headers) == _HEARTBEAT_STATUS:
            if consumer.has_missed(headers):
                self._replace_consumer()
            return
        delivery = consumer.accept(reply)
        if delivery is None:
            self._replace_consumer()
            return
        offset, nanoseconds, pending = delivery
        if offset <= self._received:
            self.done(offset)
            return
        self._received = offset
        time = nanoseconds // 1000 / 1e6  # whole microseconds, which a float represents exactly
        self._queue.append((offset, self._make_item(offset, subject.decode(), payload, time, headers, pending)))
        if self._waiter is not None:
            _resolve(self._waiter, True)

    def _on_heartbeat_timer(self) -> None:
        if self._connection.connected:
            self._consumer.silent_intervals += 1
            if self._consumer.silent_intervals > _MAX_SILENT_INTERVALS:
                logger.info("no heartbeat from the consumer of %s", self.log)
                self._consumer.silent_intervals = 0
                self._replace_consumer()
        self._timer = asyncio.get_running_loop().call_later(HEARTBEAT, self._on_heartbeat_timer)

    async def _wait(self, timeout: float | None) -> bool:
        """Wait for a message or an error. Return False after the timeout."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        self._waiter = waiter
        timer = None if timeout is None else loop.call_later(timeout, _resolve, waiter, False)
        try:
            return await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    def _acknowledge(self) -> None:
        if self._connection.connected:
            command = self._consumer.acknowledgement()
            if command is not None:
                self._connection.socket.write(command)

    def _fail(self, error: ThinwireError) -> None:
        self._error = self._error or error
        if self._waiter is not None:
            _resolve(self._waiter, True)

    def _replace_consumer(self) -> None:
        """Create a new consumer after the last message that was returned."""
        if self._replacement is None or self._replacement.done():
            self._replacement = asyncio.create_task(self._recreate_consumer())

    async def _recreate_consumer(self) -> None:
        while True:
            self._drop_consumer()
            try:
                await self._connection.wait_connected(None)
                await self._check_log()
                if await self._create_consumer(self._connection.deadline()):
                    return
            except ThinwireError as error:
                if not error.retriable:
                    self._fail(error)
                    return

    async def _check_log(self) -> None:
        """Raise `UnknownLog` if the log was created again: its offsets belong to other messages."""
        span = await self._store.span(self.log)
        if not is_same_log(self.log_id, span.log_id) or span.last < self._returned:
            raise UnknownLog("the log was deleted and created again: read it from its beginning", log=self.log)

    def _drop_consumer(self) -> None:
        """Delete the consumer. The queue is discarded, because the next consumer delivers its messages again."""
        if self._consumer.sid:
            self._connection.unsubscribe(self._consumer.sid)
            if self._connection.connected:
                self._connection.publish(f"$JS.API.CONSUMER.DELETE.{self.log}.{self._consumer.name}", b"")
        self._queue.clear()
        self._received = self._returned
        self._consumer = PushConsumer("", self.max_unacknowledged)

    async def _create_consumer(self, deadline: float) -> bool:
        """Create a consumer on the server. Return False if the name is taken and another attempt is needed."""
        connection = self._connection
        inbox = connection.new_inbox()
        name = random_name(5)  # short, because every message contains the name
        consumer = self._consumer = PushConsumer(name, self.max_unacknowledged)
        consumer.sid = connection.subscribe(inbox, self._on_message)
        try:
            created = await self._store.create_consumer(self.log, name, self.subjects, self._config(inbox), deadline)
        except JetStreamRefusal as refusal:
            if refusal.code in _CONSUMER_NAME_TAKEN:
                self._drop_consumer()
                return False
            raise refusal.translate(log=self.log) from None
        self.is_empty = int(created.get("num_pending", 0)) + int(created["delivered"]["consumer_seq"]) == 0
        return True

    def _config(self, inbox: str) -> dict[str, Any]:
        start: dict[str, Any] = {"deliver_policy": "by_start_sequence", "opt_start_seq": self._returned + 1}
        if self._start_with_newest and not self._returned:
            start = {"deliver_policy": "last_per_subject"}
        return {
            "deliver_subject": inbox,
            "ack_policy": "all",
            "ack_wait": _ACK_WAIT,
            "max_deliver": 1,
            "max_ack_pending": self.max_unacknowledged,
            "idle_heartbeat": round(HEARTBEAT * NANOSECONDS),
            "inactive_threshold": round(HEARTBEAT * NANOSECONDS),
            **start,
        }


def _resolve(waiter: asyncio.Future[bool], is_notified: bool) -> None:
    if not waiter.done():
        waiter.set_result(is_notified)
