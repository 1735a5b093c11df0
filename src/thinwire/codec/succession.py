"""Continuity of sources across key frames: after a gap, a restart, or a change of the sending process.

After a gap, the decoder knows the ordinal of the last delivered event of each source and reports what it missed.

When another process takes over a stream, its key frames contain the ordinals up to which the former process had
suppressed events. The decoder rebuilds these events from the former state before it adopts the new state.
"""

from __future__ import annotations

from collections.abc import Container

from thinwire.codec.decoder_state import DecoderState
from thinwire.codec.deliveries import Delivery, EventsMissed
from thinwire.codec.row_map import Source
from thinwire.codec.row_snapshot import snapshot_row
from thinwire.codec.stream_config import Counts
from thinwire.errors import CorruptFrame
from thinwire.wire import SourceState
from thinwire.wire.control_frames import MAX_SKIP


class DeliveredOrdinals(dict[Source, tuple[int, int]]):
    """Incarnation and ordinal of the last delivered event of sources whose state was dropped."""

    def add_all(self, decoder_state: DecoderState) -> None:
        """Store the last ordinals of all known sources."""
        for source, _, ordinal in decoder_state.last_ordinals():
            self[source] = decoder_state.incarnation, ordinal

    def entries(self, known: Container[Source | None]) -> list[tuple[Source, int, int]]:
        """Return source, incarnation and ordinal of all entries, except sources in `known`."""
        return [(source, *last) for source, last in self.items() if source not in known]


class Succession:
    """Merges the sources of key frames into decoder state, and reports or rebuilds the events in between.

    delivered: the last delivered ordinals of sources whose state was dropped
    """

    def __init__(self, publisher: str, counts: Counts, delivered: DeliveredOrdinals) -> None:
        self.publisher = publisher
        self.delivered = delivered
        self._counts = counts
        self._former: dict[Source, tuple[DecoderState, int]] = {}
        """sources that the new sender has not sent yet: the last state that contains them, and their row in it"""

    def add_predecessor(self, decoder_state: DecoderState) -> None:
        """Keep a state whose stream is continued by another process."""
        self._former.update((source, (decoder_state, row)) for source, row, _ in decoder_state.last_ordinals())

    def drop_predecessors(self) -> None:
        """Drop the states of former senders. After the first other frame they describe outdated events."""
        self._former.clear()

    def merge(self, decoder_state: DecoderState, row: int, state: SourceState, out: list[Delivery]) -> None:
        """Merge one source of a key frame into the state."""
        if decoder_state.expander.knows(row):
            self._verify(decoder_state, row, state, out)
        else:
            self._add(decoder_state, row, state, out)

    def _verify(self, decoder_state: DecoderState, row: int, state: SourceState, out: list[Delivery]) -> None:
        """Deliver the suppressed events of a known source and compare its state with the key frame."""
        expander, source = decoder_state.expander, decoder_state.expander.keys[row]
        assert source is not None
        skip = state.ordinal - expander.table.ordinal(row)
        if skip >= 0:
            out += decoder_state.expand_suppressed(row, skip)
        if skip < 0 or snapshot_row(expander.table, row) != state.columns:
            self.delivered[source] = decoder_state.incarnation, expander.table.ordinal(row)
            expander.restore(row, state.dimensions, state.ordinal, state.columns)
            out.append(EventsMissed(self.publisher, expander.keys[row], None, state.ordinal, "diverged"))

    def _add(self, decoder_state: DecoderState, row: int, state: SourceState, out: list[Delivery]) -> None:
        """Add a source, continuing the state of a former sender if there is one."""
        expander = decoder_state.expander
        expander.restore(row, state.dimensions, state.ordinal, state.columns)
        source = expander.keys[row]
        assert source is not None
        former, former_row = self._former.pop(source, (None, 0))
        skip = state.ordinal - former.expander.table.ordinal(former_row) if former is not None else 0
        if former is None or skip > MAX_SKIP:
            self._resume(decoder_state, row, state.ordinal, out)
        elif skip < 0:
            out.append(EventsMissed(self.publisher, source, None, state.ordinal, "diverged"))
        elif decoder_state.include_suppressed:
            former.include_suppressed = True
            try:
                out += former.expand_suppressed(former_row, skip)
            except CorruptFrame:
                expander.keys[row] = None  # its events are not delivered and must not count as such
                raise

    def _resume(self, decoder_state: DecoderState, row: int, ordinal: int, out: list[Delivery]) -> None:
        """Report the events of a source that were missed, and deliver its current state."""
        current, has_state = decoder_state.expander.current(row), decoder_state.has_state(row)
        incarnation, last = self.delivered.get(current.source, (None, 0))
        if incarnation != decoder_state.incarnation:
            last = 0
        if last >= ordinal:
            return
        last_missed = ordinal - has_state
        if incarnation is not None and last < last_missed:
            self._counts.missed += last_missed - last
            out.append(EventsMissed(self.publisher, current.source, last + 1, last_missed, "gap"))
        if has_state:
            out.append(current)
