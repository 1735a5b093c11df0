"""The way of a topic's channels into their log: many channels at once, each with one message in flight, each once.

The first message to a channel, and any a second after the one before was sent, insists on that one: whoever was paused
while another translator took over is refused, and told so by `Superseded`. One that is paused just between deciding to
send and sending gets a single message through, which readers drop by its epoch: it looks what stands before it, and
writes no more. A broker that cannot be reached is waited for; nothing is given up.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass

from thinwire.brokers.protocol import ANY, Broker
from thinwire.errors import BrokerRefused, BrokerUnavailable, Conflict, Superseded, TransportError
from thinwire.services.translator.message_batcher import Outgoing
from thinwire.topics.names import channel_data_subject, channel_key_subject, channel_log_of, channel_subjects

FENCE_AFTER = 1.0
"""seconds since the last message that was stored was sent, after which somebody else may have taken over"""
PATIENCE = 2.0
"""seconds for one attempt to store a message"""
COMPLAIN_EVERY = 30.0
AT_ONCE = 32
"""channels that are written at the same time"""

_log = logging.getLogger("thinwire.translator")


@dataclass(slots=True)
class _Channel:
    """Where a channel ends: the offset of its last message, 0 for none, and when the last one of ours was sent."""

    last: int = 0
    sent: float = -FENCE_AFTER


class ChannelWriter:
    """Stores what a translation brings."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.topic = topic
        self._broker = broker
        self._log = channel_log_of(topic)
        self._channels: dict[tuple[str, str], _Channel] = {}
        self._complained = -COMPLAIN_EVERY
        self._failure: TransportError | None = None

    def ends_at(self, class_id: str, ends: Mapping[str, int]) -> None:
        """The channels of a class end at these offsets, by publisher; the first message to each insists on it."""
        for publisher, offset in ends.items():
            self._channels[class_id, publisher] = _Channel(offset)

    def last(self, class_id: str, publisher: str) -> int:
        """The offset of a channel's last message, 0 where there is none."""
        return self._channel(class_id, publisher).last

    async def write(self, messages: Sequence[Outgoing]) -> None:
        """Store messages, those of one channel in their order; returns when all are stored, however long it takes."""
        lines: dict[tuple[str, str], list[Outgoing]] = {}
        for message in messages:
            lines.setdefault((message.class_id, message.publisher), []).append(message)
        waiting = deque(lines.values())
        if len(lines) == 1:
            await self._work(waiting)
        elif lines:
            workers = [self._work(waiting) for _ in range(min(AT_ONCE, len(lines)))]
            await asyncio.gather(*workers)
        if self._failure is not None:
            raise self._failure

    async def _work(self, waiting: deque[list[Outgoing]]) -> None:
        """Channel after channel, until there is none left or something has gone wrong that waiting does not mend."""
        try:
            while waiting and self._failure is None:
                for message in waiting.popleft():
                    await self._send(message)
        except TransportError as failure:
            self._failure = failure

    async def _send(self, message: Outgoing) -> None:
        """Store a message. `sent` is when that was decided: what its acknowledgement proves is no later than that."""
        loop, channel = asyncio.get_running_loop(), self._channel(message.class_id, message.publisher)
        while self._failure is None:
            decided = loop.time()
            fenced = decided - channel.sent >= FENCE_AFTER
            offset = await self._tried(self._store(message, channel, fenced))
            if offset is not None:
                if not fenced and loop.time() - channel.sent >= FENCE_AFTER:
                    await self._check(message, channel, offset)
                channel.last, channel.sent = offset, decided
                return

    async def _store(self, message: Outgoing, channel: _Channel, fenced: bool) -> int:
        """The offset of a message once it is stored."""
        name = channel_key_subject if message.key else channel_data_subject
        subject, within = name(self.topic, message.class_id, message.publisher), self._within(message)
        after, over = (channel.last, within) if fenced else (ANY, "")
        try:
            return await self._broker.append(
                self._log, subject, message.payload, after=after, within=over, timeout=PATIENCE
            )
        except Conflict:
            return await self._own(subject, within, message.payload, channel)

    async def _check(self, message: Outgoing, channel: _Channel, offset: int) -> None:
        """A message was long on its way, and insisted on nothing: has somebody else written before it?"""
        within, before = self._within(message), None
        while self._failure is None and before is None:
            before = await self._tried(self._ends_before(within, offset))
        if before is not None and before > channel.last:
            raise Superseded("its channel went on without this one", topic=self.topic, channel=within)

    async def _ends_before(self, within: str, offset: int) -> int:
        stored = await self._broker.last(self._log, within, up_to=offset - 1)
        return stored.offset if stored is not None else 0

    async def _tried(self, call: Awaitable[int]) -> int | None:
        """What a call to the broker brings; None, after a while, where it is to be tried again."""
        try:
            return await call
        except (BrokerUnavailable, BrokerRefused) as trouble:
            self._complain(trouble)
            await asyncio.sleep(min(1.0, PATIENCE))
            return None

    def _within(self, message: Outgoing) -> str:
        return channel_subjects(self.topic, message.class_id, message.publisher)

    async def _own(self, subject: str, within: str, payload: bytes, channel: _Channel) -> int:
        """The channel went on: with this very message, sent before an answer was lost, or with somebody else's."""
        newest = await self._broker.last(self._log, within)
        if newest is None:  # the log has forgotten everything that was told to this class
            return await self._broker.append(self._log, subject, payload, timeout=PATIENCE)
        if newest.offset <= channel.last or (newest.subject, newest.payload) != (subject, payload):
            raise Superseded("its channel went on without this one", topic=self.topic, channel=within)
        return newest.offset

    def _channel(self, class_id: str, publisher: str) -> _Channel:
        return self._channels.setdefault((class_id, publisher), _Channel())

    def _complain(self, trouble: TransportError) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._complained >= COMPLAIN_EVERY:
            self._complained = now
            _log.warning("%s: channels wait and are kept. %s", self.topic, trouble)
