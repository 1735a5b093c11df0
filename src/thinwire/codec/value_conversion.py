"""Conversion of property values to ticks and back.

A converter returns ticks, ABSENT for None, or OFF_GRID for a valid value that is not a multiple of its step. Other
values are rejected with an error that names the property.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from thinwire.codec import geo_distance as geo
from thinwire.codec.ticks import ABSENT, OFF_GRID, TICK_LIMIT
from thinwire.errors import CorruptFrame, NotFinite, TooLarge, WrongType
from thinwire.schema import Kind, Property, timestamps
from thinwire.schema.property import MAX_ARRAY
from thinwire.wire.exact_value import MAX_EXACT

MAX_TEXT = 65_536
MAX_DEPTH = 64
"""maximum nesting of lists and objects in an opaque value"""

_INT64 = (1 << 63) - 1

Converter = Callable[[Any], Any]


def converter(p: Property) -> Converter:
    """Return the function from a value of the property to ticks."""
    return _MAKERS[p.kind](p)


def restorer(p: Property) -> Callable[[int], Any]:
    """Return the function from ticks to a value of the property."""
    if p.kind is Kind.TIMESTAMP and p.form not in (None, "epoch"):
        return timestamps.writer(p.form or "")
    if p.kind is Kind.BOOLEAN:
        return bool
    if p.kind is Kind.FLOAT:
        return float_of
    step = step_of(p)
    if step.denominator == 1:
        return lambda ticks: ticks * step.numerator
    return lambda ticks: ticks * step.numerator / step.denominator


def step_of(p: Property) -> Fraction:
    """Return the step as a fraction; 1 if there is none."""
    return p.step or Fraction(1)


def nearest(p: Property, value: Any) -> int | None:
    """Return the tick nearest to a value off the grid, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    ticks = round(Fraction(value) / step_of(p))
    return max(-TICK_LIMIT, min(TICK_LIMIT, ticks))


def bits_of(value: float) -> int:
    """Return the bit pattern of a double; -0.0 becomes 0.0."""
    pattern: int = struct.unpack(">q", struct.pack(">d", value + 0.0))[0]
    return pattern


def float_of(bits: int) -> float:
    value: float = struct.unpack(">d", struct.pack(">q", bits))[0]
    return value


def opaque_bytes(p: Property, value: Any) -> bytes:
    """Return an opaque value as bytes: a mark, then the bytes or canonical JSON."""
    if isinstance(value, bytes):
        blob = b"\x00" + value
    else:
        _check_json(p, value, MAX_DEPTH)
        try:
            text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
            blob = b"\x01" + text.encode()
        except (TypeError, ValueError) as problem:
            raise WrongType(f"neither bytes nor JSON: {problem}", property=p.name) from None
    if len(blob) > MAX_EXACT - 16:
        raise TooLarge(property=p.name, size=len(blob), limit=MAX_EXACT - 16)
    return blob


def _check_json(p: Property, value: Any, depth: int) -> None:
    """Reject values that would change in JSON (keys that are not texts), and values nested too deeply."""
    if not depth:
        raise TooLarge("objects nested too deeply", property=p.name, limit=MAX_DEPTH)
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise WrongType("neither bytes nor JSON: a key is a text", property=p.name)
        value = value.values()
    elif not isinstance(value, list | tuple):
        return
    for inner in value:
        _check_json(p, inner, depth - 1)


def opaque_value(blob: bytes) -> Any:
    if blob[:1] == b"\x00":
        return blob[1:]
    try:
        return json.loads(blob[1:])
    except (ValueError, RecursionError) as problem:
        raise CorruptFrame(f"opaque value is not JSON: {problem}") from None


def array_of(p: Property, value: Any) -> tuple[tuple[int, ...], bool]:
    """Return the elements as ticks, and whether they are exact."""
    if not isinstance(value, list | tuple):
        raise WrongType("an array is a list of numbers", property=p.name, value=value)
    if p.length is not None and len(value) != p.length:
        raise WrongType("array of another length", property=p.name, length=len(value), declared=p.length)
    if len(value) > MAX_ARRAY:
        raise TooLarge(property=p.name, length=len(value), limit=MAX_ARRAY)
    convert = _number(p)
    ticks = [convert(item) for item in value]
    if ABSENT in ticks:
        raise WrongType("an element is missing", property=p.name)
    if any(abs(t) > TICK_LIMIT for t in ticks if t != OFF_GRID):
        raise TooLarge("an element counts too many steps", property=p.name, limit="2^61 steps")
    exact = OFF_GRID not in ticks
    if not exact:
        ticks = [nearest(p, item) for item in value]
    return tuple(ticks), exact


