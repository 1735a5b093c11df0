"""Functions made from source text: the same text is compiled once, however many links have it.

Per-event code made for one set of rules.

`reduce(event)` first converts and checks every value, so that a refused event changes nothing, then decides property
by property. Numbers and flags are unrolled, with the rule's constants written into the code; the other lanes call
their function.

Picking a schema's values out of an event that a decoder handed out, which may carry more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from types import CodeType
from typing import Any

from thinwire.codec.predictors.predictor import FINE, LAST
from thinwire.codec.rules import Rule, RuleSet
from thinwire.codec.source_table import FIELDS, HEAD, MODE
from thinwire.codec.ticks import ABSENT
from thinwire.codec.value_conversion import step_of
from thinwire.schema import Kind, Schema
from thinwire.schema.property import Property
from thinwire.wire.partial_event import EncodingKind

KEPT = 256
"""texts kept compiled; a link of fifty properties has four of them, of some ten kilobytes each"""


def define(name: str, source: str, names: dict[str, Any]) -> Any:
    """The function of this name that the source defines; `names` are the things it speaks of.

    >>> define("twice", "def twice(x): return by * x", {"by": 2})(21)
    42
    """
    exec(_compiled(source, f"<{name}>"), names)
    return names[name]


@lru_cache(KEPT)
def _compiled(source: str, place: str) -> CodeType:
    return compile(source, place, "exec")


def reducer_source(rules: RuleSet, width: int, late_check: bool, weigh: bool, validated: bool) -> str:
    """The source of `reduce(event)`; the names it uses are given by the reducer.

    validated: it is `reduce(event, ordinal, flags)` then, for events that a decoder handed out: they are known to be
        good, have numbers and flags of their own, and may carry more than the schema has
    """
    told = ", ordinal, flags" if validated else ""
    lines = [f"def reduce(event{told}):", "    try:", "        get = event.get"]
    for index, rule in enumerate(rules.rules):
        lines += (f"        {line}" for line in _convert(index, rule))
    ticks = "".join(f"t{index}, " for index in range(len(rules.rules)))
    key = "".join(f"event[{p.name!r}], " for p in rules.schema.dimensions)
    # a confidential property is never looked at, so another name could stand in its place
    strangers = " or not event.keys() <= NAMES" if any(p.confidential for p in rules.schema) else ""
    lines += [
        f"        key = ({key})",
        "        row = row_of(key)",
        "    except (ValueError, OverflowError, KeyError, TypeError, AttributeError) as problem:",
        "        refuse(event, problem)",
        f"    ticks = ({ticks})",
    ]
    if not validated:
        lines += [
            f"    if len(event) != PROPERTIES or ABSENT in ticks or None in ticks{strangers}:",
            "        check_names(event)",
            *(["    check_weight(ticks)"] if weigh else []),
        ]
    lines += ["    if row is None:", f"        return introduce(key, ticks, event{told})"]
    if late_check:
        lines.append("    check_time(row, ticks)")
    if rules.changes:
        flags = ", flags" if validated else ""
        lines += [f"    if passes_over(row, ticks, event{flags}):", "        return None"]
    if rules.min_interval:
        lines += ["    if held_back(row, ticks):", "        return None"]
    lines += [
        f"    base = row * {width} + {HEAD}",
        "    table = columns.table",
        "    mask = exceptions = 0",
        "    codes = []",
    ]
    for index, rule in enumerate(rules.rules):
        lines += (f"    {line}" for line in _decide(index, rule, _outside(index, rule, validated)))
    lines += ["    return finish(row, mask, exceptions, codes, ticks)", ""]
    return "\n".join(lines)


def event_literal(tree: Mapping[str, Any], shown: Mapping[str, str]) -> str:
    """The event as a dict display, objects inside objects as in the schema's tree; `shown` has an expression by path.

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
    """Ticks back to the value, as an expression; for kinds whose value is a multiple of the step."""
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
    """Does the value lie outside the declared range? As an expression; of ticks their limits say it in most cases."""
    if rule.upstream and rule.ranged and validated:
        return f"{rule.property.name!r} in flags"
    if rule.upstream or not rule.ranged or rule.lane is EncodingKind.TICK:
        return "False"
    return f"outside(rule{index}.property, v{index})"


def _decide(index: int, rule: Rule, outside: str) -> Iterator[str]:
    if rule.lane is EncodingKind.FLAG:
        yield from _decide_flag(index, rule)
    elif rule.lane is EncodingKind.TICK and not rule.auto and rule.mode & ~FINE == LAST and not rule.property.period:
        yield from _decide_held(index, rule, outside)
    elif rule.lane is EncodingKind.TICK:
        yield from _decide_predicted(index, rule, outside)
    elif rule.lane in (EncodingKind.TEXT, EncodingKind.OPAQUE):
        yield f"if t{index} != objects{index}[row]:"
        yield from _answer(index, f"object_code(columns, rule{index}, row, t{index}, {index})", "    ")
    elif rule.lane is EncodingKind.ARRAY:
        yield from _answer(index, f"array_code(columns, rule{index}, row, t{index}, v{index}, {index}, {outside})")
    elif rule.lane is EncodingKind.FLOAT:
        yield from _answer(index, f"float_code(columns, rule{index}, row, t{index}, v{index}, {outside})")
    else:
        yield from _answer(index, f"geo_code(columns, rule{index}, row, t{index}, v{index})")


