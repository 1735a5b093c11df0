"""From state back to values: what a subscriber sees of a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thinwire.codec import geo_distance as geo
from thinwire.codec.code_generation import define
from thinwire.codec.code_generation_generate import event_literal, restore_expression
from thinwire.codec.rules import Rule, RuleSet
from thinwire.codec.source_table_columns import FIELDS, HEAD, Columns
from thinwire.codec.ticks import ABSENT
from thinwire.codec.value_conversion import opaque_value, restorer
from thinwire.errors import CorruptFrame
from thinwire.schema import Kind, Schema
from thinwire.wire.partial_event import Lane


def shower(columns: Columns, rule: Rule, index: int) -> Callable[[int], Any]:
    """A function made for one property: row in, its value as both ends now have it out."""
    slot, last = rule.first_slot, columns.last
    if not rule.slots:
        objects = columns.objects[index]
        return lambda row: _object_value(rule, objects[row])
    if rule.lane is Lane.GEO:
        return lambda row: None if last(row, slot) == ABSENT else geo.from_ticks(last(row, slot), last(row, slot + 1))
    show = restorer(rule.property)
    return lambda row: None if (ticks := last(row, slot)) == ABSENT else show(ticks)


def value_of_exact(rule: Rule, exact: Any) -> Any:
    """The value that an exact code stands for: integers are ticks, everything else is itself."""
    if exact is None:
        return None
    if rule.lane is Lane.TICK and isinstance(exact, int):
        return restorer(rule.property)(exact)
    if rule.lane is Lane.OPAQUE:
        return opaque_value(exact)
    if rule.lane is Lane.ARRAY and all(isinstance(item, int) for item in exact):
        return _object_value(rule, exact)
    return exact


def materialiser(rules: RuleSet, columns: Columns) -> Callable[[int, tuple[Any, ...]], dict[str, Any]]:
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
        if rule.lane is Lane.TEXT:
            return f"objects{index}[row]"
        names[f"show{index}"] = lambda row: _object_value(rule, columns_of[row])
        return f"show{index}(row)"
    lines.append(f"    s{index} = table[base + {rule.first_slot * FIELDS}]")
    if rule.lane is Lane.GEO:
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
    if thing is None or rule.lane is Lane.TEXT:
        return thing
    if rule.lane is Lane.OPAQUE:
        return opaque_value(thing)
    show = restorer(rule.property)
    return [show(ticks) for ticks in thing]
