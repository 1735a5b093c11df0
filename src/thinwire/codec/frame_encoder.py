"""Encoding of events to frames: compiled kernels for regular events, scalar code for the others."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from thinwire.codec import Introduction, Reducer
from thinwire.codec.dictionary_bindings import Packer
from thinwire.codec.kernels.rule_table import is_compilable
from thinwire.codec.source_table import count_payload
from thinwire.codec.stream_config import Counts
from thinwire.schema.event import flatten
from thinwire.wire import (
    FrameKind,
    PartialEvent,
    StreamState,
    Switch,
    compact_body,
    exact_value,
    seal,
    varint,
)
from thinwire.wire.frame import pack
from thinwire.wire.json_body import JsonFormat
from thinwire.wire.stream_state import CHAIN, INCARNATION, SEQUENCE, VALUES, WIDE

if TYPE_CHECKING:
    from thinwire.codec.compiled_encoder import CompiledEncoder


class FrameEncoder:
    """Encodes events to frames. It owns the reducer, the stream state and the packing; time is the caller's.

    packer: the dictionaries for packing
    """

    def __init__(
        self, reducer: Reducer, stream: StreamState, counts: Counts, packer: Packer, *, json: bool, compiled: bool
    ) -> None:
        self.reducer = reducer
        self.stream = stream
        self.counts = counts
        self.packer = packer
        self.json = json
        self._spelling = JsonFormat(reducer.schema)
        self.compiled: CompiledEncoder | None = None
        is_regular = not json and reducer.late_policy == "accept" and is_compilable(reducer.table)
        if compiled and is_regular and find_spec("numba") is not None:
            from thinwire.codec.compiled_encoder import CompiledEncoder  # numba takes half a second to load

            self.compiled = CompiledEncoder(reducer, stream)
        self._nested = reducer.schema.nested and not reducer.validated
        self._reduce = reducer.reduce_decoded if reducer.validated else reducer.reduce_flat

    def encode(self, event: Mapping[str, Any]) -> list[bytes]:
        """Return the frames of one event: none, its own, and a switch frame if a predictor changes after it."""
        if self._nested:
            event = flatten(event, self.reducer.schema)
        frames: list[bytes] = []
        frame = self.compiled.encode(event) if self.compiled is not None else None
        if frame is None:
            frame = self._encode_scalar(event)
        elif frame:
            self.counts.add_data(frame)
        if frame:
            frames.append(frame)
        trials = self.reducer.trials
        if trials is not None and trials.pending:
            frames += self.switches()
        return frames

    def switches(self) -> list[bytes]:
        """Return the switch frames of predictor changes that are not sent yet."""
        trials = self.reducer.trials
        if trials is None:
            return []
        pending, trials.pending = trials.pending, []
        switches = (Switch(row, self.reducer.take_suppressed(row), changes) for row, changes in pending)
        return [self.frame(FrameKind.SWITCH, switch.encode()) for switch in switches]

    def frame(self, kind: FrameKind, body: bytes, *, chain: int | None = None, packed: bool = False) -> bytes:
        """Return the next frame of the stream.

        packed: deflate the body if that is shorter. With a dictionary, every body is packed that shrinks, except key
            frames and bindings, which a decoder must read first
        """
        cells = self.stream.cells
        slot = None
        if self.packer.is_active and kind not in _READ_FIRST:
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
        """Return the frame of a payload event. No suppressed event may be unsent."""
        if not self.reducer.table.rows:
            self.reducer.row_map.add((), self.reducer.table.add())
            self.stream.sources = 1
        count_payload(self.reducer.table)
        self.stream.cells[VALUES] += 1
        return self.frame(FrameKind.PAYLOAD, payload, packed=True)

    def _encode_scalar(self, event: Mapping[str, Any]) -> bytes:
        reduced = self._reduce(event)
        if self.compiled is not None:
            self.compiled.accept_types(event)
        if reduced is None:
            return b""
        if isinstance(reduced, Introduction):
            return self._introduce(reduced)
        return self._data(reduced)

    def _data(self, partial: PartialEvent) -> bytes:
        self.stream.cells[VALUES] += partial.mask.bit_count()
        if self.json:
            values = self.reducer.values(partial)
            return self.frame(FrameKind.JSON, self._spelling.encode(partial.source, partial.skip, values))
        kind = FrameKind.EXCEPTION if partial.exceptions else FrameKind.DATA
        return self.frame(kind, compact_body.encode(partial, self.stream, deflate_texts=not self.packer.is_active))

    def _introduce(self, introduction: Introduction) -> bytes:
        self.stream.sources += 1
        self.stream.cells[VALUES] += len(self.stream.encodings)
        parts = [introduction.state.encode()]
        for index, value in introduction.exceptions:
            parts += (varint.write(index), exact_value.encode(value))
        return self.frame(FrameKind.INTRODUCTION, b"".join(parts), packed=True)


_READ_FIRST = frozenset({FrameKind.KEY, FrameKind.BINDING})
