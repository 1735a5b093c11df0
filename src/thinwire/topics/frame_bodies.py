"""Unpacked bodies of the frames in a topic log: the samples that dictionaries are trained on.

A slot is a number of one publisher: a packed frame contains the slot of its dictionary, and an earlier frame of kind
BINDING binds that slot to the hash of the dictionary. Only these bindings are tracked, no event state. A frame whose
dictionary is unknown is skipped and the dictionary is recorded, because a sample needs only some of the messages.
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
"""codecs of recently used dictionaries, at most"""
SAMPLED = frozenset(
    {FrameKind.DATA, FrameKind.EXCEPTION, FrameKind.JSON, FrameKind.INTRODUCTION, FrameKind.PAYLOAD, FrameKind.AUDIT}
)
"""kinds of frames that contain values of events"""
_MIN_SAMPLED_FRAME = MIN_PACKED_BYTES + 3
"""bytes; a shorter frame that is not packed has a body that is too short for a sample"""
_UNPACKED_HEADS = frozenset(bytes((head,)) for head in range(256) if head & 0x0F in SAMPLED and not head & PACKED)
"""first bytes of frames in SAMPLED that are not packed; most of these frames are short and need no parsing"""


class UnpackedBodies(Sequence[bytes]):
    """Bodies of frames, each unpacked on access; a body that cannot be unpacked is empty.

    frames: pairs of a frame and the codec of its slot, None if the frame needs no dictionary
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
            return frame.body if codec is None else codec.unpack(frame.sent_body, MAX_FRAME)
        except PeerFault:
            return b""


class FrameBodies:
    """The bodies of one topic's frames.

    find: returns a dictionary by hash, or None
    missing_dictionaries: hashes of dictionaries that frames need and `find` does not return
    unbound_publishers: publishers that used a slot whose binding is in a message before the first one read
    """

    def __init__(self, find: FindDictionary) -> None:
        self.find = find
        self.missing_dictionaries: set[bytes] = set()
        self.unbound_publishers: set[str] = set()
        self._slots: dict[str, dict[int, bytes]] = {}
        self._codecs: OrderedDict[bytes, Codec] = OrderedDict()

    def read(self, publisher: str, message: bytes) -> UnpackedBodies:
        """Return the bodies of a message that are long enough for packing. Unreadable frames are skipped."""
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

    def _update_slots(self, publisher: str, frame: Frame) -> None:
        if frame.kind == FrameKind.KEY:
            self._slots.pop(publisher, None)
        elif frame.kind == FrameKind.BINDING:
            with suppress(PeerFault):
                binding = Binding.decode(frame.body)
                if publisher in self._slots or len(self._slots) < MAX_PUBLISHERS:
                    self._slots.setdefault(publisher, {})[binding.slot] = binding.hash

    def _codec(self, publisher: str, slot: int) -> Codec | None:
        """The codec of a slot. A missing binding or dictionary is recorded."""
        hash = self._slots.get(publisher, {}).get(slot)
        if hash is None:
            self.unbound_publishers.add(publisher)
            return None
        codec = self._codecs.get(hash)
        if codec is None:
            found = self.find(hash)
            if found is None:
                self.missing_dictionaries.add(hash)
                return None
            codec = self._codecs[hash] = codec_of(found)
            while len(self._codecs) > MAX_CODECS:
                self._codecs.popitem(last=False)
        return codec


def _is_long(frame: Frame) -> bool:
    return len(frame.raw) - frame.header_size >= MIN_PACKED_BYTES


def _frames(message: bytes) -> Iterator[Frame]:
    """Yield the frames of a message that can be samples or bindings. Frames that cannot be parsed are skipped."""
    with suppress(PeerFault):
        for raw in split(message):
            if len(raw) >= _MIN_SAMPLED_FRAME or raw[:1] not in _UNPACKED_HEADS:
                with suppress(PeerFault):
                    yield read(raw)
