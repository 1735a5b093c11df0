"""Sample events turned on their side: one column of values per path.

What the name of a property tells about it, in the words that publishers use.

>>> split_name("stationId"), names_asset("stationId"), names_asset("event_id"), names_asset("humid")
(['station', 'id'], True, False, False)
>>> names_instant("observed_at"), names_instant("temperature")
(1, 0)

What kind of values a column holds, and why.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from itertools import islice
from typing import Any

from thinwire.errors import ConfigError, SchemaError, WrongType
from thinwire.schema.property import MAX_ARRAY, Kind
from thinwire.schema.timestamps import form_of

MAX_DEPTH = 8
MAX_KEYS = 256
"""an object with more keys than this is a table of its own, not a part of the event"""

_LEAVES = (bool, int, float, str, bytes, datetime, list, tuple)


@dataclass(frozen=True)
class Column:
    """The values seen at one path, nulls and readings that are no number left out.

    values: in the order of the events; missing: how many events have none
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


def columns_of(events: Iterable[Mapping[str, Any]], limit: int) -> tuple[int, list[Column]]:
    """How many events were read, at most `limit`, and the columns they make."""
    if limit < 1:
        raise ConfigError("limit must be at least 1", limit=limit)
    sample = list(islice(events, limit))
    if not sample:
        raise SchemaError("no sample events: give at least one")
    for index, event in enumerate(sample):
        if not isinstance(event, Mapping):
            raise WrongType("a sample event is a mapping from names to values", index=index, given=type(event).__name__)
        _check_keys(event, index)
    return len(sample), list(_split("", sample, len(sample), 0))


def _check_keys(event: Mapping[Any, Any], index: int) -> None:
    wrong = next((key for key in event if not _is_part(key)), None)
    if wrong is not None:
        raise SchemaError("a name is a text without dots: dots separate the parts of a path", index=index, name=wrong)


def _is_part(key: object) -> bool:
    return isinstance(key, str) and bool(key) and "." not in key


def _split(path: str, objects: list[Mapping[str, Any]], count: int, depth: int) -> Iterator[Column]:
    """The columns of some objects; keys in the order in which they first appear."""
    for key in dict.fromkeys(key for place in objects for key in place):
        values = [place[key] for place in objects if place.get(key) is not None]
        if _is_object(values, depth):
            yield from _split(f"{path}{key}.", values, count, depth + 1)
        else:
            yield _column(path + key, values, count)


def _is_object(values: list[Any], depth: int) -> bool:
    """Do these objects have a shape: few keys, all of them parts of a path?"""
    if depth + 1 >= MAX_DEPTH or not values or not all(isinstance(value, Mapping) for value in values):
        return False
    keys = {key for value in values for key in value}
    return 0 < len(keys) <= MAX_KEYS and all(map(_is_part, keys))


def _column(path: str, values: list[Any], count: int) -> Column:
    odd = next((value for value in values if not isinstance(value, (*_LEAVES, Mapping))), None)
    if odd is not None:
        raise SchemaError("a sample value is no JSON value: convert it first", property=path, given=type(odd).__name__)
    finite = [value for value in values if not isinstance(value, float) or math.isfinite(value)]
    return Column(path, finite, count - len(finite))


_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_INSTANTS = frozenset({"time", "timestamp", "ts", "datetime", "date", "epoch", "instant", "t"})
_POSITIONS = frozenset({"position", "location"})
_ASSETS = frozenset(
    {"asset", "device", "host", "hostname", "machine", "meter", "mote", "node", "plant", "room", "sensor"}
    | {"station", "symbol", "ticker", "turbine", "vehicle"}
)
_HAPPENINGS = frozenset(
    {"batch", "category", "correlation", "error", "event", "message", "msg", "order", "request", "seq", "sequence"}
    | {"session", "span", "status", "trace", "transaction", "trip", "type"}
)


def split_name(name: str) -> list[str]:
    """The words of a name in snake_case, camelCase or with dashes."""
    return [word.lower() for word in _WORD.findall(name)]


