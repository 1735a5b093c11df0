"""Each event's JSON through gzip by itself, with the 18 bytes of header and trailer that gzip puts around it.

JSON as any program writes it: one object an event, no spaces, text as UTF-8.

XML: one element an event, one element a property.
"""

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
    """The event, or part of it, as compact JSON.

    The schema is not needed: JSON names what it carries. Separators carry no spaces, as Jackson and Gson write by
    default; a baseline with spaces would be about 80 bytes an event larger and flatter whatever is compared with it.

    >>> from thinwire.schema import Property
    >>> to_json({"sensor": "T1", "on": True, "heat": 20.5}, Schema("rooms", [Property("heat", "number", step="0.1")]))
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


LEVEL = 6
"""gzip's own default"""


def to_gzip_json(event: Mapping[str, Any], schema: Schema) -> bytes:
    """The event, or part of it, as gzipped compact JSON; no time is stamped, so equal events give equal bytes."""
    return gzip.compress(to_json(event, schema), LEVEL, mtime=0)


_NAME = re.compile(r"(?![xX][mM][lL])[A-Za-z_][A-Za-z0-9_-]*")
_UNWRITABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_xml(event: Mapping[str, Any], schema: Schema) -> bytes:
    """The event, or part of it; nested objects become nested elements, the members of a list elements named `item`.

    >>> from thinwire.schema import Property
    >>> to_xml({"sensor": "T1", "on": True, "heat": 20.5}, Schema("rooms", [Property("heat", "number", step="0.1")]))
    b'<event><sensor>T1</sensor><on>true</on><heat>20.5</heat></event>'
    """
    return _element("event", event).encode()


def _element(name: str, value: Any) -> str:
    """An element named after the property, where the name is one XML allows."""
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
    # booleans, numbers, instants and bytes are written as JSON writes them
    return text(value).strip('"')


def _text(value: str) -> str:
    bad = _UNWRITABLE.search(value)
    if bad:
        raise WrongType("XML cannot carry this control character", character=bad[0], position=bad.start())
    return value
