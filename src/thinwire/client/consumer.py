"""Common base of subscriptions and watches: iterator, notices, cursor, and replies to liveness probes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

from thinwire.brokers.protocol import Broker, Listener
from thinwire.client.cursor import Cursor, CursorStore
from thinwire.client.notices import Notice
from thinwire.client.subscription_monitor import OutageMonitor
from thinwire.clock import Clock
from thinwire.codec import Watermark
from thinwire.topics.names import alive_subject

MAX_NOTICES = 1024
POLL_INTERVAL = 0.5
"""seconds without a message after which periodic checks run"""

OnNotice = Callable[[Notice], None]
T = TypeVar("T")


class Consumer(ABC, Generic[T]):
    """Base of `Subscription` and `Watch`: an asynchronous iterator with notices and a cursor.

    identity: the durable name if there is one; notices: the latest notices, without watermarks
    ack_every: seconds between two writes of the cursor; limit: messages that are fetched ahead
    """

    def __init__(
        self, broker: Broker, clock: Clock, identity: str, *, ack_every: float, limit: int, on_notice: OnNotice | None
    ) -> None:
        self.identity = identity
        self.notices: deque[Notice] = deque(maxlen=MAX_NOTICES)
        self._broker = broker
        self._clock = clock
        self._ack_every = ack_every
        self._limit = limit
        self._on_notice = on_notice
        self._outage = OutageMonitor(broker.url, self._notify)
        self._cursor_store: CursorStore | None = None
        self._ready: deque[T] = deque()
        self._closed = False

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(failed=kind is not None)

    def __aiter__(self) -> Self:
        return self

    @abstractmethod
    async def __anext__(self) -> T: ...

    @abstractmethod
    async def open(self) -> None: ...

    @abstractmethod
    async def close(self, *, failed: bool = False) -> None: ...

    async def _open_cursor(self, topic: str, durable: str | None) -> Cursor | None:
        """Take over the cursor of a durable consumer, and return it; None if there is none."""
        if durable is None:
            return None
        self._cursor_store, cursor = await CursorStore.open(self._broker, topic, durable, every=self._ack_every)
        return cursor

    async def _write_cursor(self, cursor: Cursor) -> None:
        if self._cursor_store is not None:
            await self._cursor_store.save(cursor, self._clock.now())

    def _notify(self, notice: Notice) -> None:
        if not isinstance(notice, Watermark):
            self.notices.append(notice)
        if self._on_notice is not None:
            self._on_notice(notice)


async def answer_probes(broker: Broker, identity: str) -> Listener:
    """Answer requests whether a consumer is alive, until the listener is closed."""

    async def answer(subject: str, payload: bytes) -> bytes | None:
        return b"here"

    return await broker.listen(alive_subject(identity), answer)
