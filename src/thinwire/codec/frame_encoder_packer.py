"""How a publisher packs its frames: with the dictionary that lives longest, with deflate, or not at all."""

from __future__ import annotations

import math

from thinwire.dictionaries import Codec, Dictionary, codec_of
from thinwire.errors import ConfigError
from thinwire.wire import Binding
from thinwire.wire.frame_packing import pack

MAX_SLOT = 255
MAX_EXPIRY = (1 << 63) - 1
WORTH_TRYING = 8
"""bytes of a body; from here on two in three short texts shrink by more than the slot costs, below hardly any"""


class Packer:
    """The dictionaries a publisher has bound to slots, of which it uses the one whose expiry lies farthest ahead.

    until: the time from which on the one in use may not be used any more
    awaited: there is none yet, but one may come: bodies are packed as they will be then

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
    def ready(self) -> bool:
        """Are bodies packed as a whole: is there a dictionary to pack with, or may one come?"""
        return self._in_use is not None or self.awaited

    def use(self, dictionary: Dictionary, slot: int, expires: float = 0) -> Binding:
        """Bind a dictionary to a slot, in place of what the slot named before."""
        if isinstance(slot, bool) or not isinstance(slot, int) or not 1 <= slot <= MAX_SLOT:
            raise ConfigError(f"slot is a whole number from 1 to {MAX_SLOT}", slot=slot)
        if not 0 <= expires <= MAX_EXPIRY:
            raise ConfigError("expires is a time in seconds since 1970, or 0 for never", expires=expires)
        binding = Binding(slot, dictionary.hash, int(expires))
        before = self._bound.pop(slot, None)
        same = before is not None and before[0].hash == binding.hash
        self._bound[slot] = binding, before[1] if before is not None and same else codec_of(dictionary)
        self._choose()
        return binding

    def drop(self, slot: int) -> None:
        """Use the slot's dictionary no more, and tell of it no more; no harm if there is none."""
        if self._bound.pop(slot, None) is not None:
            self._choose()

    def expire(self, now: float) -> None:
        """Let go of what may not be used any more."""
        self._bound = {slot: bound for slot, bound in self._bound.items() if now < _end(bound[0])}
        self._choose()

    def in_force(self) -> list[Binding]:
        """The bindings that a reader who begins here must be told."""
        return [binding for binding, _ in self._bound.values()]

    def pack(self, body: bytes) -> tuple[bytes, int | None]:
        """The smallest of the body, its form by dictionary and its deflated form (with the slot byte they cost), and
        its slot. Deflate is not tried where the dictionary has halved the body: it costs ten times as much."""
        packed, size = body, len(body)
        slot: int | None = None
        if self._in_use is not None and size >= WORTH_TRYING:
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
