"""From frames to messages: as full as they may be, cut where a position can be named, key frames apart."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from thinwire.topics.log_position import MAX_ENVELOPE, ChannelPosition, seal
from thinwire.wire import begins_round, join
from thinwire.wire.frame import MAX_FRAMES, room_for

ENTRY_BYTES = 64
"""that a frame needs while it waits, beside its own bytes, which are often a dozen"""


class Outgoing(NamedTuple):
    """A message for a channel; key: it begins a round of key frames, and is nothing else."""

    class_id: str
    publisher: str
    key: bool
    payload: bytes


class MessageFrames:
    """The frames that came of one message of the log, and how far the channel has told with each.

    room: bytes that they take in a batch; rounds: does one of them begin a round of key frames?
    """

    __slots__ = ("_places", "frames", "room", "rounds")

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.room = 0
        self.rounds = False
        self._places = array("q")  # as numbers: there may be tens of thousands

    @property
    def end(self) -> ChannelPosition:
        """How far the channel has told with all of them."""
        return ChannelPosition(*self._places[-2:])

    def put(self, frames: Sequence[bytes], places: Iterable[int], *, data: bool) -> None:
        """More frames, of which at least one there is, and their positions, number after number."""
        self.frames += frames
        self._places.extend(places)
        self.room += sum(map(room_for, frames))
        self.rounds = self.rounds or (not data and any(map(begins_round, frames)))

    def one_by_one(self) -> Iterator[tuple[bytes, ChannelPosition]]:
        """Each frame with its place."""
        return zip(self.frames, map(ChannelPosition, self._places[::2], self._places[1::2]), strict=True)


class PendingFrames:
    """The frames of a channel that wait, apart by the message of the log that they came of; size: memory they need."""

    def __init__(self) -> None:
        self.size = 0
        self._inputs: list[MessageFrames] = []
        self._turned = True

    def turn(self) -> None:
        """What comes now is of another message."""
        self._turned = True

    def put(self, frames: Sequence[bytes], places: Iterable[int], *, data: bool = False) -> None:
        """More frames, of which at least one there is; data: is no key frame among them?"""
        if self._turned:
            self._inputs.append(MessageFrames())
            self._turned = False
        self._inputs[-1].put(frames, places, data=data)
        self.size += sum(map(len, frames)) + ENTRY_BYTES * len(frames)

    def take(self) -> list[MessageFrames]:
        """All of them; none waits any more."""
        inputs, self._inputs = self._inputs, []
        self.size, self._turned = 0, True
        return inputs


def batch_frames(inputs: Iterable[MessageFrames], limit: int, epoch: int) -> Iterator[tuple[bool, bytes]]:
    """Messages of at most `limit` bytes, each with whether it begins a round; a frame larger than that goes alone.

    A message ends between two inputs where it can.
    """
    batch: list[bytes] = []
    told = ChannelPosition(0)
    room = free = limit - MAX_ENVELOPE - 1

    def closed(*, key: bool = False) -> Iterator[tuple[bool, bytes]]:
        if batch:
            payload = seal(epoch, told, join(batch))
            batch.clear()
            yield key, payload

    for gathered in inputs:
        if gathered.room > free:
            yield from closed()
            free = room
        if gathered.room <= free and not gathered.rounds and len(batch) + len(gathered.frames) <= MAX_FRAMES:
            batch += gathered.frames
            told = gathered.end
            free -= gathered.room
            continue
        for frame, position in gathered.one_by_one():
            alone = begins_round(frame)
            if alone or room_for(frame) > free or len(batch) == MAX_FRAMES:
                yield from closed()
                free = room
            batch.append(frame)
            told = position
            free -= room_for(frame)
            if alone:
                yield from closed(key=True)
                free = room
    yield from closed()
