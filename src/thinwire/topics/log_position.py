"""How far in the log of a topic everything has been told, publisher by publisher.

>>> positions = Positions(since=100)
>>> positions.note("p1", Position(120, 2))
>>> positions.of("p1"), positions.of("p2")
(Position(offset=120, within=2), Position(offset=100, within=0))
>>> positions.complete_to(110)
>>> positions.of("p1"), positions.of("p2")
(Position(offset=120, within=2), Position(offset=110, within=0))
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from thinwire.brokers.protocol_broker import Broker, Stored
from thinwire.topics.log_position_envelope import Position
from thinwire.topics.names import key_subject, log_of, publisher_in, publisher_subjects

AT_ONCE = 64
"""questions to the broker at the same time"""
T = TypeVar("T")
R = TypeVar("R")


class Positions:
    """A position for every publisher.

    since: the offset for publishers of whom nothing has been said; one that has been told of may lie before it
    """

    def __init__(self, since: int = 0, by_publisher: Mapping[str, Position] | None = None) -> None:
        self.since = since
        self._of = dict(by_publisher or {})

    def of(self, publisher: str) -> Position:
        """Up to where this publisher's events are told."""
        return self._of.get(publisher) or Position(self.since, 0)

    def note(self, publisher: str, position: Position) -> None:
        """They are told up to here; an earlier position than the last says nothing new."""
        known = self._of.get(publisher)
        if known is None or position > known:
            self._of[publisher] = position

    def complete_to(self, offset: int) -> None:
        """Everything in the log up to this offset is told, of every publisher."""
        self.since = max(self.since, offset)
        self._of = {name: at for name, at in self._of.items() if at > (offset, 0)}

    def instead(self, publisher: str, position: Position) -> Positions:
        """The same, with another position for one publisher."""
        return Positions(self.since, {**self._of, publisher: position})

    @property
    def lowest(self) -> int:
        """Up to here everything is told of everybody."""
        return min(self.since, *(at.offset for at in self._of.values())) if self._of else self.since

    @property
    def by_publisher(self) -> dict[str, Position]:
        """What has been said of single publishers."""
        return dict(self._of)


class Publishers:
    """What the log of a topic has of each publisher: its last message, and its last round of key frames."""

    def __init__(self, newest: Mapping[str, int], keys: Mapping[str, int]) -> None:
        self.newest = newest
        self.keys = keys

    @classmethod
    async def find(cls, broker: Broker, topic: str) -> Publishers:
        log = log_of(topic)
        names = sorted({publisher_in(subject) for subject in await broker.subjects(log, publisher_subjects(topic))})
        newest = await several(lambda name: broker.last(log, publisher_subjects(topic, name)), names)
        keys = await several(lambda name: broker.last(log, key_subject(topic, name)), names)
        return cls(_offsets(names, newest), _offsets(names, keys))


async def several(ask: Callable[[T], Awaitable[R]], things: Iterable[T]) -> list[R]:
    """The answers to many questions, some at a time."""
    places = asyncio.Semaphore(AT_ONCE)

    async def one(thing: T) -> R:
        async with places:
            return await ask(thing)

    return await asyncio.gather(*(one(thing) for thing in things))


def _offsets(names: list[str], found: list[Stored | None]) -> dict[str, int]:
    return {name: stored.offset for name, stored in zip(names, found, strict=True) if stored is not None}
