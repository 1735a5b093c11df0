"""Receiving in columns: many messages, one call into a compiled kernel, and the records of their events in a matrix.

The per-event code and this one move the same state, so they can take turns; what the kernel does not take is left to
the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from thinwire.codec.expander import Expander
from thinwire.codec.kernels.frame_decoder import CELLS_OF_RUN, FULL, pass_over
from thinwire.codec.kernels.message_decoder import (
    BEAT_BYTES,
    BYTE,
    CELLS_OF_WALK,
    DATA_BYTES,
    MESSAGE,
    ROWS,
    SEEN,
    take_messages,
)
from thinwire.codec.kernels.rule_table import plan_of
from thinwire.schema.event import About
from thinwire.wire import LinkState

Ints = npt.NDArray[np.int64]


class Walk:
    """A way through some messages.

    frames, rows: of each message, how many frames were taken since the walk went on there, and the records after it
    """

    def __init__(self, messages: Sequence[bytes]) -> None:
        self.messages = messages
        self.raw = np.frombuffer(bytearray().join(messages), dtype=np.uint8)
        self.starts = np.zeros(len(messages) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, messages), np.int64, len(messages)), out=self.starts[1:])
        self.cells = np.zeros(CELLS_OF_WALK, dtype=np.int64)
        self.frames = np.zeros(len(messages), dtype=np.int64)
        self.rows = np.zeros(len(messages), dtype=np.int64)

    def resume_at(self, number: int, at: int, rows: int) -> None:
        """From byte `at` of a message on, with so many records left before."""
        self.cells[:] = 0
        self.cells[MESSAGE], self.cells[BYTE], self.cells[ROWS] = number, at, rows
        self.frames[number], self.rows[number] = 0, rows

    @property
    def place(self) -> tuple[int, int]:
        """The message it goes on with, and the byte; 0 where nothing of the message was taken."""
        return int(self.cells[MESSAGE]), int(self.cells[BYTE])

    @property
    def sums(self) -> tuple[int, int, int]:
        """Since it went on: events, bytes of data frames, bytes of heartbeats."""
        return int(self.cells[SEEN]), int(self.cells[DATA_BYTES]), int(self.cells[BEAT_BYTES])


@dataclass(frozen=True)
class SuppressedEvents:
    """Events of one source that were passed over in silence, as what leads to them: the source's state before them.

    about: what they share; texts: the source's values that are no numbers, by property
    """

    decoder: TableDecoder
    about: About | None
    skip: int
    state: Ints
    texts: list[Any]


class TableDecoder:
    """Messages in, records out, as far as their frames are ordinary."""

    def __init__(self, expander: Expander, link: LinkState) -> None:
        self.expander = expander
        self.plan = plan_of(expander.columns)
        self._cells = np.frombuffer(link.cells, dtype=np.int64)
        self._work = np.zeros((3, expander.columns.width), dtype=np.int64)
        self._run = np.zeros(CELLS_OF_RUN, dtype=np.int64)

    def take(self, walk: Walk, out: Ints, *, shown: bool) -> bool:
        """Walk on as far as frames are ordinary; the walk says how far that was. Was it for want of room?

        shown: do events that were passed over in silence leave a record?
        """
        columns = self.expander.columns
        if not columns.rows:
            return False
        answer = take_messages(
            self.plan,
            self._cells,
            columns.view(),
            columns.width,
            walk.raw,
            walk.starts,
            shown,
            self._work,
            self._run,
            walk.cells,
            walk.frames,
            walk.rows,
            out,
        )
        return bool(answer == FULL)

    def keep_silence(self, row: int, skip: int) -> SuppressedEvents:
        """What leads to the source's next events, which will be as expected; the state stays as it is."""
        columns = self.expander.columns
        state = columns.view()[row * columns.width : (row + 1) * columns.width].copy()
        texts = [objects[row] if objects else None for objects in columns.objects]
        return SuppressedEvents(self, self.expander.metadata_codes[2 * row + 1], skip, state, texts)

    def emit_suppressed(self, silence: SuppressedEvents, count: int, out: Ints) -> None:
        """Records of its next `count` events."""
        width = self.expander.columns.width
        pass_over(self.plan, silence.state, width, 0, count, True, self._work, out)
