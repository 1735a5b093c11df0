"""A message as an edge log holds it: when it was meant to be sent, its id, what it is the result of, and its body.

Latency counts from the instant at which a message was meant to be sent, so that instant travels. A result keeps the
instant and the id of what it was made of, and says which offset that had and in which epoch it was made: the last
result tells where to go on.

>>> sent = Carried(due=12.5, id="taxi-1/17", body=b"at the station")
>>> Carried.decode(sent.encode()) == sent, len(sent.encode()) - len(sent.body)
(True, 31)

Publishing on a topic of the edge, and reading one: for publishers, subscribers and the load harness.
"""

from __future__ import annotations

import math
import struct
from collections.abc import AsyncIterator
from typing import NamedTuple

from thinwire.brokers.protocol import Broker
from thinwire.edge.edge_documents import check_publisher_name, edge_log, edge_subject
from thinwire.errors import ConfigError, CorruptFrame

VERSION = 1
MAX_ID = 200
"""bytes"""
_HEAD = struct.Struct("!BdIQB")


class Carried(NamedTuple):
    """One message.

    due: when it was meant to be sent, in seconds since the epoch; id: its own, the same when it is sent twice
    epoch, origin: of a result: the epoch it was made in, and the offset of the message it was made of
    """

    due: float
    id: str
    body: bytes
    epoch: int = 0
    origin: int = 0

    def encode(self) -> bytes:
        """The bytes in the log."""
        name = self.id.encode()
        if not 0 < len(name) <= MAX_ID:
            raise ConfigError("an id is a text of limited length", field="id", bytes=len(name), limit=f"1 to {MAX_ID}")
        if not math.isfinite(self.due):
            raise ConfigError("an instant is a finite number", field="due", value=self.due)
        return _HEAD.pack(VERSION, self.due, self.epoch, self.origin, len(name)) + name + self.body

    @classmethod
    def decode(cls, payload: bytes) -> Carried:
        """The message in these bytes; `CorruptFrame` where there is none."""
        if len(payload) < _HEAD.size:
            raise CorruptFrame("too short for a message of the edge", size=len(payload), least=_HEAD.size)
        version, due, epoch, origin, length = _HEAD.unpack_from(payload)
        if version != VERSION:
            raise CorruptFrame("not a message of the edge", version=version, known=VERSION)
        end = _HEAD.size + length
        if not 0 < length <= MAX_ID or len(payload) < end or not math.isfinite(due):
            raise CorruptFrame("a message of the edge that ends early", size=len(payload), least=end)
        try:
            name = payload[_HEAD.size : end].decode()
        except UnicodeDecodeError:
            raise CorruptFrame("an id is text") from None
        return cls(due, name, payload[end:], epoch, origin)


class EdgePublisher:
    """One publisher on one topic.

    near: publish at the host that this broker belongs to, for a topic whose messages stay there
    """

    def __init__(self, broker: Broker, topic: str, publisher: str, *, near: bool = False) -> None:
        self.topic, self.publisher, self.near = topic, check_publisher_name(publisher), near
        self._broker = broker
        self._log = edge_log(topic, near=near)
        self._opened = False

    async def publish(self, body: bytes, *, id: str, due: float) -> int:
        """Store a message and return its offset. `id` is the same when it is sent again; `due` is when it was meant."""
        if not self._opened:
            await self._broker.open_log(self._log, [edge_subject(self.topic, near=self.near)])
            self._opened = True
        subject = edge_subject(self.topic, self.publisher, near=self.near)
        return await self._broker.append(self._log, subject, Carried(due, id, body).encode())


async def read_edge(
    broker: Broker, topic: str, *, first: int = 1, near: bool = False, timeout: float | None = None
) -> AsyncIterator[tuple[int, Carried]]:
    """The messages of a topic with their offsets; ends when none has come for so many seconds.

    What is no message of the edge is left out. A topic that results go to is read in the same way.
    """
    await broker.open_log(edge_log(topic, near=near), [edge_subject(topic, near=near)])
    reader = await broker.read(edge_log(topic, near=near), first=first)
    try:
        while (stored := await reader.next(timeout)) is not None:
            reader.done(stored.offset)
            try:
                yield stored.offset, Carried.decode(stored.payload)
            except CorruptFrame:
                continue
    finally:
        await reader.close()
