"""JSON as any program writes it: one object an event, no spaces, text as UTF-8."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from thinwire.errors import NotFinite, WrongType
from thinwire.schema import Schema


def encode(event: Mapping[str, Any], schema: Schema) -> bytes:
    """The event, or part of it, as compact JSON.

    The schema is not needed: JSON names what it carries. Separators carry no spaces, as Jackson and Gson write by
    default; a baseline with spaces would be about 80 bytes an event larger and flatter whatever is compared with it.

    >>> from thinwire.schema import Property
    >>> encode({"sensor": "T1", "on": True, "heat": 20.5}, Schema("rooms", [Property("heat", "number", step="0.1")]))
    b'{"sensor":"T1","on":true,"heat":20.5}'
    """
    return text(event).encode()


def text(value: Any) -> str:
    """Compact JSON of any value; instants as ISO 8601, bytes as base64."""
    try:
        return _JSON.encode(value)
    except ValueError as problem:
        raise NotFinite(str(problem)) from None


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return b64encode(value).decode()
    if isinstance(value, Mapping):
        return dict(value)
    raise WrongType("cannot be written as JSON", given=type(value).__name__)


_JSON = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_plain)
