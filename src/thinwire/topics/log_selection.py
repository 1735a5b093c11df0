"""The messages that a reader selects: a topic log, or the channel of one class among the channels of a topic.

>>> LogSelection("building.rooms").subjects("p1"), LogSelection("building.rooms").log
('tw.log.building.rooms.p1.*', 'tw_log_building~rooms')
>>> channel = LogSelection("building.rooms", "00ff00ff00ff00ff")
>>> channel.key_subject("p1"), channel.part_name("p1")
('tw.chan.building.rooms.00ff00ff00ff00ff.p1.k', 'class/00ff00ff00ff00ff/p1')
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from thinwire.brokers.protocol import Broker
from thinwire.topics.names import (
    channel_key_subject,
    channel_log_of,
    channel_subjects,
    key_subject,
    log_of,
    publisher_in,
    publisher_subjects,
)

LOG_PART = "log/"
"""prefix of the checkpoint parts that hold decoder snapshots of a topic log"""
MAX_CONCURRENT = 64
"""broker requests in flight, at most"""
T = TypeVar("T")
R = TypeVar("R")


class LogSelection(NamedTuple):
    """Log and subjects of the messages that a reader selects.

    class_id: the demand class of a channel; "" for the topic log
    """

    topic: str
    class_id: str = ""

    @property
    def log(self) -> str:
        """The log that contains the messages."""
        return channel_log_of(self.topic) if self.class_id else log_of(self.topic)

    def subjects(self, publisher: str = "*") -> str:
        """Return the subject pattern of all messages of a publisher, by default of every publisher."""
        if self.class_id:
            return channel_subjects(self.topic, self.class_id, publisher)
        return publisher_subjects(self.topic, publisher)

    def key_subject(self, publisher: str = "*") -> str:
        """Return the subject of the messages that start key frame rounds, by default of every publisher."""
        if self.class_id:
            return channel_key_subject(self.topic, self.class_id, publisher)
        return key_subject(self.topic, publisher)

    def part_name(self, publisher: str) -> str:
        """Return the name of the checkpoint part with the decoder snapshot of a publisher."""
        return f"class/{self.class_id}/{publisher}" if self.class_id else LOG_PART + publisher


class PublisherOffsets:
    """Offsets in a topic log, by publisher.

    newest: offset of the last message
    keys: offset at which the last key frame round starts
    """

    def __init__(self, newest: Mapping[str, int], keys: Mapping[str, int]) -> None:
        self.newest = newest
        self.keys = keys

    @classmethod
    async def find(cls, broker: Broker, topic: str) -> PublisherOffsets:
        log = log_of(topic)
        names = sorted({publisher_in(subject) for subject in await broker.subjects(log, publisher_subjects(topic))})

        async def find_last(subject: Callable[[str, str], str]) -> dict[str, int]:
            found = await gather_limited(lambda name: broker.last(log, subject(topic, name)), names)
            return {name: stored.offset for name, stored in zip(names, found, strict=True) if stored is not None}

        return cls(await find_last(publisher_subjects), await find_last(key_subject))


async def gather_limited(request: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
    """Return the results of `request` for all items, with at most MAX_CONCURRENT requests in flight."""
    free = asyncio.Semaphore(MAX_CONCURRENT)

    async def run(item: T) -> R:
        async with free:
            return await request(item)

    return await asyncio.gather(*(run(item) for item in items))
