"""Taking up a checkpoint: links as they were at a place of a log, or of a channel, and what is left to read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from thinwire.brokers.protocol_broker import Broker
from thinwire.codec.stream_snapshot import into_subscriber
from thinwire.errors import CorruptCheckpoint, CorruptFrame, UnknownSchema
from thinwire.topics.checkpoint_store import Checkpoint, CheckpointStore, Part
from thinwire.topics.log_decoder_channels import ChannelInlet
from thinwire.topics.log_decoder_inlet import Inlet
from thinwire.topics.log_decoder_learning import Learn
from thinwire.topics.log_position_envelope import Position, unseal
from thinwire.topics.log_position_track import Track
from thinwire.topics.names import CHECKPOINTS

_NONE: Mapping[str, int] = {}


class Taken(NamedTuple):
    """What was taken up: the offset to read from, and up to where messages of single publishers are known already."""

    first: int
    known: Mapping[str, int] = _NONE


class _Said(NamedTuple):
    """What a channel's message says of itself, after which a part of a checkpoint is the state."""

    epoch: int
    position: Position


async def take_up(
    broker: Broker, track: Track, checkpoint: Checkpoint, inlet: Inlet, place: int, learn: Learn, publisher: str = "*"
) -> Taken:
    """Let fresh links stand where a checkpoint was taken, before `place`; others are left alone.

    Raises CorruptCheckpoint, or UnknownSchema, and the links are of no use then.
    """
    prefix = track.part("")
    told = {name.removeprefix(prefix): part for name, part in checkpoint.parts.items() if name.startswith(prefix)}
    parts = {name: part for name, part in told.items() if publisher in ("*", name)}
    store = CheckpointStore(await broker.bucket(CHECKPOINTS))
    if isinstance(inlet, ChannelInlet):
        return await _channel(broker, track, store, checkpoint, parts, inlet, place, learn)
    await _check_log(broker, track, checkpoint)
    for name in parts:
        await _restore(store, track, checkpoint, inlet, name, learn)
    inlet.offset = checkpoint.offset
    return Taken(checkpoint.offset + 1)


async def _channel(
    broker: Broker,
    track: Track,
    store: CheckpointStore,
    checkpoint: Checkpoint,
    parts: Mapping[str, Part],
    inlet: ChannelInlet,
    place: int,
    learn: Learn,
) -> Taken:
    known: dict[str, int] = {}
    for name, part in parts.items():
        said = await _said(broker, track, checkpoint, name, part) if part.place < place else None
        if said is not None:
            await _restore(store, track, checkpoint, inlet, name, learn)
            inlet.stand_at(name, *said)
            known[name] = part.place
    end = max(known.values(), default=place - 1)
    # Channels are copied at places of their own: who went on between two of them is read from its own on.
    went_on = [at for name, at in known.items() if await _last(broker, track, name, end) > at]
    return Taken(min(went_on, default=end) + 1, known)


async def _said(broker: Broker, track: Track, checkpoint: Checkpoint, publisher: str, part: Part) -> _Said | None:
    """Of the message before a part's state; None where it is not kept, or its writer had been replaced by then."""
    subjects = track.subjects(publisher)
    stored = await broker.last(track.log, subjects, up_to=part.place)
    before = await broker.last(track.log, subjects, up_to=part.place - 1)
    if stored is None or stored.offset != part.place:
        return None
    try:
        epoch, position, _ = unseal(stored.payload)
        newest = unseal(before.payload)[0] if before is not None else epoch
    except CorruptFrame:
        return None
    return _Said(epoch, position) if newest <= epoch == checkpoint.epoch else None


async def _last(broker: Broker, track: Track, publisher: str, up_to: int) -> int:
    stored = await broker.last(track.log, track.subjects(publisher), up_to=up_to)
    return stored.offset if stored is not None else 0


async def _check_log(broker: Broker, track: Track, checkpoint: Checkpoint) -> None:
    """Is the message before it one that was there when it was taken? A log may have been deleted and made again."""
    stored = await broker.last(track.log, track.subjects(), up_to=checkpoint.offset)
    if stored is not None and stored.time > checkpoint.time:
        raise CorruptCheckpoint("it was taken of another log", topic=track.topic, offset=checkpoint.offset)


async def _restore(
    store: CheckpointStore, track: Track, checkpoint: Checkpoint, inlet: Inlet, publisher: str, learn: Learn
) -> None:
    """One link as it was; its schema is asked for where it is not known."""
    link, data = inlet.link(publisher), await store.part(checkpoint, track.part(publisher))
    try:
        await asyncio.to_thread(into_subscriber, link, data)
    except UnknownSchema as unknown:
        await learn(bytes.fromhex(unknown.fingerprint))
        await asyncio.to_thread(into_subscriber, link, data)
