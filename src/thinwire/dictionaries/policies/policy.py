"""What every way to look after a dictionary can do: it is offered messages, and says what to do with the dictionary.

A sampler offers each message that travels and asks for a proposal as often as it likes. A decision is handed out once:
whoever asks again before the next one is due hears `Keep`. What is proposed counts as done, so a sampler that cannot
publish a dictionary begins anew with another policy.

Every proposal carries the numbers behind it, so that a decision can be shown and argued with.

>>> Replace(None, life=None, why={"packed": 210.0, "deflated": 198.0})
Replace(dictionary=None, life=None, why={'packed': 210.0, 'deflated': 198.0})

How many bytes messages would take: what all policies judge dictionaries by.

The messages that a policy looks back on: the most recent ones, never more than its limits allow.

>>> history = History(messages=3, limit=10)
>>> for text in (b"one", b"two", b"three", b"four"):
...     history.add(text)
>>> history.last(5), history.last(1), history.mean
([b'three', b'four'], [b'four'], 4.5)

Which messages of a stream a sampler looks at: all at first, few in the end, and many in a row where it must learn.

As many for every doubling of the stream, so that what is seen too late is never more than a share of it.

>>> pace = StreamProgress()
>>> looked_at = []
>>> for number in range(1, 300_001):
...     pace.seen = number
...     if number == pace.next:
...         looked_at.append(number)
...         pace.advance()
...     pace.calm = number > 2_000
>>> looked_at[:3], 3_500 < len(looked_at) < 4_500
([1, 2, 3], True)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from thinwire.dictionaries.codecs import Codec, Deflate
from thinwire.dictionaries.dictionary import Dictionary

Reasons = Mapping[str, float | int | str]
"""the numbers behind a decision, by name"""

Trainer = Callable[[Sequence[bytes], int], Dictionary | None]
"""messages and the largest size to a dictionary, or to None where none can be made"""


@dataclass(frozen=True)
class Keep:
    """Nothing is due: everything stays as it is, expiry included."""

    why: Reasons = field(default_factory=dict)


@dataclass(frozen=True)
class Prolong:
    """The dictionary stays in use; `life`: messages until it is looked at again, None where that is not foreseen."""

    life: int | None
    why: Reasons = field(default_factory=dict)


@dataclass(frozen=True)
class Replace:
    """Use this dictionary from now on, or none at all (deflate), for `life` messages."""

    dictionary: Dictionary | None
    life: int | None
    why: Reasons = field(default_factory=dict)


Proposal = Keep | Prolong | Replace

KEEP = Keep()


class DictionaryPolicy(Protocol):
    """One way to look after the dictionary of a topic."""

    name: str

    def offer(self, message: bytes) -> None:
        """A message has travelled."""

    def offer_all(self, messages: Sequence[bytes]) -> None:
        """Several have, in this order: the same as one by one, and cheaper for who looks at few of them."""

    def propose(self) -> Proposal:
        """What to do now."""


class SequentialPolicy:
    """A policy that looks at every message."""

    def offer(self, message: bytes) -> None:
        raise NotImplementedError

    def offer_all(self, messages: Sequence[bytes]) -> None:
        """Each in turn."""
        for message in messages:
            self.offer(message)


SLOT = 1
"""bytes of every message that name its dictionary"""
DEFLATE = Deflate()
"""what a message without a dictionary is packed with"""
JUDGING = 0.3
"""share of the messages, the latest ones, that dictionaries are judged by"""


def packed(messages: Sequence[bytes], codec: Codec) -> int:
    """Bytes of the messages on the wire, slots included.

    >>> packed([b"a" * 100, b""], DEFLATE)
    8
    """
    return sum(len(codec.pack(message)) for message in messages) + SLOT * len(messages)


def latest(messages: Sequence[bytes]) -> Sequence[bytes]:
    """The part that judges: the last 30 %, at least one message."""
    return messages[min(len(messages) - 1, int((1 - JUDGING) * len(messages))) :]


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


DENSE, STRIDE = 1000, 256
"""one message in so many thousands seen is looked at, one in `STRIDE` in the end"""


class StreamProgress:
    """How far a stream has come.

    seen: its messages so far; next: the number of the one that is looked at next
    gathering: messages in a row that are still wanted; calm: half as many as usual will do
    """

    def __init__(self) -> None:
        self.seen = 0
        self.next = 1
        self.gathering = 0
        self.calm = False

    @property
    def stride(self) -> int:
        """One message in so many is looked at now."""
        return int(min(STRIDE, self.seen // DENSE + 1))

    def advance(self) -> None:
        """To the next message that is looked at: at no period, so that no periodic stream hides from it."""
        if self.gathering:
            self.gathering -= 1
            self.next = self.seen + 1
            return
        span = self.stride * (4 if self.calm else 2) - 1
        self.next = self.seen + 1 + self.seen * 2654435761 % 2**32 * span // 2**32
