"""Silence kept as what leads to it: a frame may tell of very many events, and a table has rows for some at a time.

The way through some messages: by the kernel as far as it goes, frame by frame where it does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from thinwire.codec.compiled_table_decoder import SuppressedEvents, TableDecoder
from thinwire.codec.decoder_state import RECENT, DecoderState
from thinwire.codec.stream_config import Counts
from thinwire.errors import CorruptFrame
from thinwire.wire import FrameKind, split, varint
from thinwire.wire.frame import MAX_FRAME, MAX_MESSAGE

if TYPE_CHECKING:
    from thinwire.codec.compiled_decoder import FastDecoder
    from thinwire.codec.compiled_table_decoder import Walk


class SilenceKeeper:
    """In a replica's fast decoder's place: events passed over are not made, but kept as `SuppressedEvents`.

    Ordinary frames it leaves alone: whoever puts it there has taken all there are.
    """

    def __init__(self, fast: FastDecoder, decoder: TableDecoder) -> None:
        self._fast = fast
        self._decoder = decoder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fast, name)

    def take(self, message: bytes, at: int, out: list[Any], *, passed_over: bool) -> tuple[int, int, int]:
        """None, from byte `at` on."""
        return at, 0, 0

    def pass_over(self, row: int, skip: int) -> list[SuppressedEvents]:
        """The source's next events, which were as expected."""
        if not skip:
            return []
        silence = self._decoder.keep_silence(row, skip)
        self._fast.move_on(row, skip)
        return [silence]


@contextmanager
def keep_suppressed(decoder_state: DecoderState | None, decoder: TableDecoder | None) -> Iterator[None]:
    """While this lasts, the replica hands out silence as it is."""
    fast = decoder_state.fast if decoder_state is not None else None
    if decoder_state is None or decoder is None or fast is None:
        yield
        return
    decoder_state.fast = cast("FastDecoder", SilenceKeeper(fast, decoder))
    try:
        yield
    finally:
        decoder_state.fast = fast


Ints = npt.NDArray[np.int64]


class TableScan:
    """Where a reader of some messages is.

    first: the number of the first of them, where they are part of many
    number, at: the message it goes on with, and the byte in it that the next frame, or its length, begins at
    """

    def __init__(self, messages: Sequence[bytes], first: int) -> None:
        self.messages = messages
        self.first = first
        self.number = 0
        self.at = 0
        self._from = (0, 0, 0)
        self._walk: Walk | None = None

    def take(self, decoder: TableDecoder, out: Ints, rows: int, *, shown: bool) -> bool:
        """By the kernel, as far as it goes; was it stopped for want of room?"""
        if self._walk is None:
            from thinwire.codec.compiled_table_decoder import Walk

            self._walk = Walk(self.messages)
        self._from = self.number, self.at, rows
        self._walk.resume_at(self.number, self.at, rows)
        full = decoder.take(self._walk, out, shown=shown)
        self.number, self.at = self._walk.place
        return full

    def count(self, counts: Counts) -> None:
        """Count what the kernel took last."""
        assert self._walk is not None
        events, data_bytes, beat_bytes = self._walk.sums
        counts.events += events
        counts.data_bytes += data_bytes
        counts.control_bytes += beat_bytes
        counts.frames += int(self._frames().sum())

    def remember(self, decoder_state: DecoderState) -> None:
        """Have the replica know again what the kernel took last, as far back as it remembers."""
        frames = self._frames().tolist()
        sequence, left = decoder_state.sequence, RECENT
        recent: list[tuple[int, bytes, int]] = []
        number = self._from[0] + len(frames)
        while frames and left > 0:
            taken, number = frames.pop(), number - 1
            if taken:
                sequence, left = sequence - taken, left - taken
                recent.append((sequence, self._taken_of(number), taken))
        for part in reversed(recent):
            decoder_state.recent.add(*part)

    def messages_of_rows(self) -> Ints:
        """Of each record that the kernel left last, the number of its message."""
        assert self._walk is not None
        first, _, rows = self._from
        counts = np.diff(self._walk.rows[first : self._end()], prepend=rows)
        return np.repeat(np.arange(first, self._end()) + self.first, counts)

    def next_frame(self) -> bytes:
        """The next frame; or the whole message, where it is one or cannot be taken apart."""
        message = self.messages[self.number]
        if not message or message[0] & 0x0F != FrameKind.BATCH or not self._is_whole(message):
            self.leave()
            return message
        frame, at = varint.read_blob(message, self.at or 1, MAX_FRAME)
        self.at = at
        if at == len(message):
            self.leave()
        return frame

    def leave(self) -> None:
        """Go on with the next message, whatever is left of this one."""
        self.number, self.at = self.number + 1, 0

    def _is_whole(self, message: bytes) -> bool:
        """Is it a batch of whole frames? Once any was taken, only its size is in question."""
        if self.at:
            return len(message) <= MAX_MESSAGE
        try:
            return len(split(message)) > 0
        except CorruptFrame:
            return False

    def _end(self) -> int:
        return min(self.number + 1, len(self.messages))

    def _frames(self) -> Ints:
        """Of each message from where the kernel began to where it stopped, the frames it took."""
        assert self._walk is not None
        return self._walk.frames[self._from[0] : self._end()]

    def _taken_of(self, number: int) -> bytes:
        """What the kernel took of a message, as a message."""
        message = self.messages[number]
        begin = self._from[1] if number == self._from[0] else 0
        end = self.at if number == self.number else len(message)
        return message if begin <= 1 and end == len(message) else message[:1] + message[begin or 1 : end]
