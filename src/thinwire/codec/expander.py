"""Expand: a partial comes in, and the events it stands for come out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from thinwire.codec import row_snapshot as snapshots
from thinwire.codec import value_decoder as arrivals
from thinwire.codec import value_encoder as exceptions
from thinwire.codec.rules import RuleSet
from thinwire.codec.source_table import SourceTable
from thinwire.codec.value_decoder import Taker, checked_dimensions, materialiser, taker, value_of_exact
from thinwire.errors import CorruptFrame
from thinwire.schema import Event
from thinwire.schema.event import About
from thinwire.wire.control_frames import MAX_SKIP, Switch
from thinwire.wire.partial_event import EncodingKind, Partial

Key = tuple[Any, ...]
Exacts = tuple[tuple[int, Any], ...]


class Expander:
    """The receiving end of a link's shared knowledge: rows by alias, each known or not."""

    def __init__(self, rules: RuleSet, publisher: str = "", incarnation: int = 0) -> None:
        self.rules = rules
        self.publisher = publisher
        self.incarnation = incarnation
        self.columns = SourceTable(rules)
        self.keys: list[Key | None] = []
        self.metadata_codes: list[About | None] = []
        """per row, what its events share: first those that were told, then those passed over in silence"""
        self.bounds = rules.bounds
        self.silent_bounds = rules.silent_bounds
        self._no_bounds = dict.fromkeys(self.bounds)
        self.materialise = materialiser(rules, self.columns)
        self._told: dict[int, tuple[int, Exacts]] = {}
        """per row, the last event with values that the state cannot show, and those values"""

    def knows(self, alias: int) -> bool:
        """Is the state of this source known?"""
        return alias < len(self.keys) and self.keys[alias] is not None

    def expand(self, partial: Partial) -> list[Event]:
        """The events a partial tells of: those passed over in silence, then its own."""
        before = self.columns.ordinal(partial.source)
        try:
            return self._expand(partial)
        except CorruptFrame:
            self._take_back(partial.source, before)
            raise

    def _expand(self, partial: Partial) -> list[Event]:
        row = partial.source
        events = self.pass_over(row, partial.skip) if partial.skip else []
        told: Exacts = ()
        mask, exceptional = partial.mask, partial.exceptions
        rules, columns = self.rules.rules, self.columns
        moving = columns.moving[row]
        for code in partial.codes:
            low = mask & -mask
            mask ^= low
            index = low.bit_length() - 1
            rule = rules[index]
            if low & exceptional:
                arrivals.exact(columns, row, rule, index, code)
                told += ((index, code),)
            elif rule.lane is EncodingKind.TICK and not moving & low:
                arrivals.held(columns, row, rule, code)
            else:
                arrivals.BY_LANE[rule.lane](columns, row, rule, index, code)
        columns.advance(row, partial.mask)
        events.append(self._restore_event(row, told))
        return events

    def expand_given(self, row: int, values: Mapping[int, Any]) -> Event:
        """The next event of a source, of which these values are spelled out."""
        columns, takers = self.columns, self._takers
        before = columns.ordinal(row)
        mask = 0
        told: Exacts = ()
        try:
            for index, value in values.items():
                mask |= 1 << index
                exact = takers[index](row, value)
                if exact is not None:
                    told += ((index, exact),)
            columns.advance(row, mask)
            return self._restore_event(row, told)
        except CorruptFrame:
            self._take_back(row, before)
            raise

    def _take_back(self, row: int, ordinal: int) -> None:
        """Events that were made and not handed out have not been delivered: they must not count as such."""
        self.columns.table[row * self.columns.width] = ordinal

    def pass_over(self, row: int, skip: int) -> list[Event]:
        """The events that were passed over in silence: everything in them was expected."""
        _check_skip(skip)
        events = []
        for _ in range(skip):
            self.columns.advance(row)
            events.append(self._event(row, virtual=True))
        return events

    def move_on(self, row: int, skip: int) -> None:
        """The same for a reader who does not want to see them."""
        _check_skip(skip)
        columns = self.columns
        if not columns.moving[row]:
            columns.table[row * columns.width] += skip
            return
        for _ in range(skip):
            columns.advance(row)

    def switch(self, switch: Switch) -> None:
        """The source's slots go over to other predictors."""
        for change in switch.changes:
            self.columns.switch(switch.source, change)

    def restore(self, alias: int, dimensions: bytes, ordinal: int, state: bytes) -> None:
        """Know a source from a key frame or an introduction."""
        try:
            values = json.loads(dimensions)
        except (ValueError, RecursionError):
            raise CorruptFrame("dimensions are not JSON", alias=alias) from None
        key = checked_dimensions(self.rules.schema, values)
        self.make_room(alias + 1)
        snapshots.restore(self.columns, alias, state, ordinal)
        self.keys[alias] = key
        self.metadata_codes[2 * alias] = self._about(key, self.bounds, virtual=False)
        self.metadata_codes[2 * alias + 1] = self._about(key, self.silent_bounds, virtual=True)
        self._told.pop(alias, None)

    def make_room(self, sources: int) -> None:
        """Have rows for so many sources, unknown as they are."""
        while len(self.keys) < sources:
            self.columns.add()
            self.keys.append(None)
            self.metadata_codes += (None, None)

    def forget(self) -> None:
        """Trust no source until it is told again."""
        self.keys = [None] * len(self.keys)
        for row in range(self.columns.rows):
            self.columns.table[row * self.columns.width] = 0

    def introduced(self, alias: int, told: tuple[tuple[int, Any], ...]) -> Event:
        """The first event of a source just restored."""
        try:
            for index, exact in told:
                exceptions.check_kind(self.rules.rules[index], exact)
            return self._restore_event(alias, told)
        except CorruptFrame:
            self.keys[alias] = None  # an event not handed out must not count as delivered
            raise

    def current(self, alias: int) -> Event:
        """Where a source stands: its last event as it can be reconstructed from the state.

        What it was told exactly is remembered. Of an event before its time whose values the state cannot hold, or that
        was told under wider tolerances, nothing is claimed.
        """
        ordinal, told = self._told.get(alias, (0, ()))
        if ordinal == self.columns.ordinal(alias):
            return self._event(alias, told, virtual=True)
        event = self._event(alias, virtual=True)
        if not self.columns.is_near(alias):
            return event
        return event.like(event, self._no_bounds)

    def next(self, alias: int) -> Event:
        """What is expected to come next of a source, if it comes: nothing is claimed, and the state stays as it is."""
        key, columns = self.keys[alias], self.columns
        assert key is not None
        start, end = alias * columns.width, (alias + 1) * columns.width
        before = columns.table[start:end]
        columns.advance(alias)
        about = self._about(key, self._no_bounds, virtual=True, provisional=True)
        event = Event.of(self.materialise(alias, key), about, columns.ordinal(alias))
        for cell, value in enumerate(before, start):
            columns.table[cell] = value
        return event

    def exact_values(self) -> dict[int, Exacts]:
        """Per row, the values of its last event that the state cannot show."""
        return {row: told for row, (ordinal, told) in self._told.items() if ordinal == self.columns.ordinal(row)}

    def known(self) -> Iterator[int]:
        """The aliases of all sources whose state is known."""
        return (alias for alias, key in enumerate(self.keys) if key is not None)

    def _event(self, row: int, told: Exacts = (), virtual: bool = False) -> Event:
        """The row as an event; what was told exactly stands in place of what the state can show."""
        key = self.keys[row]
        assert key is not None
        values = self.materialise(row, key)
        flags: tuple[str, ...] = ()
        for index, exact in told:
            p = self.rules.rules[index].property
            value = value_of_exact(self.rules.rules[index], exact)
            self._put(values, p.name, value)
            flags += (p.name,) * exceptions.outside(p, value)
        about = self.metadata_codes[2 * row + virtual]
        assert about is not None
        return Event.of(values, (*about[:-1], flags) if flags else about, self.columns.ordinal(row))

    def _about(self, key: Key, bound: Mapping[str, float | None], *, virtual: bool, provisional: bool = False) -> About:
        return bound, key, self.publisher, self.incarnation, virtual, provisional, ()

    def _restore_event(self, row: int, told: Exacts) -> Event:
        """An event that was told, remembered as far as the state does not."""
        if told:
            self._told[row] = (self.columns.ordinal(row), told)
        return self._event(row, told)

    def _put(self, values: dict[str, Any], path: str, value: Any) -> None:
        place = values
        *objects, leaf = path.split(".")
        for name in objects:
            place = place[name]
        place[leaf] = value

    @cached_property
    def _takers(self) -> list[Taker]:
        """What settles the spelled-out values of each property; made where there are any."""
        return [taker(self.columns, rule, index) for index, rule in enumerate(self.rules.rules)]


def _check_skip(skip: int) -> None:
    if skip > MAX_SKIP:
        raise CorruptFrame("more events passed over than a link may", skip=skip, limit=MAX_SKIP)
