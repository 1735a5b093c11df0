"""What there is to see of the table that Spark lands the stream in."""

from __future__ import annotations

from dataclasses import dataclass, replace

from thinwire.ledger import Row


@dataclass(frozen=True)
class Landing:
    """A table beside the live subscribers.

    row: of the ledger: rows as events, all bytes on Spark's sockets, and those of the files
    bytes_read: what Spark has read from the broker, everything on its sockets
    first: seconds from the start of Spark to the first rows; None before them
    seconds: from the last event to the last row; None while events flow
    published: events that the plants published; heard: those that a subscriber of the log was handed
    differing: rows that are not the same as the subscriber's events, or that only one of both has
    problem: why the table could not be landed, in words
    """

    row: Row
    bytes_read: int = 0
    first: float | None = None
    seconds: float | None = None
    published: int = 0
    heard: int | None = None
    differing: int = 0
    problem: str = ""

    @property
    def rows(self) -> int:
        return self.row.events

    @property
    def equal(self) -> bool | None:
        """Are table, subscriber and plants of one mind? None before they were compared."""
        if self.problem:
            return False
        if self.heard is None:
            return None
        return self.rows == self.heard == self.published and not self.differing

    def compared(self, published: int, heard: int, differing: int) -> Landing:
        """The same with what the comparison told."""
        return replace(self, published=published, heard=heard, differing=differing)
