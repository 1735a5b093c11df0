"""The messages that a policy looks back on: the most recent ones, never more than its limits allow.

>>> history = History(messages=3, limit=10)
>>> for text in (b"one", b"two", b"three", b"four"):
...     history.add(text)
>>> history.last(5), history.last(1), history.mean
([b'three', b'four'], [b'four'], 4.5)
"""

from __future__ import annotations

from collections import deque
from itertools import islice

LIMIT = 16 << 20
"""bytes that a policy keeps of a topic"""


class History:
    """A ring of messages.

    messages: how many are kept
    limit: bytes of all of them; a message above it is not kept at all
    """

    def __init__(self, messages: int, limit: int = LIMIT) -> None:
        self.messages = messages
        self.limit = limit
        self._kept: deque[bytes] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, message: bytes) -> None:
        """Keep a message, and let go of the oldest where there is no room."""
        if len(message) > self.limit:
            return
        kept = self._kept
        kept.append(message)
        self._bytes += len(message)
        while len(kept) > self.messages or self._bytes > self.limit:
            self._bytes -= len(kept.popleft())

    def last(self, count: int) -> list[bytes]:
        """The most recent `count` messages, oldest first."""
        return list(islice(self._kept, max(0, len(self._kept) - count), None))

    @property
    def bytes(self) -> int:
        """Of all that is kept."""
        return self._bytes

    @property
    def mean(self) -> float:
        """Bytes of a message, on average."""
        return self._bytes / len(self._kept) if self._kept else 0.0
