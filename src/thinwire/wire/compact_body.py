"""The `compact` format: a partial as bits, then bytes.

    [alias] [skip] mask [exceptions] codes... padding | tail

Bits, most significant first. The alias is left out while the link has one source; otherwise it is told against the one
after the alias told last. Codes are Exp-Golomb at the scale of their field; see `thinwire.wire.stream_state_scales`.
"""

from __future__ import annotations

from array import array
from typing import Any

from thinwire.errors import CorruptFrame
from thinwire.wire import compact_body_masks as masks
from thinwire.wire import compact_body_tails as tails
from thinwire.wire import exact_value as exact
from thinwire.wire.partial_event import Lane
from thinwire.wire.partial_event_partial import Partial
from thinwire.wire.stream_state import ALIAS, FIRST, LAST_ALIAS, SKIP, SOURCES, LinkState
from thinwire.wire.stream_state_scales import adapt
from thinwire.wire.varint import read_blob, unzigzag, write_blob, zigzag

_MAX_FIELD_BYTES = 17
_FLOAT_FIELD = 6


def encode(partial: Partial, link: LinkState) -> bytes:
    """The body of a partial; the link's state moves on."""
    levels = link.cells
    lanes = link.lanes
    acc = 1
    if levels[SOURCES] > 1:
        acc = _put(acc, zigzag(partial.source - levels[LAST_ALIAS] - 1), levels, ALIAS)
        levels[LAST_ALIAS] = partial.source
    acc = _put(acc, partial.skip, levels, SKIP)
    bits, width = masks.encode(partial.mask, len(lanes))
    acc = acc << width | bits
    if partial.exceptions:
        bits, width = masks.encode(partial.exceptions, len(lanes))
        acc = acc << width | bits
    tail: list[bytes] = []
    mask = partial.mask
    for code in partial.codes:
        low = mask & -mask
        mask ^= low
        index = low.bit_length() - 1
        lane = lanes[index]
        if low & partial.exceptions:
            tail.append(exact.encode(code))
        elif lane is Lane.TICK:
            level = levels[FIRST + index]
            k = (level >> 5).bit_length()
            v = code + (1 << k)
            acc = acc << 2 * v.bit_length() - 1 - k | v
            levels[FIRST + index] = adapt(level, code)
        elif lane is not Lane.FLAG:
            acc = _put_other(acc, lane, code, index, link, tail)
    return _finish(acc, tail)


def decode(body: bytes, exceptional: bool, link: LinkState) -> Partial:
    """The partial of a body; the link's state moves on."""
    try:
        return _decode(body, exceptional, link)
    except ValueError:  # a negative shift: the bits ran out
        raise CorruptFrame("body ends in the middle of a field", length=len(body)) from None


