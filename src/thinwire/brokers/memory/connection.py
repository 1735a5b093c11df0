"""Connection of a client to the memory broker, and readers of logs over it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from thinwire.brokers.memory.storage import MessageLog, WakeUp, Watchers
from thinwire.brokers.protocol import Stored
from thinwire.brokers.subjects import check_pattern, matches
from thinwire.errors import BrokerUnavailable, ConfigError, TransportClosed, UnknownLog

Result = TypeVar("Result")


class SimulatedConnection:
    """The connection of one client, with latency and outages.

    url: for error messages; delay: seconds in one direction; timeout: default seconds that a call waits

    The client is connected unless it is cut off, the server is stopped or the connection is closed. `watchers` are
    notified of every change.
    """

    def __init__(self, url: str, delay: float, timeout: float) -> None:
        if delay < 0 or timeout <= 0:
            raise ConfigError("delay is 0 or more, timeout more than 0", delay=delay, timeout=timeout)
        self.url = url
        self.delay = delay
        self.timeout = timeout
        self.cut = False
        self.stopped = False
        self.closed = False
        self.watchers = Watchers()
        self._interruptions = 0
        self._changed = WakeUp()

    @property
    def up(self) -> bool:
        return not (self.cut or self.stopped or self.closed)

    def change(self, *, cut: bool | None = None, stopped: bool | None = None, closed: bool | None = None) -> None:
        """Set the given states. Every change interrupts the connection: messages in transit are lost."""
        self.cut = self.cut if cut is None else cut
        self.stopped = self.stopped if stopped is None else stopped
        self.closed = self.closed if closed is None else closed
        self._interruptions += 1
        self._changed.notify()
        self.watchers.notify()

    def check_open(self) -> None:
        if self.closed:
            raise TransportClosed(url=self.url)

    async def call(self, work: Callable[[], Result], timeout: float | None = None) -> Result:
        """Run `work` on the server once and return its result.

        After an interruption the request is repeated. The server recognises it and repeats its response.
        """
        seconds = self.timeout if timeout is None else timeout
        results: list[Result] = []
        try:
            async with asyncio.timeout(seconds):
                while True:
                    interruptions = await self._ready()
                    await self.transmit()
                    if self._interruptions == interruptions and not results:
                        results.append(work())
                        if self.delay:
                            await asyncio.sleep(self.delay)
                    if self._interruptions == interruptions:
                        return results[0]
        except TimeoutError:
            raise BrokerUnavailable(url=self.url, timeout=seconds) from None

    async def transmit(self) -> None:
        """Wait for the delay of one direction. Other tasks run even if it is 0, as they would with a socket."""
        await asyncio.sleep(self.delay)

    async def _ready(self) -> int:
        """Wait until connected and return the number of interruptions so far."""
        self.check_open()
        while not self.up:
            await self._changed.wait()
            self.check_open()
        return self._interruptions


class LocalReader:
    """Implements `thinwire.brokers.protocol.LogReader`.

    It fetches messages on demand; an idle reader costs nothing but its position.

    dropped: number of messages that were delivered again and dropped
    """

    def __init__(
        self,
        log: MessageLog,
        connection: SimulatedConnection,
        first: int,
        subjects: Sequence[str],
        limit: int,
        on_close: Callable[[LocalReader], None],
    ) -> None:
        if limit < 1:
            raise ConfigError("must be 1 or more", limit=limit)
        for pattern in subjects:
            check_pattern(pattern)
        self.subjects = tuple(subjects)
        self.limit = limit
        self.dropped = 0
        self._log, self._connection, self._on_close = log, connection, on_close
        self._next, self._last_delivered = first, first - 1
        self._unacknowledged: deque[int] = deque()
        self._wanted: dict[str, bool] = {}
        self._wake_up = WakeUp()
        self._closed = False
        log.watchers.add(self._wake_up)
        connection.watchers.add(self._wake_up)

    @property
    def log_id(self) -> str:
        return self._log.log_id

    async def next(self, timeout: float | None = None) -> Stored | None:
        await asyncio.sleep(0)  # a reader with a backlog must not starve other tasks
        message = self._take()
        if message is not None:
            return message
        try:
            async with asyncio.timeout(timeout):
                while (message := self._take()) is None:
                    await self._wake_up.wait()
                    await self._connection.transmit()
        except TimeoutError:
            return None
        return message

    def done(self, offset: int) -> None:
        while self._unacknowledged and self._unacknowledged[0] <= offset:
            self._unacknowledged.popleft()
        self._wake_up.notify()

    def rewind(self, count: int) -> None:
        """Deliver the last `count` messages of the log again."""
        self._next = max(1, self._next - count)
        self._wake_up.notify()

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._log.watchers.remove(self._wake_up)
            self._connection.watchers.remove(self._wake_up)
            self._on_close(self)
            self._wake_up.notify()

    def _take(self) -> Stored | None:
        self._check_open()
        if not self._connection.up or len(self._unacknowledged) >= self.limit:
            return None
        while (message := self._log.next(self._next, self._is_wanted)) is not None:
            self._next = message.offset + 1
            if message.offset > self._last_delivered:
                self._last_delivered = message.offset
                self._unacknowledged.append(message.offset)
                return message
            self.dropped += 1
        return None

    def _check_open(self) -> None:
        if self._closed:
            raise TransportClosed("the reader is closed", log=self._log.name)
        if self._log.deleted:
            raise UnknownLog("it was deleted", log=self._log.name)

    def _is_wanted(self, subject: str) -> bool:
        wanted = self._wanted.get(subject)
        if wanted is None:
            wanted = not self.subjects or any(matches(pattern, subject) for pattern in self.subjects)
            self._wanted[subject] = wanted
        return wanted
