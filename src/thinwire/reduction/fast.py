"""The live path at speed: one event, one call into a compiled kernel.

A few lines made for the schema pick the values, check that their types have been seen to be good, and hand them over
in one packed record. Whatever is not ordinary comes back as None and takes the per-event code instead; both move the
same state, so they can take turns.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from thinwire.errors import CorruptFrame
from thinwire.events import Event, Kind, Property
from thinwire.events.timestamps import reader, writer
from thinwire.formats.link_state import ATTENTION, LAST_ALIAS, LinkState
from thinwire.frames.frame import MAX_FRAME
from thinwire.reduction.convert import step_of
from thinwire.reduction.expander import Expander
from thinwire.reduction.generate import event_literal
from thinwire.reduction.kernels.decode import NOT_ORDINARY, REGULAR, SKIPPED, decode_frame, pass_over
from thinwire.reduction.kernels.encode import encode_event
from thinwire.reduction.kernels.plan import is_whole, plan_of
from thinwire.reduction.reducer import Reducer

_OUT = 65_536
NO_BLOCKS = np.zeros((0, 1, 1), dtype=np.int64)


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
        self._record = bytearray(8 * self.plan.shape[1])
        self._whole = np.frombuffer(self._record, dtype=np.int64)
        self._buffer = bytearray(min(_OUT, MAX_FRAME))
        self._out = np.frombuffer(self._buffer, dtype=np.uint8)
        self._frame = memoryview(self._buffer)
        self._pack = self._compile()
        self._width = reducer.columns.width

    def encode(self, event: Mapping[str, Any]) -> bytes | None:
        """The frame of an event, empty where nothing must travel; None where it is not ordinary."""
        row = self._pack(event)
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

    def learn(self, event: Mapping[str, Any]) -> None:
        """The per-event code found this event good: so are others with the same types."""
        if len(self.good) < 64:
            self.good.add(tuple(type(event.get(p.name)) for p in self.reducer.schema.wire))

    def attend(self) -> None:
        """See to the trial that a kernel points at."""
        row = self.link.cells[ATTENTION] - 1
        self.link.cells[ATTENTION] = 0
        if row >= 0 and self.reducer.trials is not None:
            self.reducer.trials.attend(row)

    def _compile(self) -> Callable[[Mapping[str, Any]], int | None]:
        """The function that packs an event's values and answers with its row."""
        schema = self.reducer.schema
        names: dict[str, Any] = {
            "good": self.good,
            "rows": self.reducer.rows,
            "pack_into": struct.Struct("<" + "".join(_code(p) for p in schema.wire)).pack_into,
            "record": self._record,
            "Problem": (struct.error, KeyError, TypeError),
        }
        key = "".join(f"event[{p.name!r}], " for p in schema.dimensions)
        lines = [
            "def pack(event):",
            "    try:",
            f"        if len(event) != {len(schema.properties)}: return None",
            *(f"        v{i} = event[{p.name!r}]" for i, p in enumerate(schema.wire)),
            *(f"        event[{p.name!r}]" for p in schema if p.confidential),
            f"        if ({''.join(f'v{i}.__class__, ' for i in range(len(schema.wire)))}) not in good: return None",
            f"        row = rows.get(({key}))",
            "        if row is None: return None",
        ]
        packed = [self._pack_line(i, p, lines, names) for i, p in enumerate(schema.wire)]
        lines += [
            f"        pack_into(record, 0, {', '.join(packed)})",
            "    except Problem:",
            "        return None",
            "    return row",
        ]
        exec(compile("\n".join(lines), "<pack>", "exec"), names)
        code: Callable[[Mapping[str, Any]], int | None] = names["pack"]
        return code

    def _pack_line(self, i: int, p: Property, lines: list[str], names: dict[str, Any]) -> str:
        if p.kind in (Kind.ENUM, Kind.STRING):
            names[f"objects{i}"] = self.reducer.columns.objects[i]
            lines.append(f"        if v{i} != objects{i}[row]: return None")
            return "0"
        if p.kind is Kind.TIMESTAMP and p.form not in (None, "epoch"):
            names[f"read{i}"] = reader(p.form or "")
            return f"read{i}(v{i})"
        return f"v{i}"


