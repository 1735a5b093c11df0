"""The `compact` format of partial events: bits, then bytes.

    [alias] [skip] mask [exceptions] codes... padding | tail

Bits are most significant first. The alias is omitted while the stream has one source; otherwise it is coded relative to
the successor of the alias sent last. Codes are Exp-Golomb at the scale of their field (`thinwire.wire.stream_state`).
The tail contains exact values, texts that are not in their table yet, arrays and opaque values.

Mask of properties. Up to eight: one bit each, the first property highest. More: one bit for each group of eight that is
not empty, then the bits of those groups.

>>> bits, width = encode_mask(0b1, 3)
>>> f"{bits:0{width}b}"
'100'
>>> bits, width = encode_mask(1 << 9, 20)
>>> f"{bits:0{width}b}"
'01001000000'
"""

from __future__ import annotations

import zlib
from array import array
from typing import Any

from thinwire.errors import CorruptFrame
from thinwire.schema.property import MAX_ARRAY
from thinwire.wire import exact_value, varint
from thinwire.wire.exact_value import MAX_EXACT
from thinwire.wire.frame import inflate
from thinwire.wire.partial_event import EncodingKind, PartialEvent
from thinwire.wire.stream_state import ALIAS, FIRST, LAST_ALIAS, SKIP, SOURCES, StreamState, adapt
from thinwire.wire.varint import read_blob, unzigzag, write_blob, zigzag

GROUP = 8
_REVERSED = [int(f"{n:08b}"[::-1], 2) for n in range(256)]


def encode_mask(mask: int, count: int) -> tuple[int, int]:
    """Return the bits of a mask over `count` properties, and their number."""
    if count <= GROUP:
        return _REVERSED[mask] >> (GROUP - count), count
    groups = (count + GROUP - 1) // GROUP
    bits, width = 0, groups
    for group in range(groups):
        part = mask >> GROUP * group & 0xFF
        if part:
            size = min(GROUP, count - GROUP * group)
            bits = (bits | 1 << (width - 1 - group)) << size | _REVERSED[part] >> (GROUP - size)
            width += size
    return bits, width


def decode_mask(bits: int, width: int, count: int) -> tuple[int, int]:
    """Return the mask at the top of `width` bits, and the remaining width; raise ValueError if bits are missing."""
    if count <= GROUP:
        left = width - count
        return _REVERSED[(bits >> left) << (GROUP - count)], left
    groups = (count + GROUP - 1) // GROUP
    left = width - groups
    present = bits >> left
    mask = 0
    for group in range(groups):
        if present >> (groups - 1 - group) & 1:
            size = min(GROUP, count - GROUP * group)
            left -= size
            part = bits >> left & (1 << size) - 1
            mask |= _REVERSED[part << (GROUP - size)] << GROUP * group
    return mask, left


_WORTH_DEFLATING = 64


def write_text(text: str, *, deflate: bool = True) -> bytes:
    """Encode a text, deflated if that is shorter."""
    plain = text.encode("utf-8")
    if deflate and len(plain) >= _WORTH_DEFLATING:
        packed = zlib.compress(plain, 6, wbits=-15)
        if len(packed) < len(plain):
            return varint.write(len(packed) << 1 | 1) + packed
    return varint.write(len(plain) << 1) + plain


def read_text(data: bytes, at: int) -> tuple[str, int]:
    size, at = varint.read(data, at)
    end = at + (size >> 1)
    if end > len(data):
        raise CorruptFrame("a text longer than its frame", length=size >> 1)
    plain = inflate(data[at:end], MAX_EXACT) if size & 1 else data[at:end]
    return exact_value.decode_text(plain), end


def write_array(code: tuple[bool, list[Any]]) -> bytes:
    """Encode a patch `(False, [(index, code), ...])`, or all ticks `(True, [ticks, ...])`."""
    complete, items = code
    if complete:
        return varint.write(0) + varint.write(len(items)) + b"".join(varint.write_signed(t) for t in items)
    parts = [varint.write(len(items))]
    following = 0
    for index, residual in items:
        parts += (varint.write(index - following), varint.write(residual))
        following = index + 1
    return b"".join(parts)


