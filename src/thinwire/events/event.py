"""A virtual event: what a subscriber sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Event(dict[str, Any]):
    """An event as reconstructed: a dict of values that also knows how far it can be trusted.

    bound: per property, how far the value can be from the truth; None where nothing is claimed
    virtual: True where no value of it was sent, every one was predicted
    provisional: True beyond the watermark, where the event may not have happened
    source: the dimension values; ordinal: the number of the event within its source
    flags: properties outside their declared range

    >>> event = Event({"sensor": "T1", "temperature": 20.5}, bound={"temperature": 0.5}, source=("T1",), ordinal=3)
    >>> event["temperature"], event.bound["temperature"], event.virtual
    (20.5, 0.5, False)
    """

    __slots__ = ("bound", "flags", "ordinal", "provisional", "publisher", "source", "virtual")

    def __init__(
        self,
        values: Mapping[str, Any],
        *,
        bound: Mapping[str, float | None],
        source: tuple[Any, ...],
        ordinal: int,
        publisher: str = "",
        virtual: bool = False,
        provisional: bool = False,
        flags: tuple[str, ...] = (),
    ) -> None:
        super().__init__(values)
        self.bound = bound
        self.source = source
        self.ordinal = ordinal
        self.publisher = publisher
        self.virtual = virtual
        self.provisional = provisional
        self.flags = flags
