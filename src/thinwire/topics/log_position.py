"""How far in the log of a topic everything has been told, publisher by publisher.

>>> positions = Positions(since=100)
>>> positions.note("p1", ChannelPosition(120, 2))
>>> positions.of("p1"), positions.of("p2")
(ChannelPosition(offset=120, within=2), ChannelPosition(offset=100, within=0))
>>> positions.complete_to(110)
>>> positions.of("p1"), positions.of("p2")
(ChannelPosition(offset=120, within=2), ChannelPosition(offset=110, within=0))

What a reader follows: the log of a topic, or among the channels of a topic the one of its class.

>>> LogSelection("building.rooms").subjects("p1"), LogSelection("building.rooms").log
('tw.log.building.rooms.p1.*', 'tw_log_building~rooms')
>>> channel = LogSelection("building.rooms", "00ff00ff00ff00ff")
>>> channel.keys("p1"), channel.part("p1")
('tw.chan.building.rooms.00ff00ff00ff00ff.p1.k', 'class/00ff00ff00ff00ff/p1')

What stands before the frames of a channel's message: who wrote it, and how far the channel has told.

    epoch | offset | within | link message        three whole numbers of 1 to 10 bytes each

The position (offset, within) says that all events of the publisher's messages up to `offset` are in this message or an
earlier one, or were passed over in silence, and so are the first `within` events of its next message.

>>> unseal(seal(3, ChannelPosition(120, 7), b"frames"))
(3, ChannelPosition(offset=120, within=7), b'frames')
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from thinwire.brokers.protocol import Broker, Stored
from thinwire.errors import CorruptFrame
from thinwire.topics.names import (
    channel_key_subject,
    channel_log_of,
    channel_subjects,
    key_subject,
    log_of,
    publisher_in,
    publisher_subjects,
)
from thinwire.wire import varint

LOG_PART = "log/"
"""how the part of a checkpoint begins that holds the state of a publisher's link"""


class LogSelection(NamedTuple):
    """The messages under some subjects of a log, in which rounds of key frames begin under subjects of their own.

    class_id: whose channel; "" for the log that publishers write themselves
    """

    topic: str
    class_id: str = ""

    @property
    def log(self) -> str:
        """Where the messages are kept."""
        return channel_log_of(self.topic) if self.class_id else log_of(self.topic)

    def subjects(self, publisher: str = "*") -> str:
        """All messages that tell of a publisher; of every one by default."""
        if self.class_id:
            return channel_subjects(self.topic, self.class_id, publisher)
        return publisher_subjects(self.topic, publisher)

    def keys(self, publisher: str = "*") -> str:
        """The messages with which a round of key frames begins."""
        if self.class_id:
            return channel_key_subject(self.topic, self.class_id, publisher)
        return key_subject(self.topic, publisher)

    def part(self, publisher: str) -> str:
        """The part of a checkpoint that holds what a reader of these messages knows of a publisher."""
        return f"class/{self.class_id}/{publisher}" if self.class_id else LOG_PART + publisher


MAX_ENVELOPE = 3 * varint.MAX_BYTES
"""bytes before the frames, at most"""


class ChannelPosition(NamedTuple):
    """How far a channel has told what its publisher wrote to the log; one is further than another if it is larger."""

    offset: int
    within: int = 0


def seal(epoch: int, position: ChannelPosition, message: bytes) -> bytes:
    """A channel's message: the frames in their envelope."""
    return b"".join((varint.write(epoch), varint.write(position.offset), varint.write(position.within), message))


def unseal(payload: bytes) -> tuple[int, ChannelPosition, bytes]:
    """The epoch of who wrote a channel's message, the position it tells up to, and the frames."""
    epoch, at = varint.read(payload, 0)
    offset, at = varint.read(payload, at)
    within, at = varint.read(payload, at)
    if at == len(payload):
        raise CorruptFrame("a channel's message without frames", length=at)
    return epoch, ChannelPosition(offset, within), payload[at:]


AT_ONCE = 64
"""questions to the broker at the same time"""
T = TypeVar("T")
R = TypeVar("R")


class Positions:
    """A position for every publisher.

    since: the offset for publishers of whom nothing has been said; one that has been told of may lie before it
    """

    def __init__(self, since: int = 0, by_publisher: Mapping[str, ChannelPosition] | None = None) -> None:
        self.since = since
        self._of = dict(by_publisher or {})

    def of(self, publisher: str) -> ChannelPosition:
        """Up to where this publisher's events are told."""
        return self._of.get(publisher) or ChannelPosition(self.since, 0)

    def note(self, publisher: str, position: ChannelPosition) -> None:
        """They are told up to here; an earlier position than the last says nothing new."""
        known = self._of.get(publisher)
        if known is None or position > known:
            self._of[publisher] = position

    def complete_to(self, offset: int) -> None:
        """Everything in the log up to this offset is told, of every publisher."""
        self.since = max(self.since, offset)
        self._of = {name: at for name, at in self._of.items() if at > (offset, 0)}

    def instead(self, publisher: str, position: ChannelPosition) -> Positions:
        """The same, with another position for one publisher."""
        return Positions(self.since, {**self._of, publisher: position})

    @property
    def lowest(self) -> int:
        """Up to here everything is told of everybody."""
        return min(self.since, *(at.offset for at in self._of.values())) if self._of else self.since

    @property
    def by_publisher(self) -> dict[str, ChannelPosition]:
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
