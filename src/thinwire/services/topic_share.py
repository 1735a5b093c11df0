"""Distribution of topics over the running instances of a service, by rendezvous hashing.

Every instance computes the same assignment from the same names. When an instance joins or leaves, only the topics that
it gains or had move. The assignment is a preference and the lease decides, so instances that see different members for
a moment cause no harm.

>>> choose_member("rooms", {"t1", "t2", "t3"}) == choose_member("rooms", ["t3", "t2", "t1"])
True
>>> moved = [t for t in map(str, range(99)) if choose_member(t, ["t1", "t2"]) != choose_member(t, ["t1", "t2", "t3"])]
>>> {choose_member(topic, ["t1", "t2", "t3"]) for topic in moved}
{'t3'}
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from thinwire.topics.leases import Leases

TAKEOVER_TERMS = 2.0
"""lease terms that a free topic is reserved for its preferred member before any other takes it"""


def choose_member(topic: str, members: Iterable[str]) -> str:
    """Return the preferred member for a topic; "" if there is none."""
    return max(members, key=lambda name: (_weight(topic, name), name), default="")


def _weight(topic: str, name: str) -> bytes:
    return blake2b(f"{topic}\n{name}".encode(), digest_size=8).digest()


class TopicShare:
    """The topics that one member should hold.

    handover_delay: seconds that a topic is held at least before it is handed over
    """

    def __init__(self, name: str, leases: Leases, handover_delay: float = 10.0) -> None:
        self.name = name
        self.leases = leases
        self.handover_delay = handover_delay

    def is_preferred(self, topic: str, now: float) -> bool:
        """Is this member the preferred one for the topic?"""
        return choose_member(topic, self.leases.members(now) | {self.name}) == self.name

    def may_take(self, topic: str, now: float) -> bool:
        """May this member take the lease of the topic now?"""
        if not self.leases.is_free(topic, now):
            return False
        return (
            self.is_preferred(topic, now)
            or self.leases.unchanged_seconds(topic, now) >= TAKEOVER_TERMS * self.leases.term
        )

    def should_hand_over(self, topic: str, held_for: float, now: float) -> bool:
        """Should this member release a topic that it holds, in favour of the preferred one?"""
        return held_for >= self.handover_delay and not self.is_preferred(topic, now)
