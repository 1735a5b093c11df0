"""Notices: information for a subscriber that is not an event."""

from __future__ import annotations

from dataclasses import dataclass

from thinwire.codec.deliveries import Notice

__all__ = [
    "BoundExceeded",
    "BrokerUnreachable",
    "ClockSkew",
    "MessageUnreadable",
    "NoTranslator",
    "Notice",
    "PublisherLost",
]


@dataclass(frozen=True, slots=True)
class BoundExceeded(Notice):
    """The values of a publisher have a larger bound than the subscription requested.

    Sent when a stricter subscription starts, until the publisher applies the new configuration.
    """

    publisher: str
    property: str
    bound: float | None
    tolerance: float


@dataclass(frozen=True, slots=True)
class ClockSkew(Notice):
    """The clock of a publisher differs from the broker's by `seconds`; its watermarks and latencies do as well."""

    publisher: str
    seconds: float


@dataclass(frozen=True, slots=True)
class MessageUnreadable(Notice):
    """A message could not be decoded. The decoder of its publisher waits for the next key frame."""

    publisher: str
    offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class BrokerUnreachable(Notice):
    """The broker has been unreachable for `seconds`. The subscription resumes after reconnecting."""

    seconds: float


@dataclass(frozen=True, slots=True)
class NoTranslator(Notice):
    """No translator serves the demand. The subscription reads the log: complete, but without saving bandwidth."""

    reason: str


@dataclass(frozen=True, slots=True)
class PublisherLost(Notice):
    """A publisher has stopped, or was silent for `seconds`. A watch keeps its values and does not wait for it."""

    topic: str
    publisher: str
    seconds: float
