"""Bytes sent for a topic, dictionaries included, and the share of its plain bytes that is saved.

Section 5.2.1 of the thesis: every message is sent once to the broker and once to each subscriber, every dictionary to
all publishers and all subscribers.

    B.u = |M.u| (1 + |S|)
    B.c = |M.c| (1 + |S|) + |D| (|P| + |S|)          summed over all packed dictionaries; |M.c| with one byte
    BR  = 100 (1 - B.c / B.u)                        a message for the slot of its dictionary

>>> account = Account()
>>> account.messages(1000, plain=500_000, packed=79_000)
>>> account.dictionary(1_000)
>>> [round(account.reduction(topology), 1) for topology in TOPOLOGIES]
[83.8, -16.1, -916.1]
"""

from __future__ import annotations

from dataclasses import dataclass

from thinwire.dictionaries.topology import ONE_TO_ONE, Topology

SLOT = 1
"""bytes of every message for the slot of its dictionary"""
BATCHES = (1, 2, 3, 5, 8, 13, 21, 34, 55)
"""messages packed as one (equation 5.5.1)"""


TOPOLOGIES = (ONE_TO_ONE, Topology(1_000), Topology(10_000))


@dataclass
class Account:
    """Messages and dictionaries of a topic, each counted once; a topology determines how often they are sent.

    count: messages
    plain, packed: their bytes, the latter with slots
    dictionaries, dictionary_bytes: number of dictionaries and their packed bytes
    """

    count: int = 0
    plain: int = 0
    packed: int = 0
    dictionaries: int = 0
    dictionary_bytes: int = 0

    def messages(self, count: int, plain: int, packed: int) -> None:
        """Add `count` messages; a slot is added for each."""
        self.count += count
        self.plain += plain
        self.packed += packed + SLOT * count

    def dictionary(self, size: int) -> None:
        """Add a dictionary of `size` packed bytes."""
        self.dictionaries += 1
        self.dictionary_bytes += size

    def before(self, topology: Topology) -> int:
        """B.u"""
        return self.plain * topology.copies

    def after(self, topology: Topology) -> int:
        """B.c"""
        return self.packed * topology.copies + self.dictionary_bytes * topology.receivers

    def reduction(self, topology: Topology) -> float:
        """BR in per cent; 0 without messages."""
        before = self.before(topology)
        return 100 * (1 - self.after(topology) / before) if before else 0.0
