"""What travels in the log of a topic, frame by frame and unpacked: what a dictionary would be used on.

No state of events is followed here, only what slots name. A frame whose dictionary is not known is passed over, and
what would have been needed is noted: a sampler may do without some of the messages.

Where dictionaries are kept: by their hash, for as long as a log needs them, in pieces that the broker takes.

    <hash>      the length of the whole as a varint, then the first piece of the dictionary as it travels
    <hash>.1    the next piece, and so on

A dictionary travels packed, or as a change of its parent, which most readers have; who has not reads that one too. The
first piece is stored last, so whoever finds it finds all of them. A store is not trusted: what it hands out must have
the hash that was asked for.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from typing import overload

from thinwire.brokers.protocol import Bucket
from thinwire.codec.decoder_state import Find
from thinwire.codec.frame_encoder import WORTH_TRYING
from thinwire.dictionaries import Codec, Dictionary, Travelling, codec_of
from thinwire.dictionaries.dictionary import MAX_CONTENT
from thinwire.dictionaries.dictionary_transfer import pack, parent_of, unpack
from thinwire.errors import CorruptDictionary, CorruptFrame, PeerFault, UnknownDictionary
from thinwire.wire import Binding, Frame, FrameKind, read, split, varint
from thinwire.wire.frame import DEFLATE_SLOT, MAX_FRAME, PACKED

MAX_PUBLISHERS = 65_536
"""publishers whose slots are remembered"""
MAX_CODECS = 8
SAMPLED = frozenset(
    {FrameKind.DATA, FrameKind.EXCEPTION, FrameKind.JSON, FrameKind.INTRODUCTION, FrameKind.PAYLOAD, FrameKind.AUDIT}
)
"""kinds of frames that carry what users said"""
_SHORT = WORTH_TRYING + 3
_PLAIN = frozenset(bytes((head,)) for head in range(256) if head & 0x0F in SAMPLED and not head & PACKED)
"""how such frames begin when they are not packed: of a fast stream most are, and too short to be looked at closely"""


class Unpacked(Sequence[bytes]):
    """The bodies of frames, each unpacked when it is looked at; empty where it cannot be.

    frames: each with the codec that its slot named at its place; None where it needs no dictionary
    """

    def __init__(self, frames: Sequence[tuple[Frame, Codec | None]]) -> None:
        self._frames = frames

    def __len__(self) -> int:
        return len(self._frames)

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> Unpacked: ...
    def __getitem__(self, place: int | slice) -> bytes | Unpacked:
        if isinstance(place, slice):
            return Unpacked(self._frames[place])
        frame, codec = self._frames[place]
        try:
            return frame.body if codec is None else codec.unpack(frame.carried, MAX_FRAME)
        except PeerFault:
            return b""


class Bodies:
    """The bodies of one topic.

    find: looks a dictionary up by its hash; None where it is not known
    lacking: hashes of dictionaries that frames were packed with and that were not known
    unbound: publishers that used slots of which nothing had been heard: their key frames came before we listened
    """

    def __init__(self, find: Find) -> None:
        self.find = find
        self.lacking: set[bytes] = set()
        self.unbound: set[str] = set()
        self._slots: dict[str, dict[int, bytes]] = {}
        self._codecs: OrderedDict[bytes, Codec] = OrderedDict()

    def read(self, publisher: str, message: bytes) -> Unpacked:
        """The bodies of a message that are long enough to be packed; what cannot be read is left out."""
        found: list[tuple[Frame, Codec | None]] = []
        for frame in _frames(message):
            self._notice(publisher, frame)
            if frame.kind not in SAMPLED:
                continue
            codec = self._codec(publisher, frame.slot) if frame.slot else None
            if codec is not None or frame.slot == DEFLATE_SLOT or (frame.slot is None and _is_long(frame)):
                found.append((frame, codec))
        return Unpacked(found)

    def bind(self, publisher: str, message: bytes) -> None:
        """Only take notice of what a message says about slots."""
        for frame in _frames(message):
            self._notice(publisher, frame)

    def know(self, publisher: str, slot: int, hash: bytes) -> None:
        """What a slot of a publisher names, for whoever knows without a frame."""
        if len(self._slots) < MAX_PUBLISHERS or publisher in self._slots:
            self._slots.setdefault(publisher, {})[slot] = hash

    def _notice(self, publisher: str, frame: Frame) -> None:
        if frame.kind == FrameKind.KEY:
            self._slots.pop(publisher, None)
        elif frame.kind == FrameKind.BINDING:
            with suppress(PeerFault):
                binding = Binding.decode(frame.body)
                self.know(publisher, binding.slot, binding.hash)

    def _codec(self, publisher: str, slot: int) -> Codec | None:
        """What unpacks the bodies of a slot; what is missing for that is noted."""
        hash = self._slots.get(publisher, {}).get(slot)
        if hash is None:
            self.unbound.add(publisher)
            return None
        codec = self._codecs.get(hash)
        if codec is None:
            found = self.find(hash)
            if found is None:
                self.lacking.add(hash)
                return None
            codec = self._codecs[hash] = codec_of(found)
            while len(self._codecs) > MAX_CODECS:
                self._codecs.popitem(last=False)
        return codec


def _is_long(frame: Frame) -> bool:
    return len(frame.raw) - frame.header_size >= WORTH_TRYING


def _frames(message: bytes) -> Iterator[Frame]:
    """The frames of a message that may matter here, up to where it breaks off."""
    with suppress(PeerFault):
        for raw in split(message):
            if len(raw) >= _SHORT or raw[:1] not in _PLAIN:
                yield read(raw)


PIECE = 1 << 18
MAX_BODY = MAX_CONTENT + 1024
MAX_CHAIN = 4
"""dictionaries that must be read for one, at most: changes of changes of changes"""
MAX_KNOWN = 16 << 20
"""bytes of dictionaries that a reader keeps"""

FindDictionary = Callable[[bytes], Dictionary | None]
"""a dictionary that the reader has already; None where it has not"""


class DictionaryStore:
    """The dictionaries of all topics in one bucket.

    piece: bytes of a piece, at most; less than the broker takes in a message
    received: bytes that were read from it
    """

    def __init__(self, bucket: Bucket, *, piece: int = PIECE) -> None:
        self.piece = piece
        self.received = 0
        self._bucket = bucket

    async def put(self, dictionary: Dictionary, parent: Dictionary | None = None) -> Travelling:
        """Store a dictionary as it travels to those who have the parent; no harm if it is there."""
        travelling = pack(dictionary, parent)
        await self.put_travelling(dictionary.hash, travelling)
        return travelling

    async def put_travelling(self, hash: bytes, travelling: Travelling) -> None:
        """The same for one that has been packed."""
        for key, value in reversed(pieces(hash, travelling.body, self.piece).items()):
            await self._bucket.put(key, value)

    async def get(self, hash: bytes, known: FindDictionary | None = None) -> Dictionary | None:
        """The dictionary with this hash; None where there is none, CorruptDictionary where it is another.

        known: finds those that the reader has already, which others may be told as changes of
        """
        steps = reading(hash, known, self.piece)
        try:
            key = next(steps)
            while True:
                entry = await self._bucket.get(key)
                value = entry.value if entry is not None else None
                self.received += len(value or b"")
                key = steps.send(value)
        except StopIteration as end:
            found: Dictionary | None = end.value
            return found

    async def delete(self, hash: bytes) -> None:
        """Forget a dictionary: its first piece first, so that nobody begins to read it."""
        for entry in [*await self._bucket.entries(key_of(hash)), *await self._bucket.entries(f"{hash.hex()}.*")]:
            await self._bucket.delete(entry.key)


class DictionaryCache:
    """The dictionaries a reader has seen; those it used last, up to so many bytes.

    >>> known = DictionaryCache(limit=10)
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


