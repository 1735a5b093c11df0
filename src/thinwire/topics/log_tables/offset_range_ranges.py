"""Ranges of a log, and what a log holds."""

from __future__ import annotations

from dataclasses import dataclass

from thinwire.brokers.protocol_broker import Span
from thinwire.brokers.protocol_source import LogSource
from thinwire.errors import UnknownLog

NOTHING = Span(1, 0, 0, 0)


@dataclass(frozen=True)
class Range:
    """The messages from an offset to another, both included; nothing where `last` comes before `first`.

    >>> len(Range(3, 5)), bool(Range(3, 2))
    (3, False)
    """

    first: int
    last: int

    def __len__(self) -> int:
        return max(0, self.last - self.first + 1)

    def __bool__(self) -> bool:
        return self.last >= self.first


def span_of(source: LogSource, log: str) -> Span:
    """What a log holds; nothing, where there is no log."""
    try:
        return source.span(log)
    except UnknownLog:
        return NOTHING
