"""How a dictionary travels: packed, or as a change of one that the receiver has already, whichever is shorter.

Every receiver pays for it, so it is made as small as it gets, once, by the side that trained it. What arrives is
compared with the hash it was asked for: a store may lie, and a wrong dictionary makes wrong messages.

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

_DEFLATED, _ZSTD, _CHANGED = 1, 2, 3
_LEVEL = 19
_FACTS = 128
"""bytes that the form of a dictionary has at most besides its content"""


@dataclass(frozen=True)
class Travelling:
    """The bytes that go to every receiver.

    parent: hash of the dictionary that a receiver must have to read them; empty where it needs none
    """

    body: bytes
    parent: bytes = b""


def pack(dictionary: Dictionary, parent: Dictionary | None = None) -> Travelling:
    """The shortest form: packed by itself, or as a change of the parent."""
    plain = replace(dictionary, parent=b"").encode()
    forms = [Travelling(bytes((form,)) + _machine(form, b"").pack(plain)) for form in (_DEFLATED, _ZSTD)]
    if parent is not None and parent.content:
        lineage = replace(dictionary, parent=parent.hash).encode()
        changed = _machine(_CHANGED, parent.content).pack(lineage)
        forms.append(Travelling(bytes((_CHANGED,)) + parent.hash + changed, parent.hash))
    return min(forms, key=lambda form: len(form.body))


def cost(dictionary: Dictionary, parent: Dictionary | None = None) -> int:
    """Bytes that it costs to give the dictionary to one receiver that has the parent."""
    return len(pack(dictionary, parent).body)


def parent_of(body: bytes) -> bytes:
    """The hash of the dictionary that is needed to read this one; empty where none is."""
    if not body or body[0] not in (_DEFLATED, _ZSTD, _CHANGED):
        raise CorruptDictionary("a form that this reader does not know", form=body[:1])
    return body[1 : 1 + HASH_BYTES] if body[0] == _CHANGED else b""


def unpack(body: bytes, expected: bytes, parent: Dictionary | None = None, limit: int = MAX_CONTENT) -> Dictionary:
    """The dictionary again; refuses one that is not the expected one, or larger than `limit` bytes."""
    needed = parent_of(body)
    if needed and (parent is None or parent.hash != needed):
        raise UnknownDictionary("the one that this was changed from", hash=needed.hex())
    machine = _machine(body[0], parent.content if needed and parent is not None else b"")
    try:
        plain = machine.unpack(body[1 + len(needed) :], limit + _FACTS)
    except CorruptFrame as problem:
        raise CorruptDictionary(str(problem), length=len(body), limit=limit) from None
    dictionary = Dictionary.decode(plain, limit)
    if dictionary.hash != expected:
        raise CorruptDictionary("not the one that was asked for", hash=dictionary.hash.hex(), expected=expected.hex())
    return dictionary


def _machine(form: int, shared: bytes) -> Deflate | Zstd:
    return Deflate(9) if form == _DEFLATED else Zstd(shared, _LEVEL, MAX_CONTENT)
