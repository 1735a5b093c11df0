"""Types of document fields: a Python type with a check that returns the stored form of a value or raises.

Values come from other processes, so every field has a limit. An error names the field, the limit and the value.

>>> whole(most=10)("limit", 11)
Traceback (most recent call last):
thinwire.errors.RegistryError: the registry refuses: limit must be a whole number from 0 to 10: field='limit', given=11
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NoReturn, TypeVar

from thinwire.errors import ConfigError, ExpressionError, RegistryError
from thinwire.filters.where.where_grammar import parse_where
from thinwire.topics.names import check_name_token, check_topic

Check = Callable[[str, Any], Any]
"""field name and value -> the value to store"""
Converted = TypeVar("Converted")

MAX_NAMES = 1_024
"""entries of a list or object"""
MAX_TEXT = 256
"""characters of a text"""
MAX_COUNT = (1 << 63) - 1
MAX_SHOWN = 512
"""characters of a value in an error; of a longer one the error contains the type"""


class StoredName(str):
    """Name of a field in the stored object, if it differs from the attribute; last in an `Annotated` type."""


def refuse(field: str, expected: str, given: object) -> NoReturn:
    """Raise the error of a field that does not have its type or exceeds its limit."""
    shown = given if len(repr(given)) <= MAX_SHOWN else type(given).__name__
    raise RegistryError(f"{field} must be {expected}", field=field, given=shown)


def require(is_valid: Callable[[Any], bool], expected: str) -> Check:
    """Check for a value that satisfies a condition; `expected` describes it in the error."""

    def check(field: str, value: Any) -> Any:
        if not is_valid(value):
            refuse(field, expected, value)
        return value

    return check


check_flag = require(lambda value: isinstance(value, bool), "true or false")


def text(most: int = MAX_TEXT) -> Check:
    """Check for a text of at most `most` characters."""
    return require(lambda value: isinstance(value, str) and len(value) <= most, f"a text of at most {most} characters")


def pattern(expression: str, expected: str) -> Check:
    """Check for a text that matches a regular expression; `expected` describes it in the error."""
    matches = re.compile(expression).fullmatch
    return require(lambda value: isinstance(value, str) and matches(value) is not None, expected)


def choice(*choices: str) -> Check:
    """Check for one of some texts."""
    return require(lambda value: isinstance(value, str) and value in choices, f"one of {', '.join(choices)}")


def whole(least: int = 0, most: int = MAX_COUNT) -> Check:
    """Check for a whole number from `least` to `most`."""
    expected = f"a whole number from {least} to {most}"
    return require(
        lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most, expected
    )


def number(least: float = 0.0, most: float = math.inf, *, above: float | None = None, finite: bool = True) -> Check:
    """Check for a number from `least` to `most`, greater than `above` if given; infinity only if not `finite`."""
    low = f"above {above:g}" if above is not None else f"of at least {least:g}" if least > -math.inf else ""
    limits = " and ".join(part for part in (low, f"at most {most:g}" if most < math.inf else "") if part)

    def is_valid(value: Any) -> bool:
        in_limits = _is_number(value) and least <= value <= most and (above is None or value > above)
        return in_limits and not (finite and value == math.inf)

    return require(is_valid, f"a number {limits}".rstrip())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def or_empty(check: Check) -> Check:
    """Check that also accepts an empty text."""
    return lambda field, value: value if value == "" else check(field, value)


def convert(check: Check, function: Callable[[Any], Converted]) -> Callable[[str, Any], Converted]:
    """Check that applies `function` to a valid value; its `ConfigError` becomes the error of the field."""

    def convert_value(field: str, value: Any) -> Converted:
        checked = check(field, value)
        try:
            return function(checked)
        except (ConfigError, ExpressionError) as problem:
            raise RegistryError(f"{field}: {problem.detail or problem}", field=field, given=value) from None

    return convert_value


def check_names(field: str, value: Any) -> tuple[str, ...]:
    listed = isinstance(value, list | tuple) and len(value) <= MAX_NAMES
    if not listed or not all(isinstance(name, str) and 0 < len(name) <= MAX_TEXT for name in value):
        refuse(field, f"a list of at most {MAX_NAMES} names", value)
    return tuple(value)


def check_mapping(field: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or len(value) > MAX_NAMES or not all(isinstance(name, str) for name in value):
        refuse(field, f"an object of at most {MAX_NAMES} names", value)
    return dict(value)


def mapping_of(check: Check, check_key: Check | None = None) -> Check:
    """Check for an object whose values, and keys if given, pass a check. An error names the entry."""

    def check_entries(field: str, value: Any) -> dict[str, Any]:
        entries = check_mapping(field, value)
        if check_key is not None:
            for name in entries:
                check_key(field, name)
        return {name: check(f"{field}.{name}", entry) for name, entry in entries.items()}

    return check_entries


_check_tolerance = require(
    lambda value: (_is_number(value) or isinstance(value, str)) and len(str(value)) <= MAX_TEXT,
    "a number or a percentage",
)
check_topic_name = convert(text(), check_topic)
check_token = convert(text(), lambda value: check_name_token(value, "name"))

check_fingerprint = pattern("[0-9a-f]{16}", "16 hexadecimal digits")

Text = Annotated[str, text()]
Topic = Annotated[str, check_topic_name]
Token = Annotated[str, check_token]
"""one token of a subject"""
TokenOrEmpty = Annotated[str, or_empty(check_token)]
Fingerprint = Annotated[str, check_fingerprint]
Count = Annotated[int, whole()]
Number = Annotated[float, number()]
"""a finite number, zero or more"""
Positive = Annotated[float, number(above=0.0)]
Names = Annotated[tuple[str, ...], check_names]
Entries = Annotated[Mapping[str, Any], check_mapping]
Tolerances = Annotated[Mapping[str, float | int | str], mapping_of(_check_tolerance)]
"""a tolerance per property; the schema decides whether it can be honoured"""
Predicate = Annotated[str, convert(text(MAX_COUNT), lambda value: parse_where(value).canonical)]
"""a `where` predicate in its canonical form"""
