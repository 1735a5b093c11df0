"""Dictionaries: shared bytes that make messages compress better.

A dictionary is identified by a hash of everything that affects decoding. A receiver checks the hash of a fetched
dictionary. The compression `level` is not part of it, because it does not affect decoding.

>>> first = Dictionary(b'{"room": "11.1", "temperature": ', "zstd", level=3, largest=64)
>>> Dictionary.decode(first.encode(), limit=1000) == first, len(first.hash)
(True, 16)
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b

from thinwire.dictionaries.codecs.codec import codec_name, codec_names, codec_number
from thinwire.errors import CorruptDictionary, CorruptFrame
from thinwire.wire import varint

VERSION = 1
HASH_BYTES = 16
MAX_CONTENT = 1 << 20
"""bytes"""
MAX_MESSAGE = 1 << 26


@dataclass(frozen=True)
class Facts:
    """Training sample of a dictionary, and its result on held-out messages.

    messages, bytes: size of the sample
    ratio: per cent of bytes saved on later messages that were not used for training
    """

    messages: int
    bytes: int
    ratio: float


@dataclass(frozen=True)
class Dictionary:
    """Shared bytes and the codec that uses them.

    content: the shared bytes
    codec: a registered codec; "dense" and "brief" are zstd and zlib with trimmed messages
    level: compression level of the publisher
    largest: bytes of the largest message it is meant for; sets the window
    parent: hash of the dictionary that it was delta-coded against, if any
    """

    content: bytes = field(repr=False)
    codec: str
    level: int
    largest: int
    parent: bytes = b""
    facts: Facts | None = None

    def __post_init__(self) -> None:
        _check("codec", self.codec in codec_names(), f"one of {', '.join(codec_names())}", self.codec)
        _check("level", 1 <= self.level <= 22, "1 to 22", self.level)
        _check("content", len(self.content) <= MAX_CONTENT, f"at most {MAX_CONTENT} bytes", len(self.content))
        _check("largest", 0 <= self.largest <= MAX_MESSAGE, f"0 to {MAX_MESSAGE} bytes", self.largest)
        _check("parent", len(self.parent) in (0, HASH_BYTES), f"empty or {HASH_BYTES} bytes", len(self.parent))

    @cached_property
    def hash(self) -> bytes:
        """Identifies the dictionary; differs if a message could decode differently."""
        head = varint.write(codec_number(self.codec)) + varint.write(self.largest)
        return blake2b(head + self.content, digest_size=HASH_BYTES, person=b"thinwire-dict-1").digest()

    def encode(self) -> bytes:
        head = bytes((VERSION, codec_number(self.codec), self.level, self.facts is not None))
        parts = [head, varint.write(self.largest), varint.write_blob(self.parent)]
        if self.facts is not None:
            parts += [varint.write(self.facts.messages), varint.write(self.facts.bytes), _DOUBLE.pack(self.facts.ratio)]
        return b"".join([*parts, varint.write_blob(self.content)])

    @classmethod
    def decode(cls, raw: bytes, limit: int = MAX_CONTENT) -> Dictionary:
        """Return the dictionary of a stored form; `limit` is the largest accepted content.

        The caller must compare the hash with the expected one.
        """
        try:
            return cls._read(raw, limit)
        except (CorruptFrame, IndexError, struct.error) as problem:
            raise CorruptDictionary(str(problem), length=len(raw), limit=limit) from None

    @classmethod
    def _read(cls, raw: bytes, limit: int) -> Dictionary:
        if raw[0] != VERSION:
            raise CorruptDictionary("unsupported version", version=raw[0], known=VERSION)
        codec, flags = codec_name(raw[1]), raw[3]
        if flags > 1:
            raise CorruptDictionary("unknown flags", flags=flags)
        largest, at = varint.read(raw, 4)
        parent, at = varint.read_blob(raw, at, HASH_BYTES)
        facts, at = _read_facts(raw, at) if flags else (None, at)
        content, at = varint.read_blob(raw, at, min(limit, MAX_CONTENT))
        if at != len(raw):
            raise CorruptDictionary("extra bytes at the end", extra=len(raw) - at)
        return cls(content, codec, raw[2], largest, parent, facts)


def _read_facts(raw: bytes, at: int) -> tuple[Facts, int]:
    messages, at = varint.read(raw, at)
    size, at = varint.read(raw, at)
    (ratio,) = _DOUBLE.unpack_from(raw, at)
    return Facts(messages, size, ratio), at + _DOUBLE.size


def _check(name: str, good: bool, limits: str, value: object) -> None:
    if not good:
        raise CorruptDictionary(f"{name} must be {limits}", **{name: value})


_DOUBLE = struct.Struct("<d")
