"""XML: one element an event, one element a property."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from thinwire.errors import WrongType
from thinwire.schema import Schema
from thinwire_lab.streams import text_formats_plain_json as plain_json

_NAME = re.compile(r"(?![xX][mM][lL])[A-Za-z_][A-Za-z0-9_-]*")
_UNWRITABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def encode(event: Mapping[str, Any], schema: Schema) -> bytes:
    """The event, or part of it; nested objects become nested elements, the members of a list elements named `item`.

    >>> from thinwire.schema import Property
    >>> encode({"sensor": "T1", "on": True, "heat": 20.5}, Schema("rooms", [Property("heat", "number", step="0.1")]))
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
    return plain_json.text(value).strip('"')


def _text(value: str) -> str:
    bad = _UNWRITABLE.search(value)
    if bad:
        raise WrongType("XML cannot carry this control character", character=bad[0], position=bad.start())
    return value
