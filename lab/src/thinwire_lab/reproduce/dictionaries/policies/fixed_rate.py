"""FixedRate: a new dictionary after every fixed number of messages.

Equation 5.4.2 of the thesis (C. Doblander, Compression in Publish/Subscribe Systems, 2018) states sizes of dictionaries
(`MULTIPLIERS`), numbers of messages for training (`HISTORIES`) and lives (`LIVES`). The policy starts with the smallest
size and history; after every 10 dictionaries the next history or the next size is used, in turn. With one size and one
history it is the fixed configuration of equations 4.3.1 and 4.3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from thinwire.dictionaries.policies.policy import KEEP, DictionaryPolicy, History, Proposal, Replace
from thinwire_lab.reproduce.dictionaries.policies.training_sample import zstd_3

MULTIPLIERS = (0.3, 0.5, 1, 2, 3, 5, 8, 13, 21)
"""sizes of dictionaries, as multiples of the mean message"""
HISTORIES = (50, 100, 200, 300, 500, 800, 1300, 2100, 3400, 5500)
"""numbers of messages that dictionaries are trained on"""
LIVES = (1500, 7500, 15_000, 30_000)
"""numbers of messages after which a dictionary is replaced"""
GROW_AFTER = 10
"""dictionaries with the same size and history"""

Number = TypeVar("Number", int, float)


class FixedRate(DictionaryPolicy):
    """Proposes a new dictionary every `every` messages.

    multipliers: sizes of the dictionaries, as multiples of the mean message
    histories: numbers of messages that the dictionaries are trained on
    """

    name = "fixed rate"

    def __init__(
        self,
        every: int = 7500,
        multipliers: Sequence[float] = MULTIPLIERS,
        histories: Sequence[int] = HISTORIES,
    ) -> None:
        self.every = every
        self.multipliers = multipliers
        self.histories = histories
        self._history = History(max(histories))
        self._seen = 0
        self._due = min(every, histories[0])
        self._made = 0

    def offer(self, message: bytes) -> None:
        self._seen += 1
        self._history.add(message)

    def propose(self) -> Proposal:
        if self._seen < self._due:
            return KEEP
        self._due = self._seen + self.every
        history_step, size_step = steps(self._made // GROW_AFTER)
        history = _at(self.histories, history_step)
        multiplier = _at(self.multipliers, size_step)
        made = zstd_3(self._history.last(history), round(multiplier * self._history.mean))
        if made is None:
            return KEEP
        self._made += 1
        return Replace(made, self.every, {"seen": self._seen, "history": history, "multiplier": multiplier})


def steps(growths: int) -> tuple[int, int]:
    """Return how often the history and the size have grown, if they grow in turn and the history first.

    >>> [steps(growths) for growths in range(4)]
    [(0, 0), (1, 0), (1, 1), (2, 1)]
    """
    return (growths + 1) // 2, growths // 2


def _at(values: Sequence[Number], index: int) -> Number:
    return values[min(index, len(values) - 1)]
