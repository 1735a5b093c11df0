"""What a subscriber remembers of sources whose state it lost: the last event it delivered."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

from thinwire.codec import Expander

Key = tuple[Any, ...]


class Memory:
    """The last ordinal delivered of each source, and in which life of its publisher."""

    def __init__(self) -> None:
        self._last: dict[Key, tuple[int, int]] = {}

    def keep(self, expander: Expander, incarnation: int) -> None:
        """Remember every source that is known."""
        for alias in expander.known():
            self.keep_one(expander, alias, incarnation)

    def keep_one(self, expander: Expander, alias: int, incarnation: int) -> None:
        """Remember one source."""
        key = expander.keys[alias]
        if key is not None:
            self._last[key] = (incarnation, expander.columns.ordinal(alias))

    def last(self, key: Key) -> tuple[int | None, int]:
        """Life and ordinal of the source's last event delivered; (None, 0) for one never seen."""
        return self._last.get(key, (None, 0))

    def entries(self, known: Container[Key | None]) -> list[tuple[Key, int, int]]:
        """Source, life and ordinal of all that is remembered, but for sources whose state is `known`."""
        return [(key, *last) for key, last in self._last.items() if key not in known]

    def restore(self, entries: Iterable[tuple[Key, int, int]]) -> None:
        """Remember these as well."""
        self._last.update((key, (life, ordinal)) for key, life, ordinal in entries)
