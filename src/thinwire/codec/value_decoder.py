"""What a code does to the receiver's state, one function a lane; the mirror of `lane_codes`.

Each takes the columns, the row, the rule, the property's number and the code. What no writer could have sent is
refused as a corrupt frame.

From state back to values: what a subscriber sees of a row.

Values that are spelled out, into the receiver's state: for each property a function made for its rule.

Most of them are numbers that their step divides, in a slot that expects its last value: these take the short way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thinwire.codec import geo_distance as geo
from thinwire.codec import ticks as residual
from thinwire.codec import value_encoder as exceptions
from thinwire.codec import value_encoder as lane_codes
from thinwire.codec.code_generation import define, event_literal, restore_expression
from thinwire.codec.predictors.predictor import FINE
from thinwire.codec.rules import Rule, RuleSet
from thinwire.codec.source_table import FIELDS, HEAD, MODE, SourceTable
from thinwire.codec.ticks import ABSENT, TICK_LIMIT
from thinwire.codec.value_conversion import array_of, bits_of, converter, opaque_value, restorer, step_of
from thinwire.codec.value_encoder import first_value
from thinwire.errors import CorruptFrame, EventRejected
from thinwire.schema import Kind, Schema
from thinwire.wire.partial_event import EncodingKind
from thinwire.wire.varint import unzigzag

_FARTHEST = 1 << 40
_INFINITE = 0x7FF


def held(columns: SourceTable, row: int, rule: Rule, code: int) -> None:
    """A residual against the last value, where that is all the slot's predictor reads."""
    table = columns.table
    i = columns.place(row, rule.first_slot)
    x = table[i]
    half = 0 if table[i + MODE] & FINE else rule.half
    table[i] = _within(x + residual.decode(code, rule.tolerance, half), x, rule)


def exact(columns: SourceTable, row: int, rule: Rule, index: int, code: Any) -> None:
    """A value told exactly, whatever its lane."""
    exceptions.check_kind(rule, code)
    try:
        _apply_exact(columns, row, rule, index, code)
    except EventRejected as problem:
        raise CorruptFrame(f"exact value: {problem}") from None


def _tick(columns: SourceTable, row: int, rule: Rule, index: int, code: int) -> None:
    expected = columns.expected(row, rule.first_slot)
    half = 0 if columns.table[columns.place(row, rule.first_slot) + MODE] & FINE else rule.half
    value = expected + residual.decode(code, rule.tolerance, half)
    columns.set_value(row, rule.first_slot, _within(value, expected, rule))


def _flag(columns: SourceTable, row: int, rule: Rule, index: int, code: None) -> None:
    flag = columns.last(row, rule.first_slot)
    if flag == ABSENT:
        raise CorruptFrame("the other of no value", property=rule.property.name)
    columns.put(row, rule.first_slot, flag ^ 1)


def _float(columns: SourceTable, row: int, rule: Rule, index: int, code: int) -> None:
    last = columns.last(row, rule.first_slot)
    pattern = (last ^ code) & (1 << 64) - 1
    bits = pattern - (1 << 64) if pattern >> 63 else pattern
    if ABSENT in (last, bits) or pattern >> 52 & _INFINITE == _INFINITE:
        raise CorruptFrame("a float that is no number", property=rule.property.name)
    columns.put(row, rule.first_slot, bits)


def _geo(columns: SourceTable, row: int, rule: Rule, index: int, code: tuple[int, int]) -> None:
    slot = rule.first_slot
    north, east = columns.expected(row, slot), columns.expected(row, slot + 1)
    if max(code) > _FARTHEST:
        raise CorruptFrame("a position beyond the globe", property=rule.property.name)
    steps = unzigzag(code[0]), unzigzag(code[1])
    north, east = lane_codes.move(_within(north, north, rule), east, steps, 2 * rule.half + 1)
    columns.set_value(row, slot, _within(north, north, rule))
    columns.set_value(row, slot + 1, east)


def _object(columns: SourceTable, row: int, rule: Rule, index: int, code: Any) -> None:
    columns.objects[index][row] = code


