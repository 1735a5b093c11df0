"""Where a reader may begin: at the key frames before its place, or at a checkpoint where that is nearer."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from thinwire.brokers.protocol_broker import Broker
from thinwire.topics.checkpoint_store import Checkpoint, CheckpointStore
from thinwire.topics.log_position_track import Track
from thinwire.topics.names import CHECKPOINTS

NEAR = 64
"""messages that are read rather than looking for a checkpoint"""


class Start(NamedTuple):
    """A place to begin at: the offset of the first message to read, and the state before it; None for key frames."""

    first: int
    checkpoint: Checkpoint | None = None


class Starts:
    """The places from which a reader finds out what was told before `place`, the nearest first."""

    def __init__(self, broker: Broker, track: Track, place: int) -> None:
        self._broker = broker
        self._track = track
        self._place = self._before = place
        self._kept: list[Start] | None = None

    async def next(self, unknown: Collection[str]) -> Start | None:
        """The next one that tells of some of these publishers; None where there is none."""
        key = await last_keys(self._broker, self._track, unknown, self._before)
        found = Start(key) if key < self._before else None
        if found is None or self._before - key > NEAR:
            found = await self._checkpoint(unknown, key if found is not None else 0) or found
        if found is not None:
            self._before = found.first
        return found

    async def _checkpoint(self, unknown: Collection[str], after: int) -> Start | None:
        """The nearest checkpoint that begins behind an offset."""
        if self._kept is None:
            store = CheckpointStore(await self._broker.bucket(CHECKPOINTS))
            span = await self._broker.span(self._track.log)
            places = [self._of(one) for one in await store.all(self._track.topic)]
            self._kept = sorted(
                (start for start in places if span.first <= start.first <= self._place), key=lambda start: start.first
            )
        while self._kept and self._kept[-1].first > after:
            start = self._kept.pop()
            assert start.checkpoint is not None
            if start.first <= self._before and any(
                self._track.part(name) in start.checkpoint.parts for name in unknown
            ):
                return start
        return None

    def _of(self, checkpoint: Checkpoint) -> Start:
        """Where to read on after a checkpoint; a channel's parts are taken at places of their own, before our place."""
        if not self._track.class_id:
            return Start(checkpoint.offset + 1, checkpoint)
        prefix = self._track.part("")
        places = [part.place for name, part in checkpoint.parts.items() if name.startswith(prefix)]
        return Start(max((at for at in places if at < self._place), default=-1) + 1, checkpoint)


async def last_keys(broker: Broker, track: Track, publishers: Collection[str], place: int) -> int:
    """The offset from which each of the publishers begins a round before `place`; `place` where none does."""
    found = [await broker.last(track.log, track.keys(name), up_to=place - 1) for name in sorted(publishers)]
    return min((key.offset for key in found if key is not None), default=place)
