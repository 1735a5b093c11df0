"""What a topic costs in bytes, dictionaries included, and what share of its plain bytes that saves.

Section 5.2.1 of the thesis: every message travels once to the broker and once to each subscriber, every dictionary to
all publishers and all subscribers.

    B.u = |M.u| (1 + |S|)
    B.c = |M.c| (1 + |S|) + |D| (|P| + |S|)          summed over all dictionaries, as they travel; |M.c| with one byte
    BR  = 100 (1 - B.c / B.u)                        a message that names its dictionary

>>> account = Account()
>>> account.messages(1000, plain=500_000, packed=79_000)
>>> account.dictionary(1_000)
>>> [round(account.reduction(topology), 1) for topology in TOPOLOGIES]
[83.8, -16.1, -916.1]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

SLOT = 1
"""bytes of every message that name its dictionary, or say that there is none"""
BATCHES = (1, 2, 3, 5, 8, 13, 21, 34, 55)
"""messages packed as one (equation 5.5.1)"""


class Topology(NamedTuple):
    """How many publishers and subscribers a topic has.

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
        """How often a message travels."""
        return 1 + self.subscribers

    @property
    def receivers(self) -> int:
        """How often a dictionary travels."""
        return self.publishers + self.subscribers


ALONE = Topology()
"""one publisher, one subscriber"""
TOPOLOGIES = (ALONE, Topology(1_000), Topology(10_000))


@dataclass
class Account:
    """Everything that travelled, once each; a topology says how often.

    count: messages; plain, packed: their bytes, the latter with slots
    dictionaries, dictionary_bytes: how many were spread, and their bytes as they travel
    """

    count: int = 0
    plain: int = 0
    packed: int = 0
    dictionaries: int = 0
    dictionary_bytes: int = 0

    def messages(self, count: int, plain: int, packed: int) -> None:
        """So many messages; a slot for each is added."""
        self.count += count
        self.plain += plain
        self.packed += packed + SLOT * count

    def dictionary(self, size: int) -> None:
        """A dictionary, in the bytes that travel."""
        self.dictionaries += 1
        self.dictionary_bytes += size

    def before(self, topology: Topology) -> int:
        """B.u"""
        return self.plain * topology.copies

    def after(self, topology: Topology) -> int:
        """B.c"""
        return self.packed * topology.copies + self.dictionary_bytes * topology.receivers

    def reduction(self, topology: Topology) -> float:
        """BR in per cent; 0 where nothing has travelled."""
        before = self.before(topology)
        return 100 * (1 - self.after(topology) / before) if before else 0.0