def _array(columns: SourceTable, row: int, rule: Rule, index: int, code: tuple[bool, list[Any]]) -> None:
    whole, items = code
    column = columns.objects[index]
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


def _apply_exact(columns: SourceTable, row: int, rule: Rule, index: int, code: Any) -> None:
    if rule.lane in (EncodingKind.TICK, EncodingKind.FLAG):
        exceptions.set_tick_state(columns, rule, row, code)
    elif rule.lane is EncodingKind.FLOAT:
        exceptions.set_float_state(columns, rule, row, code, ABSENT if code is None else bits_of(code))
    elif rule.lane is EncodingKind.GEO:
        exceptions.set_geo_state(columns, rule, row, code)
    elif rule.lane is EncodingKind.ARRAY and code is not None:
        spelled = all(isinstance(item, int) for item in code)
        ticks, on_grid = (tuple(code), True) if spelled else array_of(rule.property, code)
        columns.objects[index][row] = ticks
        if not on_grid:
            columns.mark_near(row, rule)
    else:
        columns.objects[index][row] = code


def _within(value: int, expected: int, rule: Rule) -> int:
    if expected == ABSENT or not -TICK_LIMIT <= value <= TICK_LIMIT:
        raise CorruptFrame("a residual on no value, or beyond all limits", property=rule.property.name)
    return value


BY_LANE: dict[EncodingKind, Callable[[SourceTable, int, Rule, int, Any], None]] = {
    EncodingKind.TICK: _tick,
    EncodingKind.FLAG: _flag,
    EncodingKind.FLOAT: _float,
    EncodingKind.GEO: _geo,
    EncodingKind.TEXT: _object,
    EncodingKind.ARRAY: _array,
    EncodingKind.OPAQUE: _object,
}


def shower(columns: SourceTable, rule: Rule, index: int) -> Callable[[int], Any]:
    """A function made for one property: row in, its value as both ends now have it out."""
    slot, last = rule.first_slot, columns.last
    if not rule.slots:
        objects = columns.objects[index]
        return lambda row: _object_value(rule, objects[row])
    if rule.lane is EncodingKind.GEO:
        return lambda row: None if last(row, slot) == ABSENT else geo.from_ticks(last(row, slot), last(row, slot + 1))
    show = restorer(rule.property)
    return lambda row: None if (ticks := last(row, slot)) == ABSENT else show(ticks)


def value_of_exact(rule: Rule, exact: Any) -> Any:
    """The value that an exact code stands for: integers are ticks, everything else is itself."""
    if exact is None:
        return None
    if rule.lane is EncodingKind.TICK and isinstance(exact, int):
        return restorer(rule.property)(exact)
    if rule.lane is EncodingKind.OPAQUE:
        return opaque_value(exact)
    if rule.lane is EncodingKind.ARRAY and all(isinstance(item, int) for item in exact):
        return _object_value(rule, exact)
    return exact


def materialiser(rules: RuleSet, columns: SourceTable) -> Callable[[int, tuple[Any, ...]], dict[str, Any]]:
    """A function made for these rules: row and dimension values in, all values of the event out."""
    names: dict[str, Any] = {"columns": columns, "ABSENT": ABSENT, "geo_value": geo.from_ticks}
    lines = ["def materialise(row, key):", f"    base = row * {columns.width} + {HEAD}", "    table = columns.table"]
    dimensions = {p.name: f"key[{k}]" for k, p in enumerate(rules.schema.dimensions)}
    wire = {rule.property.name: (index, rule) for index, rule in enumerate(rules.rules)}
    shown = dimensions | {name: _expression(index, rule, lines, names) for name, (index, rule) in wire.items()}
    lines.append(f"    return {event_literal(rules.schema.tree, shown)}")
    code: Callable[[int, tuple[Any, ...]], dict[str, Any]] = define("materialise", "\n".join(lines), names)
    return code


