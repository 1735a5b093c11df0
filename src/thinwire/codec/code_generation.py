"""Generated functions for one set of rules. Equal source text is compiled once.

`reduce(event)` first converts and checks every value, so that a rejected event changes nothing, and then encodes
property by property. Numbers and flags are unrolled with the constants of their rules; other kinds call the function of
their encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from types import CodeType
from typing import Any

from thinwire.codec.predictors.arithmetic import FINE, LAST
from thinwire.codec.rules import Rule, RuleSet
from thinwire.codec.source_table import HEADER_CELLS, MODE, SLOT_CELLS
from thinwire.codec.ticks import ABSENT
from thinwire.codec.value_conversion import step_of
from thinwire.schema import Kind, Schema
from thinwire.schema.property import Property
from thinwire.wire.partial_event import EncodingKind

MAX_CACHED = 256
"""number of cached code objects; a stream of fifty properties has four of about ten kilobytes each"""


def define(name: str, source: str, names: dict[str, Any]) -> Any:
    """Return the function `name` that the source text defines; `names` are its globals.

    >>> define("twice", "def twice(x): return by * x", {"by": 2})(21)
    42
    """
    exec(_compiled(source, f"<{name}>"), names)
    return names[name]


@lru_cache(MAX_CACHED)
def _compiled(source: str, name: str) -> CodeType:
    return compile(source, name, "exec")


def reducer_source(rules: RuleSet, width: int, late_check: bool, weigh: bool, validated: bool) -> str:
    """Return the source text of `reduce(event)`; the reducer provides the names that it uses.

    validated: generate `reduce(event, ordinal, flags)` for events of a decoder. They need no validation and may have
        properties that the schema does not have
    """
    extra = ", ordinal, flags" if validated else ""
    lines = [f"def reduce(event{extra}):", "    try:", "        get = event.get"]
    for index, rule in enumerate(rules.rules):
        lines += (f"        {line}" for line in _convert(index, rule))
    ticks = "".join(f"t{index}, " for index in range(len(rules.rules)))
    key = "".join(f"event[{p.name!r}], " for p in rules.schema.dimensions)
    # confidential properties are not read, so an unknown name could replace one without changing the length
    strangers = " or not event.keys() <= NAMES" if any(p.confidential for p in rules.schema) else ""
    lines += [
        f"        key = ({key})",
        "        row = row_of(key)",
        "    except (ValueError, OverflowError, KeyError, TypeError, AttributeError) as problem:",
        "        reject(event, problem)",
        f"    ticks = ({ticks})",
    ]
    if not validated:
        lines += [
            f"    if len(event) != PROPERTIES or ABSENT in ticks or None in ticks{strangers}:",
            "        check_names(event)",
            *(["    check_size(ticks)"] if weigh else []),
        ]
    lines += ["    if row is None:", f"        return introduce(key, ticks, event{extra})"]
    if late_check:
        lines.append("    check_time(row, ticks, key)")
    if rules.changes:
        flags = ", flags" if validated else ""
        lines += [f"    if is_unchanged(row, ticks, event{flags}):", "        return suppress(row)"]
    if rules.min_interval:
        lines += ["    if is_too_soon(row, ticks):", "        return suppress(row)"]
    lines += [
        f"    base = row * {width} + {HEADER_CELLS}",
        "    cells = table.cells",
        "    mask = exceptions = 0",
        "    codes = []",
    ]
    for index, rule in enumerate(rules.rules):
        lines += (f"    {line}" for line in _decide(index, rule, _outside(index, rule, validated)))
    lines += ["    return finish(row, mask, exceptions, codes, ticks)", ""]
    return "\n".join(lines)


def event_literal(tree: Mapping[str, Any], shown: Mapping[str, str]) -> str:
    """Return the source of a dict display of an event, nested like the schema; `shown` has an expression by path.

    >>> event_literal({"t": "t", "oil": {"level": "oil.level"}}, {"t": "v0", "oil.level": "v1"})
    "{'t': v0, 'oil': {'level': v1}}"
    """
    items: list[str] = []
    for name, branch in tree.items():
        if isinstance(branch, dict):
            inner = event_literal(branch, shown)
            items += [f"{name!r}: {inner}"] * (inner != "{}")
        elif branch in shown:
            items.append(f"{name!r}: {shown[branch]}")
    return f"{{{', '.join(items)}}}"


def restore_expression(p: Property, ticks: str) -> str:
    """Return the expression that converts ticks to a value, for kinds whose values are multiples of the step."""
    step = step_of(p)
    up = f"{ticks} * {step.numerator}" if step.numerator != 1 else ticks
    return up if step.denominator == 1 else f"{up} / {step.denominator}"


def _convert(index: int, rule: Rule) -> Iterator[str]:
    p = rule.property
    yield f"v{index} = get({p.name!r})"
    if p.kind is Kind.NUMBER:
        yield f"if v{index}.__class__ is float:"
        yield f"    t{index} = round({_scaled(f'v{index}', step_of(p))})"
        restored = restore_expression(p, f"t{index}")
        yield f"    if not -LIMIT < t{index} < LIMIT or {restored} != v{index}: t{index} = convert{index}(v{index})"
        yield "else:"
        yield f"    t{index} = convert{index}(v{index})"
    elif p.kind is Kind.INTEGER and p.step in (None, 1):
        plain = f"v{index}.__class__ is int and -LIMIT < v{index} < LIMIT"
        yield f"t{index} = v{index} if {plain} else convert{index}(v{index})"
    else:
        yield f"t{index} = convert{index}(v{index})"
    if rule.band:
        yield f"if -{rule.band} <= t{index} <= {rule.band}: t{index} = 0"


def _scaled(value: str, step: Fraction) -> str:
    up = f"{value} * {step.denominator}" if step.denominator != 1 else value
    return up if step.numerator == 1 else f"{up} / {step.numerator}"


def _outside(index: int, rule: Rule, validated: bool) -> str:
    """Return the expression that checks for values outside the declared range; ticks are mostly checked by their
    limits."""
    if rule.upstream and rule.has_range and validated:
        return f"{rule.property.name!r} in flags"
    if rule.upstream or not rule.has_range or rule.encoding is EncodingKind.TICK:
        return "False"
    return f"outside(rule{index}.property, v{index})"


def _decide(index: int, rule: Rule, outside: str) -> Iterator[str]:
    if rule.encoding is EncodingKind.FLAG:
        yield from _decide_flag(index, rule)
    elif (
        rule.encoding is EncodingKind.TICK and not rule.auto and rule.mode & ~FINE == LAST and not rule.property.period
    ):
        yield from _decide_held(index, rule, outside)
    elif rule.encoding is EncodingKind.TICK:
        yield from _decide_predicted(index, rule, outside)
    elif rule.encoding in (EncodingKind.TEXT, EncodingKind.OPAQUE):
        yield f"if t{index} != objects{index}[row]:"
        yield from _answer(index, f"object_code(table, rule{index}, row, t{index}, {index})", "    ")
    elif rule.encoding is EncodingKind.ARRAY:
        yield from _answer(index, f"array_code(table, rule{index}, row, t{index}, v{index}, {index}, {outside})")
    elif rule.encoding is EncodingKind.FLOAT:
        yield from _answer(index, f"float_code(table, rule{index}, row, t{index}, v{index}, {outside})")
    else:
        yield from _answer(index, f"geo_code(table, rule{index}, row, t{index}, v{index})")


def _answer(index: int, call: str, indent: str = "") -> Iterator[str]:
    yield f"{indent}answer = {call}"
    yield f"{indent}if answer is not None:"
    yield f"{indent}    mask |= {1 << index}"
    yield f"{indent}    exceptions |= {1 << index} * answer[0]"
    yield f"{indent}    codes.append(answer[1])"


def _decide_flag(index: int, rule: Rule) -> Iterator[str]:
    yield f"x = cells[base + {rule.first_slot * SLOT_CELLS}]"
    yield f"if t{index} != x:"
    yield f"    if x == {ABSENT} or t{index} == {ABSENT}:"
    yield from _answer(index, f"flag_exception(table, rule{index}, row, t{index}, v{index})", "        ")
    yield "    else:"
    yield f"        mask |= {1 << index}"
    yield "        codes.append(None)"
    yield f"        cells[base + {rule.first_slot * SLOT_CELLS}] = t{index}"


def _decide_held(index: int, rule: Rule, outside: str) -> Iterator[str]:
    """Generate the encoding against the last value, without a function call."""
    yield f"x = cells[base + {rule.first_slot * SLOT_CELLS}]"
    yield f"r = t{index} - x"
    yield f"if {_must_send(index, rule, outside)}:"
    yield from _exception(index, rule, outside)
    half = 0 if rule.mode & FINE else rule.half
    yield f"        m = ((r if r > 0 else -r) - {rule.tolerance + 1}) // {2 * half + 1}"
    yield f"        mask |= {1 << index}"
    yield "        codes.append(m + m if r > 0 else m + m + 1)"
    yield f"        m = {rule.tolerance + 1 + half} + m * {2 * half + 1}"
    yield f"        cells[base + {rule.first_slot * SLOT_CELLS}] = x + m if r > 0 else x - m"


def _decide_predicted(index: int, rule: Rule, outside: str) -> Iterator[str]:
    """Generate the encoding against the prediction of the slot's mode."""
    slot = rule.first_slot
    yield f"mode = cells[base + {slot * SLOT_CELLS + MODE}]"
    yield f"x = cells[base + {slot * SLOT_CELLS}] if not mode & 15 else predicted(row, {slot})"
    yield f"r = t{index} - x"
    yield f"if {_must_send(index, rule, outside)}:"
    yield from _exception(index, rule, outside)
    yield f"        half = 0 if mode & {FINE} else {rule.half}"
    yield f"        code = encode_residual(r, {rule.tolerance}, half)"
    yield f"        mask |= {1 << index}"
    yield "        codes.append(code)"
    yield f"        set_value(row, {slot}, x + decode_residual(code, {rule.tolerance}, half))"
    is_predicted = "" if rule.property.period else "mode & 15 and "
    yield f"elif {is_predicted}x != {ABSENT}:"
    yield f"    set_value(row, {slot}, x)"


