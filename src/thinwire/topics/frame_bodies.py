"""Unpacked bodies of the frames in a topic log: the samples that dictionaries are trained on.

Only slot bindings are tracked, no event state. A frame whose dictionary is unknown is skipped and the dictionary is
noted, because a sampler needs only some of the messages.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import overload

from thinwire.codec.dictionary_bindings import MIN_PACKED_BYTES, FindDictionary
from thinwire.dictionaries import Codec, codec_of
from thinwire.errors import PeerFault
from thinwire.wire import Binding, Frame, FrameKind, read, split
from thinwire.wire.frame import DEFLATE_SLOT, MAX_FRAME, PACKED

MAX_PUBLISHERS = 65_536
"""publishers whose slots are tracked"""
MAX_CODECS = 8
SAMPLED = frozenset(
    {FrameKind.DATA, FrameKind.EXCEPTION, FrameKind.JSON, FrameKind.INTRODUCTION, FrameKind.PAYLOAD, FrameKind.AUDIT}
)
"""kinds of frames that contain values of events"""
_SHORT = MIN_PACKED_BYTES + 3
_PLAIN = frozenset(bytes((head,)) for head in range(256) if head & 0x0F in SAMPLED and not head & PACKED)
"""first bytes of sampled frames that are not packed; most of them are too short to be samples and need no parsing"""


class UnpackedBodies(Sequence[bytes]):
    """Bodies of frames, each unpacked on access; empty if that fails.

    frames: with the codec of their slot; None if no dictionary is needed
    """

    def __init__(self, frames: Sequence[tuple[Frame, Codec | None]]) -> None:
        self._frames = frames

    def __len__(self) -> int:
        return len(self._frames)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> UnpackedBodies: ...
    def __getitem__(self, index: int | slice) -> bytes | UnpackedBodies:
        if isinstance(index, slice):
            return UnpackedBodies(self._frames[index])
        frame, codec = self._frames[index]
        try:
            return frame.body if codec is None else codec.unpack(frame.carried, MAX_FRAME)
        except PeerFault:
            return b""


class FrameBodies:
    """The bodies of one topic's frames.

    find: returns a dictionary by hash, or None
    missing: hashes of dictionaries that frames need and `find` does not return
    unbound: publishers that used a slot before its binding was read: their key frames precede the first message
    """

    def __init__(self, find: FindDictionary) -> None:
        self.find = find
        self.missing: set[bytes] = set()
        self.unbound: set[str] = set()
        self._slots: dict[str, dict[int, bytes]] = {}
        self._codecs: OrderedDict[bytes, Codec] = OrderedDict()

    def read(self, publisher: str, message: bytes) -> UnpackedBodies:
        """Return the bodies of a message that are long enough to be packed. Unreadable frames are skipped."""
        found: list[tuple[Frame, Codec | None]] = []
        for frame in _frames(message):
            self._update_slots(publisher, frame)
            if frame.kind not in SAMPLED:
                continue
            codec = self._codec(publisher, frame.slot) if frame.slot else None
            if codec is not None or frame.slot == DEFLATE_SLOT or (frame.slot is None and _is_long(frame)):
                found.append((frame, codec))
        return UnpackedBodies(found)

    def read_bindings(self, publisher: str, message: bytes) -> None:
        """Read only the slot bindings of a message."""
        for frame in _frames(message):
            self._update_slots(publisher, frame)

    def bind(self, publisher: str, slot: int, hash: bytes) -> None:
        """Bind a slot of a publisher to a dictionary."""
        if len(self._slots) < MAX_PUBLISHERS or publisher in self._slots:
            self._slots.setdefault(publisher, {})[slot] = hash

    def _update_slots(self, publisher: str, frame: Frame) -> None:
        if frame.kind == FrameKind.KEY:
            self._slots.pop(publisher, None)
        elif frame.kind == FrameKind.BINDING:
            with suppress(PeerFault):
                binding = Binding.decode(frame.body)
                self.bind(publisher, binding.slot, binding.hash)

    def _codec(self, publisher: str, slot: int) -> Codec | None:
        """The codec of a slot. A missing binding or dictionary is noted."""
        hash = self._slots.get(publisher, {}).get(slot)
        if hash is None:
            self.unbound.add(publisher)
            return None
        codec = self._codecs.get(hash)
        if codec is None:
            found = self.find(hash)
            if found is None:
                self.missing.add(hash)
                return None
            codec = self._codecs[hash] = codec_of(found)
            while len(self._codecs) > MAX_CODECS:
                self._codecs.popitem(last=False)
        return codec


def _is_long(frame: Frame) -> bool:
    return len(frame.raw) - frame.header_size >= MIN_PACKED_BYTES


def _frames(message: bytes) -> Iterator[Frame]:
    """The frames of a message that can be samples or bindings, up to the first malformed one."""
    with suppress(PeerFault):
        for raw in split(message):
            if len(raw) >= _SHORT or raw[:1] not in _PLAIN:
                yield read(raw)