def _decode(body: bytes, exceptional: bool, link: LinkState) -> Partial:
    levels = link.cells
    lanes = link.lanes
    count = len(lanes)
    head = body[: _MAX_FIELD_BYTES * (2 * count + 4)]
    left = len(head) * 8
    bits = int.from_bytes(head, "big")
    source = 0
    if levels[SOURCES] > 1:
        code, bits, left = _take(bits, left, levels, ALIAS)
        source = levels[LAST_ALIAS] + 1 + unzigzag(code)
        if not 0 <= source < levels[SOURCES]:
            raise CorruptFrame("alias of no source", alias=source, sources=levels[SOURCES])
        levels[LAST_ALIAS] = source
    skip, bits, left = _take(bits, left, levels, SKIP)
    mask, left = masks.decode(bits, left, count)
    bits &= (1 << left) - 1
    exceptions = 0
    if exceptional:
        exceptions, left = masks.decode(bits, left, count)
        bits &= (1 << left) - 1
    codes: list[Any] = []
    rest = mask
    while rest:
        low = rest & -rest
        rest ^= low
        index = low.bit_length() - 1
        lane = lanes[index]
        if low & exceptions or lane is Lane.FLAG or lane >= Lane.ARRAY:
            codes.append(None)
        elif lane is Lane.TICK:
            level = levels[FIRST + index]
            k = (level >> 5).bit_length()
            width = left - bits.bit_length() + 1 + k
            left -= 2 * width - 1 - k
            v = bits >> left
            bits ^= v << left
            v -= 1 << k
            levels[FIRST + index] = adapt(level, v)
            codes.append(v)
        else:
            code, bits, left = _take_other(bits, left, lane, index, link)
            codes.append(code)
    padding = left % 8
    if bits >> (left - padding):
        raise CorruptFrame("padding is not zero")
    if mask & (exceptions | link.tail_mask):
        _read_tail(body, len(head) - left // 8, mask, exceptions, codes, link)
    elif len(head) - left // 8 != len(body):
        raise CorruptFrame("bytes after the last field", length=len(body))
    return Partial(source, skip, mask, exceptions, codes)


def _put(acc: int, code: int, levels: array[int], field: int) -> int:
    level = levels[field]
    k = (level >> 5).bit_length()
    v = code + (1 << k)
    levels[field] = adapt(level, code)
    return acc << 2 * v.bit_length() - 1 - k | v


def _take(bits: int, left: int, levels: array[int], field: int) -> tuple[int, int, int]:
    level = levels[field]
    k = (level >> 5).bit_length()
    width = left - bits.bit_length() + 1 + k
    left -= 2 * width - 1 - k
    v = bits >> left
    code = v - (1 << k)
    levels[field] = adapt(level, code)
    return code, bits ^ v << left, left


def _put_other(acc: int, lane: Lane, code: Any, index: int, link: LinkState, tail: list[bytes]) -> int:
    if lane is Lane.FLOAT:
        zeros: int = (code & -code).bit_length() - 1
        digits: int = code >> zeros
        width = digits.bit_length()
        return ((acc << _FLOAT_FIELD | zeros) << _FLOAT_FIELD | width - 1) << width | digits
    if lane is Lane.GEO:
        acc = _put(acc, code[0], link.cells, FIRST + index)
        return _put(acc, code[1], link.cells, FIRST + index)
    if lane is Lane.TEXT:
        table = link.tables[index]
        assert table is not None
        place = table.place(code)
        if place is None:
            tail.append(tails.write_text(code, deflate=not link.whole_texts))
            table.remember(code)
        return _put(acc, 0 if place is None else place + 1, link.cells, FIRST + index)
    tail.append(tails.write_array(code) if lane is Lane.ARRAY else write_blob(code))
    return acc


def _take_other(bits: int, left: int, lane: Lane, index: int, link: LinkState) -> tuple[Any, int, int]:
    if lane is Lane.FLOAT:
        left -= 2 * _FLOAT_FIELD
        zeros = bits >> left + _FLOAT_FIELD
        width = (bits >> left & 63) + 1
        bits &= (1 << left) - 1
        left -= width
        if zeros + width > 64:
            raise CorruptFrame("a float of more than 64 bits", zeros=zeros, width=width)
        return (bits >> left) << zeros, bits & (1 << left) - 1, left
    code, bits, left = _take(bits, left, link.cells, FIRST + index)
    if lane is Lane.GEO:
        second, bits, left = _take(bits, left, link.cells, FIRST + index)
        return (code, second), bits, left
    table = link.tables[index]
    assert table is not None
    return (None if code == 0 else table.text(code - 1)), bits, left


def _read_tail(body: bytes, at: int, mask: int, exceptions: int, codes: list[Any], link: LinkState) -> None:
    position = 0
    while mask:
        low = mask & -mask
        mask ^= low
        index = low.bit_length() - 1
        lane = link.lanes[index]
        if low & exceptions:
            codes[position], at = exact.decode(body, at)
        elif lane is Lane.TEXT and codes[position] is None:
            text, at = tails.read_text(body, at)
            table = link.tables[index]
            assert table is not None
            if table.place(text) is not None:
                raise CorruptFrame("a text told twice", text=text)
            table.remember(text)
            codes[position] = text
        elif lane is Lane.ARRAY:
            codes[position], at = tails.read_array(body, at)
        elif lane is Lane.OPAQUE:
            codes[position], at = read_blob(body, at, exact.MAX_EXACT)
        position += 1
    if at != len(body):
        raise CorruptFrame("bytes after the last field", length=len(body), read=at)


def _finish(acc: int, tail: list[bytes]) -> bytes:
    width = acc.bit_length() - 1
    size = (width + 7) >> 3
    head = ((acc ^ 1 << width) << (8 * size - width)).to_bytes(size, "big")
    return head + b"".join(tail) if tail else head
