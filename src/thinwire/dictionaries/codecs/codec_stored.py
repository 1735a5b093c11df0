"""A message that does not shrink: itself, behind one byte."""

from __future__ import annotations

from thinwire.errors import CorruptFrame


def unstored(packed: bytes, mark: bytes, limit: int) -> bytes:
    """The message behind the mark."""
    if packed[:1] != mark:
        raise CorruptFrame("begins with a mark that no codec writes", mark=packed[0])
    if len(packed) - 1 > limit:
        raise CorruptFrame("stored, and above the limit", length=len(packed) - 1, limit=limit)
    return packed[1:]