def names_instant(name: str) -> int:
    """2 where the whole name is a word for an instant, 1 where it ends in one, else 0."""
    found = split_name(name) or [""]
    if len(found) == 1:
        return 2 if found[0] in _INSTANTS else 0
    return 2 if "".join(found) in _INSTANTS else int(found[-1] in _INSTANTS or found[-1] == "at")


def names_asset(name: str) -> bool:
    """Does the name say which asset it is, and not which of the things that happen to one?"""
    *before, last = split_name(name) or [""]
    if last == "id":
        return not before or before[-1] not in _HAPPENINGS
    return last in _ASSETS or last.removesuffix("id") in _ASSETS


def names_position(name: str) -> bool:
    return (split_name(name) or [""])[-1] in _POSITIONS


MAX_DECIMALS = 9
MAX_ENUM = 64
MIN_REPEATS = 5
"""an enum member appears this often, on average"""
MAX_MEMBER = 64
EXACT = 2**53
"""counts of a step up to here keep their double exactly"""

_EPOCH_SECONDS = range(946_684_800, 4_102_444_800)
_EPOCH_UNITS = {1: "seconds", 10**3: "milliseconds", 10**6: "microseconds", 10**9: "nanoseconds"}
_RANGED = frozenset({Kind.INTEGER, Kind.NUMBER, Kind.FLOAT, Kind.ARRAY})


@dataclass(frozen=True)
class Verdict:
    """A kind, the fields that go with it, and the reason."""

    kind: Kind
    reason: str
    fields: Mapping[str, Any] = field(default_factory=dict)


def judge(column: Column, *, stamp: bool = False) -> Verdict:
    """The kind of a column; `stamp` where it is known to be the timestamp."""
    types = column.types
    if not types:
        return Verdict(Kind.OPAQUE, "no value in the sample")
    verdict = _judge_stamp(column, types, stamp)
    if verdict is None and stamp:
        given = sorted(kind.__name__ for kind in types)
        raise SchemaError("not a timestamp in one of our forms", property=column.path, given=given)
    return verdict or _judge_plain(column, types)


def _judge_plain(column: Column, types: set[type]) -> Verdict:
    if types == {bool}:
        return Verdict(Kind.BOOLEAN, "true and false")
    if types <= {int, float}:
        return _judge_numbers(column.values)
    if types == {str}:
        return _judge_texts(column.values)
    if types <= {list, tuple}:
        return _judge_lists(column)
    seen = ", ".join(sorted(kind.__name__ for kind in types))
    return Verdict(Kind.OPAQUE, f"values without one fixed shape ({seen})")


def _judge_stamp(column: Column, types: set[type], known: bool) -> Verdict | None:
    if types == {str}:
        form = _form(column.values)
        return None if form is None else Verdict(Kind.TIMESTAMP, f"text in the form {form}", {"form": form})
    if types == {datetime}:
        if any(value.tzinfo is None for value in column.values):
            raise SchemaError("a datetime without time zone names no instant: attach one", property=column.path)
        return Verdict(Kind.TIMESTAMP, "datetimes", {"form": "datetime"})
    if types <= {int, float} and (known or names_instant(column.name)):
        unit = _epoch_unit(column.values)
        step = decimal_step(column.values)
        if step is not None and (unit is not None or known):
            return Verdict(Kind.TIMESTAMP, f"{unit or 'a count'} since 1970", {"form": "epoch", "step": step})
    return None


def _form(texts: list[str]) -> str | None:
    """The one form of all texts."""
    form = form_of(texts[0])
    return form if form is not None and all(form_of(text) == form for text in texts) else None


def _epoch_unit(values: list[Any]) -> str | None:
    """The unit in which all values fall between the years 2000 and 2100."""
    low, high = min(values), max(values)
    fits = (u for u in _EPOCH_UNITS if _EPOCH_SECONDS.start <= low / u and high / u < _EPOCH_SECONDS.stop)
    return next((_EPOCH_UNITS[unit] for unit in fits), None)


