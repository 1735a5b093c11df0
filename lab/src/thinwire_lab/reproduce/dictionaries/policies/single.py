"""SingleDict: one dictionary for the life of a topic, the simplest baseline.

Equation 5.4.1 of the thesis (C. Doblander, Compression in Publish/Subscribe Systems, 2018): the dictionary is trained
on the first 10,000 messages; `MULTIPLIERS` are its sizes.
"""

from __future__ import annotations

from thinwire.dictionaries.policies.policy import KEEP, DictionaryPolicy, History, Proposal, Replace
from thinwire_lab.reproduce.dictionaries.policies.training_sample import zstd_3

MULTIPLIERS = (0.3, 0.5, 1, 2, 3, 5, 8, 13, 21, 35, 56, 91)
"""sizes of the dictionary, as multiples of the mean message"""
FIRST = 10_000
"""messages that the dictionary is trained on"""


class SingleDict(DictionaryPolicy):
    """Proposes one dictionary.

    multiplier: size of the dictionary, as a multiple of the mean message
    first: number of messages that the dictionary is trained on

    >>> policy = SingleDict(multiplier=8, first=200)
    >>> for n in range(200):
    ...     policy.offer(b'{"room": "11.%d", "temperature": %d.5}' % (n % 7, n % 31))
    >>> proposal = policy.propose()
    >>> type(proposal).__name__, proposal.life, type(policy.propose()).__name__
    ('Replace', None, 'Keep')
    """

    name = "single"

    def __init__(self, multiplier: float = 21, first: int = FIRST) -> None:
        self.multiplier = multiplier
        self.first = first
        self._history = History(first)
        self._seen = 0
        self._is_proposed = False

    def offer(self, message: bytes) -> None:
        if not self._is_proposed:
            self._seen += 1
            self._history.add(message)

    def propose(self) -> Proposal:
        if self._is_proposed or self._seen < self.first:
            return KEEP
        self._is_proposed = True
        messages, mean = self._history.last(self.first), self._history.mean
        self._history = History(0)
        made = zstd_3(messages, round(self.multiplier * mean))
        if made is None:
            return KEEP
        return Replace(made, None, {"seen": self._seen, "mean size": mean, "multiplier": self.multiplier})
