"""What the slots of a link name, at its receiving end.

A publisher binds a slot in its own sequence, before the slot's first use and again behind every key frame. So a slot
means what the log says at that place, however often it is used again later, and whoever begins at a key frame knows
all that is in force.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from thinwire.dictionaries import Codec, Dictionary, codec_of
from thinwire.errors import UnknownDictionary
from thinwire.wire import Binding, Frame
from thinwire.wire.frame import MAX_FRAME

Find = Callable[[bytes], Dictionary | None]
"""the dictionary with this hash; None where it is not known yet"""


class Bindings:
    """Slots, each bound to the hash of a dictionary, which is looked up when it is first needed."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._bound: dict[int, Binding] = {}
        self._codecs: dict[bytes, Codec] = {}

    def bind(self, binding: Binding) -> None:
        """From here on; what the slot named before is no longer in force."""
        self._bound[binding.slot] = binding

    def clear(self) -> None:
        """A key frame begins everything anew. Codecs stay: they are dear, and mostly bound again at once."""
        self._bound.clear()

    def restore(self, bindings: Iterable[Binding]) -> None:
        """Stand where another reader stood."""
        self._bound = {binding.slot: binding for binding in bindings}

    def in_force(self) -> list[Binding]:
        """All that is bound here."""
        return list(self._bound.values())

    def lacking(self, slot: int) -> Binding | None:
        """The binding of a slot whose dictionary is not known yet; None where it is, or nothing is bound."""
        binding = self._bound.get(slot)
        return binding if binding is not None and self._codec(binding) is None else None

    def codec(self, slot: int) -> Codec | None:
        """What unpacks the bodies of a slot; None where nothing is bound to it, or its dictionary is not known yet."""
        binding = self._bound.get(slot)
        return self._codec(binding) if binding is not None else None

    def unpack(self, frame: Frame) -> bytes:
        """The body of a frame that is packed with a dictionary; UnknownDictionary where its slot names none."""
        assert frame.slot is not None
        binding = self._bound.get(frame.slot)
        if binding is None:
            raise UnknownDictionary("the slot is not bound", slot=frame.slot)
        codec = self._codec(binding)
        if codec is None:
            raise UnknownDictionary(slot=frame.slot, hash=binding.hash.hex())
        return codec.unpack(frame.carried, MAX_FRAME)

    def _codec(self, binding: Binding) -> Codec | None:
        codec = self._codecs.get(binding.hash)
        if codec is None:
            found = self._find(binding.hash)
            if found is None or found.hash != binding.hash:
                return None
            in_force = {bound.hash for bound in self._bound.values()}
            self._codecs = {name: kept for name, kept in self._codecs.items() if name in in_force}
            codec = self._codecs[binding.hash] = codec_of(found)
        return codec


def knows_none(hash: bytes) -> Dictionary | None:
    """For links that nobody gives a dictionary."""
    return None
