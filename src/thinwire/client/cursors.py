"""What a durable subscriber has worked off: a document at the broker, written by one reader at a time."""

from __future__ import annotations

import json
from typing import NamedTuple

from thinwire.control.names import CURSORS
from thinwire.errors import Conflict, DurableTaken, RegistryError
from thinwire.transports.broker import NOTHING, Broker, Bucket


class Cursor(NamedTuple):
    """The offset of the last message worked off, and how many events of the next one were."""

    offset: int
    within: int = 0


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

    async def keep(self, cursor: Cursor, now: float, *, at_once: bool = False) -> None:
        """Write the cursor if it moved and it is time."""
        if cursor == self._written or (now < self._due and not at_once):
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
    return json.dumps({"offset": cursor.offset, "within": cursor.within}).encode()


def _decode(key: str, value: bytes) -> Cursor:
    try:
        document = json.loads(value)
        offset, within = document["offset"], document.get("within", 0)
        if type(offset) is int and type(within) is int and offset >= 0 and within >= 0:
            return Cursor(offset, within)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise RegistryError("not a cursor", bucket=CURSORS, key=key)
