"""Expansion of partial events to full events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from thinwire.codec import value_decoder
from thinwire.codec.row_map import Source
from thinwire.codec.row_snapshot import restore_row
from thinwire.codec.rules import RuleSet
from thinwire.codec.source_table import SourceTable
from thinwire.codec.value_decoder import ValueSetter, checked_dimensions, row_reader, value_of_exact, value_setter
from thinwire.codec.value_encoder import check_kind, outside
from thinwire.errors import CorruptFrame
from thinwire.schema import Event
from thinwire.schema.event import About
from thinwire.wire.control_frames import MAX_SKIP, Switch
from thinwire.wire.partial_event import EncodingKind, PartialEvent

Exacts = tuple[tuple[int, Any], ...]


class Expander:
    """Rebuilds events from partial events. It owns the source table of a decoder; a row may have no known source."""

    def __init__(self, rules: RuleSet, publisher: str = "", incarnation: int = 0) -> None:
        self.rules = rules
        self.publisher = publisher
        self.incarnation = incarnation
        self.table = SourceTable(rules)
        self.keys: list[Source | None] = []
        self.event_metadata: list[About | None] = []
        """metadata shared by the events of a source: index 2 * row for sent events, 2 * row + 1 for suppressed ones"""
        self.bounds = rules.bounds
        self.suppressed_bounds = rules.suppressed_bounds
        self._no_bounds = dict.fromkeys(self.bounds)
        self.read_row = row_reader(rules, self.table)
        self._exact_values: dict[int, tuple[int, Exacts]] = {}
        """per row, the ordinal and the values of the last event with values that the state cannot represent"""

    def knows(self, row: int) -> bool:
        return row < len(self.keys) and self.keys[row] is not None

    def expand(self, partial: PartialEvent) -> Event:
        """Return the event of a partial event. The suppressed events before it must have been expanded."""
        row = partial.source
        exact_values: Exacts = ()
        mask, rest, exceptional = partial.mask, partial.mask, partial.exceptions
        rules, table = self.rules.rules, self.table
        moving = table.moving[row]
        for code in partial.codes:
            low = rest & -rest
            rest ^= low
            index = low.bit_length() - 1
            rule = rules[index]
            if low & exceptional:
                value_decoder.apply_exact(table, row, rule, index, code)
                exact_values += ((index, code),)
            elif rule.encoding is EncodingKind.TICK and not moving & low:
                value_decoder.apply_held(table, row, rule, code)
            else:
                value_decoder.BY_ENCODING[rule.encoding](table, row, rule, index, code)
        return self._complete(row, mask, exact_values)

    def expand_values(self, row: int, values: Mapping[int, Any]) -> Event:
        """Return the next event of a source from plain values of its changed properties."""
        setters = self._value_setters
        mask = 0
        exact_values: Exacts = ()
        for index, value in values.items():
            mask |= 1 << index
            exact = setters[index](row, value)
            if exact is not None:
                exact_values += ((index, exact),)
        return self._complete(row, mask, exact_values)

    def _complete(self, row: int, mask: int, exact_values: Exacts) -> Event:
        """Complete the next event of a source, of which the properties in `mask` are set."""
        table = self.table
        table.advance(row, mask)
        try:
            return self._restore_event(row, exact_values)
        except CorruptFrame:
            table.cells[row * table.width] -= 1  # an event that is not returned must not count as delivered
            raise

    def expand_suppressed(self, row: int, skip: int) -> list[Event]:
        """Advance a source by suppressed events and return them."""
        _check_skip(skip)
        events = []
        for _ in range(skip):
            self.table.advance(row)
            events.append(self._event(row, virtual=True))
        return events

    def advance(self, row: int, skip: int) -> None:
        """Advance a source by suppressed events without building them."""
        _check_skip(skip)
        table = self.table
        if not table.moving[row]:
            table.cells[row * table.width] += skip
            return
        for _ in range(skip):
            table.advance(row)

    def switch(self, switch: Switch) -> None:
        for change in switch.changes:
            self.table.switch(switch.source, change)

    def restore(self, row: int, dimensions: bytes, ordinal: int, state: bytes) -> None:
        """Restore a source from a key frame or an introduction."""
        try:
            values = json.loads(dimensions)
        except (ValueError, RecursionError):
            raise CorruptFrame("dimensions are not JSON", row=row) from None
        key = checked_dimensions(self.rules.schema, values)
        self.reserve(row + 1)
        restore_row(self.table, row, state, ordinal)
        self.keys[row] = key
        self.event_metadata[2 * row] = self._metadata(key, self.bounds, virtual=False)
        self.event_metadata[2 * row + 1] = self._metadata(key, self.suppressed_bounds, virtual=True)
        self._exact_values.pop(row, None)

    def reserve(self, sources: int) -> None:
        """Add rows without a known source up to `sources` rows."""
        while len(self.keys) < sources:
            self.table.add()
            self.keys.append(None)
            self.event_metadata += (None, None)

    def forget(self) -> None:
        """Drop all sources until key frames restore them."""
        self.keys = [None] * len(self.keys)
        for row in range(self.table.rows):
            self.table.cells[row * self.table.width] = 0

    def first_event(self, row: int, exact_values: Exacts) -> Event:
        """Return the first event of a source after its introduction."""
        try:
            for index, exact in exact_values:
                check_kind(self.rules.rules[index], exact)
            return self._restore_event(row, exact_values)
        except CorruptFrame:
            self.keys[row] = None  # an event that is not returned must not count as delivered
            raise

    def current(self, row: int) -> Event:
        """Return the last event of a source as the state represents it.

        Values that were sent exactly are included. An event whose values the state only approximates has no bounds.
        """
        ordinal, exact_values = self._exact_values.get(row, (0, ()))
        if ordinal == self.table.ordinal(row):
            return self._event(row, exact_values, virtual=True)
        event = self._event(row, virtual=True)
        if not self.table.is_approximate(row):
            return event
        return event.like(event, self._no_bounds)

    def predict_next(self, row: int) -> Event:
        """Return the predicted next event of a source, provisional and without bounds. The state does not change."""
        key, table = self.keys[row], self.table
        assert key is not None
        start, end = row * table.width, (row + 1) * table.width
        before = table.cells[start:end]
        table.advance(row)
        metadata = self._metadata(key, self._no_bounds, virtual=True, provisional=True)
        event = Event.of(self.read_row(row, key), metadata, table.ordinal(row))
        for cell, value in enumerate(before, start):
            table.cells[cell] = value
        return event

    def exact_values(self) -> dict[int, Exacts]:
        """Return, per row, the values of the last event that the state cannot represent."""
        return {
            row: exact_values
            for row, (ordinal, exact_values) in self._exact_values.items()
            if ordinal == self.table.ordinal(row)
        }

    def known(self) -> Iterator[int]:
        """Iterate over the rows of all known sources."""
        return (row for row, key in enumerate(self.keys) if key is not None)

    def _event(self, row: int, exact_values: Exacts = (), virtual: bool = False) -> Event:
        """Build the event of a row; exact values replace those of the state."""
        key = self.keys[row]
        assert key is not None
        values = self.read_row(row, key)
        flags: tuple[str, ...] = ()
        for index, exact in exact_values:
            p = self.rules.rules[index].property
            value = value_of_exact(self.rules.rules[index], exact)
            _put(values, p.name, value)
            flags += (p.name,) * outside(p, value)
        metadata = self.event_metadata[2 * row + virtual]
        assert metadata is not None
        return Event.of(values, (*metadata[:-1], flags) if flags else metadata, self.table.ordinal(row))

    def _metadata(
        self, key: Source, bound: Mapping[str, float | None], *, virtual: bool, provisional: bool = False
    ) -> About:
        return bound, key, self.publisher, self.incarnation, virtual, provisional, ()

    def _restore_event(self, row: int, exact_values: Exacts) -> Event:
        """Build a sent event and store the values that the state cannot represent."""
        if exact_values:
            self._exact_values[row] = (self.table.ordinal(row), exact_values)
        return self._event(row, exact_values)

    @cached_property
    def _value_setters(self) -> list[ValueSetter]:
        """Functions that store a plain value of a property in a row; created for the JSON format only."""
        return [value_setter(self.table, rule, index) for index, rule in enumerate(self.rules.rules)]


def _put(values: dict[str, Any], path: str, value: Any) -> None:
    *objects, leaf = path.split(".")
    for name in objects:
        values = values[name]
    values[leaf] = value


def _check_skip(skip: int) -> None:
    if skip > MAX_SKIP:
        raise CorruptFrame("too many suppressed events", skip=skip, limit=MAX_SKIP)
