"""Which host takes which topic: the one that the assignment names, and another one where that is gone.

A controller moves the topics of a dead host by its model. Hosts do not rely on one: a topic that nobody has had for
three terms goes to one of those that are there, all of which come to the same choice; and back when its host is back.
"""

from __future__ import annotations

from thinwire.edge.edge_state import EdgeKnowledge
from thinwire.services.leased_service_spreading import Spreading, chosen
from thinwire.topics.leases import Leases

RELUCTANCE = 3.0
"""terms that a topic waits for its host, or for a controller, before another host takes it"""


class Assigned(Spreading):
    """The share of one host."""

    def __init__(self, name: str, leases: Leases, knowledge: EdgeKnowledge) -> None:
        super().__init__(name, leases, pause=0.0)
        self._knowledge = knowledge

    def meant_for(self, topic: str, now: float) -> str:
        """The host that shall have a topic, among those that are there; "" where it must wait for one that is not."""
        wanted = self._knowledge.assignment.hosts.get(topic, "")
        there = self.leases.members(now) | {self.name}
        document = self._knowledge.topics.get(topic)
        if wanted in there:
            return wanted
        if document is not None and document.host:
            return ""
        return chosen(topic, there)

    def is_ours(self, topic: str, now: float) -> bool:
        return self.meant_for(topic, now) == self.name

    def may_take(self, topic: str, now: float) -> bool:
        """A topic named for this host is taken once it is free; that of a host that is gone, after a while."""
        if not self.leases.is_free(topic, now) or not self.is_ours(topic, now):
            return False
        named = self._knowledge.assignment.hosts.get(topic) == self.name
        return named or self.leases.quiet(topic, now) >= RELUCTANCE * self.leases.term

    def should_hand_over(self, topic: str, held_for: float, now: float) -> bool:
        """Is another host that is there meant to have it?"""
        return self.meant_for(topic, now) not in (self.name, "")
