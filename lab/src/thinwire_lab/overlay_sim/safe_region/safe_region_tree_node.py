"""An inner node of the safe-region tree: two numbers and two marks for each child."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from thinwire_lab.overlay_sim.safe_region.safe_region_tree_messages import (
    Advert,
    Event,
    Interval,
    Join,
    Leave,
    Message,
    Sent,
    common,
)


@dataclass
class Child:
    """What a node knows of a child.

    safe: what the child advertised
    dirty: something was sent to it since, so the advert may not be true any more
    forwarded: the number of the last thing sent to it
    """

    safe: Interval
    dirty: bool = False
    forwarded: int = 0


class Node:
    """Hands events on to the children they concern.

    A child is left out only where its advert reflects everything ever sent to it: then nothing below has changed since,
    and the value lies in the interval of every threshold there. Without the mark a value could slip through between an
    event and the advert that follows from it.

    parent: None at the root, whose adverts nobody reads
    leads: which child a threshold is below of
    """

    def __init__(self, parent: str | None, children: Mapping[str, Interval], leads: Mapping[int, str]) -> None:
        self.parent = parent
        self.children = {name: Child(safe) for name, safe in children.items()}
        self.leads = dict(leads)
        self.seen = 0

    @property
    def safe(self) -> Interval:
        """Where nothing below fires, as far as the adverts tell."""
        return common(child.safe for child in self.children.values())

    def receive(self, sender: str, message: Message) -> list[Sent]:
        """Take a message; answer with what to send."""
        if isinstance(message, Advert):
            return self.advert(self.children[sender], message)
        if isinstance(message, Leave):
            return [(self.leads[message.threshold], message)]
        self.seen = message.number
        if isinstance(message, Join):
            return [self._forward(self.leads[message.threshold], message)]
        concerned = [name for name, child in self.children.items() if self.concerns(child, message.value)]
        return [*(self._forward(name, message) for name in concerned), *self._tell()]

    def concerns(self, child: Child, value: int) -> bool:
        """Could the value make something below this child fire?"""
        return child.dirty or not child.safe.holds(value)

    def advert(self, child: Child, advert: Advert) -> list[Sent]:
        """An advert counts where it has seen everything that was sent; others are out of date before they arrive."""
        if not child.dirty or advert.number < child.forwarded:
            return []
        child.safe, child.dirty = advert.safe, False
        return self._tell()

    def _forward(self, name: str, message: Event | Join) -> Sent:
        child = self.children[name]
        child.dirty, child.forwarded = True, message.number
        return name, message

    def _tell(self) -> list[Sent]:
        if self.parent is None or any(child.dirty for child in self.children.values()):
            return []
        return [(self.parent, Advert(self.seen, self.safe))]
