"""What a subscriber's end of a link hands out beside events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from thinwire.schema import Event


class Missed(NamedTuple):
    """Events the subscriber could not have.

    source: whose; None where not even that is known yet
    first, last: their ordinals; None where unknown
    reason: "gap", "restart", "corrupt", "diverged", "unknown schema", "unknown dictionary", "refused" or "retention"
        (no longer in the log)
    """

    publisher: str
    source: tuple[Any, ...] | None
    first: int | None
    last: int | None
    reason: str


class Watermark(NamedTuple):
    """All sources of the publisher are complete up to this time (seconds)."""

    publisher: str
    time: float


class Audit(NamedTuple):
    """How far each property of an event was from the truth.

    exacts: the truth by property, as it travelled: whole numbers count ticks
    """

    publisher: str
    source: tuple[Any, ...]
    ordinal: int
    errors: dict[str, float]
    bound: dict[str, float | None]
    exacts: Mapping[str, Any]


Delivery = Event | Missed | Watermark | Audit
