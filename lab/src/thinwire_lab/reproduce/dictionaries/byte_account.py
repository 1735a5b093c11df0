"""Bytes sent for a topic, dictionaries included, and the share of its plain bytes that is saved.

Section 5.2.1 of the thesis (C. Doblander, Compression in Publish/Subscribe Systems, 2018): every message is sent once
to the broker and once to each subscriber, every dictionary to all publishers and all subscribers.

    B.u = |M.u| (1 + |S|)                      plain bytes sent; |M.u| bytes of the messages, |S| subscribers
    B.c = |M.c| (1 + |S|) + |D| (|P| + |S|)    packed bytes sent; |M.c| bytes of the packed messages, each with one byte
                                               that names its dictionary; |D| bytes of the dictionaries as they are
                                               sent, |P| publishers
    BR  = 100 (1 - B.c / B.u)                  bytes saved in per cent

>>> account = Account()
>>> account.add_messages(1000, plain=500_000, packed=79_000)
>>> account.add_dictionary(1_000)
>>> [round(account.reduction(topology), 1) for topology in TOPOLOGIES]
[83.8, -16.1, -916.1]
"""

from __future__ import annotations

from dataclasses import dataclass

from thinwire.dictionaries.topology import ONE_TO_ONE, Topology

SLOT = 1
"""bytes of every message for the slot, the one-byte name of its dictionary"""
BATCHES = (1, 2, 3, 5, 8, 13, 21, 34, 55)
"""numbers of messages that are packed as one (equation 5.5.1 of the thesis)"""
TOPOLOGIES = (ONE_TO_ONE, Topology(1_000), Topology(10_000))
"""1, 1,000 and 10,000 publishers with one subscriber"""


@dataclass
class Account:
    """Messages and dictionaries of a topic, each counted once; a topology determines how often they are sent.

    messages: number of messages
    plain, packed: bytes of the messages, plain, and packed with slots
    dictionaries, dictionary_bytes: number of dictionaries, and the bytes that are sent for them
    """

    messages: int = 0
    plain: int = 0
    packed: int = 0
    dictionaries: int = 0
    dictionary_bytes: int = 0

    def add_messages(self, count: int, plain: int, packed: int) -> None:
        """Add `count` messages of `plain` bytes that are packed to `packed` bytes; slots are added to these."""
        self.messages += count
        self.plain += plain
        self.packed += packed + SLOT * count

    def add_dictionary(self, size: int) -> None:
        """Add a dictionary for which `size` bytes are sent."""
        self.dictionaries += 1
        self.dictionary_bytes += size

    def plain_bytes_sent(self, topology: Topology) -> int:
        """Return B.u."""
        return self.plain * topology.copies

    def packed_bytes_sent(self, topology: Topology) -> int:
        """Return B.c."""
        return self.packed * topology.copies + self.dictionary_bytes * topology.receivers

    def reduction(self, topology: Topology) -> float:
        """Return BR in per cent; 0 without messages."""
        plain = self.plain_bytes_sent(topology)
        return 100 * (1 - self.packed_bytes_sent(topology) / plain) if plain else 0.0
