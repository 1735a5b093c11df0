"""What a stream decoder delivers: events, losses, watermarks and audits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from thinwire.schema import Event


class Notice:
    """Information for a subscriber that is not an event."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class EventsMissed(Notice):
    """Events that could not be delivered.

    source: None if it is not known
    first, last: their ordinals; None if they are not known
    reason: "gap", "restart", "corrupt", "diverged", "unknown schema", "unknown dictionary", "refused" or "retention"
        (no longer in the log)
    """

    publisher: str
    source: tuple[Any, ...] | None
    first: int | None
    last: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Watermark(Notice):
    """All sources of the publisher are complete up to this time (seconds)."""

    publisher: str
    time: float


@dataclass(frozen=True, slots=True)
class Audit(Notice):
    """Measured error of each property of an event.

    exacts: the exact values by property, as sent: integers are ticks
    """

    publisher: str
    source: tuple[Any, ...]
    ordinal: int
    errors: dict[str, float]
    bound: dict[str, float | None]
    exacts: Mapping[str, Any]


Delivery = Event | EventsMissed | Watermark | Audit


class ChangedEvents(NamedTuple):
    """Events that are verified changes, as immutable records.

    records: the concatenated records of all events
    last_of: rebuilds the last event of each source from records, with the current texts
    """

    records: bytes
    last_of: Callable[[bytes], list[Event]]
