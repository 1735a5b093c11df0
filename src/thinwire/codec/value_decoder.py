"""Decoding of values into the state of a source table, and reading of values from it. The counterpart of
`value_encoder`.

A decoding function takes the table, the row, the rule, the index of the property and the code. It raises CorruptFrame
for codes that no encoder sends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thinwire.codec import geo_distance as geo
from thinwire.codec import value_encoder
from thinwire.codec.code_generation import define, event_literal, restore_expression
from thinwire.codec.predictors.arithmetic import FINE
from thinwire.codec.rules import Rule, RuleSet
from thinwire.codec.source_table import HEADER_CELLS, MODE, SLOT_CELLS, SourceTable
from thinwire.codec.ticks import ABSENT, TICK_LIMIT, decode_residual
from thinwire.codec.value_conversion import array_of, bits_of, converter, opaque_value, restorer, step_of
from thinwire.codec.value_encoder import first_value
from thinwire.errors import CorruptFrame, EventRejected
from thinwire.schema import Kind, Schema
from thinwire.wire.partial_event import EncodingKind
from thinwire.wire.varint import unzigzag

_FARTHEST = 1 << 40
_INFINITE = 0x7FF


def apply_held(table: SourceTable, row: int, rule: Rule, code: int) -> None:
    """Apply a residual to the last value, for slots whose predictor reads only that."""
    cells = table.cells
    i = table.slot_start(row, rule.first_slot)
    x = cells[i]
    half = 0 if cells[i + MODE] & FINE else rule.half
    cells[i] = _within(x + decode_residual(code, rule.tolerance, half), x, rule)


def apply_exact(table: SourceTable, row: int, rule: Rule, index: int, code: Any) -> None:
    """Apply an exact value of any kind."""
    value_encoder.check_kind(rule, code)
    try:
        if rule.encoding in (EncodingKind.TICK, EncodingKind.FLAG):
            value_encoder.set_tick_state(table, rule, row, code)
        elif rule.encoding is EncodingKind.FLOAT:
            table.set_raw(row, rule.first_slot, ABSENT if code is None else bits_of(code))
        elif rule.encoding is EncodingKind.GEO:
            value_encoder.set_geo_state(table, rule, row, code)
        elif rule.encoding is EncodingKind.ARRAY and code is not None:
            is_ticks = all(isinstance(item, int) for item in code)
            ticks, on_grid = (tuple(code), True) if is_ticks else array_of(rule.property, code)
            table.objects[index][row] = ticks
            if not on_grid:
                table.mark_approximate(row, rule)
        else:
            table.objects[index][row] = code
    except EventRejected as problem:
        raise CorruptFrame(f"exact value: {problem}") from None


def _tick(table: SourceTable, row: int, rule: Rule, index: int, code: int) -> None:
    predicted = table.predicted(row, rule.first_slot)
    half = 0 if table.cells[table.slot_start(row, rule.first_slot) + MODE] & FINE else rule.half
    value = predicted + decode_residual(code, rule.tolerance, half)
    table.set_value(row, rule.first_slot, _within(value, predicted, rule))


def _flag(table: SourceTable, row: int, rule: Rule, index: int, code: None) -> None:
    flag = table.last(row, rule.first_slot)
    if flag == ABSENT:
        raise CorruptFrame("flag toggled without a value", property=rule.property.name)
    table.set_raw(row, rule.first_slot, flag ^ 1)


def _float(table: SourceTable, row: int, rule: Rule, index: int, code: int) -> None:
    last = table.last(row, rule.first_slot)
    pattern = (last ^ code) & (1 << 64) - 1
    bits = pattern - (1 << 64) if pattern >> 63 else pattern
    if ABSENT in (last, bits) or pattern >> 52 & _INFINITE == _INFINITE:
        raise CorruptFrame("float is not finite", property=rule.property.name)
    table.set_raw(row, rule.first_slot, bits)


def _geo(table: SourceTable, row: int, rule: Rule, index: int, code: tuple[int, int]) -> None:
    slot = rule.first_slot
    north, east = table.predicted(row, slot), table.predicted(row, slot + 1)
    if max(code) > _FARTHEST:
        raise CorruptFrame("position off the globe", property=rule.property.name)
    steps = unzigzag(code[0]), unzigzag(code[1])
    north, east = value_encoder.move(_within(north, north, rule), east, steps, 2 * rule.half + 1)
    table.set_value(row, slot, _within(north, north, rule))
    table.set_value(row, slot + 1, east)


def _object(table: SourceTable, row: int, rule: Rule, index: int, code: Any) -> None:
    table.objects[index][row] = code


def _array(table: SourceTable, row: int, rule: Rule, index: int, code: tuple[bool, list[Any]]) -> None:
    whole, items = code
    column = table.objects[index]
    if whole:
        column[row] = tuple(_within(ticks, 0, rule) for ticks in items)
        return
    if column[row] is None:
        raise CorruptFrame("patch without an array", property=rule.property.name)
    now = list(column[row])
    for index_in_array, residual_code in items:
        if index_in_array >= len(now):
            raise CorruptFrame("patch outside its array", property=rule.property.name, index_in_array=index_in_array)
        value = now[index_in_array] + decode_residual(residual_code, rule.tolerance, rule.half)
        now[index_in_array] = _within(value, 0, rule)
    column[row] = tuple(now)


def _within(value: int, predicted: int, rule: Rule) -> int:
    if predicted == ABSENT or not -TICK_LIMIT <= value <= TICK_LIMIT:
        raise CorruptFrame("residual without a value, or value out of range", property=rule.property.name)
    return value


BY_ENCODING: dict[EncodingKind, Callable[[SourceTable, int, Rule, int, Any], None]] = {
    EncodingKind.TICK: _tick,
    EncodingKind.FLAG: _flag,
    EncodingKind.FLOAT: _float,
    EncodingKind.GEO: _geo,
    EncodingKind.TEXT: _object,
    EncodingKind.ARRAY: _array,
    EncodingKind.OPAQUE: _object,
}


def value_reader(table: SourceTable, rule: Rule, index: int) -> Callable[[int], Any]:
    """Return a function from a row to the current value of one property."""
    lines, names = _begin_reader("read_value(row)", table)
    expression = _expression(index, rule, lines, names)
    code: Callable[[int], Any] = define("read_value", "\n".join([*lines, f"    return {expression}"]), names)
    return code


def value_of_exact(rule: Rule, exact: Any) -> Any:
    """Return the value of an exact code: integers are ticks, other values are themselves."""
    if exact is None:
        return None
    if rule.encoding is EncodingKind.TICK and isinstance(exact, int):
        return restorer(rule.property)(exact)
    if rule.encoding is EncodingKind.OPAQUE:
        return opaque_value(exact)
    if rule.encoding is EncodingKind.ARRAY and all(isinstance(item, int) for item in exact):
        return _object_value(rule, exact)
    return exact


def row_reader(rules: RuleSet, table: SourceTable) -> Callable[[int, tuple[Any, ...]], dict[str, Any]]:
    """Return a generated function from row and dimension values to all values of the event."""
    lines, names = _begin_reader("read_row(row, key)", table)
    dimensions = {p.name: f"key[{k}]" for k, p in enumerate(rules.schema.dimensions)}
    wire = {rule.property.name: (index, rule) for index, rule in enumerate(rules.rules)}
    expressions = dimensions | {name: _expression(index, rule, lines, names) for name, (index, rule) in wire.items()}
    lines.append(f"    return {event_literal(rules.schema.tree, expressions)}")
    code: Callable[[int, tuple[Any, ...]], dict[str, Any]] = define("read_row", "\n".join(lines), names)
    return code


def _begin_reader(signature: str, table: SourceTable) -> tuple[list[str], dict[str, Any]]:
    """Return the first lines of a generated function that reads a row, and the names it uses."""
    lines = [f"def {signature}:", f"    base = row * {table.width} + {HEADER_CELLS}", "    cells = table.cells"]
    return lines, {"table": table, "ABSENT": ABSENT, "geo_value": geo.from_ticks}


def checked_dimensions(schema: Schema, values: Any) -> tuple[Any, ...]:
    """Return the dimension values of a peer as a key. Raises CorruptFrame."""
    if not isinstance(values, list) or len(values) != len(schema.dimensions):
        raise CorruptFrame("dimensions do not fit the schema", predicted=len(schema.dimensions))
    if not all(isinstance(value, str | int) for value in values):
        raise CorruptFrame("a dimension must be a text, an integer or a flag")
    return tuple(values)


def _expression(index: int, rule: Rule, lines: list[str], names: dict[str, Any]) -> str:
    if not rule.slots:
        names[f"objects{index}"] = columns_of = names["table"].objects[index]
        if rule.encoding is EncodingKind.TEXT:
            return f"objects{index}[row]"
        names[f"show{index}"] = lambda row: _object_value(rule, columns_of[row])
        return f"show{index}(row)"
    lines.append(f"    s{index} = cells[base + {rule.first_slot * SLOT_CELLS}]")
    if rule.encoding is EncodingKind.GEO:
        return (
            f"None if s{index} == ABSENT else geo_value(s{index}, cells[base + {(rule.first_slot + 1) * SLOT_CELLS}])"
        )
    return from_ticks(index, rule, names)


def from_ticks(index: int, rule: Rule, names: dict[str, Any]) -> str:
    """Return the expression of a property value whose ticks are in `s<index>`; adds what it needs to `names`."""
    counted = rule.property.kind is Kind.TIMESTAMP and rule.property.form in (None, "epoch")
    if counted or rule.property.kind in (Kind.NUMBER, Kind.INTEGER):
        return f"None if s{index} == ABSENT else {restore_expression(rule.property, f's{index}')}"
    names[f"show{index}"] = restorer(rule.property)
    return f"None if s{index} == ABSENT else show{index}(s{index})"


def _object_value(rule: Rule, value: Any) -> Any:
    if value is None or rule.encoding is EncodingKind.TEXT:
        return value
    if rule.encoding is EncodingKind.OPAQUE:
        return opaque_value(value)
    show = restorer(rule.property)
    return [show(ticks) for ticks in value]


ValueSetter = Callable[[int, Any], Any]
"""takes row and value; returns the exact value if the state cannot represent it"""


def value_setter(table: SourceTable, rule: Rule, index: int) -> ValueSetter:
    """Return the function that stores plain values of a property. It raises CorruptFrame for invalid values."""
    convert, p = converter(rule.property), rule.property

    def set_one(row: int, value: Any) -> Any:
        if value is None:
            apply_exact(table, row, rule, index, None)
            return None
        try:
            ticks = convert(value)
        except EventRejected as problem:
            raise CorruptFrame(f"plain value: {problem}") from None
        outside = rule.encoding is not EncodingKind.TICK and value_encoder.outside(p, value)
        return first_value(table, rule, row, index, ticks, value, outside)

    counted = p.kind is Kind.TIMESTAMP and p.form in (None, "epoch")
    return _number_setter(table, rule, set_one) if counted or p.kind in (Kind.NUMBER, Kind.INTEGER) else set_one


def _number_setter(table: SourceTable, rule: Rule, set_any: ValueSetter) -> ValueSetter:
    """Return a fast setter for numbers on the grid and in their range; `set_any` handles other values."""
    step, slot = step_of(rule.property), rule.first_slot
    up, down = step.denominator, step.numerator
    lowest, highest = rule.lowest, rule.highest
    width, first, mode = table.width, HEADER_CELLS + slot * SLOT_CELLS, MODE
    is_moving, set_value = table.period[slot] > 0, table.set_value

    def set_one(row: int, value: Any) -> Any:
        if value.__class__ is float and -TICK_LIMIT < value * up < TICK_LIMIT:
            ticks = round(value * up / down)
            if ticks * down / up != value:
                return set_any(row, value)
        elif value.__class__ is int and down == 1:
            ticks = value * up  # within the range it is also a double if the step is not an integer
        else:
            return set_any(row, value)
        if not lowest <= ticks <= highest:
            return set_any(row, value)
        cells, i = table.cells, row * width + first
        if is_moving or cells[i + mode] & 15 or cells[i] == ABSENT:
            set_value(row, slot, ticks)
        else:
            cells[i] = ticks
        return None

    return set_one
