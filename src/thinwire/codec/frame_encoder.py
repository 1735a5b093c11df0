"""From an event to the frames that tell it: the compiled way where it can, the per-event way where it must.

How a publisher packs its frames: with the dictionary that lives longest, with deflate, or not at all.

What was passed over in silence, in runs of neighbouring sources, and in parts that fit a heartbeat.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from thinwire.codec import Introduction, Reducer
from thinwire.codec import row_snapshot as snapshots
from thinwire.codec import source_table as payloads
from thinwire.codec.source_table import ORDINAL, TOLD, SourceTable
from thinwire.codec.stream_config import Counts
from thinwire.dictionaries import Codec, Dictionary, codec_of
from thinwire.errors import ConfigError
from thinwire.schema.event import flatten
from thinwire.wire import Binding, FrameKind, LinkState, Partial, SourceState, SuppressedRun, seal, varint
from thinwire.wire import compact_body as compact
from thinwire.wire import exact_value as exact
from thinwire.wire.control_frames import MAX_TOLD
from thinwire.wire.frame import pack
from thinwire.wire.json_body import Spelling
from thinwire.wire.stream_state import CHAIN, INCARNATION, SEQUENCE, VALUES, WIDE

if TYPE_CHECKING:
    from thinwire.codec.compiled_encoder import FastEncoder


MAX_SLOT = 255
MAX_EXPIRY = (1 << 63) - 1
WORTH_TRYING = 8
"""bytes of a body; from here on two in three short texts shrink by more than the slot costs, below hardly any"""


class Packer:
    """The dictionaries a publisher has bound to slots, of which it uses the one whose expiry lies farthest ahead.

    until: the time from which on the one in use may not be used any more
    awaited: there is none yet, but one may come: bodies are packed as they will be then

    >>> packer = Packer()
    >>> said = Dictionary(b'{"room": "11.1", "temperature": 20.5}', "zlib", level=6, largest=64)
    >>> packer.use(said, slot=1).slot
    1
    >>> packed, slot = packer.pack(b'{"room": "11.2", "temperature": 20.5}')
    >>> len(packed) < 15, slot
    (True, 1)
    """

    def __init__(self) -> None:
        self.until = math.inf
        self.awaited = False
        self._bound: dict[int, tuple[Binding, Codec]] = {}
        self._in_use: tuple[int, Codec] | None = None

    @property
    def ready(self) -> bool:
        """Are bodies packed as a whole: is there a dictionary to pack with, or may one come?"""
        return self._in_use is not None or self.awaited

    def use(self, dictionary: Dictionary, slot: int, expires: float = 0) -> Binding:
        """Bind a dictionary to a slot, in place of what the slot named before."""
        if isinstance(slot, bool) or not isinstance(slot, int) or not 1 <= slot <= MAX_SLOT:
            raise ConfigError(f"slot is a whole number from 1 to {MAX_SLOT}", slot=slot)
        if not 0 <= expires <= MAX_EXPIRY:
            raise ConfigError("expires is a time in seconds since 1970, or 0 for never", expires=expires)
        binding = Binding(slot, dictionary.hash, int(expires))
        before = self._bound.pop(slot, None)
        same = before is not None and before[0].hash == binding.hash
        self._bound[slot] = binding, before[1] if before is not None and same else codec_of(dictionary)
        self._choose()
        return binding

    def drop(self, slot: int) -> None:
        """Use the slot's dictionary no more, and tell of it no more; no harm if there is none."""
        if self._bound.pop(slot, None) is not None:
            self._choose()

    def expire(self, now: float) -> None:
        """Let go of what may not be used any more."""
        self._bound = {slot: bound for slot, bound in self._bound.items() if now < _end(bound[0])}
        self._choose()

    def in_force(self) -> list[Binding]:
        """The bindings that a reader who begins here must be told."""
        return [binding for binding, _ in self._bound.values()]

    def pack(self, body: bytes) -> tuple[bytes, int | None]:
        """The smallest of the body, its form by dictionary and its deflated form (with the slot byte they cost), and
        its slot. Deflate is not tried where the dictionary has halved the body: it costs ten times as much."""
        packed, size = body, len(body)
        slot: int | None = None
        if self._in_use is not None and size >= WORTH_TRYING:
            tried = self._in_use[1].pack(body)
            if len(tried) + 1 < size:
                packed, slot = tried, self._in_use[0]
            if 2 * len(tried) < size:
                return packed, slot
        deflated, deflate = pack(body)
        if deflate is None or (slot is not None and len(deflated) >= len(packed)):
            return packed, slot
        return deflated, deflate

    def _choose(self) -> None:
        if not self._bound:
            self._in_use, self.until = None, math.inf
            return
        newest_first = reversed(self._bound.values())
        binding, codec = max(newest_first, key=lambda bound: _end(bound[0]))
        self._in_use, self.until = (binding.slot, codec), _end(binding)


def _end(binding: Binding) -> float:
    return binding.expires or math.inf


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
        self._nested = reducer.schema.nested and not reducer.validated
        self._reduce = reducer.reduce_decoded if reducer.validated else reducer.reduce_flat

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


MAX_RUNS = 16_384
"""runs in one heartbeat, at most"""


def take_suppressed_runs(columns: SourceTable) -> list[SuppressedRun]:
    """The untold events of all sources, as runs of equal counts; from now on they count as told."""
    if not columns.rows:
        return []
    table = columns.view().reshape(columns.rows, columns.width)
    skips = table[:, ORDINAL] - table[:, TOLD]
    edges = np.flatnonzero(np.diff(skips)) + 1
    starts = np.concatenate(([0], edges))
    ends = np.concatenate((edges, [len(skips)]))
    table[:, TOLD] = table[:, ORDINAL]
    runs = (SuppressedRun(int(a), int(b - a), int(skips[a])) for a, b in zip(starts, ends, strict=True) if skips[a])
    return [piece for run in runs for piece in _pieces(run)]


def has_unsent_suppressed(columns: SourceTable) -> bool:
    """Is there an event of any source that was passed over and not told?"""
    if not columns.rows:
        return False
    table = columns.view().reshape(columns.rows, columns.width)
    return bool((table[:, ORDINAL] != table[:, TOLD]).any())


def parts(silences: list[SuppressedRun]) -> list[tuple[SuppressedRun, ...]]:
    """Silences in parts that a heartbeat may tell; one empty part where there is nothing to tell."""
    found: list[list[SuppressedRun]] = [[]]
    told = 0
    for silence in silences:
        events = silence.sources * silence.skip
        if told + events > MAX_TOLD or len(found[-1]) == MAX_RUNS:
            found.append([])
            told = 0
        found[-1].append(silence)
        told += events
    return [tuple(part) for part in found]


def _pieces(run: SuppressedRun) -> Iterator[SuppressedRun]:
    """A run cut so that each piece fits a heartbeat of its own."""
    most = max(1, MAX_TOLD // run.skip)
    for first in range(run.first, run.first + run.sources, most):
        yield SuppressedRun(first, min(most, run.first + run.sources - first), run.skip)
