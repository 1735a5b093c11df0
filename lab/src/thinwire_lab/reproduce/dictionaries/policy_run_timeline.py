"""BR over time, in a bounded number of points."""

from __future__ import annotations

from thinwire.dictionaries.byte_account import Account, Topology

MOST = 200
"""points; when there are as many, every other one is dropped and half as many are taken from then on"""


class Timeline:
    """BR of everything so far, over the messages so far.

    >>> line, account = Timeline(), Account()
    >>> for _ in range(1000):
    ...     account.messages(1, plain=100, packed=39)
    ...     line.add(account.count, account, Topology())
    >>> len(line.points) <= MOST, line.points[-1]
    (True, [993, 60.0])
    """

    def __init__(self) -> None:
        self.points: list[list[float]] = []
        self._every = 1
        self._calls = 0

    def add(self, seen: int, account: Account, topology: Topology) -> None:
        """Look at the account; one look in so many is kept."""
        self._calls += 1
        if (self._calls - 1) % self._every:
            return
        self.points.append([seen, account.reduction(topology)])
        if len(self.points) == MOST:
            self.points = self.points[::2]
            self._every *= 2
