"""Where dictionaries are kept: by their hash, for as long as a log needs them, in pieces that the broker takes.

    <hash>      the length of the whole as a varint, then the first piece of `Dictionary.encode`
    <hash>.1    the next piece, and so on

The first piece is stored last, so whoever finds it finds all of them. A store is not trusted: what it hands out must
have the hash that was asked for.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from thinwire.dictionaries import Dictionary
from thinwire.dictionaries.dictionary import MAX_CONTENT
from thinwire.errors import CorruptDictionary, CorruptFrame
from thinwire.frames import varint
from thinwire.transports.broker import Bucket

PIECE = 1 << 18
MAX_ENCODED = MAX_CONTENT + 1024
MAX_KNOWN = 16 << 20
"""bytes of dictionaries that a reader keeps"""


class DictionaryStore:
    """The dictionaries of all topics in one bucket.

    piece: bytes of a piece, at most; less than the broker takes in a message
    """

    def __init__(self, bucket: Bucket, *, piece: int = PIECE) -> None:
        self.piece = piece
        self._bucket = bucket

    async def put(self, dictionary: Dictionary) -> None:
        """Store a dictionary; no harm if it is there."""
        data = dictionary.encode()
        pieces = [data[at : at + self.piece] for at in range(0, len(data), self.piece)]
        for number in reversed(range(1, len(pieces))):
            await self._bucket.put(key_of(dictionary.hash, number), pieces[number])
        await self._bucket.put(key_of(dictionary.hash), varint.write(len(data)) + pieces[0])

    async def get(self, hash: bytes) -> Dictionary | None:
        """The dictionary with this hash; None where there is none, CorruptDictionary where it is another."""
        first = await self._value(key_of(hash))
        if first is None:
            return None
        return assembled(hash, first, [await self._value(key) for key in further_keys(hash, first, self.piece)])

    async def _value(self, key: str) -> bytes | None:
        entry = await self._bucket.get(key)
        return entry.value if entry is not None else None


class Known:
    """The dictionaries a reader has seen; those it used last, up to so many bytes.

    >>> known = Known(limit=10)
    >>> first, second = (Dictionary(said, "zlib", 6, 64) for said in (b"one two", b"three"))
    >>> known.keep(first); known.keep(second)
    >>> known.find(first.hash) is None, known.find(second.hash) is second
    (True, True)
    """

    def __init__(self, limit: int = MAX_KNOWN) -> None:
        self.limit = limit
        self._size = 0
        self._known: OrderedDict[bytes, Dictionary] = OrderedDict()

    def find(self, hash: bytes) -> Dictionary | None:
        """The dictionary with this hash; None where it was not seen, or long ago."""
        found = self._known.get(hash)
        if found is not None:
            self._known.move_to_end(hash)
        return found

    def keep(self, dictionary: Dictionary) -> None:
        """Know one more; the last one stays, however large it is."""
        if dictionary.hash not in self._known:
            self._known[dictionary.hash] = dictionary
            self._size += len(dictionary.content)
        while self._size > self.limit and len(self._known) > 1:
            _, gone = self._known.popitem(last=False)
            self._size -= len(gone.content)


def key_of(hash: bytes, number: int = 0) -> str:
    """Where a piece of a dictionary is."""
    return f"{hash.hex()}.{number}" if number else hash.hex()


def further_keys(hash: bytes, first: bytes, piece: int = PIECE) -> list[str]:
    """Where the pieces after the first one are; CorruptDictionary where it cannot be a first one."""
    size, at = _size(hash, first)
    held = len(first) - at
    if held > size or (held < size and held != piece):
        raise CorruptDictionary("pieces of another size than told", hash=hash.hex(), size=size, held=held)
    return [key_of(hash, number) for number in range(1, -(-size // piece))]


def assembled(hash: bytes, first: bytes, further: Sequence[bytes | None]) -> Dictionary:
    """The dictionary from its pieces, once it has the hash that was asked for."""
    size, at = _size(hash, first)
    data = b"".join([first[at:], *(piece for piece in further if piece is not None and len(piece) <= size)])
    if len(data) != size:
        raise CorruptDictionary("a piece is missing", hash=hash.hex(), size=size, found=len(data))
    found = Dictionary.decode(data)
    if found.hash != hash:
        raise CorruptDictionary("the store has another one under this hash", hash=hash.hex(), found=found.hash.hex())
    return found


def fetched(hash: bytes, document: Callable[[str], bytes | None]) -> Dictionary | None:
    """As `DictionaryStore.get`, for whoever reads documents without waiting for an event loop."""
    first = document(key_of(hash))
    return None if first is None else assembled(hash, first, [document(key) for key in further_keys(hash, first)])


def _size(hash: bytes, first: bytes) -> tuple[int, int]:
    try:
        size, at = varint.read(first, 0)
    except CorruptFrame as problem:
        raise CorruptDictionary(problem.detail, hash=hash.hex()) from None
    if size > MAX_ENCODED:
        raise CorruptDictionary("larger than a dictionary may be", hash=hash.hex(), size=size, limit=MAX_ENCODED)
    return size, at
