"""Messages of edge topics: encoding, publishing and reading.

Latency counts from the time at which a message was due, so the message contains that time. A result has the due time
and the id of its input, the offset of the input, and the epoch in which it was produced: the last result of a topic
states where processing resumes.

>>> sent = EdgeMessage(due=12.5, id="taxi-1/17", body=b"at the station")
>>> EdgeMessage.decode(sent.encode()) == sent, len(sent.encode()) - len(sent.body)
(True, 31)
"""

from __future__ import annotations

import math
import struct
from collections.abc import AsyncIterator
from typing import NamedTuple

from thinwire.brokers.protocol import Broker
from thinwire.edge.edge_documents import edge_log, edge_subject
from thinwire.errors import ConfigError, CorruptFrame
from thinwire.topics.names import check_name_token

VERSION = 1
MAX_ID = 200
"""bytes of an id"""
_HEAD = struct.Struct("!BdIQB")


class EdgeMessage(NamedTuple):
    """One message.

    due: when it was meant to be sent, in seconds since the epoch
    id: identifies the message; equal if it is sent twice
    epoch, origin: of a result: the lease epoch, and the offset of the input message
    """

    due: float
    id: str
    body: bytes
    epoch: int = 0
    origin: int = 0

    def encode(self) -> bytes:
        name = self.id.encode()
        if not 0 < len(name) <= MAX_ID:
            raise ConfigError("id is empty or too long", field="id", bytes=len(name), limit=f"1 to {MAX_ID}")
        if not math.isfinite(self.due):
            raise ConfigError("due is not a finite number", field="due", value=self.due)
        return _HEAD.pack(VERSION, self.due, self.epoch, self.origin, len(name)) + name + self.body

    @classmethod
    def decode(cls, payload: bytes) -> EdgeMessage:
        """Decode a message. Raises `CorruptFrame` for other bytes."""
        if len(payload) < _HEAD.size:
            raise CorruptFrame("too short for an edge message", size=len(payload), least=_HEAD.size)
        version, due, epoch, origin, length = _HEAD.unpack_from(payload)
        if version != VERSION:
            raise CorruptFrame("not an edge message", version=version, known=VERSION)
        end = _HEAD.size + length
        if not 0 < length <= MAX_ID or len(payload) < end or not math.isfinite(due):
            raise CorruptFrame("invalid header of an edge message", size=len(payload), least=end)
        try:
            name = payload[_HEAD.size : end].decode()
        except UnicodeDecodeError:
            raise CorruptFrame("id of an edge message is not text") from None
        return cls(due, name, payload[end:], epoch, origin)


class EdgePublisher:
    """Publishes on one edge topic.

    near: publish to the host that this broker belongs to, for a topic whose messages stay there
    """

    def __init__(self, broker: Broker, topic: str, publisher: str, *, near: bool = False) -> None:
        self.topic, self.publisher, self.near = topic, check_name_token(publisher, "publisher"), near
        self._broker = broker
        self._log = edge_log(topic, near=near)
        self._opened = False

    async def publish(self, body: bytes, *, id: str, due: float) -> int:
        """Store a message and return its offset. A repeated message has the same id; `due` is when it was meant."""
        if not self._opened:
            await self._broker.ensure_log(self._log, [edge_subject(self.topic, near=self.near)])
            self._opened = True
        subject = edge_subject(self.topic, self.publisher, near=self.near)
        return await self._broker.append(self._log, subject, EdgeMessage(due, id, body).encode())


async def read_edge(
    broker: Broker, topic: str, *, first: int = 1, near: bool = False, timeout: float | None = None
) -> AsyncIterator[tuple[int, EdgeMessage]]:
    """Yield the messages of a topic with their offsets until none arrives for `timeout` seconds.

    Bytes that are not an edge message are skipped. The results of a topic are read in the same way from its output.
    """
    await broker.ensure_log(edge_log(topic, near=near), [edge_subject(topic, near=near)])
    reader = await broker.read(edge_log(topic, near=near), first=first)
    try:
        while (stored := await reader.next(timeout)) is not None:
            reader.done(stored.offset)
            try:
                yield stored.offset, EdgeMessage.decode(stored.payload)
            except CorruptFrame:
                continue
    finally:
        await reader.close()
