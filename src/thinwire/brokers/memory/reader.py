"""Readers of logs of the memory broker."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from thinwire.brokers.memory.storage import MessageLog, SubjectFilter, WakeUp
from thinwire.brokers.protocol import StoredMessage
from thinwire.errors import ConfigError, TransportClosed, UnknownLog

if TYPE_CHECKING:
    from thinwire.brokers.memory.broker import SimulatedConnection


class LocalReader:
    """Implements `thinwire.brokers.protocol.LogReader`.

    It fetches messages on demand; an idle reader costs nothing but its position.

    dropped: number of redelivered messages, which are not returned again
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
        self.limit = limit
        self.dropped = 0
        self._log, self._connection, self._on_close = log, connection, on_close
        self._next, self._last_delivered = first, first - 1
        self._unacknowledged: deque[int] = deque()
        self._subjects = SubjectFilter(subjects)
        self._wake_up = WakeUp()
        self._closed = False
        log.watchers.add(self._wake_up)
        connection.watchers.add(self._wake_up)

    @property
    def log_id(self) -> str:
        return self._log.log_id

    async def next(self, timeout: float | None = None) -> StoredMessage | None:
        await asyncio.sleep(0)  # a reader with a backlog must not starve other tasks
        message = self._take()
        if message is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    while message is None:
                        await self._wake_up.wait()
                        await asyncio.sleep(self._connection.delay)
                        message = self._take()
        return message

    def done(self, offset: int) -> None:
        is_limited = len(self._unacknowledged) >= self.limit
        while self._unacknowledged and self._unacknowledged[0] <= offset:
            self._unacknowledged.popleft()
        if is_limited:
            self._wake_up.notify()

    def rewind(self, count: int) -> None:
        """Move the position back by `count` offsets, as a redelivery would. Messages that were already delivered are
        dropped."""
        self._next = max(1, self._next - count)
        self._wake_up.notify()

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._log.watchers.remove(self._wake_up)
            self._connection.watchers.remove(self._wake_up)
            self._on_close(self)
            self._wake_up.notify()

    def _take(self) -> StoredMessage | None:
        if self._closed or self._log.deleted:
            self._raise_closed()
        if not self._connection.up or len(self._unacknowledged) >= self.limit:
            return None
        while (message := self._log.next(self._next, self._subjects)) is not None:
            self._next = message.offset + 1
            if message.offset > self._last_delivered:
                self._last_delivered = message.offset
                self._unacknowledged.append(message.offset)
                return message
            self.dropped += 1
        return None

    def _raise_closed(self) -> NoReturn:
        if self._closed:
            raise TransportClosed("the reader is closed", log=self._log.name)
        raise UnknownLog("the log was deleted", log=self._log.name)
