"""Detection of property kinds from sample events.

Events become one column of values per path. The kind of a column follows from its values; names such as `station_id`
and `observed_at` show which columns identify an asset or contain an instant.

>>> split_name("stationId"), is_asset_name("stationId"), is_asset_name("event_id"), is_asset_name("humid")
(['station', 'id'], True, False, False)
>>> rank_time_name("observed_at"), rank_time_name("temperature")
(1, 0)
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from typing import Any

from thinwire.errors import ConfigError, SchemaError, WrongType
from thinwire.schema.kind import Kind
from thinwire.schema.property import MAX_ARRAY
from thinwire.schema.timestamps import form_of

MAX_DEPTH = 8
MAX_KEYS = 256
"""an object with more keys is one opaque property"""
MAX_DECIMALS = 9
MAX_ENUM = 64
MIN_REPEATS = 5
"""mean number of occurrences of an enum member, at least"""
MAX_MEMBER = 64
EXACT = 2**53
"""doubles represent whole numbers up to here exactly"""

_VALUE_TYPES = (bool, int, float, str, bytes, datetime, list, tuple)
_RANGED = frozenset({Kind.INTEGER, Kind.NUMBER, Kind.FLOAT, Kind.ARRAY})
_YEAR_2000, _YEAR_2100 = 946_684_800, 4_102_444_800
_EPOCH_UNITS = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_TIME_WORDS = frozenset({"time", "timestamp", "ts", "datetime", "date", "epoch", "instant", "t"})
_POSITION_WORDS = frozenset({"position", "location"})
_ASSET_WORDS = frozenset(
    {"asset", "device", "host", "hostname", "machine", "meter", "mote", "node", "plant", "room", "sensor"}
    | {"station", "symbol", "ticker", "turbine", "vehicle"}
)
_OCCURRENCE_WORDS = frozenset(
    {"batch", "category", "correlation", "error", "event", "message", "msg", "order", "request", "seq", "sequence"}
    | {"session", "span", "status", "trace", "transaction", "trip", "type"}
)
"""an id of one of these identifies an occurrence, not an asset"""


@dataclass(frozen=True)
class Column:
    """Values of one path in the order of the events, without nulls, NaN and infinity.

    missing: number of events without a value
    """

    path: str
    values: list[Any]
    missing: int

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]

    @property
    def types(self) -> set[type]:
        return {type(value) for value in self.values}


@dataclass(frozen=True)
class DetectedKind:
    """A kind, its fields, and the reason for it."""

    kind: Kind
    reason: str
    fields: Mapping[str, Any] = field(default_factory=dict)


def read_columns(events: Iterable[Mapping[str, Any]], limit: int) -> tuple[int, list[Column]]:
    """Read at most `limit` events; return their number and their columns."""
    if limit < 1:
        raise ConfigError("limit must be at least 1", limit=limit)
    sample = list(islice(events, limit))
    if not sample:
        raise SchemaError("no sample events: give at least one")
    for index, event in enumerate(sample):
        if not isinstance(event, Mapping):
            raise WrongType("a sample event is a mapping from names to values", index=index, given=type(event).__name__)
        wrong = next((key for key in event if not _is_path_part(key)), None)
        if wrong is not None:
            detail = "a name is a text without dots: dots separate the parts of a path"
            raise SchemaError(detail, index=index, name=wrong)
    return len(sample), list(_split("", sample, len(sample), 0))


def _is_path_part(key: object) -> bool:
    return isinstance(key, str) and bool(key) and "." not in key


def _split(path: str, objects: list[Mapping[str, Any]], count: int, depth: int) -> Iterator[Column]:
    """Yield the columns of objects; keys in the order of their first occurrence."""
    for key in dict.fromkeys(key for item in objects for key in item):
        values = [item[key] for item in objects if item.get(key) is not None]
        if _is_nested(values, depth):
            yield from _split(f"{path}{key}.", values, count, depth + 1)
        else:
            yield _column(path + key, values, count)


def _is_nested(values: list[Any], depth: int) -> bool:
    """Return whether values are objects with few keys, all of them valid parts of a path."""
    if depth + 1 >= MAX_DEPTH or not values or not all(isinstance(value, Mapping) for value in values):
        return False
    keys = {key for value in values for key in value}
    return 0 < len(keys) <= MAX_KEYS and all(map(_is_path_part, keys))


def _column(path: str, values: list[Any], count: int) -> Column:
    wrong = next((value for value in values if not isinstance(value, (*_VALUE_TYPES, Mapping))), None)
    if wrong is not None:
        given = type(wrong).__name__
        raise SchemaError("a sample value is no JSON value: convert it first", property=path, given=given)
    finite = [value for value in values if not isinstance(value, float) or math.isfinite(value)]
    return Column(path, finite, count - len(finite))


def split_name(name: str) -> list[str]:
    """Return the words of a name in snake_case, camelCase or with dashes."""
    return [word.lower() for word in _WORD.findall(name)]


def rank_time_name(name: str) -> int:
    """Return 2 if the name is a word for an instant, 1 if it ends in one, otherwise 0."""
    words = split_name(name) or [""]
    if "".join(words) in _TIME_WORDS:
        return 2
    return int(len(words) > 1 and (words[-1] in _TIME_WORDS or words[-1] == "at"))


def is_asset_name(name: str) -> bool:
    """Return whether a name identifies an asset rather than an occurrence."""
    *before, last = split_name(name) or [""]
    if last == "id":
        return not before or before[-1] not in _OCCURRENCE_WORDS
    return last in _ASSET_WORDS or last.removesuffix("id") in _ASSET_WORDS


def detect_kind(column: Column, *, is_time: bool = False) -> DetectedKind:
    """Return the kind of a column; raise `SchemaError` if `is_time` and its values are not timestamps."""
    types = column.types
    if not types:
        return DetectedKind(Kind.OPAQUE, "no value in the sample")
    detected = _detect_timestamp(column, types, is_time)
    if detected is None and is_time:
        given = sorted(kind.__name__ for kind in types)
        raise SchemaError("not a timestamp in a known form", property=column.path, given=given)
    return detected or _detect_plain(column, types)


def _detect_plain(column: Column, types: set[type]) -> DetectedKind:
    if types == {bool}:
        return DetectedKind(Kind.BOOLEAN, "true and false")
    if types <= {int, float}:
        return _detect_number(column.values)
    if types == {str}:
        return _detect_text(column.values)
    if types <= {list, tuple}:
        return _detect_list(column)
    seen = ", ".join(sorted(kind.__name__ for kind in types))
    return DetectedKind(Kind.OPAQUE, f"values without one fixed shape ({seen})")


def _detect_timestamp(column: Column, types: set[type], is_time: bool) -> DetectedKind | None:
    if types == {str}:
        form = form_of(column.values[0])
        if form is None or any(form_of(text) != form for text in column.values):
            return None
        return DetectedKind(Kind.TIMESTAMP, f"text in the form {form}", {"form": form})
    if types == {datetime}:
        if any(value.tzinfo is None for value in column.values):
            raise SchemaError("a datetime without time zone is ambiguous: add one", property=column.path)
        return DetectedKind(Kind.TIMESTAMP, "datetimes", {"form": "datetime"})
    if types <= {int, float} and (is_time or rank_time_name(column.name)):
        unit, step = _epoch_unit(column.values), decimal_step(column.values)
        if step is not None and (unit is not None or is_time):
            return DetectedKind(Kind.TIMESTAMP, f"{unit or 'a count'} since 1970", {"form": "epoch", "step": step})
    return None


def _epoch_unit(values: list[Any]) -> str | None:
    """Return the unit in which all values are between the years 2000 and 2100."""
    low, high = min(values), max(values)
    fits = (name for name, unit in _EPOCH_UNITS.items() if low / unit >= _YEAR_2000 and high / unit < _YEAR_2100)
    return next(fits, None)


def _detect_number(values: list[Any]) -> DetectedKind:
    integers = [value for value in values if type(value) is int]
    largest = max(map(abs, integers), default=0)
    if largest >= 2**63:
        return DetectedKind(Kind.OPAQUE, "whole numbers beyond 64 bits")
    if len(integers) == len(values):
        return DetectedKind(Kind.INTEGER, "whole numbers")
    step = decimal_step(values)
    if step is not None:
        digits = max(map(places, values))
        return DetectedKind(Kind.NUMBER, f"at most {digits} decimal{'' if digits == 1 else 's'}", {"step": step})
    if largest > EXACT:
        return DetectedKind(Kind.OPAQUE, "decimals, and whole numbers that no double can hold")
    worst = max(values, key=lambda value: (min(places(value), MAX_DECIMALS + 1), abs(value)))
    return DetectedKind(Kind.FLOAT, f"no decimal step of at most {MAX_DECIMALS} places fits {worst!r}")


def _detect_text(values: list[str]) -> DetectedKind:
    members = list(dict.fromkeys(values))
    few = len(members) <= MAX_ENUM and len(members) * MIN_REPEATS <= len(values)
    if few and max(map(len, members)) <= MAX_MEMBER:
        return DetectedKind(Kind.ENUM, f"{len(members)} texts in {len(values)} values", {"members": members})
    return DetectedKind(Kind.STRING, "text")


def _detect_list(column: Column) -> DetectedKind:
    lengths = {len(value) for value in column.values}
    items = [item for value in column.values for item in value]
    numbers = all(type(item) in (int, float) and math.isfinite(item) for item in items)
    if len(lengths) != 1 or not numbers or not 0 < max(lengths) <= MAX_ARRAY:
        return DetectedKind(Kind.OPAQUE, "lists without one fixed length of numbers")
    step = decimal_step(items)
    if _POSITION_WORDS.intersection(split_name(column.name)[-1:]) and all(map(_is_position, column.values)):
        return DetectedKind(Kind.GEO, "pairs in the range of latitude and longitude", {"step": step})
    if step is None:
        return DetectedKind(Kind.OPAQUE, f"lists of numbers without a decimal step of at most {MAX_DECIMALS} places")
    return DetectedKind(Kind.ARRAY, f"lists of {max(lengths)} numbers", {"step": step, "length": max(lengths)})


def _is_position(pair: Any) -> bool:
    return len(pair) == 2 and type(pair[0]) is type(pair[1]) is float and abs(pair[0]) <= 90 and abs(pair[1]) <= 180


def places(value: float) -> int:
    """Return the number of decimals of a value in its shortest form: 79.3366 has four."""
    return max(0, -int(Decimal(repr(value)).normalize().as_tuple().exponent))


def decimal_step(values: Iterable[Any]) -> Fraction | None:
    """Return the decimal grid that contains all values exactly; None above nine places or 2^53 steps."""
    listed = list(values)
    digits = max(map(places, listed), default=0)
    if digits > MAX_DECIMALS or max(map(abs, listed)) * 10**digits >= EXACT:
        return None
    return Fraction(1, 10**digits)


def widen_range(column: Column, kind: Kind) -> dict[str, Any]:
    """Return the range widened to multiples of the power of ten below its width: 3.2 to 48.7 gives 0 to 50."""
    if kind not in _RANGED:
        return {}
    values = column.values if kind is not Kind.ARRAY else [item for value in column.values for item in value]
    try:
        low, high = _round_outwards(Fraction(min(values)), Fraction(max(values)))
        found = {"minimum": _plain(low), "maximum": _plain(high)}
    except OverflowError:  # a round number above the largest double
        return {}
    return found if found["minimum"] < found["maximum"] else {}  # no double is between them


def _round_outwards(low: Fraction, high: Fraction) -> tuple[Fraction, Fraction]:
    width = high - low or abs(high) or Fraction(1)
    unit = Fraction(10) ** math.floor(math.log10(width))
    below, above = math.floor(low / unit) * unit, math.ceil(high / unit) * unit
    return below, above if above > below else below + unit


def _plain(value: Fraction) -> float:
    return int(value) if value.denominator == 1 and abs(value) < EXACT else float(value)
