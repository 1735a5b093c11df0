"""The messages that a reader selects: a topic log, or the channel of one class among the channels of a topic.

>>> LogSelection("building.rooms").subjects("p1"), LogSelection("building.rooms").log
('tw.log.building.rooms.p1.*', 'tw_log_building~rooms')
>>> channel = LogSelection("building.rooms", "00ff00ff00ff00ff")
>>> channel.key_subject("p1"), channel.part_name("p1")
('tw.chan.building.rooms.00ff00ff00ff00ff.p1.k', 'class/00ff00ff00ff00ff/p1')
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from thinwire.brokers.protocol import Broker, StoredMessage
from thinwire.topics.names import (
    channel_key_subject,
    channel_log_of,
    channel_subjects,
    key_subject,
    log_of,
    publisher_in,
    publisher_subjects,
)

MAX_CONCURRENT = 64
"""broker requests in flight, at most"""
POLL_INTERVAL = 1.0
"""seconds to wait for a message before the end of the log is read again"""
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
        return f"class/{self.class_id}/{publisher}" if self.class_id else f"log/{publisher}"


class PublisherOffsets(NamedTuple):
    """Offsets in a topic log, by publisher.

    newest: offset of the last message
    round_starts: offset at which the last key frame round starts
    """

    newest: Mapping[str, int]
    round_starts: Mapping[str, int]

    @classmethod
    async def find(cls, broker: Broker, topic: str) -> PublisherOffsets:
        log = log_of(topic)
        names = sorted({publisher_in(subject) for subject in await broker.subjects(log, publisher_subjects(topic))})

        async def find_last(subject: Callable[[str, str], str]) -> dict[str, int]:
            found = await gather_limited(lambda name: broker.last(log, subject(topic, name)), names)
            return {name: stored.offset for name, stored in zip(names, found, strict=True) if stored is not None}

        return cls(await find_last(publisher_subjects), await find_last(key_subject))


async def read_range(
    broker: Broker, log: str, first: int, last: int, subjects: Collection[str]
) -> AsyncGenerator[StoredMessage, None]:
    """Yield the messages under some subjects from offset `first` to `last`, without those that retention removes."""
    end, offset = await last_offset(broker, log, subjects, last), first - 1
    if end < first:
        return
    reader = await broker.read(log, first=first, subjects=list(subjects))
    try:
        while offset < end:
            stored = await reader.next(POLL_INTERVAL)
            if stored is None:
                end = min(end, await last_offset(broker, log, subjects, last))
            elif stored.offset > last:
                return
            else:
                yield stored
                offset = stored.offset
                reader.done(offset)
    finally:
        await reader.close()


async def first_message(broker: Broker, log: str, offset: int, subjects: Sequence[str] = ()) -> StoredMessage | None:
    """Return the first message at or after an offset; None if none arrives within `POLL_INTERVAL`."""
    reader = await broker.read(log, first=offset, subjects=subjects, max_unacknowledged=1)
    try:
        return await reader.next(POLL_INTERVAL)
    finally:
        await reader.close()


async def last_offset(broker: Broker, log: str, subjects: Iterable[str], up_to: int) -> int:
    """Return the offset of the last message under one of the subjects, 0 for none."""
    found = [await broker.last(log, subject, up_to=up_to) for subject in subjects]
    return max((stored.offset for stored in found if stored is not None), default=0)


async def newest_messages(broker: Broker, selection: LogSelection) -> dict[str, StoredMessage]:
    """Return the last message of each publisher with key frames in the log."""
    names = map(publisher_in, await broker.subjects(selection.log, selection.key_subject()))
    found = {name: await broker.last(selection.log, selection.subjects(name)) for name in names}
    return {name: stored for name, stored in found.items() if stored is not None}


async def gather_limited(request: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
    """Return the results of `request` for all items, with at most MAX_CONCURRENT requests in flight."""
    free = asyncio.Semaphore(MAX_CONCURRENT)

    async def run(item: T) -> R:
        async with free:
            return await request(item)

    return await asyncio.gather(*(run(item) for item in items))
