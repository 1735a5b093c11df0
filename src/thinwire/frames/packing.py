"""Packing a body: deflate where it pays, never where it does not, and bounded on the way back."""

from __future__ import annotations

import zlib

from thinwire.errors import CorruptFrame, UnknownDictionary

DEFLATE_SLOT = 0
_WORTH_TRYING = 96


def pack(body: bytes) -> tuple[bytes, int | None]:
    """The smaller of the body and its deflated form (with the slot byte it costs), and its slot."""
    if len(body) < _WORTH_TRYING:
        return body, None
    packed = zlib.compress(body, 6, wbits=-15)
    return (packed, DEFLATE_SLOT) if len(packed) + 1 < len(body) else (body, None)


def unpack(packed: bytes, slot: int, limit: int) -> bytes:
    """The body again; refuses to grow beyond `limit` bytes."""
    if slot != DEFLATE_SLOT:
        raise UnknownDictionary(slot=slot)
    return inflate(packed, limit)


def inflate(packed: bytes, limit: int) -> bytes:
    """Undo deflate, but never make more than `limit` bytes."""
    machine = zlib.decompressobj(-15)
    try:
        body = machine.decompress(packed, limit)
    except zlib.error as problem:
        raise CorruptFrame(f"deflate: {problem}") from None
    if not machine.eof or machine.unused_data:
        raise CorruptFrame("deflated part is cut off, padded, or grows above the limit", limit=limit)
    return body
