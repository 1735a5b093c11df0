"""What a subscriber is told beside events."""

from __future__ import annotations

from typing import NamedTuple

from thinwire.codec import Audit, Missed, Watermark


class Coarser(NamedTuple):
    """A publisher's values may be further off than was asked: the bound says how far, until it is reconfigured."""

    publisher: str
    property: str
    bound: float | None
    tolerance: float


class Skewed(NamedTuple):
    """A publisher's clock and the broker's differ; watermarks and latencies of this publisher are off by as much."""

    publisher: str
    seconds: float


class Unreadable(NamedTuple):
    """A message of the log that no link could read; the links it belongs to start again from a key frame."""

    publisher: str
    offset: int
    reason: str


class Away(NamedTuple):
    """The broker has not been reached for so many seconds; reading goes on when it is back."""

    seconds: float


class Unserved(NamedTuple):
    """No translator serves what was asked: the log does, and nothing is lost, but no bandwidth is saved on the way."""

    reason: str


class Gone(NamedTuple):
    """A publisher has left, or has not been heard for so long: a watch keeps its values and waits for it no more."""

    topic: str
    publisher: str
    seconds: float


Notice = Away | Missed | Watermark | Audit | Coarser | Skewed | Unreadable | Unserved | Gone
