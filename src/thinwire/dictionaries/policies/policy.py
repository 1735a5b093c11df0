"""The interface of dictionary policies, and what they share: proposals, message history, sampling of a stream.

A sampler offers messages to a policy and calls `propose` as often as it likes. Each decision is returned once; after it
`propose` returns `Keep` until the next decision. A policy assumes that its proposals are carried out, so a sampler that
cannot publish a dictionary continues with a new policy. Proposals contain the numbers on which they are based.

>>> Replace(None, life=None, why={"packed": 210.0, "deflated": 198.0})
Replace(dictionary=None, life=None, why={'packed': 210.0, 'deflated': 198.0})

>>> history = History(messages=3, limit=10)
>>> for text in (b"one", b"two", b"three", b"four"):
...     history.add(text)
>>> history.last(5), history.last(1), history.mean
([b'three', b'four'], [b'four'], 4.5)

`StreamProgress` samples about as many messages in every doubling of a stream, so that the delay of a decision is a
constant share of the stream.

>>> progress, sampled = StreamProgress(), []
>>> for number in range(1, 300_001):
...     progress.seen = number
...     if number == progress.next:
...         sampled.append(number)
...         progress.advance()
...     progress.calm = number > 2_000
>>> sampled[:3], 3_500 < len(sampled) < 4_500
([1, 2, 3], True)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from thinwire.dictionaries.codecs import Codec, Deflate
from thinwire.dictionaries.dictionary import Dictionary

Reasons = Mapping[str, float | int | str]
"""numbers behind a decision, by name"""

SLOT = 1
"""bytes of every message that name its dictionary"""
DEFLATE = Deflate()
"""packs messages without a dictionary"""
JUDGING = 0.3
"""share of the messages, latest last, that evaluates dictionaries"""
LIMIT = 16 << 20
"""bytes that a policy stores of a topic"""
DENSE, STRIDE = 1000, 256
"""one message in (thousands seen + 1) is sampled, at least one in `STRIDE`"""


@dataclass(frozen=True)
class Keep:
    """No change, also of the expiry."""

    why: Reasons = field(default_factory=dict)


@dataclass(frozen=True)
class Prolong:
    """The dictionary stays in use.

    life: messages until it is examined again; None if unknown
    """

    life: int | None
    why: Reasons = field(default_factory=dict)


@dataclass(frozen=True)
class Replace:
    """Use this dictionary from now on, or none (deflate), for `life` messages."""

    dictionary: Dictionary | None
    life: int | None
    why: Reasons = field(default_factory=dict)


Proposal = Keep | Prolong | Replace

KEEP = Keep()


class DictionaryPolicy(Protocol):
    """Decides when the dictionary of a topic is kept, prolonged or replaced."""

    name: str

    def offer(self, message: bytes) -> None:
        """Observe a message of the topic."""

    def offer_all(self, messages: Sequence[bytes]) -> None:
        """Observe messages in this order. A policy that samples overrides this to skip messages."""
        for message in messages:
            self.offer(message)

    def propose(self) -> Proposal:
        """Return the decision that is due now."""


def packed(messages: Sequence[bytes], codec: Codec) -> int:
    """Return the bytes of packed messages, slots included.

    >>> packed([b"a" * 100, b""], DEFLATE)
    8
    """
    return sum(len(codec.pack(message)) for message in messages) + SLOT * len(messages)


def latest(messages: Sequence[bytes]) -> Sequence[bytes]:
    """Return the part that evaluates: the last 30 %, at least one message."""
    return messages[min(len(messages) - 1, int((1 - JUDGING) * len(messages))) :]


class History:
    """The most recent messages.

    messages: number of messages, at most
    limit: bytes of all of them, at most; a longer message is not stored
    """

    def __init__(self, messages: int, limit: int = LIMIT) -> None:
        self.messages = messages
        self.limit = limit
        self.bytes = 0
        self._stored: deque[bytes] = deque()

    def __len__(self) -> int:
        return len(self._stored)

    def add(self, message: bytes) -> None:
        """Store a message; remove the oldest ones above a limit."""
        if len(message) > self.limit:
            return
        stored = self._stored
        stored.append(message)
        self.bytes += len(message)
        while len(stored) > self.messages or self.bytes > self.limit:
            self.bytes -= len(stored.popleft())

    def last(self, count: int) -> list[bytes]:
        """Return the most recent `count` messages, oldest first."""
        return list(islice(self._stored, max(0, len(self._stored) - count), None))

    @property
    def mean(self) -> float:
        return self.bytes / len(self._stored) if self._stored else 0.0


@dataclass
class StreamProgress:
    """Number of messages of a stream, and which one is sampled next.

    seen: messages so far
    next: number of the next sampled message
    gathering: consecutive messages still to sample
    calm: sample half as many
    """

    seen: int = 0
    next: int = 1
    gathering: int = 0
    calm: bool = False

    @property
    def stride(self) -> int:
        """One message in `stride` is sampled now."""
        return min(STRIDE, self.seen // DENSE + 1)

    def advance(self) -> None:
        """Set the next sampled message, at irregular distances, so that periodic streams are sampled evenly."""
        if self.gathering:
            self.gathering -= 1
            self.next = self.seen + 1
            return
        span = self.stride * (4 if self.calm else 2) - 1
        self.next = self.seen + 1 + self.seen * 2654435761 % 2**32 * span // 2**32
