"""Publishing at speed: one event, one call into a compiled kernel.

A few lines made for the schema pick the values, check that their types have been seen to be good, and hand them over
in one packed record. Whatever is not ordinary comes back as None and takes the per-event code instead; both move the
same state, so they can take turns.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from thinwire.codec.code_generation import define, place
from thinwire.codec.kernels.event_encoder import encode_event, encode_packed
from thinwire.codec.kernels.rule_table import is_whole, plan_of
from thinwire.codec.reducer import Reducer
from thinwire.schema import Kind, Property
from thinwire.schema.timestamps import reader
from thinwire.wire.stream_state import ATTENTION, LinkState

MANY = 64
"""events that are packed together, at most: each encoder has room for them once it needs it"""
_HEAD, _MOST = 32, 20
"""bytes of a frame, at most: beside its values, and of each"""
NO_BLOCKS = np.zeros((0, 1, 1), dtype=np.int64)


Pack = Callable[[Mapping[str, Any], int], int | None]
"""packs an event's values into a record from a byte on; the row of its source, None where it is not ordinary"""


class Packed:
    """Room for many events: their rows and values, and where their frames will end."""

    def __init__(self, size: int, pack: Callable[[bytearray], Pack]) -> None:
        record = bytearray(MANY * size)
        self.pack = pack(record)
        self.whole = np.frombuffer(record, dtype=np.int64).reshape(MANY, -1)
        self.rows, self.ends = array("q", bytes(8 * MANY)), array("q", bytes(8 * MANY))
        self.row_numbers = np.frombuffer(self.rows, dtype=np.int64)
        self.end_bytes = np.frombuffer(self.ends, dtype=np.int64)
        self.frames = memoryview(bytearray(MANY * (_HEAD + _MOST * size // 8)))
        self.out = np.frombuffer(self.frames, dtype=np.uint8)


class FastEncoder:
    """Event in, frame out; None where the per-event code must take it."""

    def __init__(self, reducer: Reducer, link: LinkState) -> None:
        self.reducer = reducer
        self.link = link
        self.good: set[tuple[type, ...]] = set()
        self.plan = plan_of(reducer.columns)
        self.cells = np.frombuffer(link.cells, dtype=np.int64)
        self.work = np.zeros((3, self.plan.shape[1]), dtype=np.int64)
        self.blocks = reducer.trials.blocks if reducer.trials is not None else NO_BLOCKS
        self._size = 8 * self.plan.shape[1]
        self._record = bytearray(self._size)
        self._whole = np.frombuffer(self._record, dtype=np.int64)
        self._many: Packed | None = None
        self._buffer = bytearray(_HEAD + _MOST * self.plan.shape[1])
        self._out = np.frombuffer(self._buffer, dtype=np.uint8)
        self._frame = memoryview(self._buffer)
        self._pack = self._compile(self._record)
        self._width = reducer.columns.width

    def encode(self, event: Mapping[str, Any]) -> bytes | None:
        """The frame of an event, empty where nothing must travel; None where it is not ordinary."""
        row = self._pack(event, 0)
        if row is None:
            return None
        columns = self.reducer.columns
        end = encode_event(
            self.plan, self.cells, columns.view(), self._width, row, self._whole, self.work, self.blocks, self._out, 0
        )
        if end < 0:
            return None
        if self.link.cells[ATTENTION]:
            self.attend()
        if not end:
            self.reducer.suppressed += 1
            return b""
        self.reducer.sent += 1
        return bytes(self._frame[:end])

    def pack(self, events: Sequence[Mapping[str, Any]], first: int) -> int:
        """Make events ready for `encode_packed`, from number `first` on; how many, up to one that is not ordinary."""
        many = self._many = self._many or Packed(self._size, self._compile)
        last = min(len(events), first + MANY)
        pack, rows, at = many.pack, many.rows, 0
        for number in range(first, last):
            row = pack(events[number], at * self._size)
            if row is None:
                break
            rows[at] = row
            at += 1
        return at

    def encode_packed(self, first: int, count: int) -> tuple[int, list[tuple[int, bytes]]]:
        """As many of the packed events as the kernel takes: the number of the next, and the frames with theirs."""
        many = self._many
        assert many is not None
        end = encode_packed(
            self.plan,
            self.cells,
            self.reducer.columns.view(),
            self._width,
            many.row_numbers,
            many.whole,
            first,
            count,
            self.work,
            self.blocks,
            many.out,
            many.end_bytes,
        )
        if self.link.cells[ATTENTION]:
            self.attend()
        frames, at = [], 0
        for number, after in enumerate(many.ends[first:end], start=first):
            if after != at:
                frames.append((number, bytes(many.frames[at:after])))
                at = after
        self.reducer.sent += len(frames)
        self.reducer.suppressed += end - first - len(frames)
        return end, frames

    def learn(self, event: Mapping[str, Any]) -> None:
        """The per-event code found this event good: so are others with the same types."""
        if len(self.good) < 64:
            values = self.reducer.pick(event) if self.reducer.validated else event
            self.good.add(tuple(type(values.get(p.name)) for p in self.reducer.schema.wire))

    def attend(self) -> None:
        """See to the trial that a kernel points at."""
        row = self.link.cells[ATTENTION] - 1
        self.link.cells[ATTENTION] = 0
        if row >= 0 and self.reducer.trials is not None:
            self.reducer.trials.attend(row)

    def _compile(self, record: bytearray) -> Pack:
        """The function that packs an event's values and answers with its row."""
        schema = self.reducer.schema
        names: dict[str, Any] = {
            "good": self.good,
            "row_of": self.reducer.finder(),
            "pack_into": struct.Struct("<" + "".join(_code(p) for p in schema.wire)).pack_into,
            "record": record,
            "Problem": (struct.error, KeyError, TypeError, AttributeError),
        }
        validated = self.reducer.validated
        where = {p.name: place(p.name) if validated else f"event[{p.name!r}]" for p in schema}
        key = "".join(f"{where[p.name]}, " for p in schema.dimensions)
        lines = [
            "def pack(event, at):",
            "    try:",
            *(self._distrust() if not validated else self._heed_flags()),
            *(f"        v{i} = {where[p.name]}" for i, p in enumerate(schema.wire)),
            f"        if ({''.join(f'v{i}.__class__, ' for i in range(len(schema.wire)))}) not in good: return None",
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

    def _distrust(self) -> list[str]:
        """Lines that leave events with too few or too many properties to the per-event code."""
        schema = self.reducer.schema
        return [
            f"        if len(event) != {len(schema.properties)}: return None",
            *(f"        event[{p.name!r}]" for p in schema if p.confidential),
        ]

    def _heed_flags(self) -> list[str]:
        """What is outside its range must travel: where values are off already, only their flags tell."""
        watched = any(rule.upstream and rule.ranged for rule in self.reducer.rules.rules)
        return ["        if event.flags: return None"] * watched

    def _pack_line(self, i: int, p: Property, lines: list[str], names: dict[str, Any]) -> str:
        if p.kind in (Kind.ENUM, Kind.STRING):
            names[f"objects{i}"] = self.reducer.columns.objects[i]
            lines.append(f"        if v{i} != objects{i}[row]: return None")
            return "0"
        if p.kind is Kind.TIMESTAMP and p.form not in (None, "epoch"):
            names[f"read{i}"] = reader(p.form or "")
            return f"read{i}(v{i})"
        return f"v{i}"


def _code(p: Property) -> str:
    """How a property's value stands in the packed record."""
    if p.kind is Kind.FLOAT or not is_whole(p):
        return "d"
    return "q"
