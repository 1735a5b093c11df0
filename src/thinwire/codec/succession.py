"""Continuity of sources across key frames: after a gap, a restart, or a change of the sending process.

After a gap, the decoder knows the ordinal of the last delivered event of each source and reports what it missed.

When another process takes over a stream, its key frames contain the ordinals up to which the former process had
suppressed events. The decoder rebuilds these events from the former state before it adopts the new state.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import NamedTuple

from thinwire.codec import Expander
from thinwire.codec.decoder_state import DecoderState
from thinwire.codec.deliveries import Delivery, EventsMissed
from thinwire.codec.row_map import Source
from thinwire.codec.row_snapshot import snapshot_row
from thinwire.codec.stream_config import Counts
from thinwire.errors import CorruptFrame
from thinwire.schema import Event
from thinwire.wire import SourceState
from thinwire.wire.control_frames import MAX_SKIP


class SourceLocation(NamedTuple):
    """A source in the state of a former sender."""

    decoder_state: DecoderState
    row: int

    @property
    def ordinal(self) -> int:
        """The ordinal of the source's last event there."""
        return self.decoder_state.expander.table.ordinal(self.row)

    def expand_suppressed(self, count: int) -> list[Event]:
        """Return the next suppressed events, also if the decoder leaves suppressed events out."""
        self.decoder_state.include_suppressed = True
        return self.decoder_state.expand_suppressed(self.row, count)


class PredecessorState:
    """Sources that the new sender has not sent yet, each with the last state that contains it."""

    def __init__(self) -> None:
        self._locations: dict[Source, SourceLocation] = {}

    def add(self, decoder_state: DecoderState) -> None:
        """Add the sources of a replaced state. Sources that it does not contain keep their earlier location."""
        for row, source in enumerate(decoder_state.expander.keys):
            if source is not None:
                self._locations[source] = SourceLocation(decoder_state, row)

    def pop(self, source: Source) -> SourceLocation | None:
        """Remove a source and return its location."""
        return self._locations.pop(source, None)

    def clear(self) -> None:
        """Remove all sources."""
        self._locations.clear()


class DeliveredOrdinals:
    """Incarnation and ordinal of the last delivered event of sources whose state was dropped."""

    def __init__(self) -> None:
        self._last: dict[Source, tuple[int, int]] = {}

    def add_all(self, decoder_state: DecoderState) -> None:
        """Store the last ordinals of all known sources."""
        for row in decoder_state.expander.known():
            self.add(decoder_state.expander, row, decoder_state.incarnation)

    def add(self, expander: Expander, row: int, incarnation: int) -> None:
        """Store the last ordinal of one source."""
        source = expander.keys[row]
        if source is not None:
            self._last[source] = (incarnation, expander.table.ordinal(row))

    def last(self, source: Source) -> tuple[int | None, int]:
        """Return incarnation and ordinal of the last delivered event; (None, 0) for an unknown source."""
        return self._last.get(source, (None, 0))

    def entries(self, known: Container[Source | None]) -> list[tuple[Source, int, int]]:
        """Return source, incarnation and ordinal of all entries, except sources in `known`."""
        return [(source, *last) for source, last in self._last.items() if source not in known]

    def restore(self, entries: Iterable[tuple[Source, int, int]]) -> None:
        """Add the entries of a snapshot."""
        self._last.update((source, (incarnation, ordinal)) for source, incarnation, ordinal in entries)


class Succession:
    """Merges the sources of key frames into decoder state, and reports or rebuilds the events in between.

    delivered: the last delivered ordinals of sources whose state was dropped
    """

    def __init__(self, publisher: str, counts: Counts) -> None:
        self.publisher = publisher
        self.delivered = DeliveredOrdinals()
        self._counts = counts
        self._predecessor = PredecessorState()

    def add_predecessor(self, decoder_state: DecoderState) -> None:
        """Keep a state whose stream is continued by another process."""
        self._predecessor.add(decoder_state)

    def drop_predecessors(self) -> None:
        """Drop the states of former senders. After the first other frame they describe outdated events."""
        self._predecessor.clear()

    def merge(self, decoder_state: DecoderState, row: int, state: SourceState, out: list[Delivery]) -> None:
        """Merge one source of a key frame into the state."""
        if decoder_state.expander.knows(row):
            self._verify(decoder_state, row, state, out)
        else:
            self._add(decoder_state, row, state, out)

    def _verify(self, decoder_state: DecoderState, row: int, state: SourceState, out: list[Delivery]) -> None:
        """Deliver the suppressed events of a known source and compare its state with the key frame."""
        expander = decoder_state.expander
        skip = state.ordinal - expander.table.ordinal(row)
        if skip >= 0:
            out += decoder_state.expand_suppressed(row, skip)
        if skip < 0 or snapshot_row(expander.table, row) != state.columns:
            self.delivered.add(expander, row, decoder_state.incarnation)
            expander.restore(row, state.dimensions, state.ordinal, state.columns)
            out.append(EventsMissed(self.publisher, expander.keys[row], None, state.ordinal, "diverged"))

    def _add(self, decoder_state: DecoderState, row: int, state: SourceState, out: list[Delivery]) -> None:
        """Add a source, continuing the state of a former sender if there is one."""
        expander = decoder_state.expander
        expander.restore(row, state.dimensions, state.ordinal, state.columns)
        source = expander.keys[row]
        assert source is not None
        former = self._predecessor.pop(source)
        if former is None or state.ordinal - former.ordinal > MAX_SKIP:
            self._resume(decoder_state, row, state.ordinal, out)
        elif state.ordinal < former.ordinal:
            out.append(EventsMissed(self.publisher, source, None, state.ordinal, "diverged"))
        elif decoder_state.include_suppressed:
            try:
                out += former.expand_suppressed(state.ordinal - former.ordinal)
            except CorruptFrame:
                expander.keys[row] = None  # its events are not delivered and must not count as such
                raise

    def _resume(self, decoder_state: DecoderState, row: int, ordinal: int, out: list[Delivery]) -> None:
        """Report the events of a source that were missed, and deliver its current state."""
        current, has_state = decoder_state.expander.current(row), decoder_state.has_state(row)
        incarnation, last = self.delivered.last(current.source)
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