def _number(p: Property) -> Converter:
    step = step_of(p)
    up, down = step.denominator, step.numerator

    def convert(value: Any) -> int:
        if value is None:
            return ABSENT
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise WrongType(f"a {p.kind.value} is expected", property=p.name, value=value)
        if isinstance(value, float) and not math.isfinite(value):
            raise NotFinite(property=p.name, value=value)
        if abs(value) > _INT64:
            raise TooLarge(property=p.name, value=value, limit="2^63")
        if isinstance(value, float):
            ticks = round(value * up / down)
        else:
            ticks = value * up if down == 1 else round(Fraction(value * up, down))
        same = ticks * down == value if up == 1 else ticks * down / up == value
        if not same and p.kind is Kind.INTEGER and value != int(value):
            raise WrongType("an integer is expected", property=p.name, value=value)
        if same and abs(ticks) <= _INT64:
            return ticks
        if float(value) != value:
            raise TooLarge("off the grid, and a double cannot hold it", property=p.name, value=value, limit="2^53")
        return OFF_GRID

    return convert


def _boolean(p: Property) -> Converter:
    def convert(value: Any) -> int:
        if value is None:
            return ABSENT
        if value is True or value is False:
            return int(value)
        raise WrongType("true or false is expected", property=p.name, value=value)

    return convert


def _float(p: Property) -> Converter:
    def convert(value: Any) -> int:
        if value is None:
            return ABSENT
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise WrongType("a number is expected", property=p.name, value=value)
        if isinstance(value, float) and not math.isfinite(value):
            raise NotFinite(property=p.name, value=value)
        if isinstance(value, int) and abs(value) > 1 << 53:
            raise TooLarge("a double cannot hold it", property=p.name, value=value, limit="2^53")
        return bits_of(float(value))

    return convert


def _text(p: Property) -> Converter:
    members = frozenset(p.members)

    def convert(value: Any) -> str | None:
        if value is None:
            return None
        if not isinstance(value, str):
            raise WrongType("a text is expected", property=p.name, value=value)
        if p.closed and value not in members:
            raise WrongType("no member of a closed enum", property=p.name, value=value, members=sorted(members))
        try:
            size = len(value) if value.isascii() else len(value.encode())
        except UnicodeEncodeError:
            raise WrongType("text that UTF-8 cannot hold", property=p.name, value=value) from None
        if size > MAX_TEXT:
            raise TooLarge(property=p.name, size=size, limit=MAX_TEXT)
        return value

    return convert


def _timestamp(p: Property) -> Converter:
    if p.form in (None, "epoch"):
        return _number(p)
    read = timestamps.reader(p.form or "")

    def convert(value: Any) -> int:
        if value is None:
            return ABSENT
        ticks = read(value)
        if ticks is not None:
            return ticks
        if isinstance(value, str) and p.form != "datetime" and len(value) < MAX_TEXT:
            return OFF_GRID
        raise WrongType(f"a timestamp of form {p.form} is expected", property=p.name, value=value)

    return convert


def _geo(p: Property) -> Converter:
    return lambda value: None if value is None else geo.to_ticks(value, p.name)


def _array(p: Property) -> Converter:
    return lambda value: None if value is None else array_of(p, value)


def _opaque(p: Property) -> Converter:
    return lambda value: None if value is None else opaque_bytes(p, value)


_MAKERS: dict[Kind, Callable[[Property], Converter]] = {
    Kind.BOOLEAN: _boolean,
    Kind.INTEGER: _number,
    Kind.NUMBER: _number,
    Kind.TIMESTAMP: _timestamp,
    Kind.FLOAT: _float,
    Kind.ENUM: _text,
    Kind.STRING: _text,
    Kind.GEO: _geo,
    Kind.ARRAY: _array,
    Kind.OPAQUE: _opaque,
}
