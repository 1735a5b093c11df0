"""Estimates for dictionary policies: loss of a dictionary, cost of past dictionaries, expected life of the next one.

`Decay` measures how much worse a dictionary packs than at first. Messages differ in size, so the measure is the
distance of a packed message from the share of its plain size that the dictionary reached at first. Only a significant
loss is reported.

>>> decay = Decay()
>>> for n in range(400):
...     decay.observe(plain=100, packed=20 + n % 5)
>>> decay.lost
0.0
>>> for n in range(400):
...     decay.observe(plain=100, packed=30 + n % 5)
>>> round(decay.lost, 1), round(decay.faded, 1)
(9.6, 0.2)
>>> for n in range(4000):
...     decay.observe(plain=100, packed=30 + n % 5)
>>> round(decay.lost, 1), round(decay.faded, 1)
(10.0, 7.6)

`Epochs` compares the total cost of dictionaries, messages included, over their lives. A large dictionary that fades
looks best while it is new, although a small one may cost less over its life. After a decay the next dictionary is like
the one that cost least.

>>> epochs = Epochs()
>>> small, large = DictionaryKind(256, ("zstd", 3)), DictionaryKind(8192, ("brief", 6))
>>> for kind, packed, cost in ((small, 66, 250_000), (large, 55, 2_900_000)):
...     for _ in range(ENOUGH):
...         epochs.observe(118, packed)
...     epochs.end(kind, age=100_000, cost=cost, copies=2)
>>> epochs.best.size, epochs.settled
(256, True)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

from thinwire.dictionaries.topology import Topology

FIRST = 128
"""messages that show what a dictionary saves while it is new"""
RECENT = 128
"""messages, about, that show what it saves now"""
CLEAR, FAINT = 3.0, 1.0
"""standard errors"""
COMPARED = 16
"""comparisons with deflate before a result; the mean covers twice as many"""

Form = tuple[str, int]
"""a codec and its level"""
ENOUGH = 128
"""messages that show the cost of a dictionary"""
OTHER = 2
"""sizes that differ by this factor count as different"""

TRUSTED = 10
"""times the messages seen for which a stream of known length is expected to stay as it is"""
FIRST_LIFE, NEXT_LIFE = 2, 0.5
"""times the messages seen for which a stream of unknown length is expected to continue: for its first dictionary, and
for a replacement"""
AHEAD = 3
"""lives over which sizes are compared: the expected life grows with the stream"""
EACH = 40
"""messages that every publisher is expected to send, for the comparison of sizes"""
SLIGHT = 0.02
"""share of a packed message; a smaller loss is ignored"""


class Decay:
    """Loss of one dictionary since it was new."""

    def __init__(self) -> None:
        self.observed = 0
        self._plain = self._packed = 0
        self._mean = self._square = self._above = 0.0
        self._compared = 0
        self._behind = 0.0

    def observe(self, plain: int, packed: int) -> None:
        """Add a sampled message: its bytes before and after packing."""
        self.observed += 1
        if self.observed <= FIRST:
            self._plain += plain
            self._packed += packed
            return
        above = packed - plain * self._packed / max(self._plain, 1)
        self._above += above
        weight = max(1 / RECENT, 1 / (self.observed - FIRST))
        self._mean += weight * (above - self._mean)
        self._square += weight * (above * above - self._square)

    @property
    def packed(self) -> float:
        """Bytes of a packed message at first."""
        return self._packed / max(min(self.observed, FIRST), 1)

    @property
    def lost(self) -> float:
        """Bytes per message more than at first; 0 if not significant."""
        return self._mean if self._is_significant(CLEAR) else 0.0

    @property
    def faded(self) -> float:
        """Bytes per message that a new dictionary is expected to lose against this one over an equally long life.

        If dictionaries lose at a constant rate, the younger one keeps its advantage: 0. If this one has lost nearly
        all that it can lose, the new one will lose as much: the mean loss over the whole life.
        """
        lost = self.lost
        if not lost:
            return 0.0
        mean = self._above / self.observed
        return mean * min(1.0, max(0.0, 2 * mean / lost - 1))

    @property
    def calm(self) -> bool:
        """Whether enough messages were observed and do not even faintly show a loss."""
        return self.observed >= FIRST + RECENT and not self._is_significant(FAINT)

    def _is_significant(self, errors: float) -> bool:
        """Return whether the loss exceeds this number of standard errors."""
        recent = min(self.observed - FIRST, RECENT)
        if recent < RECENT // 4:
            return False
        variance = max(0.0, self._square - self._mean * self._mean) * (1 / recent + 1 / FIRST)
        return self._mean > errors * sqrt(variance)

    def compare(self, packed: int, deflated: int) -> None:
        """Add a message packed with the dictionary and by deflate."""
        self._compared += 1
        self._behind += max(1 / (2 * COMPARED), 1 / self._compared) * (packed - deflated - self._behind)

    @property
    def worse(self) -> bool:
        """Whether deflate packs smaller."""
        return self._compared >= COMPARED and self._behind > 0


class DictionaryKind(NamedTuple):
    """Requested size and form of a dictionary."""

    size: int
    form: Form


class Epochs:
    """Costs of the dictionaries of a stream over their lives.

    best: the kind that cost least; None before the first has ended
    settled: whether the best was compared with a clearly different size
    spent: cost of the last life, messages and dictionary, as a share of the plain bytes; 0 if unknown
    """

    def __init__(self) -> None:
        self.best: DictionaryKind | None = None
        self.settled = False
        self.spent = self._least = 0.0
        self._begin()

    def observe(self, plain: int, packed: int) -> None:
        """Add a message of the present life: its bytes before and after packing."""
        self._observed += 1
        self._plain += plain
        self._packed += packed

    def end(self, kind: DictionaryKind, age: int, cost: float, copies: int) -> None:
        """End the present life after `age` messages; `cost`: bytes of its dictionary to all receivers."""
        self.spent = 0.0
        if self._observed >= ENOUGH and age > 0 and self._plain:
            self.spent = self._packed / self._plain + cost * self._observed / (age * self._plain * copies)
            if self.best is not None:
                sizes = sorted((self.best.size, kind.size))
                self.settled |= sizes[1] >= OTHER * sizes[0]
            if self.best is None or self.spent < self._least:
                self.best, self._least = kind, self.spent
        self._begin()

    def _begin(self) -> None:
        self._observed = self._plain = self._packed = 0


@dataclass(frozen=True)
class StreamForecast:
    """Expected future of a stream.

    expected: total number of messages, if known

    >>> from thinwire.dictionaries.topology import ONE_TO_ONE
    >>> StreamForecast(ONE_TO_ONE, None).life(1000, first=True), StreamForecast(ONE_TO_ONE, 5000).life(1000, first=True)
    (2000, 4000)
    """

    topology: Topology
    expected: int | None

    def ahead(self, seen: int, life: float) -> float:
        """Return the number of lives, of `life` messages each, over which sizes are compared."""
        if self.expected is not None:
            return min(max(1.0, (self.expected - seen) / max(life, 1)), AHEAD)
        return max(AHEAD, EACH * self.topology.publishers / max(life, 1))

    def trusted(self, first: bool) -> float:
        """Return for how many times the messages seen the stream is expected to continue.

        first: the stream has no dictionary yet
        """
        if self.expected is not None:
            return TRUSTED
        return FIRST_LIFE if first else NEXT_LIFE

    def life(self, seen: int, *, first: bool, lost: float = 0.0, age: int = 1, cost: float = 0.0) -> float:
        """Return the messages for which a new dictionary is expected to live.

        lost: bytes per message that the present dictionary, `age` messages old, has lost
        cost: bytes of the present dictionary to all receivers
        """
        rest = self.trusted(first) * seen
        if self.expected is not None:
            rest = min(rest, max(0, self.expected - seen))
        if not lost:
            return rest
        return min(rest, sqrt(2 * cost / (lost / max(age, 1) * self.topology.copies)))

    def has_decayed(self, decay: Decay, life: float, cost: float) -> bool:
        """Return whether half of the loss over a life is worth another dictionary."""
        return decay.lost > SLIGHT * decay.packed and decay.lost / 2 * self.topology.copies * life >= cost