def pieces(hash: bytes, body: bytes, piece: int = PIECE) -> dict[str, bytes]:
    """The documents of a dictionary that travels as these bytes, the first piece first."""
    cut = [body[at : at + piece] for at in range(0, len(body), piece)]
    cut[0] = varint.write(len(body)) + cut[0]
    return {key_of(hash, number): part for number, part in enumerate(cut)}


def parent_in(first: bytes) -> bytes:
    """The hash of the one that a dictionary is told as a change of, by its first piece; empty where there is none."""
    with suppress(PeerFault):
        return parent_of(first[varint.read(first, 0)[1] :])
    return b""


def reading(
    hash: bytes, known: FindDictionary | None = None, piece: int = PIECE
) -> Generator[str, bytes | None, Dictionary | None]:
    """How a dictionary is read, whoever fetches the documents: asks for one key after the other, and returns it."""
    bodies: list[tuple[bytes, bytes]] = []
    found, needed = None, hash
    while needed and found is None:
        if len(bodies) == MAX_CHAIN:
            raise CorruptDictionary("a change of too many changes", hash=hash.hex(), limit=MAX_CHAIN)
        body = yield from _body(needed, piece)
        if body is None and bodies:
            raise CorruptDictionary("the one that it is a change of is missing", hash=hash.hex(), missing=needed.hex())
        if body is None:
            return None
        bodies.append((needed, body))
        needed = parent_of(body)
        found = known(needed) if needed and known is not None else None
    for name, body in reversed(bodies):
        found = _unpacked(body, name, found)
    return found


def fetched(
    hash: bytes, document: Callable[[str], bytes | None], known: FindDictionary | None = None, piece: int = PIECE
) -> Dictionary | None:
    """As `DictionaryStore.get`, for whoever reads documents without waiting for an event loop."""
    steps = reading(hash, known, piece)
    try:
        key = next(steps)
        while True:
            key = steps.send(document(key))
    except StopIteration as end:
        found: Dictionary | None = end.value
        return found


def _body(hash: bytes, piece: int) -> Generator[str, bytes | None, bytes | None]:
    """The bytes in which a dictionary travels, from all their pieces."""
    first = yield key_of(hash)
    if first is None:
        return None
    size, at = _size(hash, first)
    parts, held = [first[at:]], len(first) - at
    if held > size or (held < size and held != piece):
        raise CorruptDictionary("pieces of another size than told", hash=hash.hex(), size=size, held=held)
    for number in range(1, -(-size // piece)):
        part = yield key_of(hash, number)
        if part is None or len(part) > piece:
            raise CorruptDictionary("a piece is missing, or too large", hash=hash.hex(), piece=number)
        parts.append(part)
    body = b"".join(parts)
    if len(body) != size:
        raise CorruptDictionary("pieces of another size than told", hash=hash.hex(), size=size, held=len(body))
    return body


def _unpacked(body: bytes, hash: bytes, parent: Dictionary | None) -> Dictionary:
    try:
        return unpack(body, hash, parent)
    except UnknownDictionary as problem:
        raise CorruptDictionary(str(problem), hash=hash.hex()) from None


def _size(hash: bytes, first: bytes) -> tuple[int, int]:
    try:
        size, at = varint.read(first, 0)
    except CorruptFrame as problem:
        raise CorruptDictionary(problem.detail, hash=hash.hex()) from None
    if size > MAX_BODY:
        raise CorruptDictionary("larger than a dictionary may be", hash=hash.hex(), size=size, limit=MAX_BODY)
    return size, at
