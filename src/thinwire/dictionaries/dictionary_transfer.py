"""Packed form of dictionaries: compressed, or as a delta to a dictionary that the receiver has, whichever is shorter.

A receiver compares the hash of the unpacked dictionary with the requested one, because a wrong dictionary would decode
wrong messages.

>>> from thinwire.dictionaries.dictionary import Dictionary
>>> first = Dictionary(b"".join(b'{"room": "%d"}' % (n * n) for n in range(99)), "zlib", level=6, largest=64)
>>> second = Dictionary(first.content + b'{"floor": 3}', "zlib", level=6, largest=64)
>>> sent = pack(second, parent=first)
>>> sent.parent == first.hash, unpack(sent.body, second.hash, parent=first).content == second.content
(True, True)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from thinwire.dictionaries.codecs.deflate import Deflate
from thinwire.dictionaries.codecs.zstd import Zstd
from thinwire.dictionaries.dictionary import HASH_BYTES, MAX_CONTENT, Dictionary
from thinwire.errors import CorruptDictionary, CorruptFrame, UnknownDictionary

_DEFLATED, _ZSTD, _DELTA = 1, 2, 3
_LEVEL = 19
_OVERHEAD = 128
"""bytes of the stored form besides its content, at most"""


@dataclass(frozen=True)
class PackedDictionary:
    """The bytes that are sent to every receiver.

    parent: hash of the dictionary that is needed to unpack them; empty if none is
    """

    body: bytes
    parent: bytes = b""


def pack(dictionary: Dictionary, parent: Dictionary | None = None) -> PackedDictionary:
    """Return the shortest form: compressed alone, or as a delta to the parent."""
    plain = replace(dictionary, parent=b"").encode()
    forms = [PackedDictionary(bytes((form,)) + _codec(form, b"").pack(plain)) for form in (_DEFLATED, _ZSTD)]
    if parent is not None and parent.content:
        with_parent = replace(dictionary, parent=parent.hash).encode()
        delta = _codec(_DELTA, parent.content).pack(with_parent)
        forms.append(PackedDictionary(bytes((_DELTA,)) + parent.hash + delta, parent.hash))
    return min(forms, key=lambda form: len(form.body))


def cost(dictionary: Dictionary, parent: Dictionary | None = None) -> int:
    """Return the bytes sent to a receiver that has the parent."""
    return len(pack(dictionary, parent).body)


def parent_of(body: bytes) -> bytes:
    """Return the hash of the dictionary that is needed to unpack `body`; empty if none is."""
    if not body or body[0] not in (_DEFLATED, _ZSTD, _DELTA):
        raise CorruptDictionary("unknown form", form=body[:1])
    return body[1 : 1 + HASH_BYTES] if body[0] == _DELTA else b""


def unpack(body: bytes, expected: bytes, parent: Dictionary | None = None, limit: int = MAX_CONTENT) -> Dictionary:
    """Return the dictionary; raise `CorruptDictionary` if its hash is not `expected` or it is above `limit` bytes."""
    needed = parent_of(body)
    if needed and (parent is None or parent.hash != needed):
        raise UnknownDictionary("the parent of this dictionary", hash=needed.hex())
    codec = _codec(body[0], parent.content if needed and parent is not None else b"")
    try:
        plain = codec.unpack(body[1 + len(needed) :], limit + _OVERHEAD)
    except CorruptFrame as problem:
        raise CorruptDictionary(str(problem), length=len(body), limit=limit) from None
    dictionary = Dictionary.decode(plain, limit)
    if dictionary.hash != expected:
        raise CorruptDictionary("not the requested one", hash=dictionary.hash.hex(), expected=expected.hex())
    return dictionary


def _codec(form: int, shared: bytes) -> Deflate | Zstd:
    return Deflate(9) if form == _DEFLATED else Zstd(shared, _LEVEL, MAX_CONTENT)
