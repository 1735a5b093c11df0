"""Assignment of table rows to sources."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Source = tuple[Any, ...]


class RowMap:
    """Row numbers of sources, in the order in which the sources first appear.

    Several encoders can share one map as long as they meet the same sources in the same order. Each uses as many
    entries as its table has rows. An encoder whose next source differs continues with a map of its own.

    >>> row_map = RowMap([("a",)])
    >>> row_map.add(("b",), 1), row_map.add(("b",), 1), row_map.add(("c",), 1)
    (True, True, False)
    >>> row_map.sources, row_map.rows
    ([('a',), ('b',)], {('a',): 0, ('b',): 1})
    """

    def __init__(self, sources: Iterable[Source] = ()) -> None:
        self.sources = list(sources)
        self.rows = dict(zip(self.sources, range(len(self.sources)), strict=True))

    def starts_with(self, sources: list[Source]) -> bool:
        """Check whether these sources have the first rows, in this order."""
        return self.sources[: len(sources)] == sources

    def add(self, source: Source, row: int) -> bool:
        """Assign `row` to `source` if it is the next free row. Return whether the source has this row."""
        if row == len(self.sources) and source not in self.rows:
            self.sources.append(source)
            self.rows[source] = row
            return True
        return self.rows.get(source) == row
