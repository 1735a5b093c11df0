"""Expand: a partial comes in, and the events it stands for come out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from thinwire.errors import CorruptFrame, EventRejected
from thinwire.events import Event
from thinwire.formats.lanes import Lane
from thinwire.formats.partial import Given, Partial
from thinwire.frames.control import MAX_SKIP, Switch
from thinwire.frames.varint import unzigzag
from thinwire.reduction import exceptions, geo, lane_codes, residual, snapshots
from thinwire.reduction.columns import MODE, Columns
from thinwire.reduction.convert import array_of, bits_of, converter
from thinwire.reduction.limits import ABSENT, TICK_LIMIT
from thinwire.reduction.materialise import checked_dimensions, materialiser, value_of_exact
from thinwire.reduction.predictors.steps import FINE
from thinwire.reduction.reducer import first_value
from thinwire.reduction.rules import Rule, RuleSet

Key = tuple[Any, ...]


class Expander:
    """The receiving end of a link's shared knowledge: rows by alias, each known or not."""

    def __init__(self, rules: RuleSet, publisher: str = "") -> None:
        self.rules = rules
        self.publisher = publisher
        self.columns = Columns(rules)
        self.keys: list[Key | None] = []
        self.bounds = rules.bounds
        self.thinned_bounds = dict.fromkeys(self.bounds) if rules.min_interval else self.bounds
        self.materialise = materialiser(rules, self.columns)
        self._converters = [converter(p) for p in rules.schema.wire]
        self._expand: dict[Lane, Callable[[int, Rule, int, Any], None]] = {
            Lane.TICK: self._tick,
            Lane.FLAG: self._flag,
            Lane.FLOAT: self._float,
            Lane.GEO: self._geo,
            Lane.TEXT: self._object,
            Lane.ARRAY: self._array,
            Lane.OPAQUE: self._object,
        }

    def knows(self, alias: int) -> bool:
        """Is the state of this source known?"""
        return alias < len(self.keys) and self.keys[alias] is not None

    def expand(self, partial: Partial) -> list[Event]:
        """The events a partial tells of: those passed over in silence, then its own."""
        row = partial.source
        events = self.pass_over(row, partial.skip) if partial.skip else []
        overrides: list[tuple[int, Any]] = []
        mask, exceptional = partial.mask, partial.exceptions
        rules, columns = self.rules.rules, self.columns
        moving = columns.moving[row]
        for code in partial.codes:
            low = mask & -mask
            mask ^= low
            index = low.bit_length() - 1
            rule = rules[index]
            if low & exceptional:
                self._exact(row, rule, index, code)
                overrides.append((index, code))
            elif rule.lane is Lane.TICK and not moving & low:
                self._held(row, rule, code)
            else:
                self._expand[rule.lane](row, rule, index, code)
        columns.advance(row, partial.mask)
        events.append(self._event(row, overrides))
        return events

    def expand_given(self, given: Given) -> list[Event]:
        """The events of a partial whose values are spelled out."""
        row = given.source
        events = self.pass_over(row, given.skip)
        mask = 0
        overrides: list[tuple[int, Any]] = []
        for index, value in given.values.items():
            mask |= 1 << index
            exact = self._take_value(row, self.rules.rules[index], index, value)
            if exact is not None:
                overrides.append((index, exact))
        self.columns.advance(row, mask)
        events.append(self._event(row, overrides))
        return events

    def pass_over(self, row: int, skip: int) -> list[Event]:
        """The events that were passed over in silence: everything in them was expected."""
        if skip > MAX_SKIP:
            raise CorruptFrame("more events passed over than a link may", skip=skip, limit=MAX_SKIP)
        events = []
        for _ in range(skip):
            self.columns.advance(row)
            events.append(self._event(row, (), virtual=True))
        return events

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

    def make_room(self, sources: int) -> None:
        """Have rows for so many sources, unknown as they are."""
        while len(self.keys) < sources:
            self.columns.add()
            self.keys.append(None)

    def forget(self) -> None:
        """Trust no source until it is told again."""
        self.keys = [None] * len(self.keys)
        for row in range(self.columns.rows):
            self.columns.table[row * self.columns.width] = 0

    def introduced(self, alias: int, told: tuple[tuple[int, Any], ...]) -> Event:
        """The first event of a source just restored."""
        for index, exact in told:
            exceptions.check_kind(self.rules.rules[index], exact)
        return self._event(alias, told)

    def current(self, alias: int) -> Event:
        """Where a source stands: its last event as it can be reconstructed from the state."""
        return self._event(alias, (), virtual=True)

    def known(self) -> Iterator[int]:
        """The aliases of all sources whose state is known."""
        return (alias for alias, key in enumerate(self.keys) if key is not None)

    def _event(self, row: int, overrides: Any, virtual: bool = False) -> Event:
        key = self.keys[row]
        assert key is not None
        values = self.materialise(row, key)
        flags: tuple[str, ...] = ()
        for index, exact in overrides:
            rule = self.rules.rules[index]
            values[rule.property.name] = value_of_exact(rule, exact)
            if isinstance(exact, int) and rule.lane is Lane.TICK and not rule.lowest <= exact <= rule.highest:
                flags += (rule.property.name,)
        bound = self.thinned_bounds if virtual else self.bounds
        return Event.of(values, (bound, key, self.columns.ordinal(row), self.publisher, virtual, False, flags))

    def _held(self, row: int, rule: Rule, code: int) -> None:
        table = self.columns.table
        i = self.columns.place(row, rule.first_slot)
        x = table[i]
        half = 0 if table[i + MODE] & FINE else rule.half
        table[i] = _within(x + residual.decode(code, rule.tolerance, half), x, rule)

    def _tick(self, row: int, rule: Rule, index: int, code: int) -> None:
        columns = self.columns
        expected = columns.expected(row, rule.first_slot)
        half = 0 if columns.table[columns.place(row, rule.first_slot) + MODE] & FINE else rule.half
        value = expected + residual.decode(code, rule.tolerance, half)
        columns.settle(row, rule.first_slot, _within(value, expected, rule))

    def _flag(self, row: int, rule: Rule, index: int, code: None) -> None:
        flag = self.columns.last(row, rule.first_slot)
        if flag == ABSENT:
            raise CorruptFrame("the other of no value", property=rule.property.name)
        self.columns.put(row, rule.first_slot, flag ^ 1)

    def _float(self, row: int, rule: Rule, index: int, code: int) -> None:
        last = self.columns.last(row, rule.first_slot)
        pattern = (last ^ code) & (1 << 64) - 1
        bits = pattern - (1 << 64) if pattern >> 63 else pattern
        if ABSENT in (last, bits) or pattern >> 52 & 0x7FF == 0x7FF:
            raise CorruptFrame("a float that is no number", property=rule.property.name)
        self.columns.put(row, rule.first_slot, bits)

    def _geo(self, row: int, rule: Rule, index: int, code: tuple[int, int]) -> None:
        slot = rule.first_slot
        north, east = self.columns.expected(row, slot), self.columns.expected(row, slot + 1)
        if max(code) > 1 << 40:
            raise CorruptFrame("a position beyond the globe", property=rule.property.name)
        steps = unzigzag(code[0]), unzigzag(code[1])
        north, east = lane_codes.move(_within(north, north, rule), east, steps, 2 * rule.half + 1)
        self.columns.settle(row, slot, _within(north, north, rule))
        self.columns.settle(row, slot + 1, east)

    def _object(self, row: int, rule: Rule, index: int, code: Any) -> None:
        self.columns.objects[index][row] = code

    def _array(self, row: int, rule: Rule, index: int, code: tuple[bool, list[Any]]) -> None:
        whole, items = code
        column = self.columns.objects[index]
        if whole:
            column[row] = tuple(_within(ticks, 0, rule) for ticks in items)
            return
        if column[row] is None:
            raise CorruptFrame("a patch on no array", property=rule.property.name)
        now = list(column[row])
        for place, residual_code in items:
            if place >= len(now):
                raise CorruptFrame("a patch beyond its array", property=rule.property.name, place=place)
            value = now[place] + residual.decode(residual_code, rule.tolerance, rule.half)
            now[place] = _within(value, 0, rule)
        column[row] = tuple(now)

    def _exact(self, row: int, rule: Rule, index: int, code: Any) -> None:
        exceptions.check_kind(rule, code)
        try:
            self._settle_exact(row, rule, index, code)
        except EventRejected as problem:
            raise CorruptFrame(f"exact value: {problem}") from None

    def _settle_exact(self, row: int, rule: Rule, index: int, code: Any) -> None:
        if rule.lane in (Lane.TICK, Lane.FLAG):
            exceptions.settle_tick(self.columns, rule, row, code)
        elif rule.lane is Lane.FLOAT:
            exceptions.settle_float(self.columns, rule, row, code, ABSENT if code is None else bits_of(code))
        elif rule.lane is Lane.GEO:
            exceptions.settle_geo(self.columns, rule, row, code)
        elif rule.lane is Lane.ARRAY and code is not None:
            spelled = all(isinstance(item, int) for item in code)
            self.columns.objects[index][row] = tuple(code) if spelled else array_of(rule.property, code)[0]
        else:
            self.columns.objects[index][row] = code

    def _take_value(self, row: int, rule: Rule, index: int, value: Any) -> Any:
        """Settle a spelled-out value; the exact value comes back where the state cannot hold it."""
        if value is None:
            self._settle_exact(row, rule, index, None)
            return None
        try:
            ticks = self._converters[index](value)
        except EventRejected as problem:
            raise CorruptFrame(f"spelled-out value: {problem}") from None
        return first_value(self.columns, rule, row, index, ticks, value)


def _within(value: int, expected: int, rule: Rule) -> int:
    if expected == ABSENT or not -TICK_LIMIT <= value <= TICK_LIMIT:
        raise CorruptFrame("a residual on no value, or beyond all limits", property=rule.property.name)
    return value