def read_array(data: bytes, at: int) -> tuple[tuple[bool, list[Any]], int]:
    """Return the patch or the elements at offset `at` and the offset after them."""
    count, at = varint.read(data, at)
    complete = count == 0
    if complete:
        count, at = varint.read(data, at)
    if count > MAX_ARRAY or count > len(data) - at:
        raise CorruptFrame("an array longer than its frame or its limit", count=count, limit=MAX_ARRAY)
    items: list[Any] = []
    index = 0
    for _ in range(count):
        if complete:
            item, at = varint.read_signed(data, at)
            items.append(item)
        else:
            gap, at = varint.read(data, at)
            residual, at = varint.read(data, at)
            items.append((index + gap, residual))
            index += gap + 1
    return (complete, items), at


_MAX_FIELD_BYTES = 17
_FLOAT_FIELD = 6


def encode(partial: PartialEvent, stream: StreamState, *, deflate_texts: bool = True) -> bytes:
    """Encode a partial event and advance the stream state.

    deflate_texts: deflate texts individually, unless the body is packed as a whole
    """
    cells = stream.cells
    encodings = stream.encodings
    acc = 1  # keeps leading zeros; removed by `_finish`
    if cells[SOURCES] > 1:
        acc = _append_code(acc, zigzag(partial.source - cells[LAST_ALIAS] - 1), cells, ALIAS)
        cells[LAST_ALIAS] = partial.source
    acc = _append_code(acc, partial.skip, cells, SKIP)
    bits, width = encode_mask(partial.mask, len(encodings))
    acc = acc << width | bits
    if partial.exceptions:
        bits, width = encode_mask(partial.exceptions, len(encodings))
        acc = acc << width | bits
    tail: list[bytes] = []
    mask = partial.mask
    for code in partial.codes:
        low = mask & -mask
        mask ^= low
        index = low.bit_length() - 1
        encoding = encodings[index]
        if low & partial.exceptions:
            tail.append(exact_value.encode(code))
        elif encoding is EncodingKind.TICK:
            level = cells[FIRST + index]
            k = (level >> 5).bit_length()
            v = code + (1 << k)
            acc = acc << 2 * v.bit_length() - 1 - k | v
            cells[FIRST + index] = adapt(level, code)
        elif encoding is not EncodingKind.FLAG:
            acc = _append_other(acc, encoding, code, index, stream, tail, deflate_texts)
    return _finish(acc, tail)


def decode(body: bytes, exceptional: bool, stream: StreamState) -> PartialEvent:
    """Decode a partial event and advance the stream state."""
    try:
        return _decode(body, exceptional, stream)
    except ValueError:  # a negative shift: the bits ran out
        raise CorruptFrame("body ends in the middle of a field", length=len(body)) from None


