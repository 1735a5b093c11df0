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
"""

from __future__ import annotations

from math import sqrt

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
        return self._mean if self._stands_out(CLEAR) else 0.0

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
        return self.judged >= FIRST + RECENT and not self._stands_out(FAINT)

    def _stands_out(self, errors: float) -> bool:
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
