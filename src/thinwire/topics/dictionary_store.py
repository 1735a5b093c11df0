"""Dictionaries in a bucket, by hash, as blobs.

    <hash>      the size of the packed dictionary as a varint, then its first piece
    <hash>.1    the next piece, and so on

A dictionary is stored packed, either complete or as a difference from its parent, which most readers have. The hash of
a dictionary that is read is checked: the content of the bucket is not trusted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

from thinwire.brokers.protocol import Bucket
from thinwire.dictionaries import Dictionary, PackedDictionary
from thinwire.dictionaries.dictionary import MAX_CONTENT
from thinwire.dictionaries.dictionary_transfer import pack, parent_of, unpack
from thinwire.errors import CorruptDictionary, CorruptFrame, PeerFault, UnknownDictionary
from thinwire.topics.blob_store import PIECE_SIZE, BlobStore
from thinwire.wire import varint

MAX_BODY = MAX_CONTENT + 1024
"""bytes of a packed dictionary, at most"""
MAX_CHAIN = 4
"""dictionaries that must be read for one, at most: itself and its chain of parents"""
MAX_CACHED = 16 << 20
"""bytes of dictionaries in a cache"""

FindDictionary = Callable[[bytes], Dictionary | None]
"""returns a cached dictionary by hash, or None"""


class DictionaryStore:
    """The dictionaries of all topics in one bucket."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._blobs = BlobStore(bucket, CorruptDictionary)

    @property
    def received(self) -> int:
        """Bytes read from the store."""
        return self._blobs.bytes_read

    async def put(self, dictionary: Dictionary, packed: PackedDictionary | None = None) -> None:
        """Store a dictionary; `packed`: its packed form, such as a difference from its parent. Complete by default."""
        packed = packed or pack(dictionary)
        await self._blobs.put(dictionary_pieces(dictionary.hash, packed.body))

    async def get(self, hash: bytes, cached: FindDictionary | None = None) -> Dictionary | None:
        """Return the dictionary with this hash, or None. Raise CorruptDictionary if the stored one is damaged.

        cached: finds parents without reading the store
        """
        bodies: list[tuple[bytes, bytes]] = []
        found, needed = None, hash
        while needed and found is None:
            if len(bodies) == MAX_CHAIN:
                raise CorruptDictionary("too many parents", hash=hash.hex(), limit=MAX_CHAIN)
            body = await self._read_body(needed)
            if body is None and bodies:
                raise CorruptDictionary("its parent is missing", hash=hash.hex(), missing=needed.hex())
            if body is None:
                return None
            bodies.append((needed, body))
            needed = parent_of(body)
            found = cached(needed) if needed and cached is not None else None
        for name, body in reversed(bodies):
            found = _unpack(body, name, found)
        return found

    async def delete(self, hash: bytes) -> None:
        """Delete a dictionary. The first piece is deleted first, so that no reader starts to read it."""
        rest = await self._bucket.entries(f"{hash.hex()}.*")
        await self._blobs.delete([piece_key(hash), *(entry.key for entry in rest)])

    async def _read_body(self, hash: bytes) -> bytes | None:
        first = await self._blobs.get(piece_key(hash))
        if first is None:
            return None
        size, at = _read_size(hash, first)
        count, held = self._blobs.count(size), len(first) - at
        if held > size or (held < size and held != PIECE_SIZE):
            raise CorruptDictionary("the pieces have another size than stated", hash=hash.hex(), size=size, found=held)
        keys = [piece_key(hash, number) for number in range(1, count)]
        return first[at:] + await self._blobs.join(keys, size - held, hash=hash.hex())


class DictionaryCache:
    """Recently used dictionaries, up to `limit` bytes.

    >>> cache = DictionaryCache(limit=10)
    >>> first, second = (Dictionary(content, "zlib", 6, 64) for content in (b"one two", b"three"))
    >>> cache.add(first); cache.add(second)
    >>> cache.find(first.hash) is None, cache.find(second.hash) is second
    (True, True)
    """

    def __init__(self, limit: int = MAX_CACHED) -> None:
        self.limit = limit
        self._size = 0
        self._cached: OrderedDict[bytes, Dictionary] = OrderedDict()

    def find(self, hash: bytes) -> Dictionary | None:
        """Return the dictionary with this hash, or None if it is not cached."""
        found = self._cached.get(hash)
        if found is not None:
            self._cached.move_to_end(hash)
        return found

    def add(self, dictionary: Dictionary) -> None:
        """Add a dictionary. The last one stays even if it exceeds the limit."""
        if dictionary.hash not in self._cached:
            self._cached[dictionary.hash] = dictionary
            self._size += len(dictionary.content)
        while self._size > self.limit and len(self._cached) > 1:
            _, evicted = self._cached.popitem(last=False)
            self._size -= len(evicted.content)


def piece_key(hash: bytes, number: int = 0) -> str:
    """Return the key of a piece of a dictionary."""
    return f"{hash.hex()}.{number}" if number else hash.hex()


def dictionary_pieces(hash: bytes, body: bytes) -> dict[str, bytes]:
    """Return the pieces of a packed dictionary by key, the first piece first."""
    pieces = [body[at : at + PIECE_SIZE] for at in range(0, len(body), PIECE_SIZE)]
    pieces[0] = varint.write(len(body)) + pieces[0]
    return {piece_key(hash, number): piece for number, piece in enumerate(pieces)}


def parent_in(first: bytes) -> bytes:
    """Return the hash of the parent in the first piece of a dictionary; empty if it has none."""
    with suppress(PeerFault):
        return parent_of(first[varint.read(first, 0)[1] :])
    return b""


def _unpack(body: bytes, hash: bytes, parent: Dictionary | None) -> Dictionary:
    try:
        return unpack(body, hash, parent)
    except UnknownDictionary as problem:
        raise CorruptDictionary(str(problem), hash=hash.hex()) from None


def _read_size(hash: bytes, first: bytes) -> tuple[int, int]:
    try:
        size, at = varint.read(first, 0)
    except CorruptFrame as problem:
        raise CorruptDictionary(problem.detail, hash=hash.hex()) from None
    if size > MAX_BODY:
        raise CorruptDictionary("above the size limit of a dictionary", hash=hash.hex(), size=size, limit=MAX_BODY)
    return size, at
