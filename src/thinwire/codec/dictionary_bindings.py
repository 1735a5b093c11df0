"""Dictionaries bound to slots, at both ends of a stream.

A publisher sends a binding before the first use of a slot and again after every key frame. A slot therefore refers to
the dictionary of the latest binding before a frame, and a decoder that starts at a key frame receives all bindings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from thinwire.dictionaries import Codec, Dictionary, codec_of
from thinwire.errors import ConfigError, UnknownDictionary
from thinwire.wire import Binding
from thinwire.wire.frame import DEFLATE_SLOT, MAX_FRAME, inflate, pack

MAX_SLOT = 255
MAX_EXPIRY = (1 << 63) - 1
MIN_PACKED_BYTES = 8
"""minimum size of a body for packing. From here on two in three short texts shrink by more than the slot byte"""

FindDictionary = Callable[[bytes], Dictionary | None]
"""Return the dictionary with this hash, or None if it is not available yet."""


def no_dictionaries(hash: bytes) -> Dictionary | None:
    """Lookup for streams without dictionaries."""
    return None


class Bindings:
    """Slots bound to dictionary hashes. A dictionary is looked up when a frame first needs it."""

    def __init__(self, find: FindDictionary) -> None:
        self._find = find
        self._bound: dict[int, Binding] = {}
        self._codecs: dict[bytes, Codec] = {}

    def bind(self, binding: Binding) -> None:
        """Bind a slot, replacing its previous binding."""
        self._bound[binding.slot] = binding

    def restore(self, bindings: Iterable[Binding]) -> None:
        """Replace all bindings: by those of a snapshot, or by none at a key frame. Codecs are costly and usually bound
        again at once, so they stay."""
        self._bound = {binding.slot: binding for binding in bindings}

    def active(self) -> list[Binding]:
        return list(self._bound.values())

    def missing(self, slot: int) -> Binding | None:
        """Return the binding of a slot whose dictionary is not available yet, or None."""
        binding = self._bound.get(slot)
        return binding if binding is not None and self._codec(binding) is None else None

    def unpack(self, slot: int, body: bytes) -> bytes:
        """Return the body that was packed for a slot. Raises UnknownDictionary."""
        if slot == DEFLATE_SLOT:
            return inflate(body, MAX_FRAME)
        binding = self._bound.get(slot)
        if binding is None:
            raise UnknownDictionary("the slot is not bound", slot=slot)
        codec = self._codec(binding)
        if codec is None:
            raise UnknownDictionary(slot=slot, hash=binding.hash.hex())
        return codec.unpack(body, MAX_FRAME)

    def _codec(self, binding: Binding) -> Codec | None:
        codec = self._codecs.get(binding.hash)
        if codec is None:
            found = self._find(binding.hash)
            if found is None or found.hash != binding.hash:
                return None
            active = {bound.hash for bound in self._bound.values()}
            self._codecs = {hash: stored for hash, stored in self._codecs.items() if hash in active}
            codec = self._codecs[binding.hash] = codec_of(found)
        return codec


class Packer:
    """Packs frame bodies with the bound dictionary that expires last, with deflate, or not at all.

    until: the expiry of the dictionary in use
    awaited: pack complete bodies before there is a dictionary

    >>> packer = Packer()
    >>> said = Dictionary(b'{"room": "11.1", "temperature": 20.5}', "zlib", level=6, largest=64)
    >>> packer.use(said, slot=1).slot
    1
    >>> packed, slot = packer.pack(b'{"room": "11.2", "temperature": 20.5}')
    >>> len(packed) < 15, slot
    (True, 1)
    """

    def __init__(self) -> None:
        self.until = math.inf
        self.awaited = False
        self._bound: dict[int, tuple[Binding, Codec]] = {}
        self._in_use: tuple[int, Codec] | None = None

    @property
    def is_active(self) -> bool:
        """Whether complete bodies are packed: a dictionary is in use or awaited."""
        return self._in_use is not None or self.awaited

    def use(self, dictionary: Dictionary, slot: int, expires: float = 0) -> Binding:
        """Bind a dictionary to a slot, replacing its previous binding."""
        if isinstance(slot, bool) or not isinstance(slot, int) or not 1 <= slot <= MAX_SLOT:
            raise ConfigError(f"slot must be an integer from 1 to {MAX_SLOT}", slot=slot)
        if not 0 <= expires <= MAX_EXPIRY:
            raise ConfigError("expires must be a time in seconds since 1970, or 0 for never", expires=expires)
        binding = Binding(slot, dictionary.hash, int(expires))
        before = self._bound.pop(slot, None)
        same = before is not None and before[0].hash == binding.hash
        self._bound[slot] = binding, before[1] if before is not None and same else codec_of(dictionary)
        self._choose()
        return binding

    def drop(self, slot: int) -> None:
        """Remove the binding of a slot, if there is one."""
        if self._bound.pop(slot, None) is not None:
            self._choose()

    def expire(self, now: float) -> None:
        self._bound = {slot: bound for slot, bound in self._bound.items() if now < _end(bound[0])}
        self._choose()

    def active(self) -> list[Binding]:
        """Return the current bindings, which key frames repeat."""
        return [binding for binding, _ in self._bound.values()]

    def pack(self, body: bytes) -> tuple[bytes, int | None]:
        """Return the smallest of the plain body, the body packed with the dictionary and the deflated body, and its
        slot. Both packed forms cost a slot byte. Deflate takes ten times as long; it is skipped if the dictionary
        halves the body."""
        packed, size = body, len(body)
        slot: int | None = None
        if self._in_use is not None and size >= MIN_PACKED_BYTES:
            tried = self._in_use[1].pack(body)
            if len(tried) + 1 < size:
                packed, slot = tried, self._in_use[0]
            if 2 * len(tried) < size:
                return packed, slot
        deflated, deflate = pack(body)
        if deflate is None or (slot is not None and len(deflated) >= len(packed)):
            return packed, slot
        return deflated, deflate

    def _choose(self) -> None:
        if not self._bound:
            self._in_use, self.until = None, math.inf
            return
        newest_first = reversed(self._bound.values())
        binding, codec = max(newest_first, key=lambda bound: _end(bound[0]))
        self._in_use, self.until = (binding.slot, codec), _end(binding)


def _end(binding: Binding) -> float:
    return binding.expires or math.inf
