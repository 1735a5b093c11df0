"""Reader of a log of the memory broker."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from thinwire.brokers.memory.storage import MessageLog, WakeUp
from thinwire.brokers.protocol import StoredMessage
from thinwire.brokers.subjects import SubjectFilter
from thinwire.errors import ConfigError, TransportClosed, UnknownLog

if TYPE_CHECKING:
    from thinwire.brokers.memory.broker import SimulatedConnection


class LocalReader:
    """Implements `thinwire.brokers.protocol.LogReader`.

    Messages are fetched by `next`, so an idle reader holds only its position.

    duplicates: number of redelivered messages, which `next` does not return again
    """

    def __init__(
        self,
        log: MessageLog,
        connection: SimulatedConnection,
        first: int,
        subjects: Sequence[str],
        max_unacknowledged: int,
        on_close: Callable[[LocalReader], None],
    ) -> None:
        if max_unacknowledged < 1:
            raise ConfigError("must be 1 or more", max_unacknowledged=max_unacknowledged)
        self.max_unacknowledged = max_unacknowledged
        self.duplicates = 0
        self._log, self._connection, self._on_close = log, connection, on_close
        self._next, self._last_delivered = first, first - 1
        self._unacknowledged: deque[int] = deque()
        self._subjects = SubjectFilter(subjects)
        self._wake_up = WakeUp()
        self._closed = False
        log.watchers[self._wake_up] = connection.watchers[self._wake_up] = None

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
        was_at_limit = len(self._unacknowledged) >= self.max_unacknowledged
        while self._unacknowledged and self._unacknowledged[0] <= offset:
            self._unacknowledged.popleft()
        if was_at_limit:
            self._wake_up.notify()

    def rewind(self, count: int) -> None:
        """Move the position back by `count` offsets, as a redelivery would."""
        self._next = max(1, self._next - count)
        self._wake_up.notify()

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            del self._log.watchers[self._wake_up], self._connection.watchers[self._wake_up]
            self._on_close(self)
            self._wake_up.notify()

    def _take(self) -> StoredMessage | None:
        if self._closed:
            raise TransportClosed("the reader is closed", log=self._log.name)
        if self._log.is_deleted:
            raise UnknownLog("the log was deleted", log=self._log.name)
        if not self._connection.is_up or len(self._unacknowledged) >= self.max_unacknowledged:
            return None
        while (message := self._log.next(self._next, self._subjects)) is not None:
            self._next = message.offset + 1
            if message.offset > self._last_delivered:
                self._last_delivered = message.offset
                self._unacknowledged.append(message.offset)
                return message
            self.duplicates += 1
        return None
