"""How much worse a dictionary packs than it did at first, judged by a sample of the messages.

Messages differ in size, so what counts is how far a packed message lies above the share of its plain size that the
dictionary reached at first. Chance makes that wander; a loss is reported only where it stands clear of chance.

>>> decay = Decay()
>>> for n in range(400):
...     decay.judge(plain=100, packed=20 + n % 5)
>>> decay.lost
0.0
>>> for n in range(400):
...     decay.judge(plain=100, packed=30 + n % 5)
>>> round(decay.lost, 1), round(decay.faded, 1)
(9.6, 0.2)
>>> for n in range(4000):
...     decay.judge(plain=100, packed=30 + n % 5)
>>> round(decay.lost, 1), round(decay.faded, 1)
(10.0, 7.6)

What dictionaries have cost in the end: the bytes of their messages and their own, over their lives.

A large dictionary that fades looks best whenever it is new; that a plain one cost less over its life shows only
afterwards. So when one has decayed, the next is made like the one that cost least.

>>> epochs = Epochs()
>>> small, large = DictionaryKind(256, ("zstd", 3)), DictionaryKind(8192, ("brief", 6))
>>> for kind, packed, cost in ((small, 66, 250_000), (large, 55, 2_900_000)):
...     for _ in range(ENOUGH):
...         epochs.judge(118, packed)
...     epochs.end(kind, age=100_000, cost=cost, copies=2)
>>> epochs.best.size, epochs.settled
(256, True)

How long a new dictionary is expected to live, and whether the present one has decayed so far that another pays.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

from thinwire.dictionaries.topology import Topology

FIRST = 128
"""messages that tell what a dictionary gives while it is new"""
RECENT = 128
"""messages, about, that tell what it gives now"""
CLEAR, FAINT = 3.0, 1.0
"""standard errors"""
COMPARED = 16
"""messages that are needed, and twice as many remembered, to say that deflate does better"""


class Decay:
    """The loss of one dictionary."""

    def __init__(self) -> None:
        self.judged = 0
        self._plain = self._packed = 0
        self._mean = self._square = self._above = 0.0
        self._compared = 0
        self._behind = 0.0

    def judge(self, plain: int, packed: int) -> None:
        """One more message of the sample, its bytes before and after."""
        self.judged += 1
        if self.judged <= FIRST:
            self._plain += plain
            self._packed += packed
            return
        above = packed - plain * self._packed / max(self._plain, 1)
        self._above += above
        weight = max(1 / RECENT, 1 / (self.judged - FIRST))
        self._mean += weight * (above - self._mean)
        self._square += weight * (above * above - self._square)

    @property
    def packed(self) -> float:
        """Bytes that a message took at first."""
        return self._packed / max(min(self.judged, FIRST), 1)

    @property
    def lost(self) -> float:
        """Bytes a message more than at first; 0 where that may be chance."""
        return self._mean if self._is_significant(CLEAR) else 0.0

    @property
    def faded(self) -> float:
        """Bytes a message by which a new dictionary will fall back against this one, over as long a life.

        Of two that lose evenly the younger stays ahead by as much as it is now: nothing. But where this one has lost
        nearly all that it can lose, the other catches up with it: what this one has lost, over the whole of its life.
        """
        lost = self.lost
        if not lost:
            return 0.0
        throughout = self._above / self.judged
        return throughout * min(1.0, max(0.0, 2 * throughout / lost - 1))

    @property
    def calm(self) -> bool:
        """Nothing speaks for a loss, not even faintly, and enough has been judged to say so."""
        return self.judged >= FIRST + RECENT and not self._is_significant(FAINT)

    def _is_significant(self, errors: float) -> bool:
        """Is the loss larger than so many standard errors?"""
        recent = min(self.judged - FIRST, RECENT)
        if recent < RECENT // 4:
            return False
        variance = max(0.0, self._square - self._mean * self._mean) * (1 / recent + 1 / FIRST)
        return self._mean > errors * sqrt(variance)

    def compare(self, packed: int, deflated: int) -> None:
        """A message with the dictionary and without."""
        self._compared += 1
        self._behind += max(1 / (2 * COMPARED), 1 / self._compared) * (packed - deflated - self._behind)

    @property
    def worse(self) -> bool:
        """Would messages be shorter without the dictionary?"""
        return self._compared >= COMPARED and self._behind > 0


Form = tuple[str, int]
"""a codec and its level"""
ENOUGH = 128
"""messages that tell what a life was like"""
OTHER = 2
"""sizes that differ by this factor are of different kinds"""


class DictionaryKind(NamedTuple):
    """Which dictionary it was: the size that was asked for, and what packed with it."""

    size: int
    form: Form


class Epochs:
    """The lives of a stream's dictionaries.

    best: which kind cost least; None before any has ended
    settled: was it compared with quite another size? Then there is no need to look for one
    spent: bytes of the last life, of messages and dictionary, as a share of the plain ones; 0 where nothing is known
    """

    def __init__(self) -> None:
        self.best: DictionaryKind | None = None
        self.settled = False
        self.spent = self._least = 0.0
        self._begin()

    def judge(self, plain: int, packed: int) -> None:
        """A message of the present life, before and after."""
        self._judged += 1
        self._plain += plain
        self._packed += packed

    def end(self, kind: DictionaryKind, age: int, cost: float, copies: int) -> None:
        """The present life is over, after `age` messages; `cost`: bytes of its dictionary to all receivers."""
        self.spent = 0.0
        if self._judged >= ENOUGH and age > 0 and self._plain:
            self.spent = self._packed / self._plain + cost * self._judged / (age * self._plain * copies)
            if self.best is not None:
                sizes = sorted((self.best.size, kind.size))
                self.settled |= sizes[1] >= OTHER * sizes[0]
            if self.best is None or self.spent < self._least:
                self.best, self._least = kind, self.spent
        self._begin()

    def _begin(self) -> None:
        self._judged = self._plain = self._packed = 0


TRUSTED = 10
"""a stream whose length is known is expected to stay as it is for so many times the messages seen; who knows more?"""
UNTOLD, ANOTHER = 2, 0.5
"""a stream of unknown length is expected to go on for so many times the messages seen: for its first dictionary, and
where one is to be replaced"""
AHEAD = 3
"""such lives that sizes are compared over: as the stream goes on it is expected to go on for longer"""
EACH = 40
"""messages that every publisher is expected to send, where sizes are compared: nobody connects for a few"""
SLIGHT = 0.02
"""share of what a message takes; a smaller loss is not worth the look"""


@dataclass(frozen=True)
class StreamForecast:
    """What is known of a stream and of those it reaches.

    topology: how many publishers and subscribers there are; expected: messages in all, where that is known

    >>> from thinwire.dictionaries.topology import ONE_TO_ONE
    >>> StreamForecast(ONE_TO_ONE, None).life(1000, first=True), StreamForecast(ONE_TO_ONE, 5000).life(1000, first=True)
    (2000, 4000)
    """

    topology: Topology
    expected: int | None

    def ahead(self, seen: int, life: float) -> float:
        """Lives, of so many messages, that sizes are compared over."""
        if self.expected is not None:
            return min(max(1.0, (self.expected - seen) / max(life, 1)), AHEAD)
        return max(AHEAD, EACH * self.topology.publishers / max(life, 1))

    def trusted(self, first: bool) -> float:
        """For how many times the messages seen the stream is expected to go on; first: has it no dictionary yet?"""
        if self.expected is not None:
            return TRUSTED
        return UNTOLD if first else ANOTHER

    def life(self, seen: int, *, first: bool, lost: float = 0.0, age: int = 1, cost: float = 0.0) -> float:
        """Messages that a new dictionary is expected to live for.

        lost: bytes a message that the present one takes more than when it was new, `age` messages ago; cost: of it
        """
        left = self.trusted(first) * seen
        if self.expected is not None:
            left = min(left, max(0, self.expected - seen))
        if not lost:
            return left
        return min(left, sqrt(2 * cost / (lost / max(age, 1) * self.topology.copies)))

    def has_decayed(self, decay: Decay, life: float, cost: float) -> bool:
        """Would the loss, at half its present size over a life, pay for another dictionary?"""
        return decay.lost > SLIGHT * decay.packed and decay.lost / 2 * self.topology.copies * life >= cost
