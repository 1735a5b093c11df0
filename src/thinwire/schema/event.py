"""A virtual event: what a subscriber sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

About = tuple[Mapping[str, float | None], tuple[Any, ...], str, int, bool, bool, tuple[str, ...]]
"""bound, source, publisher, incarnation, virtual, provisional, flags: most events of a source share it"""

Identity = tuple[str, int, tuple[Any, ...], int]
"""publisher, incarnation, source, ordinal: what makes an event the same one when it comes again"""


class Event(dict[str, Any]):
    """An event as reconstructed: a dict of values that also knows how far it can be trusted.

    bound: per property, how far the value can be from the truth; None where nothing is claimed
    virtual: True where no value of it was sent, every one was predicted
    provisional: True beyond the watermark, where the event may not have happened
    source: the dimension values; ordinal: the number of the event within its source
    publisher, incarnation: who published it, and in which of its lives
    identity: the four together; an event that comes again has the same
    flags: properties outside their declared range

    >>> event = Event({"sensor": "T1", "temperature": 20.5}, bound={"temperature": 0.5}, source=("T1",), ordinal=3)
    >>> event["temperature"], event.bound["temperature"], event.virtual
    (20.5, 0.5, False)
    >>> event.identity
    ('', 0, ('T1',), 3)
    """

    __slots__ = ("_about", "ordinal")
    _about: About
    ordinal: int

    def __init__(
        self,
        values: Mapping[str, Any],
        *,
        bound: Mapping[str, float | None],
        source: tuple[Any, ...],
        ordinal: int,
        publisher: str = "",
        incarnation: int = 0,
        virtual: bool = False,
        provisional: bool = False,
        flags: tuple[str, ...] = (),
    ) -> None:
        super().__init__(values)
        self._about = (bound, source, publisher, incarnation, virtual, provisional, flags)
        self.ordinal = ordinal

    @classmethod
    def of(cls, values: dict[str, Any], about: About, ordinal: int) -> Event:
        """The same, for those who make a million: what most events of a source share is in one tuple."""
        event = cls.__new__(cls, values)
        event.update(values)
        event._about = about
        event.ordinal = ordinal
        return event

    def like(
        self,
        values: dict[str, Any],
        bound: Mapping[str, float | None] | None = None,
        flags: tuple[str, ...] | None = None,
    ) -> Event:
        """The same event with other values, and other bounds and flags where given."""
        about = self._about if bound is None else (bound, *self._about[1:])
        return Event.of(values, about if flags is None else (*about[:-1], flags), self.ordinal)

    @property
    def bound(self) -> Mapping[str, float | None]:
        return self._about[0]

    @property
    def source(self) -> tuple[Any, ...]:
        return self._about[1]

    @property
    def publisher(self) -> str:
        return self._about[2]

    @property
    def incarnation(self) -> int:
        return self._about[3]

    @property
    def identity(self) -> Identity:
        _, source, publisher, incarnation, *_ = self._about
        return publisher, incarnation, source, self.ordinal

    @property
    def virtual(self) -> bool:
        return self._about[4]

    @property
    def provisional(self) -> bool:
        return self._about[5]

    @property
    def flags(self) -> tuple[str, ...]:
        return self._about[6]
