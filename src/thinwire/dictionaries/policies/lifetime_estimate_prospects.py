"""How long a new dictionary is expected to live, and whether the present one has decayed so far that another pays."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from thinwire.dictionaries.byte_account import Topology
from thinwire.dictionaries.policies.lifetime_estimate import Decay

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
class Prospects:
    """What is known of a stream and of those it reaches.

    topology: how many publishers and subscribers there are; expected: messages in all, where that is known

    >>> from thinwire.dictionaries.byte_account import ALONE
    >>> Prospects(ALONE, None).life(1000, first=True), Prospects(ALONE, 5000).life(1000, first=True)
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
