"""Publishers and subscribers of a topic, which determine how often messages and dictionaries are sent."""

from __future__ import annotations

from typing import NamedTuple


class Topology(NamedTuple):
    """Number of publishers and subscribers of a topic.

    >>> Topology(10_000).name, Topology(10_000).copies, Topology(10_000).receivers
    ('10,000:1', 2, 10001)
    """

    publishers: int = 1
    subscribers: int = 1

    @property
    def name(self) -> str:
        return f"{self.publishers:,}:{self.subscribers:,}"

    @property
    def copies(self) -> int:
        """How often a message is sent: to the broker and to each subscriber."""
        return 1 + self.subscribers

    @property
    def receivers(self) -> int:
        """How often a dictionary is sent."""
        return self.publishers + self.subscribers


ONE_TO_ONE = Topology()
