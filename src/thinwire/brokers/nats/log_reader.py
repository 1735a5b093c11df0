"""Messages of a log as the broker pushes them: in order, each once, across reconnects.

The broker keeps a consumer for every feed: a place in the log that lives in its memory and may send `limit` messages
ahead of what was acknowledged. Acknowledgements are few: one names everything before it. A consumer may vanish (the
broker starts again) or lose messages (the connection is cut); the numbers it gives them and its heartbeats tell, and a
new one is made at the place the feed has reached.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from thinwire.brokers.nats.client import log as logger
from thinwire.brokers.nats.connection import NatsConnection, letters
from thinwire.brokers.nats.jetstream_api import JetStreamRefusal, fields_of, status_of
from thinwire.brokers.nats.streams import NANOSECONDS, Store
from thinwire.brokers.protocol import Stored
from thinwire.errors import ThinwireError, TransportClosed, UnknownLog

T = TypeVar("T")
Make = Callable[[int, str, bytes, float, bytes | None, int], T]
"""offset, subject, payload, time, header block of a message, and how many follow; what the feed hands out for it"""

HEARTBEAT = 5.0
"""seconds of silence after which the broker says that it is still there"""
_MISSED = 3
_LONG = 365 * 86_400 * NANOSECONDS
"""nothing is sent again for want of an acknowledgement: a reader may be slow"""
_CONTROL = 100
_NAME_TAKEN = frozenset({10013, 10105, 10148})


def stored(offset: int, subject: str, payload: bytes, time: float, headers: bytes | None, ahead: int) -> Stored:
    """A message of a log, as readers get it."""
    return Stored(offset, subject, payload, time)


class NatsSubscription(Generic[T]):
    """What comes after a position in a log.

    position: the offset of the last message taken in; newest: begin with the newest message of every subject instead
    """

    def __init__(
        self,
        connection: NatsConnection,
        store: Store,
        log: str,
        subjects: Sequence[str],
        make: Make[T],
        *,
        position: int,
        limit: int,
        newest: bool = False,
    ) -> None:
        self.log, self.subjects, self.limit = log, tuple(subjects), limit
        self.empty = False
        """had the broker nothing to send when the consumer was made?"""
        self._connection, self._store, self._make = connection, store, make
        self._position, self._newest = position, newest
        self._queue: deque[tuple[int, T]] = deque()
        self._given: deque[tuple[int, int]] = deque()
        self._handed = position
        self._expected = 1
        self._worked: tuple[int, int] | None = None
        self._freed = 0
        self._quarter = max(1, limit // 4)
        self._sid = 0
        self._name, self._acks = "", (b"", b"")
        self._silences = 0
        self._waiter: asyncio.Future[bool] | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._error: ThinwireError | None = None

    async def open(self) -> None:
        """Make the consumer; `UnknownLog` if there is no such log."""
        deadline = self._connection.deadline()
        made = False
        try:
            while not made:
                await self._connection.still_time(deadline)
                made = await self._make_consumer(deadline)
        finally:
            if not made:
                self._forget_consumer()
        self._connection.came_back.add(self._renew)
        self._connection.open_ends.add(self)
        self._timer = asyncio.get_running_loop().call_later(HEARTBEAT, self._listen)

    async def next(self, timeout: float | None = None) -> T | None:
        """The next message; None when none came within so many seconds."""
        while not self._queue:
            if self._error is not None:
                raise self._error
            self._make_room()
            if not await self._wait(timeout):
                return None
        self._handed, item = self._queue.popleft()
        return item

    async def _wait(self, timeout: float | None) -> bool:
        """Something has happened, or the time is over (False)."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        self._waiter = waiter
        timer = None if timeout is None else loop.call_later(timeout, _resolve_waiter, waiter, False)
        try:
            return await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    def done(self, offset: int) -> None:
        """Messages up to this offset are worked off; the broker hears of it when a quarter of the limit is."""
        given = self._given
        while given and given[0][0] <= offset:
            self._worked = given.popleft()
            self._freed += 1
        if self._freed >= self._quarter:
            self._acknowledge()

    async def close(self) -> None:
        """Ask for no more."""
        self._fail(TransportClosed("the reader is closed"))
        self._queue.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._connection.came_back.discard(self._renew)
        self._connection.open_ends.discard(self)
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.gather(self._renewal, return_exceptions=True)
        self._forget_consumer()

    def _take(self, subject: bytes, reply: bytes, payload: bytes, headers: bytes | None) -> None:
        self._silences = 0
        if headers is not None and status_of(headers) == _CONTROL:
            self._heartbeat(headers)
            return
        words = reply.split(b".")
        at = 5 if len(words) == 9 else 7  # a reply that names its domain and account is longer
        number = self._expected
        if int(words[at + 1]) != number:
            self._renew()
            return
        if number == 1:
            self._acks = (b".".join(words[: at - 1]), b".".join([b".0.0", *words[at + 4 :]]))
        self._expected = number + 1
        offset = int(words[at])
        self._given.append((offset, number))
        if offset <= self._position:
            self.done(offset)
            return
        self._position = offset
        time = int(words[at + 2]) // 1000 / 1e6  # whole microseconds, which a float holds exactly
        item = self._make(offset, subject.decode(), payload, time, headers, int(words[at + 3]))
        self._queue.append((offset, item))
        if self._waiter is not None:
            _resolve_waiter(self._waiter, True)

    def _heartbeat(self, headers: bytes) -> None:
        """It tells the number of the last message: is it the one that arrived last?"""
        if int(fields_of(headers).get("Nats-Last-Consumer", self._expected - 1)) != self._expected - 1:
            self._renew()

    def _listen(self) -> None:
        """Called every few seconds."""
        if self._connection.connected:
            self._silences += 1
            if self._silences > _MISSED:
                logger.info("the consumer of %s has fallen silent", self.log)
                self._silences = 0
                self._renew()
        self._timer = asyncio.get_running_loop().call_later(HEARTBEAT, self._listen)

    def _make_room(self) -> None:
        """A reader that waits while the broker may not send more gets nothing: tell it what is worked off."""
        if self._freed and len(self._given) + self._freed >= self.limit:
            self._acknowledge()

    def _acknowledge(self) -> None:
        if self._worked is None or not self._connection.connected:
            return
        # Only offset and number are read from an acknowledgement: the time and the rest travel as zeros.
        before, behind = self._acks
        self._connection.client.write(b"PUB %b.1.%d.%d%b 0\r\n\r\n" % (before, *self._worked, behind))
        self._freed = 0
        self._worked = None

    def _wake(self) -> None:
        if self._waiter is not None:
            _resolve_waiter(self._waiter, True)

    def _fail(self, error: ThinwireError) -> None:
        self._error = self._error or error
        self._wake()

    def _renew(self) -> None:
        """Make a new consumer, behind the last message that was handed out."""
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.create_task(self._renewing())

    async def _renewing(self) -> None:
        while True:
            self._forget_consumer()
            try:
                await self._connection.ready(None)
                await self._check_log()
                if await self._make_consumer(self._connection.deadline()):
                    return
            except ThinwireError as error:
                if not error.retriable:
                    self._fail(error)
                    return

    async def _check_log(self) -> None:
        """A log that ends before the place read last is another one."""
        if (await self._store.span(self.log)).last < self._handed:
            raise UnknownLog("it was deleted and made again: start from its beginning", log=self.log)

    def _forget_consumer(self) -> None:
        """What waits here is forgotten too and comes again: so never more than the limit is waiting."""
        if self._sid:
            self._connection.detach(self._sid)
            self._sid = 0
            if self._connection.connected:
                self._connection.post(f"$JS.API.CONSUMER.DELETE.{self.log}.{self._name}", b"")
        self._queue.clear()
        self._given.clear()
        self._position, self._expected = self._handed, 1
        self._worked, self._freed, self._silences = None, 0, 0

    async def _make_consumer(self, deadline: float) -> bool:
        """False: another attempt is needed."""
        connection = self._connection
        inbox = connection.new_inbox()
        self._name = letters(5)  # short: it travels with every message
        self._sid = connection.attach(inbox, self._take)
        body = {"stream_name": self.log, "config": self._config(inbox), "action": "create"}
        try:
            made = await connection.api(f"CONSUMER.CREATE.{self.log}.{self._name}", body, deadline=deadline)
        except JetStreamRefusal as refused:
            if refused.code in _NAME_TAKEN:
                self._forget_consumer()
                return False
            raise refused.translated(log=self.log) from None
        self.empty = not int(made.get("num_pending", 0)) + int(made["delivered"]["consumer_seq"])
        return True

    def _config(self, inbox: str) -> dict[str, Any]:
        begin: dict[str, Any] = {"deliver_policy": "by_start_sequence", "opt_start_seq": self._handed + 1}
        if self._newest and not self._handed:
            begin = {"deliver_policy": "last_per_subject"}
        return {
            "name": self._name,
            "deliver_subject": inbox,
            "ack_policy": "all",
            "ack_wait": _LONG,
            "max_deliver": 1,
            "max_ack_pending": self.limit,
            "idle_heartbeat": round(HEARTBEAT * NANOSECONDS),
            "inactive_threshold": round(HEARTBEAT * NANOSECONDS),
            "filter_subjects": list(self.subjects) or None,
            "mem_storage": True,
            "num_replicas": 1,
            **begin,
        }


def _resolve_waiter(waiter: asyncio.Future[bool], happened: bool) -> None:
    if not waiter.done():
        waiter.set_result(happened)
