"""Blobs in a bucket: bytes cut into pieces that fit into one message of the broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

from thinwire.brokers.protocol import Bucket
from thinwire.errors import PeerFault

PIECE_SIZE = 1 << 18


def blob_hash(data: bytes) -> str:
    """Return the hash of a blob as stored documents contain it (hex)."""
    return blake2b(data, digest_size=16).hexdigest()


class BlobStore:
    """Stores and reads the pieces of blobs under keys of the caller.

    error: raised for a damaged blob
    piece_size: bytes of a piece, at most; less than the broker accepts in a message
    bytes_read: bytes read from the bucket
    """

    def __init__(self, bucket: Bucket, error: type[PeerFault], *, piece_size: int = PIECE_SIZE) -> None:
        self.piece_size = piece_size
        self.bytes_read = 0
        self._bucket = bucket
        self._error = error

    def count(self, size: int) -> int:
        """Return the number of pieces of a blob of this size."""
        return -(-size // self.piece_size)

    def cut(self, data: bytes) -> list[bytes]:
        """Return the pieces of a blob."""
        return [data[at : at + self.piece_size] for at in range(0, len(data), self.piece_size)]

    async def put(self, pieces: Mapping[str, bytes]) -> None:
        """Store pieces by key, in reverse order: a reader that finds the first piece finds all of them."""
        for key, piece in reversed(list(pieces.items())):
            await self._bucket.put(key, piece)

    async def get(self, key: str) -> bytes | None:
        """Return one piece, or None."""
        entry = await self._bucket.get(key)
        value = entry.value if entry is not None else None
        self.bytes_read += len(value or b"")
        return value

    async def join(self, keys: Iterable[str], size: int, **facts: Any) -> bytes:
        """Return the bytes of the pieces, `size` in total. At most that many bytes are collected.

        facts: fields of the error for a missing piece or another size
        """
        pieces: list[bytes] = []
        left = size
        for key in keys:
            piece = await self.get(key)
            if piece is None or len(piece) > left:
                raise self._error("a piece is missing or too large", **facts, key=key, limit=left)
            pieces.append(piece)
            left -= len(piece)
        if left:
            raise self._error("the pieces have another size than stated", **facts, size=size, found=size - left)
        return b"".join(pieces)

    async def delete(self, keys: Iterable[str]) -> None:
        """Delete pieces, in this order."""
        for key in keys:
            await self._bucket.delete(key)
