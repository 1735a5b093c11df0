"""Compiled encoding of single events.

Generated code reads the values of an event, checks that their types were accepted before, and packs them into a record
for the kernel. Irregular events are left to the scalar code. Both advance the same state and may alternate.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from thinwire.codec.code_generation import define, path_expression
from thinwire.codec.kernels.event_encoder import MAX_HEAD, MAX_VALUE, encode_event, encode_rows, scale_events
from thinwire.codec.kernels.rule_table import build_rule_table, is_integral
from thinwire.codec.reducer import Reducer
from thinwire.schema import Kind, Property
from thinwire.schema.timestamps import reader
from thinwire.wire.stream_state import ATTENTION, StreamState

MAX_PACKED = 64
"""maximum number of events packed together"""
Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

Pack = Callable[[Mapping[str, Any], int], int | None]
"""Pack the values of an event at a byte of the record. Return the row of its source, or None if it is irregular."""


class PackedEvents:
    """Buffers for packed events: rows, values, and the ends of their frames. Allocated on first use."""

    def __init__(self, size: int, pack: Callable[[bytearray], Pack]) -> None:
        record = bytearray(MAX_PACKED * size)
        self.pack = pack(record)
        self.cells = np.frombuffer(record, dtype=np.int64).reshape(MAX_PACKED, -1)
        self.rows, self.ends = array("q", bytes(8 * MAX_PACKED)), array("q", bytes(8 * MAX_PACKED))
        self.row_numbers = np.frombuffer(self.rows, dtype=np.int64)
        self.end_bytes = np.frombuffer(self.ends, dtype=np.int64)
        self.frames = memoryview(bytearray(MAX_PACKED * (MAX_HEAD + MAX_VALUE * size // 8)))
        self.out = np.frombuffer(self.frames, dtype=np.uint8)


class CompiledEncoder:
    """Encodes regular events to frames."""

    def __init__(self, reducer: Reducer, stream: StreamState) -> None:
        self.reducer = reducer
        self.stream = stream
        self.accepted_types: set[tuple[type, ...]] = set()
        self.rule_table = build_rule_table(reducer.table)
        self.cells = np.frombuffer(stream.cells, dtype=np.int64)
        self.work = np.zeros((3, self.rule_table.shape[1]), dtype=np.int64)
        self.blocks = reducer.trials.blocks if reducer.trials is not None else np.zeros((0, 1, 1), dtype=np.int64)
        self._size = 8 * self.rule_table.shape[1]
        self._record = bytearray(self._size)
        self._cells = np.frombuffer(self._record, dtype=np.int64)
        self._packed: PackedEvents | None = None
        self._buffer = bytearray(MAX_HEAD + MAX_VALUE * self.rule_table.shape[1])
        self._out = np.frombuffer(self._buffer, dtype=np.uint8)
        self._frame = memoryview(self._buffer)
        self._pack = self._compile(self._record)
        self._width = reducer.table.width

    def encode(self, event: Mapping[str, Any]) -> bytes | None:
        """Return the frame of an event, empty if nothing is sent; None if the scalar code must encode it."""
        row = self._pack(event, 0)
        if row is None:
            return None
        table = self.reducer.table.view()
        end = encode_event(
            self.rule_table, self.cells, table, self._width, row, self._cells, self.work, self.blocks, self._out
        )
        if end < 0:
            return None
        if self.stream.cells[ATTENTION]:
            self.run_trial()
        if not end:
            self.reducer.suppressed += 1
            return b""
        return bytes(self._frame[:end])

    def pack(self, events: Sequence[Mapping[str, Any]], first: int) -> int:
        """Pack events from index `first` for `encode_packed`. Return their number, up to the first irregular one."""
        packed = self._packed = self._packed or PackedEvents(self._size, self._compile)
        last = min(len(events), first + MAX_PACKED)
        pack, rows, at = packed.pack, packed.rows, 0
        for number in range(first, last):
            row = pack(events[number], at * self._size)
            if row is None:
                break
            rows[at] = row
            at += 1
        scale_events(self.rule_table, packed.cells, at)
        return at

    def encode_packed(self, first: int, count: int) -> tuple[int, list[tuple[int, bytes]]]:
        """Encode packed events with the kernel. Return the index of the next event, and frames with indexes."""
        packed = self._packed
        assert packed is not None
        end = self.encode_rows(packed.row_numbers, packed.cells, first, count, packed.out, packed.end_bytes)
        frames, at = [], 0
        for number, after in enumerate(packed.ends[first:end], start=first):
            if after != at:
                frames.append((number, bytes(packed.frames[at:after])))
                at = after
        self.reducer.suppressed += end - first - len(frames)
        return end, frames

    def encode_rows(self, rows: Ints, ticks: Ints, first: int, last: int, out: Bytes, ends: Ints) -> int:
        """Encode events from index `first` to `last` with the kernel `encode_rows`. Return the index of the next."""
        table = self.reducer.table.view()
        end = encode_rows(
            self.rule_table, self.cells, table, self._width, rows, ticks, first, last, self.work, self.blocks, out, ends
        )
        if self.stream.cells[ATTENTION]:
            self.run_trial()
        return int(end)

    def accept_types(self, event: Mapping[str, Any]) -> None:
        """Accept the types of an event that the scalar code encoded."""
        if len(self.accepted_types) < 64:
            values = self.reducer.pick(event) if self.reducer.validated else event
            self.accepted_types.add(tuple(type(values.get(p.name)) for p in self.reducer.schema.wire))

    def run_trial(self) -> None:
        """Handle the predictor trial that the kernel requests."""
        row = self.stream.cells[ATTENTION] - 1
        self.stream.cells[ATTENTION] = 0
        if row >= 0 and self.reducer.trials is not None:
            self.reducer.trials.run_trial(row)

    def _compile(self, record: bytearray) -> Pack:
        """Return the generated function that packs the values of an event and returns its row."""
        schema = self.reducer.schema
        names: dict[str, Any] = {
            "accepted": self.accepted_types,
            "row_of": self.reducer.row_lookup(),
            "pack_into": struct.Struct("<" + "".join(_code(p) for p in schema.wire)).pack_into,
            "record": record,
            "Problem": (struct.error, KeyError, TypeError, AttributeError),
        }
        validated = self.reducer.validated
        where = {p.name: path_expression(p.name) if validated else f"event[{p.name!r}]" for p in schema}
        key = "".join(f"{where[p.name]}, " for p in schema.dimensions)
        types = "".join(f"v{i}.__class__, " for i in range(len(schema.wire)))
        lines = [
            "def pack(event, at):",
            "    try:",
            *(self._count_check() if not validated else self._flag_check()),
            *(f"        v{i} = {where[p.name]}" for i, p in enumerate(schema.wire)),
            f"        if ({types}) not in accepted: return None",
            f"        row = row_of(({key}))",
            "        if row is None: return None",
        ]
        packed = [self._pack_line(i, p, lines, names) for i, p in enumerate(schema.wire)]
        lines += [
            f"        pack_into(record, at, {', '.join(packed)})",
            "    except Problem:",
            "        return None",
            "    return row",
        ]
        code: Pack = define("pack", "\n".join(lines), names)
        return code

    def _count_check(self) -> list[str]:
        """Return lines that leave events with missing or additional properties to the scalar code."""
        schema = self.reducer.schema
        return [
            f"        if len(event) != {len(schema.properties)}: return None",
            *(f"        event[{p.name!r}]" for p in schema if p.confidential),
        ]

    def _flag_check(self) -> list[str]:
        """Return lines that leave flagged events to the scalar code. With upstream bounds, only flags show values out
        of range."""
        watched = any(rule.upstream and rule.has_range for rule in self.reducer.rules.rules)
        return ["        if event.flags: return None"] * watched

    def _pack_line(self, i: int, p: Property, lines: list[str], names: dict[str, Any]) -> str:
        if p.kind in (Kind.ENUM, Kind.STRING):
            names[f"objects{i}"] = self.reducer.table.objects[i]
            lines.append(f"        if v{i} != objects{i}[row]: return None")
            return "0"
        if p.kind is Kind.TIMESTAMP and p.form not in (None, "epoch"):
            names[f"read{i}"] = reader(p.form or "")
            return f"read{i}(v{i})"
        return f"v{i}"


def _code(p: Property) -> str:
    """Return the struct format of a property in the packed record."""
    return "q" if is_integral(p) and p.kind is not Kind.FLOAT else "d"