class FastDecoder:
    """Frame in, events out; None where the per-event code must take it."""

    def __init__(self, expander: Expander, link: LinkState) -> None:
        self.expander = expander
        self.link = link
        self._plan = plan_of(expander.columns)
        self._cells = np.frombuffer(link.cells, dtype=np.int64)
        self._work = np.zeros((2, self._plan.shape[1]), dtype=np.int64)
        self._raw = bytearray(_OUT)
        self._bytes = np.frombuffer(self._raw, dtype=np.uint8)
        self._record = bytearray(8 * max(2, self._plan.shape[1]))  # kernels leave skip and row in the first two
        self._out = np.frombuffer(self._record, dtype=np.int64)
        self._width = expander.columns.width
        self._assemble = self._compile()

    def decode(self, frame: bytes, pass_over: Callable[[int, int], list[Event]]) -> list[Event] | None:
        """The events of an ordinary frame: those passed over before it, as far as they are wanted, and its own."""
        size = len(frame)
        if size > _OUT or self.expander.columns.rows == 0:
            return None
        self._raw[:size] = frame
        answer = self._read(size, False)
        if answer == NOT_ORDINARY:
            return None
        events: list[Event] = []
        if answer == SKIPPED:
            skip, row = int(self._out[0]), int(self._out[1])
            start, table = row * self._width, self.expander.columns.table
            before = table[start : start + self._width]
            events = pass_over(row, skip)
            answer = self._read(size, True)
            if answer == NOT_ORDINARY:
                for cell, value in enumerate(before):
                    table[start + cell] = value
                raise CorruptFrame("a residual on no value, or beyond all limits")
        events.append(self._event(self.link.cells[LAST_ALIAS], answer, False))
        return events

    def pass_over(self, row: int, skip: int) -> list[Event]:
        """The source's next events, which were as expected."""
        table = self.expander.columns.view()
        return [
            self._event(row, pass_over(self._plan, table, self._width, row, self._work, self._out), True)
            for _ in range(skip)
        ]

    def _read(self, size: int, passed_over: bool) -> int:
        table = self.expander.columns.view()
        return decode_frame(
            self._plan, self._cells, table, self._width, self._bytes, size, passed_over, self._work, self._out
        )

    def _event(self, row: int, answer: int, virtual: bool) -> Event:
        expander = self.expander
        key = expander.keys[row]
        assert key is not None
        values = self._assemble(row, key) if answer == REGULAR else expander.materialise(row, key)
        ordinal = expander.columns.table[row * self._width]
        about = (expander.bounds, key, ordinal, expander.publisher, expander.incarnation, virtual, False, ())
        return Event.of(values, about)

    def _compile(self) -> Callable[[int, tuple[Any, ...]], dict[str, Any]]:
        """The function that makes the event's dict from the kernel's record."""
        schema = self.expander.rules.schema
        names: dict[str, Any] = {
            "unpack_from": struct.Struct("<" + "".join(_code(p) for p in schema.wire)).unpack_from,
            "record": self._record,
        }
        shown: dict[str, str] = {p.name: f"key[{k}]" for k, p in enumerate(schema.dimensions)}
        for i, p in enumerate(schema.wire):
            shown[p.name] = self._show(i, p, names)
        unpacked = "".join(f"v{i}, " for i in range(len(schema.wire)))
        event = event_literal(schema.tree, shown)
        source = f"def assemble(row, key):\n    {unpacked}= unpack_from(record)\n    return {event}\n"
        exec(compile(source, "<assemble>", "exec"), names)
        code: Callable[[int, tuple[Any, ...]], dict[str, Any]] = names["assemble"]
        return code

    def _show(self, i: int, p: Property, names: dict[str, Any]) -> str:
        if p.kind in (Kind.ENUM, Kind.STRING):
            names[f"objects{i}"] = self.expander.columns.objects[i]
            return f"objects{i}[row]"
        if p.kind is Kind.TIMESTAMP and p.form not in (None, "epoch"):
            names[f"write{i}"] = writer(p.form or "")
            return f"write{i}(v{i})"
        if p.kind is Kind.BOOLEAN:
            return f"v{i} == 1"
        return f"int(v{i})" if p.kind is Kind.NUMBER and step_of(p).denominator == 1 else f"v{i}"


def _code(p: Property) -> str:
    """How a property's value stands in the packed record."""
    if p.kind is Kind.FLOAT or not is_whole(p):
        return "d"
    return "q"
