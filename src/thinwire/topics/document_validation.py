"""What a field of a document must be. Documents come from elsewhere: each field is looked at, and named if bad."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, NoReturn, TypeVar

from thinwire.errors import ConfigError, ExpressionError, RegistryError
from thinwire.filters.where import parse
from thinwire.topics.names import check_name_token, check_topic

T = TypeVar("T")

MAX_DOCUMENT = 1_000_000
"""bytes of one document: what a broker takes in one message by default"""
MAX_NAMES = 1_024
MAX_TEXT = 256
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


def refuse(field: str, expected: str, given: object) -> NoReturn:
    """Complain about a field."""
    raise RegistryError(f"{field} must be {expected}", field=field, given=given)


def text(field: str, value: Any, *choices: str) -> None:
    """A text of limited length, one of the choices where there are any."""
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        refuse(field, f"a text of at most {MAX_TEXT} characters", value)
    if choices and value not in choices:
        refuse(field, f"one of {', '.join(choices)}", value)


def topic(value: Any) -> None:
    """The name of a topic."""
    text("topic", value)
    try:
        check_topic(value)
    except ConfigError as problem:
        raise RegistryError(problem.detail, field="topic", given=value) from None


def check_token(field: str, value: Any) -> None:
    """One word of a subject."""
    text(field, value)
    try:
        check_name_token(value, field)
    except ConfigError as problem:
        raise RegistryError(f"{field}: {problem.detail}", field=field, given=value) from None


def fingerprint(field: str, value: Any) -> None:
    """The fingerprint of a schema."""
    if not isinstance(value, str) or not _FINGERPRINT.fullmatch(value):
        refuse(field, "16 hexadecimal digits", value)


def flag(field: str, value: Any) -> None:
    """True or false."""
    if not isinstance(value, bool):
        refuse(field, "true or false", value)


def number(field: str, value: Any) -> None:
    """A finite number, zero or more."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        refuse(field, "a number, zero or more", value)


def count(field: str, value: Any, most: int = (1 << 63) - 1) -> None:
    """A whole number, zero or more."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        refuse(field, f"a whole number from 0 to {most}", value)


def names(field: str, value: Any) -> tuple[str, ...]:
    """A list of names."""
    listed = isinstance(value, list | tuple) and len(value) <= MAX_NAMES
    if not listed or not all(isinstance(name, str) and 0 < len(name) <= MAX_TEXT for name in value):
        refuse(field, f"a list of at most {MAX_NAMES} names", value)
    return tuple(value)


def mapping(field: str, value: Any) -> dict[str, Any]:
    """An object of limited size."""
    if not isinstance(value, Mapping) or len(value) > MAX_NAMES or not all(isinstance(name, str) for name in value):
        refuse(field, f"an object of at most {MAX_NAMES} names", value)
    return dict(value)


def tolerances(field: str, value: Any) -> dict[str, float | int | str]:
    """A tolerance per property; whether the schema can honour them is the budget's business."""
    given = mapping(field, value)
    for name, tolerance in given.items():
        fits = isinstance(tolerance, int | float | str) and not isinstance(tolerance, bool)
        if not fits or len(str(tolerance)) > MAX_TEXT:
            refuse(f"{field}.{name}", "a number or a percentage", tolerance)
    return given


def predicate(field: str, value: Any) -> str:
    """A predicate on the values of events, in the one way in which those that say the same are written."""
    if not isinstance(value, str):
        refuse(field, "a predicate such as \"price > 10 and region = 'EU'\"", value)
    try:
        return parse(value).canonical
    except ExpressionError as problem:
        raise RegistryError(f"{field}: {problem}", field=field) from None


def build(kind: type[T], document: Mapping[str, Any]) -> T:
    """The document of a kind; fields that it does not know are left out."""
    known = fields(kind)  # type: ignore[arg-type]
    for f in known:
        if f.name not in document and f.default is MISSING and f.default_factory is MISSING:
            refuse(f.name, "given", "nothing")
    return kind(**{f.name: document[f.name] for f in known if f.name in document})


def read_object(value: bytes) -> dict[str, Any]:
    """The JSON object of a document."""
    if len(value) > MAX_DOCUMENT:
        raise RegistryError("document above the limit", size=len(value), limit=MAX_DOCUMENT)
    try:
        document = json.loads(value, parse_constant=_no_constant)
    except (ValueError, RecursionError) as problem:
        raise RegistryError(f"not JSON: {problem}") from None
    if not isinstance(document, dict):
        raise RegistryError("a document is a JSON object", given=type(document).__name__)
    return document


def write_object(document: Mapping[str, Any]) -> bytes:
    """Canonical JSON: equal documents give equal bytes."""
    try:
        value = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError) as problem:
        raise RegistryError(f"cannot be written as JSON: {problem}") from None
    if len(value) > MAX_DOCUMENT:
        raise RegistryError("document above the limit", size=len(value), limit=MAX_DOCUMENT)
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")
