"""Packing a body: deflate where it pays, never where it does not, and bounded on the way back."""

from __future__ import annotations

import zlib
from typing import Any

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


def inflate(packed: bytes, limit: int, machine: Any = None, *, padded: bool = False) -> bytes:
    """Undo deflate: one whole stream, and never more than `limit` bytes of it.

    machine: of zlib, fresh, where the stream has a header or refers to shared bytes; else one for raw deflate
    padded: zeros may follow its end

    >>> inflate(zlib.compress(b"tick " * 20, 6, wbits=-15), limit=100) == b"tick " * 20
    True
    """
    machine = machine or zlib.decompressobj(-15)
    try:
        # one byte more than the limit: zlib takes 0 for "no limit", and a full buffer would hide the end of a stream
        body: bytes = machine.decompress(packed, limit + 1)
    except zlib.error as problem:
        raise CorruptFrame(f"deflate: {problem}", limit=limit) from None
    behind = machine.unused_data.strip(b"\0") if padded else machine.unused_data
    if not machine.eof or behind or len(body) > limit:
        raise CorruptFrame("a deflated stream is cut off, padded, or grows above the limit", limit=limit)
    return body
