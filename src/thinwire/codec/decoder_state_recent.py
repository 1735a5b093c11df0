"""The last frames taken, to know one by that comes again."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from hashlib import blake2b

from thinwire.wire import split

RECENT = 256
"""frames remembered"""

_HELD = 1 << 20
"""bytes of messages held on to, before their frames are looked at"""

HASH_BYTES = 8


class Recent:
    """The last frames of a link by the low byte of their sequence.

    Nearly always nobody asks: messages are kept as they are, and taken apart only when somebody does.

    >>> recent = Recent()
    >>> recent.add(7, b"\\x01\\x07\\x00one")
    >>> recent.holds(7, b"\\x01\\x07\\x00one"), recent.holds(7, b"\\x01\\x07\\x00two")
    (True, False)
    """

    def __init__(self) -> None:
        self._hashes: dict[int, bytes] = {}
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
        return self._hashes.get(sequence & (RECENT - 1)) == _hash(frame)

    def clear(self) -> None:
        """Forget them all."""
        self._hashes.clear()
        self._waiting.clear()
        self._frames = self._bytes = 0

    def hashes(self) -> dict[int, bytes]:
        """The frames remembered: their hashes by the low byte of their sequence."""
        self._look()
        return dict(self._hashes)

    def restore(self, hashes: Mapping[int, bytes]) -> None:
        """Remember what another memory of the same link remembered."""
        self.clear()
        self._hashes.update(hashes)

    def _look(self) -> None:
        while self._waiting:
            sequence, message, _ = self._waiting[0]
            for number, frame in enumerate(split(message), start=sequence):
                self._hashes[number & (RECENT - 1)] = _hash(frame)
            self._drop()

    def _drop(self) -> None:
        _, message, frames = self._waiting.popleft()
        self._frames -= frames
        self._bytes -= len(message)


def _hash(frame: bytes) -> bytes:
    """The same in every process, so that it can be kept."""
    return blake2b(frame, digest_size=HASH_BYTES).digest()
