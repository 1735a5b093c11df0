"""What travels in the log of a topic, frame by frame and unpacked: what a dictionary would be used on.

No state of events is followed here, only what slots name. A frame whose dictionary is not known is passed over, and
what would have been needed is noted: a sampler may do without some of the messages.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import overload

from thinwire.codec.decoder_state import Find
from thinwire.codec.frame_encoder_packer import WORTH_TRYING
from thinwire.dictionaries import Codec, codec_of
from thinwire.errors import PeerFault
from thinwire.wire import Binding, Frame, FrameKind, read, split
from thinwire.wire.frame import MAX_FRAME, PACKED
from thinwire.wire.frame_packing import DEFLATE_SLOT

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
