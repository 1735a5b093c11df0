"""What every codec can do.

A message that does not shrink: itself, behind one byte.
"""

from __future__ import annotations

from typing import Protocol

from thinwire.errors import CorruptFrame


class Codec(Protocol):
    """Packs one message at a time, without loss; every message is read without any other.

    Machines are made once and used again, and they are not to be shared between threads: keep a codec, one a thread.

    name: as it stands in tables
    """

    name: str

    def pack(self, message: bytes) -> bytes:
        """The message in fewer bytes, or as it is with one byte in front; an empty one stays empty."""

    def unpack(self, packed: bytes, limit: int) -> bytes:
        """The message again; `CorruptFrame` for anything that is not one, and never more than `limit` bytes."""


def unstored(packed: bytes, mark: bytes, limit: int) -> bytes:
    """The message behind the mark."""
    if packed[:1] != mark:
        raise CorruptFrame("begins with a mark that no codec writes", mark=packed[0])
    if len(packed) - 1 > limit:
        raise CorruptFrame("stored, and above the limit", length=len(packed) - 1, limit=limit)
    return packed[1:]
