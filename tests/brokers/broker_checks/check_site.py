"""Environment of the checks: a broker, connections to it, and faults of both."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import TypeVar

from thinwire.brokers.memory import LocalBroker, LocalServer
from thinwire.brokers.protocol import Broker, LogReader, Retention, StoredMessage

Result = TypeVar("Result")
_numbers = count(1)


class Site(ABC):
    """One broker. Checks share it, therefore all names are created with `fresh`."""

    @abstractmethod
    async def connect(self) -> Broker:
        """Return another client with its own connection and a timeout of some seconds."""

    @abstractmethod
    async def cut(self, broker: Broker) -> None:
        """Disconnect one client until `restore`."""

    @abstractmethod
    async def restore(self, broker: Broker) -> None: ...

    @abstractmethod
    async def stop(self) -> None:
        """Kill the broker, until `start`."""

    @abstractmethod
    async def start(self) -> None: ...

    @abstractmethod
    async def redeliver(self, broker: Broker) -> None:
        """Make the broker deliver messages again to the client's readers, if it can."""

    async def disconnected(self, broker: Broker) -> None:
        """Wait until the site has closed its ends of the connections of a closed client."""
        return

    async def close(self) -> None:
        """Close the connections; the broker continues."""
        return

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Broker]:
        """A client that is closed at the end."""
        broker = await self.connect()
        try:
            yield broker
        finally:
            await broker.close()

    @asynccontextmanager
    async def interrupted(self, broker: Broker, seconds: float = 0.02) -> AsyncIterator[None]:
        """Disconnect a client inside the context, and restore it a little later in any case."""
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
    """The memory broker, with a delay, so that messages can be interrupted in transit."""

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


def fresh(token: str) -> str:
    """Return an unused name for a log, a bucket or the first token of subjects."""
    return f"tw_{token}{next(_numbers)}"


async def ensure_log(broker: Broker, retention: Retention | None = None) -> str:
    """Create a log for the subjects below its name."""
    log = fresh("log")
    await broker.ensure_log(log, [f"{log}.>"], retention)
    return log


async def write(broker: Broker, log: str, tokens: Sequence[str]) -> list[int]:
    """Append one message per token, which is its subject and payload. Return the offsets."""
    return [await broker.append(log, f"{log}.{token}", token.encode(), timeout=10) for token in tokens]


async def take(reader: LogReader, number: int) -> list[StoredMessage]:
    """Return the next messages, each acknowledged at once."""
    taken: list[StoredMessage] = []
    for _ in range(number):
        message = await reader.next(timeout=10)
        assert message is not None, f"{len(taken)} of {number} messages came"
        reader.done(message.offset)
        taken.append(message)
    return taken


async def raises(kind: type[Exception], call: Awaitable[object]) -> None:
    """Assert that a call raises this error."""
    try:
        answer = await call
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was due, and the answer was {answer!r}")
