"""Which row a source has: for one reducer, or for several that meet the same sources in the same order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Key = tuple[Any, ...]


class Roster:
    """Sources in the order in which they were met; each has the row of its place.

    Reducers that share one know as many of its sources as they have rows. The first to meet a source writes it down;
    to whom the next source is another one, a roster of its own is due.

    >>> roster = Roster([("a",)])
    >>> roster.put(("b",), 1), roster.put(("b",), 1), roster.put(("c",), 1)
    (True, True, False)
    >>> roster.keys, roster.rows
    ([('a',), ('b',)], {('a',): 0, ('b',): 1})
    """

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self.keys = list(keys)
        self.rows = dict(zip(self.keys, range(len(self.keys)), strict=True))

    def begins_with(self, keys: list[Key]) -> bool:
        """Have these sources the first rows, in this order?"""
        return self.keys[: len(keys)] == keys

    def put(self, key: Key, row: int) -> bool:
        """Has the source this row? A row that nobody has, the one after the last, is given to it."""
        if row == len(self.keys) and key not in self.rows:
            self.keys.append(key)
            self.rows[key] = row
            return True
        return self.rows.get(key) == row