def checked_dimensions(schema: Schema, values: Any) -> tuple[Any, ...]:
    """The dimension values a peer told, as a key; refuses what cannot be one."""
    if not isinstance(values, list) or len(values) != len(schema.dimensions):
        raise CorruptFrame("dimensions do not fit the schema", expected=len(schema.dimensions))
    if not all(isinstance(value, str | int) for value in values):
        raise CorruptFrame("a dimension is a text, an integer or a flag")
    return tuple(values)


def _expression(index: int, rule: Rule, lines: list[str], names: dict[str, Any]) -> str:
    if not rule.slots:
        names[f"objects{index}"] = columns_of = names["columns"].objects[index]
        if rule.lane is EncodingKind.TEXT:
            return f"objects{index}[row]"
        names[f"show{index}"] = lambda row: _object_value(rule, columns_of[row])
        return f"show{index}(row)"
    lines.append(f"    s{index} = table[base + {rule.first_slot * FIELDS}]")
    if rule.lane is EncodingKind.GEO:
        return f"None if s{index} == ABSENT else geo_value(s{index}, table[base + {(rule.first_slot + 1) * FIELDS}])"
    return from_ticks(index, rule, names)


def from_ticks(index: int, rule: Rule, names: dict[str, Any]) -> str:
    """The value of a property whose ticks are in `s<index>`, as an expression; what it needs is put among `names`."""
    counted = rule.property.kind is Kind.TIMESTAMP and rule.property.form in (None, "epoch")
    if counted or rule.property.kind in (Kind.NUMBER, Kind.INTEGER):
        return f"None if s{index} == ABSENT else {restore_expression(rule.property, f's{index}')}"
    names[f"show{index}"] = restorer(rule.property)
    return f"None if s{index} == ABSENT else show{index}(s{index})"


def _object_value(rule: Rule, thing: Any) -> Any:
    if thing is None or rule.lane is EncodingKind.TEXT:
        return thing
    if rule.lane is EncodingKind.OPAQUE:
        return opaque_value(thing)
    show = restorer(rule.property)
    return [show(ticks) for ticks in thing]


Taker = Callable[[int, Any], Any]
"""row and value in; out comes the exact value where the state cannot show it"""


def taker(columns: SourceTable, rule: Rule, index: int) -> Taker:
    """The function that settles the values of a property; what no property of its kind can have is a corrupt frame."""
    convert, p = converter(rule.property), rule.property

    def take(row: int, value: Any) -> Any:
        if value is None:
            exact(columns, row, rule, index, None)
            return None
        try:
            ticks = convert(value)
        except EventRejected as problem:
            raise CorruptFrame(f"spelled-out value: {problem}") from None
        outside = rule.lane is not EncodingKind.TICK and exceptions.outside(p, value)
        return first_value(columns, rule, row, index, ticks, value, outside)

    counted = p.kind is Kind.TIMESTAMP and p.form in (None, "epoch")
    return _of_number(columns, rule, take) if counted or p.kind in (Kind.NUMBER, Kind.INTEGER) else take


def _of_number(columns: SourceTable, rule: Rule, take_any: Taker) -> Taker:
    """The short way for what is a number, is divided by its step and lies in its range; `take_any` for the rest."""
    step, slot = step_of(rule.property), rule.first_slot
    up, down = step.denominator, step.numerator
    lowest, highest = rule.lowest, rule.highest
    width, first, mode = columns.width, HEAD + slot * FIELDS, MODE
    moves, settle = columns.period[slot] > 0, columns.set_value

    def take(row: int, value: Any) -> Any:
        if value.__class__ is float and -TICK_LIMIT < value * up < TICK_LIMIT:
            ticks = round(value * up / down)
            if ticks * down / up != value:
                return take_any(row, value)
        elif value.__class__ is int and down == 1:
            ticks = value * up  # in its range it is a double too, where the step is no whole number
        else:
            return take_any(row, value)
        if not lowest <= ticks <= highest:
            return take_any(row, value)
        table, i = columns.table, row * width + first
        if moves or table[i + mode] & 15 or table[i] == ABSENT:
            settle(row, slot, ticks)
        else:
            table[i] = ticks
        return None

    return take
