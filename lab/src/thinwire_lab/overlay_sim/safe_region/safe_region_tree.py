"""A leaf of the safe-region tree: keeps thresholds, delivers exactly what OnlineGreedy would."""

from __future__ import annotations

from collections.abc import Iterable

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


class Leaf:
    """Some thresholds, and what was delivered last for each.

    delivered: threshold -> number and value of all that was delivered; a newcomer is handed the value its threshold is
    centred at, under the number at which it joined

    >>> leaf = Leaf("parent", [2, 9], value=0)
    >>> leaf.receive("parent", Event(1, 3))
    [('parent', Advert(number=1, safe=Interval(low=1, high=5)))]
    >>> leaf.delivered
    {2: [(1, 3)], 9: []}
    """

    def __init__(self, parent: str, thresholds: Iterable[int], value: int) -> None:
        self.parent = parent
        self.last = dict.fromkeys(sorted(thresholds), value)
        self.delivered: dict[int, list[tuple[int, int]]] = {threshold: [] for threshold in self.last}

    @property
    def safe(self) -> Interval:
        """Where nothing fires."""
        return common(Interval(z - c, z + c) for c, z in self.last.items())

    def receive(self, sender: str, message: Message) -> list[Sent]:
        """Take a message; answer with what to send."""
        if isinstance(message, Leave):
            self.last.pop(message.threshold, None)
            return []
        if isinstance(message, Join):
            self._join(message)
        elif isinstance(message, Event):
            self._deliver(message)
        return [(self.parent, Advert(message.number, self.safe))]

    def _deliver(self, event: Event) -> None:
        for c, z in self.last.items():
            if not z - c <= event.value <= z + c:
                self.last[c] = event.value
                self.delivered[c].append((event.number, event.value))

    def _join(self, join: Join) -> None:
        """Who joins others gets what they have, which is within the threshold; the first one gets the newest value."""
        value = self.last.setdefault(join.threshold, join.value)
        self.delivered.setdefault(join.threshold, []).append((join.number, value))