def _judge_numbers(values: list[Any]) -> Verdict:
    whole = [value for value in values if type(value) is int]
    if max(map(abs, whole), default=0) >= 2**63:
        return Verdict(Kind.OPAQUE, "whole numbers beyond 64 bits")
    if len(whole) == len(values):
        return Verdict(Kind.INTEGER, "whole numbers")
    step = decimal_step(values)
    if step is None:
        if max(map(abs, whole), default=0) > EXACT:
            return Verdict(Kind.OPAQUE, "decimals, and whole numbers that no double can hold")
        worst = max(values, key=lambda value: (min(places(value), MAX_DECIMALS + 1), abs(value)))
        return Verdict(Kind.FLOAT, f"no decimal step of at most {MAX_DECIMALS} places fits {worst!r}")
    digits = decimals(values)
    return Verdict(Kind.NUMBER, f"at most {digits} decimal{'' if digits == 1 else 's'}", {"step": step})


def _judge_texts(values: list[str]) -> Verdict:
    members = list(dict.fromkeys(values))
    few = len(members) <= MAX_ENUM and len(members) * MIN_REPEATS <= len(values)
    if few and max(map(len, members)) <= MAX_MEMBER:
        return Verdict(Kind.ENUM, f"{len(members)} texts in {len(values)} values", {"members": members})
    return Verdict(Kind.STRING, "text")


def _judge_lists(column: Column) -> Verdict:
    lengths = {len(value) for value in column.values}
    numbers = all(type(item) in (int, float) and math.isfinite(item) for value in column.values for item in value)
    if len(lengths) != 1 or not numbers or not 0 < max(lengths) <= MAX_ARRAY:
        return Verdict(Kind.OPAQUE, "lists without one fixed length of numbers")
    step = decimal_step(item for value in column.values for item in value)
    if _are_positions(column):
        return Verdict(Kind.GEO, "pairs in the range of latitude and longitude", {"step": step})
    if step is None:
        return Verdict(Kind.OPAQUE, f"lists of numbers without a decimal step of at most {MAX_DECIMALS} places")
    return Verdict(Kind.ARRAY, f"lists of {max(lengths)} numbers", {"step": step, "length": max(lengths)})


def _are_positions(column: Column) -> bool:
    def is_position(pair: Any) -> bool:
        return len(pair) == 2 and type(pair[0]) is type(pair[1]) is float and abs(pair[0]) <= 90 and abs(pair[1]) <= 180

    return names_position(column.name) and all(map(is_position, column.values))


def decimals(values: Iterable[Any]) -> int:
    """The most decimals that a value shows in its shortest form: 79.3366 has four."""
    return max(map(places, values), default=0)


def places(value: float) -> int:
    if type(value) is int:
        return 0
    digits, _, exponent = repr(value).partition("e")
    fraction = digits.partition(".")[2]
    return max(0, len("" if fraction == "0" else fraction) - int(exponent or 0))


def decimal_step(values: Iterable[Any]) -> Fraction | None:
    """The decimal grid on which all values lie exactly, if it is no finer than nine places and counts stay exact."""
    listed = list(values)
    digits = decimals(listed)
    if digits > MAX_DECIMALS or max(map(abs, listed)) * 10**digits >= EXACT:
        return None
    return Fraction(1, 10**digits)


def widened(column: Column, kind: Kind) -> dict[str, Any]:
    """The range seen, widened outwards to multiples of the power of ten below its width: 3.2 to 48.7 gives 0 to 50."""
    if kind not in _RANGED:
        return {}
    values = column.values if kind is not Kind.ARRAY else [item for value in column.values for item in value]
    try:
        low, high = _outwards(Fraction(min(values)), Fraction(max(values)))
        found = {"minimum": _plain(low), "maximum": _plain(high)}
    except OverflowError:  # a round number beyond the largest double
        return {}
    return found if found["minimum"] < found["maximum"] else {}  # no doubles lie between them


def _outwards(low: Fraction, high: Fraction) -> tuple[Fraction, Fraction]:
    width = high - low or abs(high) or Fraction(1)
    unit = Fraction(10) ** math.floor(math.log10(width))
    below, above = math.floor(low / unit) * unit, math.ceil(high / unit) * unit
    return below, above if above > below else below + unit


def _plain(value: Fraction) -> float:
    return int(value) if value.denominator == 1 and abs(value) < EXACT else float(value)
