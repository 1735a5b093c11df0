"""Positions in a log, per-publisher positions, and the envelope of channel messages, which contains a position.

    epoch | offset | within | frames        three varints of 1 to 10 bytes each, then the frames

The position in a channel message covers the topic log of one publisher: all events of its messages up to `offset`, and
the first `within` events of its next message, are in this or an earlier channel message, or were suppressed.

>>> decode_envelope(encode_envelope(3, Position(120, 7), b"frames"))
(3, Position(offset=120, within=7, log_id=''), b'frames')

>>> positions = PublisherPositions(default_offset=100)
>>> positions.note("p1", Position(120, 2))
>>> positions.of("p1")[:2], positions.of("p2")[:2]
((120, 2), (100, 0))
>>> positions.complete_to(110)
>>> positions.of("p1")[:2], positions.of("p2")[:2]
((120, 2), (110, 0))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from thinwire.errors import CorruptFrame
from thinwire.wire import varint

MAX_ENVELOPE = 3 * varint.MAX_BYTES
"""bytes before the frames, at most"""


class Position(NamedTuple):
    """A position in a log. Positions of one log are ordered.

    offset: a message number; within: events already consumed of the message that follows
    log_id: identity of the log (`Span.log_id`), "" if unknown. A log that is deleted and created again under the same
        name starts at offset 1: offsets alone do not identify a message.

    >>> Position(120) < Position(120, 2) < Position(121)
    True
    """

    offset: int
    within: int = 0
    log_id: str = ""


class PublisherPositions:
    """One position per publisher.

    default_offset: offset for publishers without a position of their own; a publisher's own position may be lower
    """

    def __init__(self, default_offset: int = 0, by_publisher: Mapping[str, Position] | None = None) -> None:
        self.default_offset = default_offset
        self._of = dict(by_publisher or {})

    def of(self, publisher: str) -> Position:
        """Return the position of a publisher."""
        return self._of.get(publisher) or Position(self.default_offset)

    def note(self, publisher: str, position: Position) -> None:
        """Advance a publisher. Ignore a position before the current one."""
        known = self._of.get(publisher)
        if known is None or position > known:
            self._of[publisher] = position

    def complete_to(self, offset: int) -> None:
        """Advance every publisher to at least this offset."""
        self.default_offset = max(self.default_offset, offset)
        self._of = {name: at for name, at in self._of.items() if at > Position(offset)}

    def with_position(self, publisher: str, position: Position) -> PublisherPositions:
        """Return a copy with another position for one publisher."""
        return PublisherPositions(self.default_offset, {**self._of, publisher: position})

    @property
    def lowest(self) -> int:
        """The offset up to which all publishers are complete."""
        return min(self.default_offset, *(at.offset for at in self._of.values())) if self._of else self.default_offset

    @property
    def by_publisher(self) -> dict[str, Position]:
        """The publishers with a position of their own."""
        return dict(self._of)


def encode_envelope(epoch: int, position: Position, frames: bytes) -> bytes:
    """Return a channel message: epoch and position before the frames."""
    return b"".join((varint.write(epoch), varint.write(position.offset), varint.write(position.within), frames))


def decode_envelope(payload: bytes) -> tuple[int, Position, bytes]:
    """Return epoch, position and frames of a channel message."""
    epoch, at = varint.read(payload, 0)
    offset, at = varint.read(payload, at)
    within, at = varint.read(payload, at)
    if at == len(payload):
        raise CorruptFrame("a channel message without frames", length=at)
    return epoch, Position(offset, within), payload[at:]
