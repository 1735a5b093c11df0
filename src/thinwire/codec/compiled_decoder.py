"""Compiled decoding of single messages.

One kernel call decodes the regular frames of a message to records, and generated code builds the events. The scalar
code decodes all other frames. Both advance the same state and may alternate.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from thinwire.codec.code_generation import define, event_literal
from thinwire.codec.deliveries import ChangedEvents
from thinwire.codec.expander import Expander
from thinwire.codec.kernels.frame_decoder import (
    AT,
    BYTES,
    EVENTS,
    FRAMES,
    FULL,
    RECORD,
    RUN_CELLS,
    UNDECIDED,
    expand_suppressed,
)
from thinwire.codec.kernels.message_decoder import decode_frames
from thinwire.codec.kernels.rule_table import WATCHED, build_rule_table, is_integral
from thinwire.codec.ticks import ABSENT
from thinwire.codec.value_conversion import step_of
from thinwire.codec.value_decoder import from_ticks
from thinwire.schema import Event, Kind, Property
from thinwire.schema.event import About
from thinwire.schema.timestamps import writer
from thinwire.wire import StreamState
from thinwire.wire.partial_event import EncodingKind

_MESSAGE = 65_536
_RECORDS = 1 << 18
_TEXTS = (Kind.ENUM, Kind.STRING)


@dataclass(frozen=True)
class SuppressedEvents:
    """Suppressed events of one source that are not built yet: the state of the source before them.

    metadata: what the events share; texts: the values of the source that are not numbers, by property
    """

    decoder: CompiledDecoder
    metadata: About | None
    count: int
    state: npt.NDArray[np.int64]
    texts: list[Any]

    def write(self, count: int, out: npt.NDArray[np.int64]) -> None:
        """Write records of the next `count` events."""
        decoder = self.decoder
        width = decoder.expander.table.width
        expand_suppressed(decoder.rule_table, self.state, width, 0, count, True, decoder.work, out)


class CompiledDecoder:
    """Decodes the regular frames of messages to events.

    changed_events: the events of the last call, if properties are watched and each event is a verified change
    in_table: a table decoder has decoded the regular data frames already, so that none is decoded here, and builds
        suppressed events itself, because one frame may report very many of them
    """

    def __init__(self, expander: Expander, stream: StreamState) -> None:
        self.expander = expander
        self.rule_table = build_rule_table(expander.table)
        self.cells = np.frombuffer(stream.cells, dtype=np.int64)
        self.work = np.zeros((3, expander.table.width), dtype=np.int64)
        self._set_buffer(bytearray(_MESSAGE))
        self._message = b""
        self._run = array("q", [0] * RUN_CELLS)
        self._run_cells = np.frombuffer(self._run, dtype=np.int64)
        self._size = 8 * (RECORD + self.rule_table.shape[1])
        self._capacity = _RECORDS // self._size
        records = bytearray(self._capacity * self._size)
        self._records = memoryview(records)
        self._out = np.frombuffer(records, dtype=np.int64).reshape(self._capacity, -1)
        self._assemble = self._compile()
        self._watching = False
        self._seen = np.zeros(0, dtype=np.int64)
        self.changed_events: ChangedEvents | None = None
        self.in_table = False

    def watch(self, names: Collection[str]) -> None:
        """Leave out events that change none of these properties; () ends it. The events seen so far are forgotten.

        Only for rules that hold values: predictions change without a new value.
        """
        for j, rule in enumerate(self.expander.rules.rules):
            self.rule_table[WATCHED, j] = rule.property.name in names
        self._watching = bool(names)
        self.changed_events = None
        self.reset_watch()

    def reset_watch(self) -> None:
        """Forget the events seen so far, because the state was set by key frames."""
        self._seen = np.zeros(self.expander.table.rows if self._watching else 0, dtype=np.int64)

    def decode(self, message: bytes, at: int, out: list[Any], *, include_suppressed: bool) -> tuple[int, int, int]:
        """Append the events of regular frames from byte `at` of a message to `out`.

        Returns the byte of the next frame or of its length, the number of frames and the number of their bytes.
        """
        table, run = self.expander.table, self._run
        if not table.rows or not message or self.in_table:
            return at, 0, 0
        if message is not self._message:
            self._load(message)
        run[AT] = at
        frames = size = undecided = 0
        records: list[bytes] = []
        if self._watching and len(self._seen) < table.rows:
            self._seen = np.concatenate((self._seen, np.zeros(table.rows, dtype=np.int64)))
        result = FULL
        while result == FULL:
            result = decode_frames(
                self.rule_table,
                self.cells,
                table.view(),
                table.width,
                self._bytes,
                len(message),
                include_suppressed,
                self.work,
                self._run_cells,
                self._out,
                self._seen,
            )
            if run[FRAMES]:
                frames += run[FRAMES]
                size += run[BYTES]
                undecided += run[UNDECIDED]
                decoded = self._records[: run[EVENTS] * self._size]
                self._assemble(decoded, out)
                if self._watching:
                    records.append(decoded.tobytes())
        changed_events = self._watching and not undecided
        self.changed_events = ChangedEvents(b"".join(records), self.last_of) if changed_events else None
        return run[AT], frames, size

    def last_of(self, records: bytes) -> list[Event]:
        """Rebuild the last event of each source from records."""
        cells = np.frombuffer(records, dtype=np.int64).reshape(-1, self._size // 8)
        _, indexes = np.unique(cells[::-1, 0], return_index=True)
        events: list[Event] = []
        self._assemble(memoryview(cells[::-1][indexes].tobytes()), events)
        return events

    def expand_suppressed(self, row: int, skip: int) -> list[Any]:
        """Advance a source by suppressed events and return them, for a table decoder as `SuppressedEvents`."""
        if self.in_table:
            suppressed = [self._capture(row, skip)] if skip else []
            self.advance(row, skip)
            return suppressed
        events: list[Event] = []
        while skip:
            count = self._pass_over(row, min(skip, self._capacity), shown=True)
            self._assemble(self._records[: count * self._size], events)
            skip -= count
        return events

    def advance(self, row: int, skip: int) -> None:
        """Advance a source by suppressed events without building them."""
        self._pass_over(row, skip, shown=False)

    def advance_constant(self, row: int, skip: int) -> None:
        """Note that a source with held values advanced by `skip` events; its watched values did not change."""
        if row < len(self._seen) and self._seen[row] == self.expander.table.ordinal(row) - skip:
            self._seen[row] += skip

    def _pass_over(self, row: int, skip: int, *, shown: bool) -> int:
        table = self.expander.table
        return expand_suppressed(self.rule_table, table.view(), table.width, row, skip, shown, self.work, self._out)

    def _capture(self, row: int, count: int) -> SuppressedEvents:
        table = self.expander.table
        state = table.view()[row * table.width : (row + 1) * table.width].copy()
        texts = [objects[row] if objects else None for objects in table.objects]
        return SuppressedEvents(self, self.expander.event_metadata[2 * row + 1], count, state, texts)

    def _load(self, message: bytes) -> None:
        if len(message) > len(self._raw):
            self._set_buffer(bytearray(len(message)))
        self._raw[: len(message)] = message
        self._message = message

    def _set_buffer(self, buffer: bytearray) -> None:
        self._raw = buffer
        self._bytes = np.frombuffer(buffer, dtype=np.uint8)

    def _compile(self) -> Callable[[memoryview, list[Any]], None]:
        """Return the generated function that builds events from records."""
        rules = self.expander.rules
        names: dict[str, Any] = {
            "iter_unpack": struct.Struct("<qq?7x" + "".join(_cell(p) for p in rules.schema.wire)).iter_unpack,
            "unpack_ticks": struct.Struct(f"<{8 * RECORD}x{len(rules.rules)}q").unpack_from,
            "metadata_of": self.expander.event_metadata,
            "new": Event.__new__,
            "Event": Event,
            "ABSENT": ABSENT,
        }
        dimensions = {p.name: f"key[{k}]" for k, p in enumerate(rules.schema.dimensions)}
        regular, irregular = dict(dimensions), dict(dimensions)
        for i, rule in enumerate(rules.rules):
            name = rule.property.name
            regular[name] = self._value_expression(i, rule.property, names)
            irregular[name] = regular[name] if rule.encoding is EncodingKind.TEXT else from_ticks(i, rule, names)
        values = "".join(f"v{i}, " for i, p in enumerate(rules.schema.wire) if p.kind not in _TEXTS)
        ticks = "".join(f"s{i}, " for i in range(len(rules.rules)))
        lines = [
            "def assemble(records, out):",
            "    before = len(out)",
            "    append = out.append",
            f"    for index, ordinal, irregular, {values} in iter_unpack(records):",
            "        metadata = metadata_of[index]",
            "        key = metadata[1]",
            "        event = new(Event)",
            "        if irregular:",
            f"            {ticks} = unpack_ticks(records, (len(out) - before) * {self._size})",
            f"            event.update({event_literal(rules.schema.tree, irregular)})",
            "        else:",
            f"            event.update({event_literal(rules.schema.tree, regular)})",
            "        event._about = metadata",
            "        event.ordinal = ordinal",
            "        append(event)",
        ]
        code: Callable[[memoryview, list[Any]], None] = define("assemble", "\n".join(lines), names)
        return code

    def _value_expression(self, i: int, p: Property, names: dict[str, Any]) -> str:
        if p.kind in _TEXTS:
            names[f"objects{i}"] = self.expander.table.objects[i]
            return f"objects{i}[index >> 1]"
        if p.kind is Kind.TIMESTAMP and p.form not in (None, "epoch"):
            names[f"write{i}"] = writer(p.form or "")
            return f"write{i}(v{i})"
        return f"v{i}"


def _cell(p: Property) -> str:
    """Return the struct format of a property in a record."""
    if p.kind in _TEXTS:
        return "8x"
    if p.kind is Kind.BOOLEAN:
        return "?7x"
    integral = is_integral(p) or step_of(p).denominator == 1
    return "q" if integral and p.kind is not Kind.FLOAT else "d"
