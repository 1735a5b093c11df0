"""Position of a table decoder in some messages, and their decoding to records with one kernel call.

Kernels and scalar code advance the same state and may alternate. The kernels stop at any frame that is not regular.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from thinwire.codec.arrow_columns import Ints
from thinwire.codec.compiled_decoder import CompiledDecoder
from thinwire.codec.decoder_state import DecoderState
from thinwire.codec.frame_sequencer import DEDUP_FRAMES
from thinwire.codec.kernels.frame_decoder import (
    AT,
    BYTES,
    EVENTS,
    FRAMES,
    FULL,
    HEARTBEAT_BYTES,
    MESSAGE,
    RUN_CELLS,
    Decoding,
)
from thinwire.codec.kernels.message_decoder import decode_messages
from thinwire.codec.stream_config import Counts
from thinwire.errors import CorruptFrame
from thinwire.wire import FrameKind, split, varint
from thinwire.wire.frame import MAX_FRAME, MAX_MESSAGE


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
        self._run: Ints = np.zeros(RUN_CELLS, dtype=np.int64)
        self._frames: Ints = np.zeros(len(messages), dtype=np.int64)
        self._records: Ints = np.zeros(len(messages), dtype=np.int64)

    @cached_property
    def _content(self) -> tuple[npt.NDArray[np.uint8], Ints]:
        """The concatenated messages, the start of each, and the end of the last."""
        ends = np.cumsum(np.fromiter(map(len, self.messages), np.int64, len(self.messages)))
        return np.frombuffer(bytearray().join(self.messages), dtype=np.uint8), np.append(0, ends)

    def decode(self, decoder: CompiledDecoder, out: Ints, rows: int, *, shown: bool) -> bool:
        """Decode regular frames with the kernel. Return whether it stopped because `out` is full.

        rows: number of records in `out`; shown: whether suppressed events give records
        """
        run, table = self._run, decoder.expander.table
        self._start = self.number, self.at, rows
        run[:] = 0
        run[MESSAGE], run[AT], run[EVENTS] = self._start
        self._frames[self.number], self._records[self.number] = 0, rows
        decoding = Decoding(decoder.rule_table, decoder.cells, table.view(), table.width, shown, decoder.work, run)
        result = decode_messages(decoding, *self._content, self._frames, self._records, out) if table.rows else None
        self.number, self.at = int(run[MESSAGE]), int(run[AT])
        return result == FULL

    def count(self, counts: Counts) -> None:
        """Add the events and bytes of the last kernel call."""
        counts.events += int(self._run[EVENTS]) - self._start[2]
        counts.data_bytes += int(self._run[BYTES])
        counts.control_bytes += int(self._run[HEARTBEAT_BYTES])
        counts.frames += int(self._run[FRAMES])

    def add_to_dedup(self, decoder_state: DecoderState) -> None:
        """Add the most recent frames of the last kernel call to the dedup of the state."""
        frames = np.diff(self._frames[self._start[0] : self._end()], prepend=0).tolist()
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
        first, _, rows = self._start
        counts = np.diff(self._records[first : self._end()], prepend=rows)
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

    def _decoded_part(self, number: int) -> bytes:
        """Return the part of a message that the kernel decoded, as a message."""
        message = self.messages[number]
        begin = self._start[1] if number == self._start[0] else 0
        end = self.at if number == self.number else len(message)
        return message if begin <= 1 and end == len(message) else message[:1] + message[begin or 1 : end]
