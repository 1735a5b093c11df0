"""Order of the frames of one publisher: sequence numbers, the running check, and duplicates."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from hashlib import blake2b

from thinwire.errors import CorruptFrame
from thinwire.wire import Frame, KeyFrame, StreamState, split
from thinwire.wire.stream_state import CHAIN, INCARNATION, SEQUENCE, WIDE

DEDUP_FRAMES = 256
"""number of recent frames that are recognised when they arrive again"""

_MAX_PENDING = 1 << 20
"""bytes of messages that may wait for hashing"""

HASH_BYTES = 8


class FrameDedup:
    """Hashes of the most recent frames by the low byte of their sequence.

    Duplicates are rare, so messages are stored as received and hashed on the first query.

    >>> recent = FrameDedup()
    >>> recent.add(7, b"\\x01\\x07\\x00one")
    >>> recent.contains(7, b"\\x01\\x07\\x00one"), recent.contains(7, b"\\x01\\x07\\x00two")
    (True, False)
    """

    def __init__(self) -> None:
        self._hashes: dict[int, bytes] = {}
        self._pending: deque[tuple[int, bytes, int]] = deque()
        self._frames = 0
        self._bytes = 0

    def add(self, sequence: int, message: bytes, frames: int = 1) -> None:
        """Add the frames of a message. `sequence` is the full sequence of the first one."""
        pending = self._pending
        pending.append((sequence, message, frames))
        self._frames += frames
        self._bytes += len(message)
        while self._frames - pending[0][2] >= DEDUP_FRAMES:
            self._drop()
        if self._bytes > _MAX_PENDING:
            self._hash_pending()

    def contains(self, sequence: int, frame: bytes) -> bool:
        """Check whether this is one of the recent frames. `sequence` may be reduced to its low byte."""
        self._hash_pending()
        return self._hashes.get(sequence & (DEDUP_FRAMES - 1)) == _hash(frame)

    def clear(self) -> None:
        self._hashes.clear()
        self._pending.clear()
        self._frames = self._bytes = 0

    def hashes(self) -> dict[int, bytes]:
        """Return the hashes of the recent frames by the low byte of their sequence."""
        self._hash_pending()
        return dict(self._hashes)

    def restore(self, hashes: Mapping[int, bytes]) -> None:
        """Replace all frames by those of a snapshot."""
        self.clear()
        self._hashes.update(hashes)

    def _hash_pending(self) -> None:
        while self._pending:
            sequence, message, _ = self._pending[0]
            for number, frame in enumerate(split(message), start=sequence):
                self._hashes[number & (DEDUP_FRAMES - 1)] = _hash(frame)
            self._drop()

    def _drop(self) -> None:
        _, message, frames = self._pending.popleft()
        self._frames -= frames
        self._bytes -= len(message)


def _hash(frame: bytes) -> bytes:
    # not the built-in hash: snapshots carry the value to other processes
    return blake2b(frame, digest_size=HASH_BYTES).digest()


class FrameSequencer:
    """Order of one publisher's frames: decides whether a frame is the next one, a duplicate, or follows a gap.

    Incarnation, sequence and running check are cells of the stream state, which compiled kernels advance as well.
    """

    def __init__(self, stream: StreamState) -> None:
        self._cells = stream.cells
        self.dedup = FrameDedup()

    @property
    def sequence(self) -> int:
        """The full sequence of the next frame."""
        return self._cells[SEQUENCE]

    def restart(self, key: KeyFrame, frame: Frame, check: int) -> None:
        """Continue after a key frame with this running check."""
        self._cells[SEQUENCE] = key.sequence + 1
        self._cells[CHAIN] = check
        self.dedup.clear()
        self.dedup.add(key.sequence, frame.raw)

    def is_same_incarnation(self, frame: Frame) -> bool:
        """Check whether the frame is of the same incarnation and sequence width."""
        return frame.incarnation == self._cells[INCARNATION] and frame.wide == bool(self._cells[WIDE])

    def is_next(self, frame: Frame) -> bool:
        """Check incarnation, sequence and running check of a frame, without advancing."""
        return self._check_after(frame) is not None

    def accept(self, frame: Frame) -> bool:
        """Advance past a frame if it is the next one. Return whether it is."""
        cells, check = self._cells, self._check_after(frame)
        if check is None:
            return False
        self.dedup.add(cells[SEQUENCE], frame.raw)
        cells[SEQUENCE] += 1
        cells[CHAIN] = check
        return True

    def is_duplicate(self, frame: Frame) -> bool:
        return self.is_same_incarnation(frame) and self.dedup.contains(frame.sequence, frame.raw)

    def is_outdated(self, key: KeyFrame, incarnation: int) -> bool:
        """Check whether a key frame was sent before the current position in `incarnation`."""
        return (key.incarnation, key.sequence) < (incarnation, self.sequence)

    def _check_after(self, frame: Frame) -> int | None:
        """Return the running check after a frame, or None if it is not the next one."""
        check = frame.chain_after(self._cells[CHAIN])
        low = self._cells[SEQUENCE] & (0xFFFF if self._cells[WIDE] else 0xFF)
        is_next = self.is_same_incarnation(frame) and frame.sequence == low and check & 0xFF == frame.check
        return check if is_next else None


def check_key_frame(frame: Frame, max_sources: int) -> tuple[KeyFrame, int]:
    """Return the key frame in a frame and the running check after it. Raises CorruptFrame if they contradict."""
    check = frame.chain_after(0)
    if check & 0xFF != frame.check:
        raise CorruptFrame("key frame header does not match its check")
    key = KeyFrame.decode(frame.body)
    low = 0xFFFF if frame.wide else 0xFF
    if frame.sequence != key.sequence & low or frame.incarnation != key.incarnation & 3:
        raise CorruptFrame("key frame header and body have different positions", sequence=key.sequence)
    if key.total_sources > max_sources:
        raise CorruptFrame("more sources than the decoder accepts", total=key.total_sources, limit=max_sources)
    return key, check
