"""Where checks happen: a broker, the ways there, and what can befall both."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import TypeVar

from thinwire.brokers.memory import LocalBroker, LocalServer
from thinwire.brokers.protocol import Broker, LogReader, Retention, Stored

Result = TypeVar("Result")
_numbers = count(1)


class Site(ABC):
    """One broker; checks share it, so everything they make bears a `fresh` name."""

    @abstractmethod
    async def connect(self) -> Broker:
        """Another client, on a way of its own, that gives up after some seconds."""

    @abstractmethod
    async def cut(self, broker: Broker) -> None:
        """Break the way of one client until `restore`."""

    @abstractmethod
    async def restore(self, broker: Broker) -> None: ...

    @abstractmethod
    async def stop(self) -> None:
        """End the broker without a word of farewell, until `start`."""

    @abstractmethod
    async def start(self) -> None: ...

    @abstractmethod
    async def redeliver(self, broker: Broker) -> None:
        """Have the client's readers given messages again, as far as the broker can be brought to do it."""

    async def close(self) -> None:
        """End the ways; the broker stays."""
        return

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Broker]:
        """A client that leaves in the end."""
        broker = await self.connect()
        try:
            yield broker
        finally:
            await broker.close()

    @asynccontextmanager
    async def interrupted(self, broker: Broker, seconds: float = 0.02) -> AsyncIterator[None]:
        """The way of a client is broken inside, and whole again a little later, whatever happens."""
        await self.cut(broker)
        back = asyncio.create_task(self._restore_later(broker, seconds))
        try:
            yield
        finally:
            await back

    async def _restore_later(self, broker: Broker, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.restore(broker)


class LocalSite(Site):
    """A broker in memory. Messages need a moment on their way, so that they can be caught there."""

    def __init__(self, server: LocalServer | None = None) -> None:
        self.server = server or LocalServer(delay=0.001)

    async def connect(self) -> LocalBroker:
        return LocalBroker(self.server, timeout=10)

    async def cut(self, broker: Broker) -> None:
        self.server.cut(_ours(broker))

    async def restore(self, broker: Broker) -> None:
        self.server.restore(_ours(broker))

    async def stop(self) -> None:
        self.server.stop()

    async def start(self) -> None:
        self.server.start()

    async def redeliver(self, broker: Broker) -> None:
        self.server.redeliver(3, _ours(broker))


def _ours(broker: Broker) -> LocalBroker:
    assert isinstance(broker, LocalBroker)
    return broker


def fresh(word: str) -> str:
    """A name that nobody has used yet, for a log, a bucket or the first word of subjects."""
    return f"tw_{word}{next(_numbers)}"


async def open_log(broker: Broker, retention: Retention | None = None) -> str:
    """A new log that keeps what is published under its name."""
    log = fresh("log")
    await broker.open_log(log, [f"{log}.>"], retention)
    return log


async def write(broker: Broker, log: str, words: Sequence[str]) -> list[int]:
    """Append a message for each word, the word being subject and payload; their offsets."""
    return [await broker.append(log, f"{log}.{word}", word.encode(), timeout=10) for word in words]


async def take(reader: LogReader, number: int) -> list[Stored]:
    """The next so many messages, each worked off at once."""
    taken: list[Stored] = []
    for _ in range(number):
        message = await reader.next(timeout=10)
        assert message is not None, f"{len(taken)} of {number} messages came"
        reader.done(message.offset)
        taken.append(message)
    return taken


async def raises(kind: type[Exception], call: Awaitable[object]) -> None:
    """A call that must fail in this way."""
    try:
        answer = await call
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was due, and the answer was {answer!r}")
