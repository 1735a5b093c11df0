"""The log of one subject: its last messages under numbers without a gap.

>>> log = Log("rooms", retain=2)
>>> [log.store(Message("rooms", text)).sequence for text in (b"a", b"b", b"c")]
[1, 2, 3]
>>> log.first, [message.payload for message in log.since(3)]
(2, [b'c'])
"""

from __future__ import annotations

from collections import deque
from itertools import islice

from thinwire.brokers.protocol import Message
from thinwire.errors import NoLongerRetained, TransportError


class Log:
    """Keeps as many messages as it is told to retain, the newest."""

    def __init__(self, subject: str, retain: int) -> None:
        self.subject = subject
        self.retain = retain
        self.last = 0
        self._messages: deque[Message] = deque(maxlen=retain)

    @property
    def first(self) -> int:
        """The oldest sequence still here; one above `last` when the log is empty."""
        return self.last - len(self._messages) + 1

    def store(self, message: Message) -> Message:
        """The message under its number."""
        self.last += 1
        numbered = message._replace(sequence=self.last)
        self._messages.append(numbered)
        return numbered

    def since(self, first: int) -> list[Message]:
        """The messages from this sequence on; none if it has not come yet."""
        if first < 1:
            raise TransportError("sequences count from 1", subject=self.subject, sequence=first)
        if first < self.first:
            raise NoLongerRetained(subject=self.subject, sequence=first, first=self.first, last=self.last)
        return list(islice(self._messages, first - self.first, None))
