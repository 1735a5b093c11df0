"""What every transport offers: publish bytes under a subject, receive those that match a pattern.

A transport knows nothing of events or frames. What it can do beyond that is a list of capabilities, so that the rooms
above choose (16 instead of 8 bits of sequence, a header inside the body) instead of guessing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Protocol

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Message(NamedTuple):
    """What travels.

    sequence: the transport's own number of the message within its subject, counted 1, 2, 3 without a gap; None where
    the transport has none

    >>> Message("building.rooms", b"21.5").headers
    mappingproxy({})
    """

    subject: str
    payload: bytes
    headers: Mapping[str, str] = NO_HEADERS
    sequence: int | None = None


@dataclass(frozen=True)
class Capabilities:
    """What a transport can do.

    gapless: it numbers the messages of a subject without a gap and can replay them from a number;
    headers: it carries headers; max_payload: bytes in one message, headers included
    """

    gapless: bool
    headers: bool
    max_payload: int


class Inbox(Protocol):
    """The messages that match one subscription, in a queue of bounded length."""

    def receive(self) -> Message | None:
        """The next message that has arrived; None when there is none now."""

    def close(self) -> None:
        """Ask for no more; what has arrived can still be received."""


class Transport(Protocol):
    """A broker as its clients see it."""

    @property
    def capabilities(self) -> Capabilities: ...

    def publish(self, subject: str, payload: bytes, headers: Mapping[str, str] | None = None) -> int | None:
        """Send a message; its sequence where the transport has told one by now, else None."""

    def subscribe(self, pattern: str, *, limit: int = ...) -> Inbox:
        """Receive what is published from now on under subjects that match."""

    def close(self) -> None:
        """Leave; every inbox closes too."""
