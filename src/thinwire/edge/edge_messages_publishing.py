"""Publishing on a topic of the edge, and reading one: for publishers, subscribers and the load harness."""

from __future__ import annotations

from collections.abc import AsyncIterator

from thinwire.brokers.protocol_broker import Broker
from thinwire.edge.edge_documents_names import edge_log, edge_subject, publisher_word
from thinwire.edge.edge_messages import Carried
from thinwire.errors import CorruptFrame


class EdgePublisher:
    """One publisher on one topic.

    near: publish at the host that this broker belongs to, for a topic whose messages stay there
    """

    def __init__(self, broker: Broker, topic: str, publisher: str, *, near: bool = False) -> None:
        self.topic, self.publisher, self.near = topic, publisher_word(publisher), near
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