def _decode(body: bytes, exceptional: bool, stream: StreamState) -> PartialEvent:
    cells, encodings = stream.cells, stream.encodings
    head = body[: _MAX_FIELD_BYTES * (2 * len(encodings) + 4)]
    source, bits, left = _take_source(int.from_bytes(head, "big"), len(head) * 8, cells)
    skip, bits, left = _take_code(bits, left, cells, SKIP)
    mask, left = decode_mask(bits, left, len(encodings))
    bits &= (1 << left) - 1
    exceptions = 0
    if exceptional:
        exceptions, left = decode_mask(bits, left, len(encodings))
        bits &= (1 << left) - 1
    codes: list[Any] = []
    rest = mask
    while rest:
        low = rest & -rest
        rest ^= low
        index = low.bit_length() - 1
        encoding = encodings[index]
        if low & exceptions or encoding is EncodingKind.FLAG or encoding >= EncodingKind.ARRAY:
            codes.append(None)
        elif encoding is EncodingKind.TICK:
            level = cells[FIRST + index]
            k = (level >> 5).bit_length()
            width = left - bits.bit_length() + 1 + k
            left -= 2 * width - 1 - k
            v = bits >> left
            bits ^= v << left
            v -= 1 << k
            cells[FIRST + index] = adapt(level, v)
            codes.append(v)
        else:
            code, bits, left = _take_other(bits, left, encoding, index, stream)
            codes.append(code)
    padding = left % 8
    if bits >> (left - padding):
        raise CorruptFrame("padding is not zero")
    if mask & (exceptions | stream.tail_mask):
        _read_tail(body, len(head) - left // 8, mask, exceptions, codes, stream)
    elif len(head) - left // 8 != len(body):
        raise CorruptFrame("bytes after the last field", length=len(body))
    return PartialEvent(source, skip, mask, exceptions, codes)


def _take_source(bits: int, left: int, cells: array[int]) -> tuple[int, int, int]:
    if cells[SOURCES] <= 1:
        return 0, bits, left
    code, bits, left = _take_code(bits, left, cells, ALIAS)
    source = cells[LAST_ALIAS] + 1 + unzigzag(code)
    if not 0 <= source < cells[SOURCES]:
        raise CorruptFrame("unknown alias", alias=source, sources=cells[SOURCES])
    cells[LAST_ALIAS] = source
    return source, bits, left


def _append_code(acc: int, code: int, cells: array[int], field: int) -> int:
    level = cells[field]
    k = (level >> 5).bit_length()
    v = code + (1 << k)
    cells[field] = adapt(level, code)
    return acc << 2 * v.bit_length() - 1 - k | v


def _take_code(bits: int, left: int, cells: array[int], field: int) -> tuple[int, int, int]:
    level = cells[field]
    k = (level >> 5).bit_length()
    width = left - bits.bit_length() + 1 + k
    left -= 2 * width - 1 - k
    v = bits >> left
    code = v - (1 << k)
    cells[field] = adapt(level, code)
    return code, bits ^ v << left, left


def _append_other(
    acc: int, encoding: EncodingKind, code: Any, index: int, stream: StreamState, tail: list[bytes], deflate: bool
) -> int:
    if encoding is EncodingKind.FLOAT:
        zeros: int = (code & -code).bit_length() - 1
        digits: int = code >> zeros
        width = digits.bit_length()
        return ((acc << _FLOAT_FIELD | zeros) << _FLOAT_FIELD | width - 1) << width | digits
    if encoding is EncodingKind.GEO:
        acc = _append_code(acc, code[0], stream.cells, FIRST + index)
        return _append_code(acc, code[1], stream.cells, FIRST + index)
    if encoding is EncodingKind.TEXT:
        table = stream.tables[index]
        assert table is not None
        position = table.index_of(code)
        if position is None:
            tail.append(write_text(code, deflate=deflate))
            table.remember(code)
        return _append_code(acc, 0 if position is None else position + 1, stream.cells, FIRST + index)
    tail.append(write_array(code) if encoding is EncodingKind.ARRAY else write_blob(code))
    return acc


def _take_other(bits: int, left: int, encoding: EncodingKind, index: int, stream: StreamState) -> tuple[Any, int, int]:
    if encoding is EncodingKind.FLOAT:
        left -= 2 * _FLOAT_FIELD
        zeros = bits >> left + _FLOAT_FIELD
        width = (bits >> left & 63) + 1
        bits &= (1 << left) - 1
        left -= width
        if zeros + width > 64:
            raise CorruptFrame("a float of more than 64 bits", zeros=zeros, width=width)
        return (bits >> left) << zeros, bits & (1 << left) - 1, left
    code, bits, left = _take_code(bits, left, stream.cells, FIRST + index)
    if encoding is EncodingKind.GEO:
        second, bits, left = _take_code(bits, left, stream.cells, FIRST + index)
        return (code, second), bits, left
    table = stream.tables[index]
    assert table is not None
    return (None if code == 0 else table.text(code - 1)), bits, left


def _read_tail(body: bytes, at: int, mask: int, exceptions: int, codes: list[Any], stream: StreamState) -> None:
    position = 0
    while mask:
        low = mask & -mask
        mask ^= low
        index = low.bit_length() - 1
        encoding = stream.encodings[index]
        if low & exceptions:
            codes[position], at = exact_value.decode(body, at)
        elif encoding is EncodingKind.TEXT and codes[position] is None:
            text, at = read_text(body, at)
            table = stream.tables[index]
            assert table is not None
            if table.index_of(text) is not None:
                raise CorruptFrame("a text of the table is sent again", text=text)
            table.remember(text)
            codes[position] = text
        elif encoding is EncodingKind.ARRAY:
            codes[position], at = read_array(body, at)
        elif encoding is EncodingKind.OPAQUE:
            codes[position], at = read_blob(body, at, MAX_EXACT)
        position += 1
    if at != len(body):
        raise CorruptFrame("bytes after the last field", length=len(body), read=at)


def _finish(acc: int, tail: list[bytes]) -> bytes:
    width = acc.bit_length() - 1
    size = (width + 7) >> 3
    head = ((acc ^ 1 << width) << (8 * size - width)).to_bytes(size, "big")
    return head + b"".join(tail) if tail else head
