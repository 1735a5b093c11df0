"""Compiled decoding of many messages to records in one call, for tables.

Kernels and scalar code advance the same state and may alternate. The kernels stop at any frame that is not regular.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from thinwire.codec.decoder_state import DecoderState
from thinwire.codec.expander import Expander
from thinwire.codec.frame_sequencer import DEDUP_FRAMES
from thinwire.codec.kernels.frame_decoder import FULL, RUN_CELLS, expand_suppressed
from thinwire.codec.kernels.message_decoder import (
    BYTE,
    DATA_BYTES,
    HEARTBEAT_BYTES,
    MESSAGE,
    ROWS,
    SCAN_CELLS,
    SEEN,
    decode_messages,
)
from thinwire.codec.kernels.rule_table import build_rule_table
from thinwire.codec.stream_config import Counts
from thinwire.errors import CorruptFrame
from thinwire.schema.event import About
from thinwire.wire import FrameKind, StreamState, split, varint
from thinwire.wire.frame import MAX_FRAME, MAX_MESSAGE

if TYPE_CHECKING:
    from thinwire.codec.compiled_decoder import CompiledDecoder

Ints = npt.NDArray[np.int64]


class ScanState:
    """Position of a kernel in some messages.

    frames, rows: per message, the number of frames decoded since `resume_at` and the number of records after it
    """

    def __init__(self, messages: Sequence[bytes]) -> None:
        self.messages = messages
        self.raw = np.frombuffer(bytearray().join(messages), dtype=np.uint8)
        self.starts = np.zeros(len(messages) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, messages), np.int64, len(messages)), out=self.starts[1:])
        self.cells = np.zeros(SCAN_CELLS, dtype=np.int64)
        self.frames = np.zeros(len(messages), dtype=np.int64)
        self.rows = np.zeros(len(messages), dtype=np.int64)

    def resume_at(self, number: int, at: int, rows: int) -> None:
        """Continue at byte `at` of a message, after `rows` records."""
        self.cells[:] = 0
        self.cells[MESSAGE], self.cells[BYTE], self.cells[ROWS] = number, at, rows
        self.frames[number], self.rows[number] = 0, rows

    @property
    def position(self) -> tuple[int, int]:
        """The next message and byte; byte 0 if no frame of the message was decoded."""
        return int(self.cells[MESSAGE]), int(self.cells[BYTE])

    @property
    def sums(self) -> tuple[int, int, int]:
        """Events, bytes of data frames and bytes of heartbeats since `resume_at`."""
        return int(self.cells[SEEN]), int(self.cells[DATA_BYTES]), int(self.cells[HEARTBEAT_BYTES])


@dataclass(frozen=True)
class SuppressedEvents:
    """Suppressed events of one source that are not built yet: the state of the source before them.

    metadata: what the events share; texts: the values of the source that are not numbers, by property
    """

    decoder: CompiledTableDecoder
    metadata: About | None
    count: int
    state: Ints
    texts: list[Any]


class CompiledTableDecoder:
    """Decodes regular frames of many messages to records."""

    def __init__(self, expander: Expander, stream: StreamState) -> None:
        self.expander = expander
        self.rule_table = build_rule_table(expander.table)
        self._cells = np.frombuffer(stream.cells, dtype=np.int64)
        self._work = np.zeros((3, expander.table.width), dtype=np.int64)
        self._run = np.zeros(RUN_CELLS, dtype=np.int64)

    def decode(self, scan: ScanState, out: Ints, *, shown: bool) -> bool:
        """Advance the scan while frames are regular. Return whether it stopped because `out` is full.

        shown: whether suppressed events give records
        """
        table = self.expander.table
        if not table.rows:
            return False
        result = decode_messages(
            self.rule_table,
            self._cells,
            table.view(),
            table.width,
            scan.raw,
            scan.starts,
            shown,
            self._work,
            self._run,
            scan.cells,
            scan.frames,
            scan.rows,
            out,
        )
        return bool(result == FULL)

    def capture_suppressed(self, row: int, count: int) -> SuppressedEvents:
        """Return the next `count` suppressed events of a source, not built yet. The state does not change."""
        table = self.expander.table
        state = table.view()[row * table.width : (row + 1) * table.width].copy()
        texts = [objects[row] if objects else None for objects in table.objects]
        return SuppressedEvents(self, self.expander.event_metadata[2 * row + 1], count, state, texts)

    def write_suppressed(self, suppressed: SuppressedEvents, count: int, out: Ints) -> None:
        """Write records of the next `count` events."""
        width = self.expander.table.width
        expand_suppressed(self.rule_table, suppressed.state, width, 0, count, True, self._work, out)


class SuppressedRecorder:
    """Stands in for a compiled decoder and returns `SuppressedEvents` instead of building suppressed events.

    One frame may report very many of them; a table builds a limited number of rows at a time. Data frames are not
    decoded here, because the table decoder has already decoded those that are regular.
    """

    def __init__(self, compiled: CompiledDecoder, decoder: CompiledTableDecoder) -> None:
        self._compiled = compiled
        self._decoder = decoder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)

    def decode(self, message: bytes, at: int, out: list[Any], *, include_suppressed: bool) -> tuple[int, int, int]:
        """Decode nothing."""
        return at, 0, 0

    def expand_suppressed(self, row: int, count: int) -> list[SuppressedEvents]:
        """Advance a source by suppressed events and return them, not built yet."""
        if not count:
            return []
        suppressed = self._decoder.capture_suppressed(row, count)
        self._compiled.advance(row, count)
        return [suppressed]


@contextmanager
def record_suppressed(decoder_state: DecoderState | None, decoder: CompiledTableDecoder | None) -> Iterator[None]:
    """Let a decoder state return `SuppressedEvents` within the context."""
    compiled = decoder_state.compiled if decoder_state is not None else None
    if decoder_state is None or decoder is None or compiled is None:
        yield
        return
    decoder_state.compiled = cast("CompiledDecoder", SuppressedRecorder(compiled, decoder))
    try:
        yield
    finally:
        decoder_state.compiled = compiled


class TableScan:
    """Position of a table decoder in some messages: by kernel where frames are regular, otherwise frame by frame.

    first: the number of the first message, if they are part of many
    number, at: the next message, and the byte of its next frame
    """

    def __init__(self, messages: Sequence[bytes], first: int) -> None:
        self.messages = messages
        self.first = first
        self.number = 0
        self.at = 0
        self._start = (0, 0, 0)
        self._scan: ScanState | None = None

    def decode(self, decoder: CompiledTableDecoder, out: Ints, rows: int, *, shown: bool) -> bool:
        """Decode regular frames with the kernel. Return whether it stopped because `out` is full."""
        if self._scan is None:
            self._scan = ScanState(self.messages)
        self._start = self.number, self.at, rows
        self._scan.resume_at(self.number, self.at, rows)
        is_full = decoder.decode(self._scan, out, shown=shown)
        self.number, self.at = self._scan.position
        return is_full

    def count(self, counts: Counts) -> None:
        """Add the events and bytes of the last kernel call."""
        assert self._scan is not None
        events, data_bytes, heartbeat_bytes = self._scan.sums
        counts.events += events
        counts.data_bytes += data_bytes
        counts.control_bytes += heartbeat_bytes
        counts.frames += int(self._frames().sum())

    def add_to_dedup(self, decoder_state: DecoderState) -> None:
        """Add the most recent frames of the last kernel call to the dedup of the state."""
        frames = self._frames().tolist()
        sequence, left = decoder_state.sequence, DEDUP_FRAMES
        recent: list[tuple[int, bytes, int]] = []
        number = self._start[0] + len(frames)
        while frames and left > 0:
            decoded, number = frames.pop(), number - 1
            if decoded:
                sequence, left = sequence - decoded, left - decoded
                recent.append((sequence, self._decoded_part(number), decoded))
        for part in reversed(recent):
            decoder_state.sequencer.dedup.add(*part)

    def messages_of_rows(self) -> Ints:
        """Return the message number of each record of the last kernel call."""
        assert self._scan is not None
        first, _, rows = self._start
        counts = np.diff(self._scan.rows[first : self._end()], prepend=rows)
        return np.repeat(np.arange(first, self._end()) + self.first, counts)

    def next_frame(self) -> bytes:
        """Return the next frame, or the complete message if it is a single frame or cannot be split."""
        message = self.messages[self.number]
        if not message or message[0] & 0x0F != FrameKind.BATCH or not self._is_complete(message):
            self.skip_message()
            return message
        frame, at = varint.read_blob(message, self.at or 1, MAX_FRAME)
        self.at = at
        if at == len(message):
            self.skip_message()
        return frame

    def skip_message(self) -> None:
        """Continue with the next message."""
        self.number, self.at = self.number + 1, 0

    def _is_complete(self, message: bytes) -> bool:
        """Check that a message is a batch of complete frames; after the first frame only its size is checked."""
        if self.at:
            return len(message) <= MAX_MESSAGE
        try:
            return len(split(message)) > 0
        except CorruptFrame:
            return False

    def _end(self) -> int:
        return min(self.number + 1, len(self.messages))

    def _frames(self) -> Ints:
        """Return the number of frames that the last kernel call decoded of each message."""
        assert self._scan is not None
        return self._scan.frames[self._start[0] : self._end()]

    def _decoded_part(self, number: int) -> bytes:
        """Return the part of a message that the kernel decoded, as a message."""
        message = self.messages[number]
        begin = self._start[1] if number == self._start[0] else 0
        end = self.at if number == self.number else len(message)
        return message if begin <= 1 and end == len(message) else message[:1] + message[begin or 1 : end]
