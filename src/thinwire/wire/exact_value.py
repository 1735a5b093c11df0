"""Exact values of any kind: one tag byte and the value.

Used for exceptions, in audit frames, and for the objects of a key frame.

>>> decode(encode(None), 0), decode(encode(-3), 0), decode(encode(0.1), 0), decode(encode("on"), 0)
((None, 1), (-3, 2), (0.1, 9), ('on', 4))
"""

from __future__ import annotations

import math
import struct
from typing import Any

from thinwire.errors import CorruptFrame
from thinwire.wire import varint

MAX_EXACT = 1 << 18
"""bytes of a text, an opaque value or an encoded array, at most"""

_ABSENT, _INTEGER, _DOUBLE, _TEXT, _BYTES, _LIST, _FALSE, _TRUE = range(8)
_MAX_DEPTH = 3


def encode(value: Any) -> bytes:
    """Encode None, bool, int, float, str, bytes, or a list of these."""
    if value is None:
        return b"\x00"
    if isinstance(value, bool):
        return b"\x07" if value else b"\x06"
    if isinstance(value, int):
        return b"\x01" + varint.write_signed(value)
    if isinstance(value, float):
        return b"\x02" + struct.pack(">d", value)
    if isinstance(value, str):
        return b"\x03" + varint.write_blob(value.encode("utf-8"))
    if isinstance(value, bytes):
        return b"\x04" + varint.write_blob(value)
    return b"\x05" + varint.write(len(value)) + b"".join(encode(item) for item in value)


def decode(data: bytes, at: int, depth: int = 0) -> tuple[Any, int]:
    """Return the value at offset `at` and the offset after it."""
    if at >= len(data):
        raise CorruptFrame("a value is missing", at=at)
    tag, at = data[at], at + 1
    if tag in _CONSTANTS:
        return _CONSTANTS[tag], at
    if tag == _INTEGER:
        return varint.read_signed(data, at)
    if tag == _DOUBLE:
        return _double(data, at)
    if tag == _TEXT:
        text, at = varint.read_blob(data, at, MAX_EXACT)
        return decode_text(text), at
    if tag == _BYTES:
        return varint.read_blob(data, at, MAX_EXACT)
    if tag == _LIST and depth < _MAX_DEPTH:
        return _list(data, at, depth)
    raise CorruptFrame("unknown tag of a value", tag=tag, at=at)


def _double(data: bytes, at: int) -> tuple[float, int]:
    if at + 8 > len(data):
        raise CorruptFrame("a double is cut off", at=at)
    value: float = struct.unpack_from(">d", data, at)[0]
    if not math.isfinite(value):
        raise CorruptFrame("a double is not finite", at=at)
    return value, at + 8


def decode_text(text: bytes) -> str:
    """Decode UTF-8; raise `CorruptFrame` if it is invalid."""
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise CorruptFrame(f"text is not UTF-8: {problem}") from None


def _list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    count, at = varint.read(data, at)
    if count > len(data) - at:
        raise CorruptFrame("a list longer than its frame", count=count)
    items = []
    for _ in range(count):
        item, at = decode(data, at, depth + 1)
        items.append(item)
    return items, at


_CONSTANTS: dict[int, bool | None] = {_ABSENT: None, _FALSE: False, _TRUE: True}
