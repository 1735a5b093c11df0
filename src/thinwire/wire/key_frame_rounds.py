"""Where a key frame stands in its round, and what a message binds, for those who store frames and must find their way.

A reader that joins at a frame which begins a round, and reads on to the one that ends it, knows every source.
"""

from __future__ import annotations

from typing import NamedTuple

from thinwire.errors import PeerFault
from thinwire.wire.control_frames import Binding
from thinwire.wire.frame import read
from thinwire.wire.frame_batch import split
from thinwire.wire.frame_kinds import FrameKind
from thinwire.wire.key_frame import KeyFrame, read_head


class RoundPlace(NamedTuple):
    """One chunk of a round: so many sources from `first` on, out of the `total` that there are when it is written."""

    incarnation: int
    config_version: int
    first: int
    sources: int
    total: int

    @property
    def begins(self) -> bool:
        """Is this the first chunk of its round?"""
        return self.first == 0

    @property
    def ends(self) -> bool:
        """Is this the last chunk of its round?"""
        return self.first + self.sources == self.total


def begins_round(frame: bytes) -> bool:
    """Is this a key frame with the first chunk of a round? Looks at no source, and trusts the frame."""
    if not _is_key(frame):
        return False
    head, _ = read_head(read(frame).body)
    return head.first == 0


def place_in_round(frame: bytes) -> RoundPlace | None:
    """Where a key frame stands; None for other frames. Raises CorruptFrame where it cannot be one."""
    if not _is_key(frame):
        return None
    key = KeyFrame.decode(read(frame).body)
    return RoundPlace(key.incarnation, key.config_version, key.first, len(key.sources), key.total_sources)


def bindings_in(message: bytes) -> list[Binding]:
    """What the frames of a message bind to slots, without a look at anything else; nothing where it is broken."""
    try:
        bound = [frame for frame in split(message) if frame[:1] and frame[0] & 0x0F == FrameKind.BINDING]
        return [Binding.decode(read(frame).body) for frame in bound]
    except PeerFault:
        return []


def _is_key(frame: bytes) -> bool:
    return bool(frame) and frame[0] & 0x0F == FrameKind.KEY