def _answer(index: int, call: str, indent: str = "") -> Iterator[str]:
    yield f"{indent}answer = {call}"
    yield f"{indent}if answer is not None:"
    yield f"{indent}    mask |= {1 << index}"
    yield f"{indent}    exceptions |= {1 << index} * answer[0]"
    yield f"{indent}    codes.append(answer[1])"


def _decide_flag(index: int, rule: Rule) -> Iterator[str]:
    yield f"x = table[base + {rule.first_slot * FIELDS}]"
    yield f"if t{index} != x:"
    yield f"    if x == {ABSENT} or t{index} == {ABSENT}:"
    yield from _answer(index, f"flag_exception(columns, rule{index}, row, t{index}, v{index})", "        ")
    yield "    else:"
    yield f"        mask |= {1 << index}"
    yield "        codes.append(None)"
    yield f"        table[base + {rule.first_slot * FIELDS}] = t{index}"


def _decide_held(index: int, rule: Rule, outside: str) -> Iterator[str]:
    """The last value is expected: no call, no second column."""
    yield f"x = table[base + {rule.first_slot * FIELDS}]"
    yield f"r = t{index} - x"
    yield f"if {_must_travel(index, rule, outside)}:"
    yield from _exception(index, rule, outside)
    half = 0 if rule.mode & FINE else rule.half
    yield f"        m = ((r if r > 0 else -r) - {rule.tolerance + 1}) // {2 * half + 1}"
    yield f"        mask |= {1 << index}"
    yield "        codes.append(m + m if r > 0 else m + m + 1)"
    yield f"        m = {rule.tolerance + 1 + half} + m * {2 * half + 1}"
    yield f"        table[base + {rule.first_slot * FIELDS}] = x + m if r > 0 else x - m"


def _decide_predicted(index: int, rule: Rule, outside: str) -> Iterator[str]:
    """The slot's mode says what is expected."""
    slot = rule.first_slot
    yield f"mode = table[base + {slot * FIELDS + MODE}]"
    yield f"x = table[base + {slot * FIELDS}] if not mode & 15 else expected(row, {slot})"
    yield f"r = t{index} - x"
    yield f"if {_must_travel(index, rule, outside)}:"
    yield from _exception(index, rule, outside)
    yield f"        half = 0 if mode & {FINE} else {rule.half}"
    yield f"        code = encode_residual(r, {rule.tolerance}, half)"
    yield f"        mask |= {1 << index}"
    yield "        codes.append(code)"
    yield f"        settle(row, {slot}, x + decode_residual(code, {rule.tolerance}, half))"
    if rule.property.period:
        yield f"elif x != {ABSENT}:"
    else:
        yield f"elif mode & 15 and x != {ABSENT}:"
    yield f"    settle(row, {slot}, x)"


def _must_travel(index: int, rule: Rule, outside: str) -> str:
    beyond = "r" if not rule.tolerance else f"r > {rule.tolerance} or r < -{rule.tolerance}"
    return f"{beyond} or {_apart(index, rule, outside)}" if rule.ranged else beyond


def _exception(index: int, rule: Rule, outside: str) -> Iterator[str]:
    yield f"    if x == {ABSENT} or {_apart(index, rule, outside)}:"
    yield from _answer(index, f"tick_exception(columns, rule{index}, row, t{index}, v{index})", "        ")
    yield "    else:"


def _apart(index: int, rule: Rule, outside: str) -> str:
    beyond = f"not {rule.lowest} <= t{index} <= {rule.highest}"
    return beyond if outside == "False" else f"{beyond} or {outside}"


def place(path: str) -> str:
    """Where a value stands in an event with its objects, as an expression.

    >>> place("oil.level")
    "event['oil']['level']"
    """
    return "event" + "".join(f"[{part!r}]" for part in path.split("."))


def picker(schema: Schema) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """The function from an event to the schema's values by path; confidential ones are not there to be had.

    >>> from thinwire.schema import Property
    >>> pick = picker(Schema("plant", [Property("oil.level", "integer")]))
    >>> pick({"oil": {"level": 3, "colour": "red"}, "speed": 7})
    {'oil.level': 3}
    """
    if not schema.nested:
        return lambda event: event
    items = ", ".join(f"{p.name!r}: {place(p.name)}" for p in schema if not p.confidential)
    code: Callable[[Mapping[str, Any]], Mapping[str, Any]] = define("pick", f"def pick(event): return {{{items}}}", {})
    return code
