"""What stands before the frames of a channel's message: who wrote it, and how far the channel has told.

    epoch | offset | within | link message        three whole numbers of 1 to 10 bytes each

The position (offset, within) says that all events of the publisher's messages up to `offset` are in this message or an
earlier one, or were passed over in silence, and so are the first `within` events of its next message.

>>> unseal(seal(3, Position(120, 7), b"frames"))
(3, Position(offset=120, within=7), b'frames')
"""

from __future__ import annotations

from typing import NamedTuple

from thinwire.errors import CorruptFrame
from thinwire.wire import varint

MAX_ENVELOPE = 3 * varint.MAX_BYTES
"""bytes before the frames, at most"""


class Position(NamedTuple):
    """How far a channel has told what its publisher wrote to the log; one is further than another if it is larger."""

    offset: int
    within: int = 0


def seal(epoch: int, position: Position, message: bytes) -> bytes:
    """A channel's message: the frames in their envelope."""
    return b"".join((varint.write(epoch), varint.write(position.offset), varint.write(position.within), message))


def unseal(payload: bytes) -> tuple[int, Position, bytes]:
    """The epoch of who wrote a channel's message, the position it tells up to, and the frames."""
    epoch, at = varint.read(payload, 0)
    offset, at = varint.read(payload, at)
    within, at = varint.read(payload, at)
    if at == len(payload):
        raise CorruptFrame("a channel's message without frames", length=at)
    return epoch, Position(offset, within), payload[at:]
