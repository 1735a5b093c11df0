"""What a durable subscriber has worked off: a document at the broker, written by one reader at a time.

Its place is an offset of the log and the number of events worked off in the message behind it. Where it reads a
channel, `channel` is the same of that channel, `positions` says how far in the log each publisher was told by it, and
`offset` is the last place of the log behind which nothing is missing: whoever cannot read the channel goes on there.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from thinwire.brokers.protocol import NOTHING, Broker, Bucket
from thinwire.client.delivery_dedup import DeliveredEvents, Last
from thinwire.errors import Conflict, DurableTaken, RegistryError
from thinwire.topics.log_position import ChannelPosition, Positions
from thinwire.topics.names import CURSORS


class ChannelPlace(NamedTuple):
    """A place in the channel of a class, and how far in the log each publisher is told up to there.

    opened: the input offset at which the channel began; since: the position of publishers that are not named
    """

    class_id: str
    opened: int
    offset: int
    within: int
    since: int
    positions: dict[str, ChannelPosition]

    @property
    def all_positions(self) -> Positions:
        """The positions of all publishers."""
        return Positions(self.since, self.positions)


class Cursor(NamedTuple):
    """The offset of the last message worked off, and how many events of the next one were.

    channel: the place in a channel, where one was read
    told: the last events of sources that were worked off although they lie behind the place
    """

    offset: int
    within: int = 0
    channel: ChannelPlace | None = None
    told: DeliveredEvents | None = None


class CursorKeeper:
    """Reads and writes one cursor. Whoever opens it last has it; the one before is told at its next write.

    every: seconds between two writes, at most
    """

    def __init__(self, bucket: Bucket, key: str, *, every: float) -> None:
        self.every = every
        self._bucket = bucket
        self._key = key
        self._revision = NOTHING
        self._written: Cursor | None = None
        self._due = 0.0

    @classmethod
    async def open(
        cls, broker: Broker, topic: str, durable: str, *, every: float
    ) -> tuple[CursorKeeper, Cursor | None]:
        """Take the cursor over, and say where it stands; None for a durable that is new."""
        keeper = cls(await broker.bucket(CURSORS), f"{topic}.{durable}", every=every)
        return keeper, await keeper._take_over()

    def is_due(self, now: float) -> bool:
        """Is it time to write?"""
        return now >= self._due

    async def keep(self, cursor: Cursor, now: float) -> None:
        """Write the cursor if it moved."""
        if cursor == self._written:
            return
        try:
            self._revision = await self._bucket.put(self._key, _encode(cursor), revision=self._revision)
        except Conflict:
            raise DurableTaken(durable=self._key) from None
        self._written = cursor
        self._due = now + self.every

    async def _take_over(self) -> Cursor | None:
        entry = await self._bucket.get(self._key)
        if entry is None or entry.value is None:
            self._revision = entry.revision if entry is not None else NOTHING
            return None
        cursor = _decode(self._key, entry.value)
        # Written again so that another reader's revision is no longer the last: it notices at its next write.
        self._revision = await self._bucket.put(self._key, entry.value, revision=entry.revision)
        self._written = cursor
        return cursor


def _encode(cursor: Cursor) -> bytes:
    document: dict[str, Any] = {"offset": cursor.offset, "within": cursor.within}
    place = cursor.channel
    if place is not None:
        names = ("opened", "offset", "within")
        document["channel"] = {"class": place.class_id, **{name: getattr(place, name) for name in names}}
        document["since"] = place.since
        document["positions"] = {name: list(position) for name, position in place.positions.items()}
    if cursor.told:
        document["told"] = {
            publisher: [[list(source), *last] for source, last in sources.items()]
            for publisher, sources in cursor.told.items()
        }
    return json.dumps(document).encode()


def _decode(key: str, value: bytes) -> Cursor:
    try:
        document = json.loads(value)
        offset, within = _counts(document["offset"], document.get("within", 0))
        return Cursor(offset, within, _place(document), _read_delivered(document))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise RegistryError("not a cursor", bucket=CURSORS, key=key) from None


def _place(document: dict[str, Any]) -> ChannelPlace | None:
    channel = document.get("channel")
    if channel is None:
        return None
    opened, offset, within, since = _counts(channel["opened"], channel["offset"], channel["within"], document["since"])
    positions = {str(name): ChannelPosition(*_counts(*at)) for name, at in document["positions"].items()}
    return ChannelPlace(str(channel["class"]), opened, offset, within, since, positions)


def _read_delivered(document: dict[str, Any]) -> DeliveredEvents | None:
    found = document.get("told")
    if found is None:
        return None
    return {
        str(publisher): {tuple(source): Last(*_counts(life, ordinal)) for source, life, ordinal in sources}
        for publisher, sources in found.items()
    }


def _counts(*numbers: Any) -> tuple[int, ...]:
    """Whole numbers from 0 on, each of them."""
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError("not a count")
    return numbers
