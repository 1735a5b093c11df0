"""How far in the log of a topic everything has been told, publisher by publisher.

>>> positions = Positions(since=100)
>>> positions.note("p1", Position(120, 2))
>>> positions.of("p1"), positions.of("p2")
(Position(offset=120, within=2), Position(offset=100, within=0))
>>> positions.complete_to(110)
>>> positions.of("p1"), positions.of("p2")
(Position(offset=120, within=2), Position(offset=110, within=0))
"""

from __future__ import annotations

from collections.abc import Mapping

from thinwire.control.translating.envelope import Position


class Positions:
    """A position for every publisher.

    since: the offset for publishers of whom nothing has been said; one that has been told of may lie before it
    """

    def __init__(self, since: int = 0, by_publisher: Mapping[str, Position] | None = None) -> None:
        self.since = since
        self._of = dict(by_publisher or {})

    def of(self, publisher: str) -> Position:
        """Up to where this publisher's events are told."""
        return self._of.get(publisher) or Position(self.since, 0)

    def note(self, publisher: str, position: Position) -> None:
        """They are told up to here; an earlier position than the last says nothing new."""
        known = self._of.get(publisher)
        if known is None or position > known:
            self._of[publisher] = position

    def complete_to(self, offset: int) -> None:
        """Everything in the log up to this offset is told, of every publisher."""
        self.since = max(self.since, offset)
        self._of = {name: at for name, at in self._of.items() if at > (offset, 0)}

    def instead(self, publisher: str, position: Position) -> Positions:
        """The same, with another position for one publisher."""
        return Positions(self.since, {**self._of, publisher: position})

    @property
    def lowest(self) -> int:
        """Up to here everything is told of everybody."""
        return min(self.since, *(at.offset for at in self._of.values())) if self._of else self.since

    @property
    def by_publisher(self) -> dict[str, Position]:
        """What has been said of single publishers."""
        return dict(self._of)
