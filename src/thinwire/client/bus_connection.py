"""A connection to a broker from its opening to its end, with the publishers, subscriptions and watches made on it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self, TypeVar

from thinwire.brokers.broker_url import read_url
from thinwire.brokers.protocol_broker import Broker, Bucket
from thinwire.client.local_services_opening import open_broker, run_services
from thinwire.client.publisher import TopicPublisher
from thinwire.client.subscription import Subscription
from thinwire.client.watch_watches import Hits
from thinwire.clock import Clock
from thinwire.errors import ThinwireError, TransportClosed
from thinwire.topics.names import REGISTRY, check_word

Part = TypeVar("Part", TopicPublisher, Subscription, Hits)


class Connection:
    """Opened and closed with `async with`; what was made on it is closed with it, the latest first."""

    def __init__(self, url: str, *, name: str, services: bool, clock: Clock, options: Mapping[str, Any]) -> None:
        self.name = check_word(name or f"c{secrets.token_hex(4)}", "name")
        self.services = services
        self.clock = clock
        self._address = read_url(url)
        self._options = {"name": self.name, **options}
        self._stack = AsyncExitStack()
        self._broker: Broker | None = None
        self._bucket: Bucket | None = None
        self._parts: list[TopicPublisher | Subscription | Hits] = []
        self._made = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._address.shown!r}, name={self.name!r})"

    async def __aenter__(self) -> Self:
        try:
            self._broker, own = await open_broker(self._address, self._options, self._stack)
            if own is not None and self.services:
                await run_services(own, self.clock, self._stack)
            self._bucket = await self._broker.bucket(REGISTRY)
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(failed=kind is not None)

    @property
    def broker(self) -> Broker:
        """The connection to the broker."""
        if self._broker is None:
            raise TransportClosed("this bus is not open: use `async with connect(...)`")
        return self._broker

    async def close(self, *, failed: bool = False) -> None:
        """End what is still open, publishers after storing what they have, and leave the broker."""
        problems: list[ThinwireError] = []
        for part in reversed(self._parts):
            try:
                await (part.close() if isinstance(part, TopicPublisher) else part.close(failed=failed))
            except ThinwireError as problem:  # the others must be closed all the same
                problems.append(problem)
        self._parts.clear()
        self._broker = None
        await self._stack.aclose()
        if problems:
            raise problems[0]

    @property
    def _registry(self) -> Bucket:
        if self._bucket is None:
            raise TransportClosed("this bus is not open: use `async with connect(...)`")
        return self._bucket

    def _keep(self, part: Part) -> Part:
        """It is closed with the connection."""
        self._parts.append(part)
        return part

    def _fresh_name(self) -> str:
        self._made += 1
        return self.name if self._made == 1 else f"{self.name}-{self._made}"
