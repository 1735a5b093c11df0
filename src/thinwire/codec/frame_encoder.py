"""From an event to the frames that tell it: the compiled way where it can, the per-event way where it must."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from thinwire.codec import Introduction, Reducer
from thinwire.codec import row_snapshot as snapshots
from thinwire.codec import source_table_payloads as payloads
from thinwire.codec.frame_encoder_packer import Packer
from thinwire.codec.stream_config_counts import Counts
from thinwire.schema.event_paths import flatten
from thinwire.wire import FrameKind, LinkState, Partial, SourceState, seal, varint
from thinwire.wire import compact_body as compact
from thinwire.wire import exact_value as exact
from thinwire.wire.frame_packing import pack
from thinwire.wire.json_body import Spelling
from thinwire.wire.stream_state import CHAIN, INCARNATION, SEQUENCE, VALUES, WIDE

if TYPE_CHECKING:
    from thinwire.codec.compiled_encoder import FastEncoder


class Encoder:
    """The framing half of a publisher: owns the reducer and the link's state, knows nothing of time.

    packer: the dictionaries it may pack with
    """

    def __init__(
        self, reducer: Reducer, link: LinkState, counts: Counts, packer: Packer, *, spell_out: bool, compiled: bool
    ) -> None:
        self.reducer = reducer
        self.link = link
        self.counts = counts
        self.packer = packer
        self.spell_out = spell_out
        self._spelling = Spelling(reducer.schema)
        self.fast = _fast(reducer, link) if compiled and not spell_out else None
        self._nested = reducer.schema.nested and not reducer.trusting
        self._reduce = reducer.reduce_told if reducer.trusting else reducer.reduce_flat

    def encode(self, event: Mapping[str, Any]) -> list[bytes]:
        """The frames of one event: none, its own, and a switch where a predictor changes after it."""
        if self._nested:
            event = flatten(event, self.reducer.schema)
        frames: list[bytes] = []
        frame = self.fast.encode(event) if self.fast is not None else None
        if frame is None:
            frame = self._encode_slowly(event)
        elif frame:
            self.counts.add_data(frame)
        if frame:
            frames.append(frame)
        trials = self.reducer.trials
        if trials is not None and trials.decided:
            frames += self.switches()
        return frames

    def switches(self) -> list[bytes]:
        """The changes of predictor decided since they were last told."""
        return [self.frame(FrameKind.SWITCH, switch.encode()) for switch in self.reducer.drain_switches()]

    def frame(self, kind: FrameKind, body: bytes, *, chain: int | None = None, packed: bool = False) -> bytes:
        """The next frame of the link.

        packed: deflate it where that is shorter. Where there is a dictionary, every frame is packed with it that gains
            by it, but for those that a reader must be able to read first: key frames and bindings
        """
        cells = self.link.cells
        slot = None
        if self.packer.ready and kind not in _READ_FIRST:
            body, slot = self.packer.pack(body)
        elif packed:
            body, slot = pack(body)
        raw, after = seal(
            kind,
            body,
            sequence=cells[SEQUENCE],
            chain=cells[CHAIN] if chain is None else chain,
            incarnation=cells[INCARNATION],
            wide=bool(cells[WIDE]),
            slot=slot,
        )
        cells[SEQUENCE] += 1
        cells[CHAIN] = after
        self.counts.add(raw)
        return raw

    def payload(self, payload: bytes) -> bytes:
        """The frame of an event that is nothing but bytes. Of those before it, none may be untold."""
        if not self.reducer.columns.rows:
            self.reducer.roster.put((), self.reducer.columns.add())
            self.link.sources = 1
        payloads.note(self.reducer.columns)
        self.link.cells[VALUES] += 1
        return self.frame(FrameKind.PAYLOAD, payload, packed=True)

    def source_state(self, row: int) -> SourceState:
        """A source as a key frame tells it; its silent events count as told."""
        columns = self.reducer.columns
        self.reducer.skipped(row)
        return SourceState(self.reducer.dimensions(row), columns.ordinal(row), snapshots.take(columns, row))

    def _encode_slowly(self, event: Mapping[str, Any]) -> bytes:
        answer = self._reduce(event)
        if self.fast is not None:
            self.fast.learn(event)
        if answer is None:
            return b""
        if isinstance(answer, Introduction):
            return self._introduce(answer)
        return self._data(answer)

    def _data(self, partial: Partial) -> bytes:
        self.link.cells[VALUES] += partial.mask.bit_count()
        if self.spell_out:
            values = self.reducer.values(partial)
            return self.frame(FrameKind.JSON, self._spelling.encode(partial.source, partial.skip, values))
        kind = FrameKind.EXCEPTION if partial.exceptions else FrameKind.DATA
        return self.frame(kind, compact.encode(partial, self.link))

    def _introduce(self, introduction: Introduction) -> bytes:
        self.link.sources += 1
        self.link.cells[VALUES] += len(self.link.lanes)
        state = SourceState(introduction.dimensions, introduction.ordinal, introduction.columns)
        parts = [state.encode()]
        for index, value in introduction.exceptions:
            parts += (varint.write(index), exact.encode(value))
        return self.frame(FrameKind.INTRODUCTION, b"".join(parts), packed=True)


_READ_FIRST = frozenset({FrameKind.KEY, FrameKind.BINDING})


def _fast(reducer: Reducer, link: LinkState) -> FastEncoder | None:
    """The compiled way, where it is installed and the rules are simple enough."""
    if find_spec("numba") is None:
        return None
    from thinwire.codec.compiled_encoder import FastEncoder
    from thinwire.codec.kernels.rule_table import compilable

    served = compilable(reducer.columns) and reducer.late_policy == "accept"
    return FastEncoder(reducer, link) if served else None