def _must_send(index: int, rule: Rule, outside: str) -> str:
    beyond = "r" if not rule.tolerance else f"r > {rule.tolerance} or r < -{rule.tolerance}"
    return f"{beyond} or {_apart(index, rule, outside)}" if rule.has_range else beyond


def _exception(index: int, rule: Rule, outside: str) -> Iterator[str]:
    yield f"    if x == {ABSENT} or {_apart(index, rule, outside)}:"
    yield from _answer(index, f"tick_exception(table, rule{index}, row, t{index}, v{index})", "        ")
    yield "    else:"


def _apart(index: int, rule: Rule, outside: str) -> str:
    beyond = f"not {rule.lowest} <= t{index} <= {rule.highest}"
    return beyond if outside == "False" else f"{beyond} or {outside}"


def path_expression(path: str) -> str:
    """Return the expression of a value in an event with nested objects.

    >>> path_expression("oil.level")
    "event['oil']['level']"
    """
    return "event" + "".join(f"[{part!r}]" for part in path.split("."))


def picker(schema: Schema) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """Return a function from an event of a decoder to the schema's values by path, without confidential properties.

    >>> from thinwire.schema import Property
    >>> pick = picker(Schema("plant", [Property("oil.level", "integer")]))
    >>> pick({"oil": {"level": 3, "colour": "red"}, "speed": 7})
    {'oil.level': 3}
    """
    if not schema.nested:
        return lambda event: event
    items = ", ".join(f"{p.name!r}: {path_expression(p.name)}" for p in schema if not p.confidential)
    code: Callable[[Mapping[str, Any]], Mapping[str, Any]] = define("pick", f"def pick(event): return {{{items}}}", {})
    return code
