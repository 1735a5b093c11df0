"""Results on their way: each once, in order, refused where another host has taken the topic over.

Every result insists on being the next under its function's own subject. A host that was paused and wakes up finds that
another has written, and ends; and the last result in the log says which message it was made of, so whoever takes over
goes on behind it: a message may be processed twice, its result is stored once.
"""

from __future__ import annotations

from collections import OrderedDict

from thinwire.brokers.protocol_broker import NOTHING, Broker
from thinwire.edge.edge_documents_names import edge_log, edge_subject, writer_of
from thinwire.edge.edge_messages import Carried
from thinwire.errors import Conflict, CorruptFrame, Superseded

REMEMBERED = 4096
"""ids of a topic that are known again"""
READ_BACK = 1024
"""results that are read to know their ids, after a move"""


class Outlet:
    """Where the results of one topic go."""

    def __init__(self, broker: Broker, topic: str, output: str) -> None:
        self.topic = topic
        self.log, self.subject = edge_log(output), edge_subject(output, writer_of(topic))
        self._pattern = edge_subject(output)
        self._broker = broker
        self._last = NOTHING
        self._known: OrderedDict[str, None] = OrderedDict()

    async def open(self) -> int:
        """Find the last result; the offset of the message that it was made of, 0 where there is none."""
        await self._broker.open_log(self.log, [self._pattern])
        newest = await self._broker.last(self.log, self.subject)
        if newest is None:
            return 0
        self._last = newest.offset
        return await self._read_back(newest.offset)

    def has(self, identity: str) -> bool:
        """Was a message with this id dealt with, as far as is remembered?"""
        return identity in self._known

    def remember(self, identity: str) -> None:
        """A message with this id is dealt with."""
        self._known[identity] = None
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    async def store(self, result: Carried) -> None:
        """Append a result; `Superseded` where another host has written one."""
        try:
            self._last = await self._broker.append(self.log, self.subject, result.encode(), after=self._last)
        except Conflict:
            raise Superseded("another host writes the results", topic=self.topic, epoch=result.epoch) from None

    async def _read_back(self, last: int) -> int:
        """The origin of the last result, with the ids of those before it taken in."""
        origin = 0
        first = max(1, last - READ_BACK + 1)
        reader = await self._broker.read(self.log, first=first, subjects=[self.subject])
        try:
            while (stored := await reader.next(timeout=10.0)) is not None:
                reader.done(stored.offset)
                try:
                    result = Carried.decode(stored.payload)
                    origin = max(origin, result.origin)
                    self.remember(result.id)
                except CorruptFrame:
                    pass  # somebody else's: it tells nothing
                if stored.offset >= last:
                    break
        finally:
            await reader.close()
        return origin
