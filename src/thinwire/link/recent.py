"""The last frames taken, to know one by that comes again."""

from __future__ import annotations

from collections import deque

from thinwire.frames import split

RECENT = 256
"""frames remembered"""

_HELD = 1 << 20
"""bytes of messages held on to, before their frames are looked at"""


class Recent:
    """The last frames of a link by the low byte of their sequence.

    Nearly always nobody asks: messages are kept as they are, and taken apart only when somebody does.

    >>> recent = Recent()
    >>> recent.add(7, b"\\x01\\x07\\x00one")
    >>> recent.holds(7, b"\\x01\\x07\\x00one"), recent.holds(7, b"\\x01\\x07\\x00two")
    (True, False)
    """

    def __init__(self) -> None:
        self._hashes: dict[int, int] = {}
        self._waiting: deque[tuple[int, bytes, int]] = deque()
        self._frames = 0
        self._bytes = 0

    def add(self, sequence: int, message: bytes, frames: int = 1) -> None:
        """These frames were taken, one after the other; `sequence` is the first one's, in full."""
        waiting = self._waiting
        waiting.append((sequence, message, frames))
        self._frames += frames
        self._bytes += len(message)
        while self._frames - waiting[0][2] >= RECENT:
            self._drop()
        if self._bytes > _HELD:
            self._look()

    def holds(self, sequence: int, frame: bytes) -> bool:
        """Is this one of the last frames? `sequence` may be cut to its low byte."""
        self._look()
        return self._hashes.get(sequence & (RECENT - 1)) == hash(frame)

    def clear(self) -> None:
        """Forget them all."""
        self._hashes.clear()
        self._waiting.clear()
        self._frames = self._bytes = 0

    def _look(self) -> None:
        while self._waiting:
            sequence, message, _ = self._waiting[0]
            for number, frame in enumerate(split(message), start=sequence):
                self._hashes[number & (RECENT - 1)] = hash(frame)
            self._drop()

    def _drop(self) -> None:
        _, message, frames = self._waiting.popleft()
        self._frames -= frames
        self._bytes -= len(message)
