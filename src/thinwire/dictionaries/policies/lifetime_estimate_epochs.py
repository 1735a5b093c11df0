"""What dictionaries have cost in the end: the bytes of their messages and their own, over their lives.

A large dictionary that fades looks best whenever it is new; that a plain one cost less over its life shows only
afterwards. So when one has decayed, the next is made like the one that cost least.

>>> epochs = Epochs()
>>> for kind, packed, cost in ((Kind(256, ("zstd", 3)), 66, 250_000), (Kind(8192, ("brief", 6)), 55, 2_900_000)):
...     for _ in range(ENOUGH):
...         epochs.judge(118, packed)
...     epochs.end(kind, age=100_000, cost=cost, copies=2)
>>> epochs.best.size, epochs.settled
(256, True)
"""

from __future__ import annotations

from typing import NamedTuple

Form = tuple[str, int]
"""a codec and its level"""
ENOUGH = 128
"""messages that tell what a life was like"""
OTHER = 2
"""sizes that differ by this factor are of different kinds"""


class Kind(NamedTuple):
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
        self.best: Kind | None = None
        self.settled = False
        self.spent = self._least = 0.0
        self._begin()

    def judge(self, plain: int, packed: int) -> None:
        """A message of the present life, before and after."""
        self._judged += 1
        self._plain += plain
        self._packed += packed

    def end(self, kind: Kind, age: int, cost: float, copies: int) -> None:
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
