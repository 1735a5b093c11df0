"""Cursors: the stored positions of durable subscriptions and watches. One reader at a time writes a cursor.

The cursor of a channel contains the position in the channel, the log position up to which it covers each publisher, and
the log offset up to which every event was delivered. Without the channel, reading resumes there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

from thinwire.brokers.protocol import NOTHING, Broker, Bucket
from thinwire.errors import Conflict, NameInUse
from thinwire.topics.delivery_dedup import DeliveredEvents, EventNumber
from thinwire.topics.document import Document
from thinwire.topics.document_fields import Count, StoredName, mapping_of, refuse, text, whole
from thinwire.topics.names import CURSORS
from thinwire.topics.position import Position, PublisherPositions


class ChannelCursor(NamedTuple):
    """A position in the channel of a class, and the log positions of publishers that it covers.

    offset, within: as in `Cursor`; channel_start: log offset from which the channel contains everything
    default_offset: log offset for publishers without a position of their own
    """

    class_id: str
    channel_start: int
    offset: int
    within: int
    default_offset: int
    positions: dict[str, Position]

    @property
    def publisher_positions(self) -> PublisherPositions:
        """The positions of all publishers."""
        return PublisherPositions(self.default_offset, self.positions)


class Cursor(NamedTuple):
    """Offset of the last acknowledged message, and number of acknowledged events in the next one.

    channel: position in a channel, if the subscription reads one
    delivered: last delivered events of sources that are ahead of the position
    """

    offset: int
    within: int = 0
    channel: ChannelCursor | None = None
    delivered: DeliveredEvents | None = None


class CursorStore:
    """Reads and writes one cursor. Opening it takes it over: the next write of the previous reader fails.

    every: seconds between two writes
    """

    def __init__(self, bucket: Bucket, key: str, *, every: float) -> None:
        self.every = every
        self._bucket = bucket
        self._key = key
        self._revision = NOTHING
        self._written: Cursor | None = None
        self._writing: asyncio.Task[None] | None = None
        self._unknown_fields: Mapping[str, Any] = {}
        self._due = 0.0

    @classmethod
    async def open(cls, broker: Broker, topic: str, durable: str, *, every: float) -> tuple[CursorStore, Cursor | None]:
        """Take the cursor over and read it; None for a new durable name."""
        store = cls(await broker.bucket(CURSORS), f"{topic}.{durable}", every=every)
        return store, await store._take_over()

    def is_due(self, now: float) -> bool:
        """Return True if `every` seconds have passed since the last write."""
        return now >= self._due

    async def save(self, cursor: Cursor, now: float) -> None:
        """Write the cursor if it has changed; `NameInUse` if another reader took it over."""
        while self._writing is not None and not self._writing.done():
            await asyncio.wait([self._writing])
        if cursor != self._written:
            # The caller may be cancelled. The write is then completed, because the next one needs its revision.
            self._writing = asyncio.create_task(self._write(cursor, now), name=f"cursor {self._key}")
            self._writing.add_done_callback(lambda task: task.cancelled() or task.exception())  # else asyncio logs it
            await asyncio.shield(self._writing)

    async def _write(self, cursor: Cursor, now: float) -> None:
        value = CursorDocument.of(cursor, self._unknown_fields).encode()
        try:
            self._revision = await self._bucket.put(self._key, value, revision=self._revision)
        except Conflict:
            raise NameInUse(durable=self._key) from None
        self._written = cursor
        self._due = now + self.every

    async def _take_over(self) -> Cursor | None:
        entry = await self._bucket.get(self._key)
        if entry is None or entry.value is None:
            self._revision = entry.revision if entry is not None else NOTHING
            return None
        document = CursorDocument.decode(entry.value, f"{CURSORS}/{self._key}")
        cursor, self._unknown_fields = document.cursor(), document.unknown
        # A write of the same value changes the revision, so that the next write of the previous reader is refused.
        self._revision = await self._bucket.put(self._key, entry.value, revision=entry.revision)
        self._written = cursor
        return cursor


_check_count = whole()


def _check_position(field: str, value: Any) -> list[int]:
    if not isinstance(value, list) or len(value) != 2:
        refuse(field, "an offset and a number of events", value)
    return [_check_count(field, item) for item in value]


def _check_delivered(field: str, value: Any) -> list[list[Any]]:
    if not isinstance(value, list):
        refuse(field, "a list", value)
    for row in value:
        if not isinstance(row, list) or len(row) != 3 or not isinstance(row[0], list):
            refuse(field, "a list of sources with incarnation and ordinal", value)
        _check_position(field, row[1:])
    return value


@dataclass(frozen=True)
class _StoredChannel(Document):
    """Stored position in a channel."""

    class_id: Annotated[str, text(), StoredName("class")]
    channel_start: Annotated[int, whole(), StoredName("opened")]
    offset: Count
    within: Count


@dataclass(frozen=True)
class CursorDocument(Document):
    """Stored form of a cursor.

    channel, default_offset, positions: position in a channel, and the log positions of publishers that it covers
    delivered: sources, with incarnation and ordinal of the last delivered event, per publisher
    """

    omit_none: ClassVar[bool] = True

    offset: Count
    within: Count = 0
    channel: _StoredChannel | None = None
    default_offset: Annotated[int, whole(), StoredName("since")] | None = None
    positions: Annotated[Mapping[str, list[int]], mapping_of(_check_position)] | None = None
    delivered: Annotated[Mapping[str, list[Any]], mapping_of(_check_delivered), StoredName("told")] | None = None

    @classmethod
    def of(cls, cursor: Cursor, unknown: Mapping[str, Any]) -> CursorDocument:
        """The document of a cursor, with the fields of the stored one that this version does not define."""
        channel, delivered = cursor.channel, None
        if cursor.delivered:
            delivered = {
                publisher: [[list(source), *last] for source, last in sources.items()]
                for publisher, sources in cursor.delivered.items()
            }
        if channel is None:
            return cls(cursor.offset, cursor.within, delivered=delivered, unknown=unknown)
        stored = _StoredChannel(channel.class_id, channel.channel_start, channel.offset, channel.within)
        positions = {name: [position.offset, position.within] for name, position in channel.positions.items()}
        return cls(cursor.offset, cursor.within, stored, channel.default_offset, positions, delivered, unknown=unknown)

    def cursor(self) -> Cursor:
        """The cursor that the document describes."""
        delivered, channel, stored = None, None, self.channel
        if self.delivered is not None:
            delivered = {
                publisher: {
                    tuple(source): EventNumber(incarnation, ordinal) for source, incarnation, ordinal in sources
                }
                for publisher, sources in self.delivered.items()
            }
        if stored is not None:
            positions = {name: Position(offset, within) for name, (offset, within) in (self.positions or {}).items()}
            channel_position = stored.class_id, stored.channel_start, stored.offset, stored.within
            channel = ChannelCursor(*channel_position, self.default_offset or 0, positions)
        return Cursor(self.offset, self.within, channel, delivered)
