"""A dictionary: bytes that both ends know, so that they need not travel again.

It is named by its content: who holds the hash can check what a store hands out, and two dictionaries that would decode
differently never share one. How hard the publisher tries (`level`) is not part of it; every level reads the same.

>>> first = Dictionary(b'{"room": "11.1", "temperature": ', "zstd", level=3, largest=64)
>>> Dictionary.decode(first.encode(), limit=1000) == first, len(first.hash)
(True, 16)
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b

from thinwire.errors import CorruptDictionary, CorruptFrame
from thinwire.wire import varint

VERSION = 1
HASH_BYTES = 16
MAX_CONTENT = 1 << 20
"""bytes; far above what pays, far below what hurts"""
MAX_MESSAGE = 1 << 26
CODECS = ("zstd", "zlib", "dense", "brief")
"""a codec travels as its place here, so new ones are appended"""


@dataclass(frozen=True)
class Facts:
    """What a dictionary was trained on, and what it gave on the part held out.

    messages, bytes: the sample it was trained on
    ratio: bytes saved, in per cent, on the later messages that it had not seen
    """

    messages: int
    bytes: int
    ratio: float


@dataclass(frozen=True)
class Dictionary:
    """Shared bytes, and what is needed to use them.

    content: the shared bytes
    codec: who reads it: "zstd", "zlib", "dense" or "brief" (zstd and zlib with one byte less a message)
    level: how hard the publisher tries; readers need not know
    largest: bytes of the largest message it is meant for; sets the window
    parent: hash of the one it was delta-coded against, where there is one
    facts: what it was trained on and what it gave
    """

    content: bytes = field(repr=False)
    codec: str
    level: int
    largest: int
    parent: bytes = b""
    facts: Facts | None = None

    def __post_init__(self) -> None:
        _check("codec", self.codec in CODECS, f"one of {', '.join(CODECS)}", self.codec)
        _check("level", 1 <= self.level <= 22, "1 to 22", self.level)
        _check("content", len(self.content) <= MAX_CONTENT, f"at most {MAX_CONTENT} bytes", len(self.content))
        _check("largest", 0 <= self.largest <= MAX_MESSAGE, f"0 to {MAX_MESSAGE} bytes", self.largest)
        _check("parent", len(self.parent) in (0, HASH_BYTES), f"empty or {HASH_BYTES} bytes", len(self.parent))

    @cached_property
    def hash(self) -> bytes:
        """Its name: differs whenever a message could decode differently."""
        head = varint.write(CODECS.index(self.codec)) + varint.write(self.largest)
        return blake2b(head + self.content, digest_size=HASH_BYTES, person=b"thinwire-dict-1").digest()

    def encode(self) -> bytes:
        """As it stands in a store: everything, facts included."""
        head = bytes((VERSION, CODECS.index(self.codec), self.level, self.facts is not None))
        parts = [head, varint.write(self.largest), varint.write_blob(self.parent)]
        if self.facts is not None:
            parts += [varint.write(self.facts.messages), varint.write(self.facts.bytes), _DOUBLE.pack(self.facts.ratio)]
        return b"".join([*parts, varint.write_blob(self.content)])

    @classmethod
    def decode(cls, raw: bytes, limit: int = MAX_CONTENT) -> Dictionary:
        """The dictionary again; `limit` is the largest content that is taken. Compare the hash: a store may lie."""
        try:
            return cls._read(raw, limit)
        except (CorruptFrame, IndexError, struct.error) as problem:
            raise CorruptDictionary(str(problem), length=len(raw), limit=limit) from None

    @classmethod
    def _read(cls, raw: bytes, limit: int) -> Dictionary:
        if raw[0] != VERSION:
            raise CorruptDictionary("another version", version=raw[0], known=VERSION)
        if raw[1] >= len(CODECS) or raw[3] > 1:
            raise CorruptDictionary("a codec or a mark that this reader does not know", codec=raw[1], mark=raw[3])
        largest, at = varint.read(raw, 4)
        parent, at = varint.read_blob(raw, at, HASH_BYTES)
        facts, at = _read_facts(raw, at) if raw[3] else (None, at)
        content, at = varint.read_blob(raw, at, min(limit, MAX_CONTENT))
        if at != len(raw):
            raise CorruptDictionary("bytes behind the end", extra=len(raw) - at)
        return cls(content, CODECS[raw[1]], raw[2], largest, parent, facts)


def _read_facts(raw: bytes, at: int) -> tuple[Facts, int]:
    messages, at = varint.read(raw, at)
    size, at = varint.read(raw, at)
    (ratio,) = _DOUBLE.unpack_from(raw, at)
    return Facts(messages, size, ratio), at + _DOUBLE.size


def _check(name: str, good: bool, limits: str, value: object) -> None:
    if not good:
        raise CorruptDictionary(f"{name} must be {limits}", **{name: value})


_DOUBLE = struct.Struct("<d")
