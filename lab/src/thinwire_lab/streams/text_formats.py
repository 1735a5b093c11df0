"""JSON, gzipped JSON and XML of events, as baselines."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from thinwire.errors import NotFinite, WrongType
from thinwire.schema import Schema


def to_json(event: Mapping[str, Any], schema: Schema) -> bytes:
    """Return the event, or part of it, as compact JSON, without spaces, which is the default of Jackson and Gson.

    >>> from thinwire.schema import Property
    >>> to_json({"sensor": "T1", "on": True, "heat": 20.5}, Schema("rooms", [Property("heat", "number", step="0.1")]))
    b'{"sensor":"T1","on":true,"heat":20.5}'
    """
    return to_text(event).encode()


def to_text(value: Any) -> str:
    """Return any value as compact JSON; instants as ISO 8601, bytes as base64."""
    try:
        return _JSON.encode(value)
    except ValueError as error:
        raise NotFinite(str(error)) from None


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return b64encode(value).decode()
    if isinstance(value, Mapping):
        return dict(value)
    raise WrongType("cannot be written as JSON", given=type(value).__name__)


_JSON = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_plain)


LEVEL = 6
"""the default of gzip"""


def to_gzip_json(event: Mapping[str, Any], schema: Schema) -> bytes:
    """Return the event, or part of it, as gzipped compact JSON, without a time, so equal events give equal bytes."""
    return gzip.compress(to_json(event, schema), LEVEL, mtime=0)


_NAME = re.compile(r"(?![xX][mM][lL])[A-Za-z_][A-Za-z0-9_-]*")
_UNWRITABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_xml(event: Mapping[str, Any], schema: Schema) -> bytes:
    """Return the event, or part of it, as XML. Nested objects are nested elements; list members are named `item`.

    >>> from thinwire.schema import Property
    >>> to_xml({"sensor": "T1", "on": True, "heat": 20.5}, Schema("rooms", [Property("heat", "number", step="0.1")]))
    b'<event><sensor>T1</sensor><on>true</on><heat>20.5</heat></event>'
    """
    return _element("event", event).encode()


def _element(name: str, value: Any) -> str:
    """Return an element with the name of the property, or `property` if XML does not allow the name."""
    tag, start = (name, name) if _NAME.fullmatch(name) else ("property", f"property name={quoteattr(_text(name))}")
    if value is None:
        return f'<{start} nil="true"/>'
    return f"<{start}>{_content(value)}</{tag}>"


def _content(value: Any) -> str:
    if isinstance(value, Mapping):
        return "".join(_element(str(name), inner) for name, inner in value.items())
    if isinstance(value, list | tuple):
        return "".join(_element("item", inner) for inner in value)
    if isinstance(value, str):
        return escape(_text(value), {"\r": "&#13;"})
    # booleans, numbers, instants and bytes are the same as in JSON
    return to_text(value).strip('"')


def _text(value: str) -> str:
    bad = _UNWRITABLE.search(value)
    if bad:
        raise WrongType("XML cannot encode this control character", character=bad[0], position=bad.start())
    return value
