"""The byte part of a compact body: what is not a small number stands after the bits, each part told whole.

Three kinds of part: values told exactly, texts not in their table yet, and arrays and opaque values.
"""

from __future__ import annotations

import zlib
from typing import Any

from thinwire.errors import CorruptFrame
from thinwire.schema.property_properties import MAX_ARRAY
from thinwire.wire import varint
from thinwire.wire.exact_value import MAX_EXACT
from thinwire.wire.frame_packing import inflate

_WORTH_DEFLATING = 64


def write_text(text: str, *, deflate: bool = True) -> bytes:
    """A text, deflated where that is shorter and wanted."""
    plain = text.encode("utf-8")
    if deflate and len(plain) >= _WORTH_DEFLATING:
        packed = zlib.compress(plain, 6, wbits=-15)
        if len(packed) < len(plain):
            return varint.write(len(packed) << 1 | 1) + packed
    return varint.write(len(plain) << 1) + plain


def read_text(data: bytes, at: int) -> tuple[str, int]:
    """The text at this place, and the place after it."""
    size, at = varint.read(data, at)
    end = at + (size >> 1)
    if end > len(data):
        raise CorruptFrame("a text longer than its frame", length=size >> 1)
    plain = inflate(data[at:end], MAX_EXACT) if size & 1 else data[at:end]
    try:
        return plain.decode("utf-8"), end
    except UnicodeDecodeError as problem:
        raise CorruptFrame(f"text is not UTF-8: {problem}") from None


def write_array(code: tuple[bool, list[Any]]) -> bytes:
    """A patch `(False, [(place, code), ...])`, or all ticks `(True, [ticks, ...])`."""
    whole, items = code
    if whole:
        return varint.write(0) + varint.write(len(items)) + b"".join(varint.write_signed(t) for t in items)
    parts = [varint.write(len(items))]
    at = 0
    for place, residual in items:
        parts += (varint.write(place - at), varint.write(residual))
        at = place + 1
    return b"".join(parts)


def read_array(data: bytes, at: int) -> tuple[tuple[bool, list[Any]], int]:
    """The patch or the elements at this place, and the place after it."""
    count, at = varint.read(data, at)
    whole = count == 0
    if whole:
        count, at = varint.read(data, at)
    if count > MAX_ARRAY or count > len(data) - at:
        raise CorruptFrame("an array longer than its frame or its limit", count=count, limit=MAX_ARRAY)
    items: list[Any] = []
    place = 0
    for _ in range(count):
        if whole:
            item, at = varint.read_signed(data, at)
            items.append(item)
        else:
            gap, at = varint.read(data, at)
            residual, at = varint.read(data, at)
            items.append((place + gap, residual))
            place += gap + 1
    return (whole, items), at
