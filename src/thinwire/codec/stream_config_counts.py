"""What a link has done so far, in numbers the ledger takes over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thinwire.wire import FrameKind

_KEYS = frozenset({FrameKind.KEY, FrameKind.INTRODUCTION})
_DATA = frozenset({FrameKind.DATA, FrameKind.EXCEPTION, FrameKind.JSON, FrameKind.PAYLOAD})


@dataclass
class Counts:
    """Events, frames and bytes of one end of a link. Every byte of every frame is in one of the three sums."""

    events: int = 0
    rejected: int = 0
    frames: int = 0
    data_bytes: int = 0
    key_bytes: int = 0
    control_bytes: int = 0
    missed: int = 0
    duplicates: int = 0
    resyncs: int = 0
    unknown_frames: int = 0

    @property
    def frame_bytes(self) -> int:
        """All bytes of all frames."""
        return self.data_bytes + self.key_bytes + self.control_bytes

    def add_data(self, frame: bytes) -> None:
        """Count a frame known to tell an event."""
        self.frames += 1
        self.data_bytes += len(frame)

    def add_all_data(self, frames: Sequence[bytes]) -> None:
        """Count frames known to tell events."""
        self.frames += len(frames)
        self.data_bytes += sum(map(len, frames))

    def add(self, frame: bytes) -> None:
        """Count a frame."""
        kind = frame[0] & 0x0F if frame else 0
        self.frames += 1
        if kind in _DATA:
            self.data_bytes += len(frame)
        elif kind in _KEYS:
            self.key_bytes += len(frame)
        else:
            self.control_bytes += len(frame)
