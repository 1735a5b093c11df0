"""Receiving at speed: one message, one call into a compiled kernel, and a few lines of code made for the schema.

The kernel takes the ordinary frames and leaves a record of each event; the code makes events of the records. Whatever
is not ordinary takes the per-event code instead; both move the same state, so they can take turns.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from thinwire.codec.changed_events import ChangedEvents
from thinwire.codec.code_generation import define, event_literal
from thinwire.codec.expander import Expander
from thinwire.codec.kernels.frame_decoder import (
    AT,
    BYTES,
    CELLS_OF_RUN,
    DOUBTS,
    EVENTS,
    FRAMES,
    FULL,
    RECORD,
    pass_over,
    take_frames,
)
from thinwire.codec.kernels.rule_table import WATCHED, is_whole, plan_of
from thinwire.codec.ticks import ABSENT
from thinwire.codec.value_conversion import step_of
from thinwire.codec.value_decoder import from_ticks
from thinwire.schema import Event, Kind, Property
from thinwire.schema.timestamps import writer
from thinwire.wire import LinkState
from thinwire.wire.partial_event import EncodingKind

_MESSAGE = 65_536
_RECORDS = 1 << 18
_TEXTS = (Kind.ENUM, Kind.STRING)


class FastDecoder:
    """Messages in, events out, as far as their frames are ordinary.

    changed_events: what was taken last, where properties are watched and every event in it is known to show a change of
    them
    """

    def __init__(self, expander: Expander, link: LinkState) -> None:
        self.expander = expander
        self._plan = plan_of(expander.columns)
        self._cells = np.frombuffer(link.cells, dtype=np.int64)
        self._work = np.zeros((3, expander.columns.width), dtype=np.int64)
        self._hold(bytearray(_MESSAGE))
        self._message = b""
        self._run = array("q", [0] * CELLS_OF_RUN)
        self._run_cells = np.frombuffer(self._run, dtype=np.int64)
        self._size = 8 * (RECORD + self._plan.shape[1])
        self._room = _RECORDS // self._size
        records = bytearray(self._room * self._size)
        self._records = memoryview(records)
        self._out = np.frombuffer(records, dtype=np.int64).reshape(self._room, -1)
        self._assemble = self._compile()
        self._last_of = self.last_of
        self._watching = False
        self._seen = np.zeros(0, dtype=np.int64)
        self.changed_events: ChangedEvents | None = None

    def watch(self, names: Collection[str]) -> None:
        """Leave out events that change none of these properties; without names, none. What was seen is forgotten.

        Only for rules that hold values: what others expect moves in silence.
        """
        for j, rule in enumerate(self.expander.rules.rules):
            self._plan[WATCHED, j] = rule.property.name in names
        self._watching = bool(names)
        self.changed_events = None
        self.look_anew()

    def look_anew(self) -> None:
        """The state has been told otherwise than by events: none of it has been seen."""
        self._seen = np.zeros(self.expander.columns.rows if self._watching else 0, dtype=np.int64)

    def take(self, message: bytes, at: int, out: list[Any], *, passed_over: bool) -> tuple[int, int, int]:
        """Add the events of the ordinary frames from byte `at` of a message on, those passed over where wanted.

        Answers with the byte that the next frame, or its length, begins at, and with the number of frames taken and
        of their bytes.
        """
        columns, run = self.expander.columns, self._run
        if not columns.rows or not message:
            return at, 0, 0
        if message is not self._message:
            self._keep(message)
        run[AT] = at
        frames = size = doubts = 0
        records: list[bytes] = []
        if self._watching and len(self._seen) < columns.rows:
            self._seen = np.concatenate((self._seen, np.zeros(columns.rows, dtype=np.int64)))
        answer = FULL
        while answer == FULL:
            answer = take_frames(
                self._plan,
                self._cells,
                columns.view(),
                columns.width,
                self._bytes,
                len(message),
                passed_over,
                self._work,
                self._run_cells,
                self._out,
                self._seen,
            )
            if run[FRAMES]:
                frames += run[FRAMES]
                size += run[BYTES]
                doubts += run[DOUBTS]
                taken = self._records[: run[EVENTS] * self._size]
                self._assemble(taken, out)
                if self._watching:
                    records.append(taken.tobytes())
        changed_events = self._watching and not doubts
        self.changed_events = ChangedEvents(b"".join(records), self._last_of) if changed_events else None
        return run[AT], frames, size

    def last_of(self, records: bytes) -> list[Event]:
        """The last event of each source in some records, made again."""
        table = np.frombuffer(records, dtype=np.int64).reshape(-1, self._size // 8)
        _, places = np.unique(table[::-1, 0], return_index=True)
        events: list[Event] = []
        self._assemble(memoryview(table[::-1][places].tobytes()), events)
        return events

    def pass_over(self, row: int, skip: int) -> list[Event]:
        """The source's next events, which were as expected."""
        events: list[Event] = []
        while skip:
            count = self._pass_over(row, min(skip, self._room), shown=True)
            self._assemble(self._records[: count * self._size], events)
            skip -= count
        return events

    def move_on(self, row: int, skip: int) -> None:
        """The same for a reader who does not want to see them."""
        self._pass_over(row, skip, shown=False)

    def rested(self, row: int, skip: int) -> None:
        """A source whose values are held has gone on by so many events: what was seen of it is still what it shows."""
        if row < len(self._seen) and self._seen[row] == self.expander.columns.ordinal(row) - skip:
            self._seen[row] += skip

    def _pass_over(self, row: int, skip: int, *, shown: bool) -> int:
        columns = self.expander.columns
        return pass_over(self._plan, columns.view(), columns.width, row, skip, shown, self._work, self._out)

    def _keep(self, message: bytes) -> None:
        if len(message) > len(self._raw):
            self._hold(bytearray(len(message)))
        self._raw[: len(message)] = message
        self._message = message

    def _hold(self, room: bytearray) -> None:
        self._raw = room
        self._bytes = np.frombuffer(room, dtype=np.uint8)

    def _compile(self) -> Callable[[memoryview, list[Any]], None]:
        """The function that makes events from the kernel's records."""
        rules = self.expander.rules
        names: dict[str, Any] = {
            "iter_unpack": struct.Struct("<qq?7x" + "".join(_cell(p) for p in rules.schema.wire)).iter_unpack,
            "unpack_ticks": struct.Struct(f"<{8 * RECORD}x{len(rules.rules)}q").unpack_from,
            "abouts": self.expander.metadata_codes,
            "new": Event.__new__,
            "Event": Event,
            "ABSENT": ABSENT,
        }
        dimensions = {p.name: f"key[{k}]" for k, p in enumerate(rules.schema.dimensions)}
        regular, irregular = dict(dimensions), dict(dimensions)
        for i, rule in enumerate(rules.rules):
            name = rule.property.name
            regular[name] = self._show(i, rule.property, names)
            irregular[name] = regular[name] if rule.lane is EncodingKind.TEXT else from_ticks(i, rule, names)
        values = "".join(f"v{i}, " for i, p in enumerate(rules.schema.wire) if p.kind not in _TEXTS)
        ticks = "".join(f"s{i}, " for i in range(len(rules.rules)))
        lines = [
            "def assemble(records, out):",
            "    before = len(out)",
            "    append = out.append",
            f"    for place, ordinal, irregular, {values} in iter_unpack(records):",
            "        about = abouts[place]",
            "        key = about[1]",
            "        event = new(Event)",
            "        if irregular:",
            f"            {ticks} = unpack_ticks(records, (len(out) - before) * {self._size})",
            f"            event.update({event_literal(rules.schema.tree, irregular)})",
            "        else:",
            f"            event.update({event_literal(rules.schema.tree, regular)})",
            "        event._about = about",
            "        event.ordinal = ordinal",
            "        append(event)",
        ]
        code: Callable[[memoryview, list[Any]], None] = define("assemble", "\n".join(lines), names)
        return code

    def _show(self, i: int, p: Property, names: dict[str, Any]) -> str:
        if p.kind in _TEXTS:
            names[f"objects{i}"] = self.expander.columns.objects[i]
            return f"objects{i}[place >> 1]"
        if p.kind is Kind.TIMESTAMP and p.form not in (None, "epoch"):
            names[f"write{i}"] = writer(p.form or "")
            return f"write{i}(v{i})"
        return f"v{i}"


def _cell(p: Property) -> str:
    """How a property's value stands in a record."""
    if p.kind in _TEXTS:
        return "8x"
    if p.kind is Kind.BOOLEAN:
        return "?7x"
    whole = is_whole(p) or step_of(p).denominator == 1
    return "q" if whole and p.kind is not Kind.FLOAT else "d"
