"""Where messages wait: on their way in a `Flight`, and arrived in an inbox of bounded length."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count
from typing import Literal

from thinwire.brokers.protocol import Message
from thinwire.errors import ConfigError
from thinwire.testing.worlds.transport_faults import Way

Policy = Literal["block", "drop"]


class Flight:
    """Messages on one way, in the order in which they will arrive."""

    def __init__(self, way: Way) -> None:
        self.way = way
        self._messages: list[tuple[float, int, Message]] = []
        self._number = count()

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def next_due(self) -> float:
        """When the next message arrives; there must be one."""
        return self._messages[0][0]

    def send(self, message: Message, now: float, way: Way | None = None) -> None:
        """Put it on its way, or on one of its sender's own, with whatever happens to it there."""
        for due, payload in (way or self.way).arrivals(message.payload, now):
            as_it_arrives = message if payload is message.payload else message._replace(payload=payload)
            heapq.heappush(self._messages, (due, next(self._number), as_it_arrives))

    def is_due(self, now: float) -> bool:
        """Has the next message arrived by now?"""
        return bool(self._messages) and self._messages[0][0] <= now

    def take(self) -> tuple[float, Message]:
        """The next message, and when it arrived."""
        due, _, message = heapq.heappop(self._messages)
        return due, message

    def clear(self) -> None:
        self._messages.clear()


class MemoryInbox:
    """The messages of one subscription.

    dropped: how many were lost because they found the inbox full
    """

    def __init__(
        self,
        pattern: str,
        limit: int,
        policy: Policy,
        flight: Flight,
        catch_up: Callable[[], float],
        forget: Callable[[MemoryInbox], None],
    ) -> None:
        if limit < 1:
            raise ConfigError("must be 1 or more", limit=limit)
        if policy not in ("block", "drop"):
            raise ConfigError("choose 'block' or 'drop'", policy=policy)
        self.pattern = pattern
        self.limit = limit
        self.policy = policy
        self.flight = flight
        self.dropped = 0
        self.closed = False
        self._arrived: deque[Message] = deque()
        self._catch_up = catch_up
        self._forget = forget

    def receive(self) -> Message | None:
        """The next message that has arrived by now; None when there is none."""
        if not self.closed:
            self.settle(self._catch_up())
        return self._arrived.popleft() if self._arrived else None

    def __iter__(self) -> Iterator[Message]:
        """Receive until nothing is left now."""
        while (message := self.receive()) is not None:
            yield message

    def __len__(self) -> int:
        """How many have arrived and wait."""
        return len(self._arrived)

    def close(self) -> None:
        """Ask for no more: what is on its way is lost, what has arrived can still be received."""
        if not self.closed:
            self.settle(self._catch_up())
            self.closed = True
            self.flight.clear()
            self._forget(self)

    def blocks(self) -> bool:
        """Must a publisher wait for this inbox?"""
        return self.policy == "block" and len(self._arrived) + len(self.flight) >= self.limit

    def send(self, message: Message, now: float) -> None:
        """Put a message on its way to this inbox."""
        self.settle(now)
        if self.policy == "drop" and len(self.flight) >= self.limit:
            self.dropped += 1
            return
        self.flight.send(message, now)
        self.settle(now)

    def settle(self, now: float) -> None:
        """Let arrive what is due; for a publisher that must wait, what does not fit stays on its way."""
        while self.flight.is_due(now) and (self.policy == "drop" or len(self._arrived) < self.limit):
            _, message = self.flight.take()
            if len(self._arrived) < self.limit:
                self._arrived.append(message)
            else:
                self.dropped += 1
