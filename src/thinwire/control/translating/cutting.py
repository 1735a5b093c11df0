"""From frames to messages: as full as they may be, cut where a position can be named, key frames apart."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from thinwire.control.translating.envelope import MAX_ENVELOPE, Position, seal
from thinwire.frames import begins_round, join
from thinwire.frames.batch import MAX_FRAMES, room_for

Entry = tuple[bytes, Position]
"""a frame, and how far the channel has told with it"""
ENTRY_BYTES = 64
"""that a frame needs while it waits, beside its own bytes, which are often a dozen"""


class Outgoing(NamedTuple):
    """A message for a channel; key: it begins a round of key frames, and is nothing else."""

    class_id: str
    publisher: str
    key: bool
    payload: bytes


class Pending:
    """The frames of a channel that wait, apart by the message of the log that they came of; size: memory they need."""

    def __init__(self) -> None:
        self.size = 0
        self._inputs: list[tuple[list[bytes], array[int]]] = []
        self._turned = True

    def turn(self) -> None:
        """What comes now is of another message."""
        self._turned = True

    def put(self, frames: Sequence[bytes], position: Position) -> None:
        """More frames, of which at least one there is."""
        if self._turned:
            self._inputs.append(([], array("q")))
            self._turned = False
        waiting, places = self._inputs[-1]
        waiting += frames
        places.extend(position * len(frames))  # as numbers: there may be tens of thousands
        self.size += sum(map(len, frames)) + ENTRY_BYTES * len(frames)

    def take(self) -> Iterator[list[Entry]]:
        """All of them; none waits any more."""
        inputs, self._inputs = self._inputs, []
        self.size, self._turned = 0, True
        return (list(zip(frames, map(Position, at[::2], at[1::2]), strict=True)) for frames, at in inputs)


def cut(inputs: Iterable[list[Entry]], limit: int, epoch: int) -> Iterator[tuple[bool, bytes]]:
    """Messages of at most `limit` bytes, each with whether it begins a round; a frame larger than that goes alone.

    inputs: the frames that came of one message of the log each. A message ends between two of them where it can.
    """
    batch: list[Entry] = []
    room = free = limit - MAX_ENVELOPE - 1

    def closed(*, key: bool = False) -> Iterator[tuple[bool, bytes]]:
        if batch:
            payload = seal(epoch, batch[-1][1], join([frame for frame, _ in batch]))
            batch.clear()
            yield key, payload

    for entries in inputs:
        if sum(room_for(frame) for frame, _ in entries) > free:
            yield from closed()
            free = room
        for entry in entries:
            alone = begins_round(entry[0])
            if alone or room_for(entry[0]) > free or len(batch) == MAX_FRAMES:
                yield from closed()
                free = room
            batch.append(entry)
            free -= room_for(entry[0])
            if alone:
                yield from closed(key=True)
                free = room
    yield from closed()
