"""Which translator takes which topic: rendezvous hashing among those that are there, and leases above it.

Every translator comes to the same choice from the same names, and when one joins or leaves only the topics it wins or
had move. The choice is a wish; the lease decides. So two that see different translators for a moment do no harm.

>>> chosen("rooms", {"t1", "t2", "t3"}) == chosen("rooms", ["t3", "t2", "t1"])
True
>>> moved = [t for t in map(str, range(99)) if chosen(t, ["t1", "t2"]) != chosen(t, ["t1", "t2", "t3"])]
>>> {chosen(topic, ["t1", "t2", "t3"]) for topic in moved}
{'t3'}
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from thinwire.topics.leases import Leases

RELUCTANCE = 2.0
"""terms that a free topic waits for the one it is meant for, before another takes it"""


def chosen(topic: str, translators: Iterable[str]) -> str:
    """The translator that a topic is meant for; "" where there is none."""
    return max(translators, key=lambda name: (_weight(topic, name), name), default="")


class Spreading:
    """The share of one translator.

    pause: seconds that a topic stays where it is before it is handed over
    """

    def __init__(self, name: str, leases: Leases, pause: float = 10.0) -> None:
        self.name = name
        self.leases = leases
        self.pause = pause

    def is_ours(self, topic: str, now: float) -> bool:
        """Is the topic meant for this translator?"""
        return chosen(topic, self.leases.members(now) | {self.name}) == self.name

    def may_take(self, topic: str, now: float) -> bool:
        """Is it this translator's turn to take a topic that it does not hold?"""
        if not self.leases.is_free(topic, now):
            return False
        return self.is_ours(topic, now) or self.leases.quiet(topic, now) >= RELUCTANCE * self.leases.term

    def should_hand_over(self, topic: str, held_for: float, now: float) -> bool:
        """Is a topic that this translator holds meant for another one that is there?"""
        return held_for >= self.pause and not self.is_ours(topic, now)


def _weight(topic: str, name: str) -> bytes:
    return blake2b(f"{topic}\n{name}".encode(), digest_size=8).digest()
