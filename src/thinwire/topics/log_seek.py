"""Taking up a checkpoint: links as they were at a place of a log, or of a channel, and what is left to read.

Where a reader may begin: at the key frames before its place, or at a checkpoint where that is nearer.

Finding the way into a log: from what is known before a place, silently, up to that place.

A round of key frames begins under a subject of its own, so the broker itself answers "the last one before". Where a
checkpoint is nearer, it is taken up instead. Where either does not tell of everybody, because a round was not complete
by then or a checkpoint is damaged, the one before it is tried, and so on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import Generic, NamedTuple, TypeVar

from thinwire.brokers.protocol import Broker, Stored
from thinwire.codec import State
from thinwire.codec.stream_snapshot import into_subscriber
from thinwire.errors import CorruptCheckpoint, CorruptFrame, PeerFault, UnknownSchema
from thinwire.topics.checkpoint_store import Checkpoint, CheckpointPart, CheckpointStore
from thinwire.topics.log_decoder import ChannelDecoder, Learn, LogDecoder, resolve_and_retry
from thinwire.topics.log_position import ChannelPosition, LogSelection, unseal
from thinwire.topics.names import CHECKPOINTS, publisher_in

_NONE: Mapping[str, int] = {}


class RestoredState(NamedTuple):
    """What was taken up: the offset to read from, and up to where messages of single publishers are known already."""

    first: int
    known: Mapping[str, int] = _NONE


class _MessageState(NamedTuple):
    """What a channel's message says of itself, after which a part of a checkpoint is the state."""

    epoch: int
    position: ChannelPosition


async def restore_checkpoint(
    broker: Broker,
    track: LogSelection,
    checkpoint: Checkpoint,
    log_decoder: LogDecoder,
    place: int,
    learn: Learn,
    publisher: str = "*",
) -> RestoredState:
    """Let fresh links stand where a checkpoint was taken, before `place`; others are left alone.

    Raises CorruptCheckpoint, or UnknownSchema, and the links are of no use then.
    """
    prefix = track.part("")
    told = {name.removeprefix(prefix): part for name, part in checkpoint.parts.items() if name.startswith(prefix)}
    parts = {name: part for name, part in told.items() if publisher in ("*", name)}
    store = CheckpointStore(await broker.bucket(CHECKPOINTS))
    if isinstance(log_decoder, ChannelDecoder):
        return await _channel(broker, track, store, checkpoint, parts, log_decoder, place, learn)
    await _check_log(broker, track, checkpoint)
    for name in parts:
        await _restore(store, track, checkpoint, log_decoder, name, learn)
    log_decoder.offset = checkpoint.offset
    return RestoredState(checkpoint.offset + 1)


async def _channel(
    broker: Broker,
    track: LogSelection,
    store: CheckpointStore,
    checkpoint: Checkpoint,
    parts: Mapping[str, CheckpointPart],
    log_decoder: ChannelDecoder,
    place: int,
    learn: Learn,
) -> RestoredState:
    known: dict[str, int] = {}
    for name, part in parts.items():
        said = await _read_message_state(broker, track, checkpoint, name, part) if part.place < place else None
        if said is not None:
            await _restore(store, track, checkpoint, log_decoder, name, learn)
            log_decoder.stand_at(name, *said)
            known[name] = part.place
    end = max(known.values(), default=place - 1)
    # Channels are copied at places of their own: who went on between two of them is read from its own on.
    went_on = [at for name, at in known.items() if await _last(broker, track, name, end) > at]
    return RestoredState(min(went_on, default=end) + 1, known)


async def _read_message_state(
    broker: Broker, track: LogSelection, checkpoint: Checkpoint, publisher: str, part: CheckpointPart
) -> _MessageState | None:
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
    return _MessageState(epoch, position) if newest <= epoch == checkpoint.epoch else None


async def _last(broker: Broker, track: LogSelection, publisher: str, up_to: int) -> int:
    stored = await broker.last(track.log, track.subjects(publisher), up_to=up_to)
    return stored.offset if stored is not None else 0


async def _check_log(broker: Broker, track: LogSelection, checkpoint: Checkpoint) -> None:
    """Is the message before it one that was there when it was taken? A log may have been deleted and made again."""
    stored = await broker.last(track.log, track.subjects(), up_to=checkpoint.offset)
    if stored is not None and stored.time > checkpoint.time:
        raise CorruptCheckpoint("it was taken of another log", topic=track.topic, offset=checkpoint.offset)


async def _restore(
    store: CheckpointStore,
    track: LogSelection,
    checkpoint: Checkpoint,
    log_decoder: LogDecoder,
    publisher: str,
    learn: Learn,
) -> None:
    """One link as it was; its schema is asked for where it is not known."""
    link, data = log_decoder.link(publisher), await store.part(checkpoint, track.part(publisher))
    try:
        await asyncio.to_thread(into_subscriber, link, data)
    except UnknownSchema as unknown:
        await learn(bytes.fromhex(unknown.fingerprint))
        await asyncio.to_thread(into_subscriber, link, data)


NEAR = 64
"""messages that are read rather than looking for a checkpoint"""


class SeekStart(NamedTuple):
    """A place to begin at: the offset of the first message to read, and the state before it; None for key frames."""

    first: int
    checkpoint: Checkpoint | None = None


class Starts:
    """The places from which a reader finds out what was told before `place`, the nearest first."""

    def __init__(self, broker: Broker, track: LogSelection, place: int) -> None:
        self._broker = broker
        self._track = track
        self._place = self._before = place
        self._kept: list[SeekStart] | None = None

    async def next(self, unknown: Collection[str]) -> SeekStart | None:
        """The next one that tells of some of these publishers; None where there is none."""
        key = await last_keys(self._broker, self._track, unknown, self._before)
        found = SeekStart(key) if key < self._before else None
        if found is None or self._before - key > NEAR:
            found = await self._checkpoint(unknown, key if found is not None else 0) or found
        if found is not None:
            self._before = found.first
        return found

    async def _checkpoint(self, unknown: Collection[str], after: int) -> SeekStart | None:
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

    def _of(self, checkpoint: Checkpoint) -> SeekStart:
        """Where to read on after a checkpoint; a channel's parts are taken at places of their own, before our place."""
        if not self._track.class_id:
            return SeekStart(checkpoint.offset + 1, checkpoint)
        prefix = self._track.part("")
        places = [part.place for name, part in checkpoint.parts.items() if name.startswith(prefix)]
        return SeekStart(max((at for at in places if at < self._place), default=-1) + 1, checkpoint)


async def last_keys(broker: Broker, track: LogSelection, publishers: Collection[str], place: int) -> int:
    """The offset from which each of the publishers begins a round before `place`; `place` where none does."""
    found = [await broker.last(track.log, track.keys(name), up_to=place - 1) for name in sorted(publishers)]
    return min((key.offset for key in found if key is not None), default=place)


Inlets = TypeVar("Inlets", bound=LogDecoder)

_log = logging.getLogger("thinwire.services")

PULSE = 1.0
SILENT = 600.0
"""seconds without a word after which a publisher is not waited for"""
ROUNDS = 8
"""places to begin at that are tried, at most"""


class Sought(NamedTuple, Generic[Inlets]):
    """Links that were brought to a place; `how` says from where, in words."""

    log_decoder: Inlets
    how: str


async def seek_decoders(
    broker: Broker,
    track: LogSelection | str,
    place: int,
    log_decoder: Inlets,
    *,
    learn: Learn,
    publisher: str = "*",
    furthest: int | None = None,
) -> Inlets:
    """Links as `seek` brings them to a place."""
    sought = await seek(broker, track, place, log_decoder, learn=learn, publisher=publisher, furthest=furthest)
    _log.info("%s: a reader at %d begins %s", track, place, sought.how)
    return sought.log_decoder


async def seek(
    broker: Broker,
    track: LogSelection | str,
    place: int,
    log_decoder: Inlets,
    *,
    learn: Learn,
    publisher: str = "*",
    furthest: int | None = None,
) -> Sought[Inlets]:
    """Bring fresh links to the place before which they know what a reader from the beginning would.

    track: what to read, the log of a topic where only its name is given
    learn: finds the schema of a fingerprint, the dictionary of a hash; False where nobody knows it
    furthest: messages to read at most; where it would take more, the links know nothing
    """
    track = LogSelection(track) if isinstance(track, str) else track
    names = {publisher} if publisher != "*" else set(await _speakers(broker, track, place))
    starts, unknown = Starts(broker, track, place), names
    found = Sought(log_decoder, "with nothing")
    for _ in range(ROUNDS):
        start = await starts.next(unknown) if unknown else None
        if start is None or (furthest is not None and place - start.first > furthest):
            break
        fresh = log_decoder.copy_empty()
        taken = await _begin(broker, track, start, fresh, place, learn, publisher)
        if taken is None:
            continue
        await _run_up(broker, track, taken, place, fresh, learn, publisher)
        found = Sought(fresh, _describe_start(start, place - taken.first))
        ready = {name for name, link in fresh.links.items() if link.state is State.READY}
        unknown = (names | fresh.links.keys()) - ready
    return found


async def _begin(
    broker: Broker,
    track: LogSelection,
    start: SeekStart,
    log_decoder: LogDecoder,
    place: int,
    learn: Learn,
    publisher: str,
) -> RestoredState | None:
    """What there is to read from a start on; None where it is a checkpoint that is of no use."""
    if start.checkpoint is None:
        return RestoredState(start.first)
    try:
        return await restore_checkpoint(broker, track, start.checkpoint, log_decoder, place, learn, publisher)
    except (CorruptCheckpoint, UnknownSchema) as problem:
        _log.warning("%s: the checkpoint at %d is left aside: %s", track.topic, start.checkpoint.offset, problem)
        return None


def _describe_start(start: SeekStart, messages: int) -> str:
    what = f"the checkpoint at {start.checkpoint.offset}" if start.checkpoint is not None else "key frames"
    return f"from {what}, {messages} messages before"


async def _speakers(broker: Broker, track: LogSelection, place: int) -> list[str]:
    """The publishers that said something from `place` on, or shortly before the end: others begin anew if ever."""
    names = [publisher_in(subject) for subject in await broker.subjects(track.log, track.keys())]
    newest = {name: await broker.last(track.log, track.subjects(name)) for name in names}
    end = max((stored.time for stored in newest.values() if stored is not None), default=0.0)
    return [
        name
        for name, stored in newest.items()
        if stored is not None and (stored.offset >= place or stored.time >= end - SILENT)
    ]


async def _run_up(
    broker: Broker,
    track: LogSelection,
    taken: RestoredState,
    place: int,
    log_decoder: LogDecoder,
    learn: Learn,
    publisher: str,
) -> None:
    """Feed the links everything that is left up to `place`, which is not fed itself."""
    last = min(place - 1, (await broker.span(track.log)).last)
    end, offset = await _end(broker, track, publisher, last), taken.first - 1
    if end <= offset:
        return
    reader = await broker.read(track.log, first=taken.first, subjects=[track.subjects(publisher)])
    try:
        while offset < end:
            stored = await reader.next(PULSE)
            if stored is None:  # what is awaited may have left the log meanwhile
                end = min(end, await _end(broker, track, publisher, last))
            elif stored.offset > last:
                return
            else:
                if stored.offset > taken.known.get(publisher_in(stored.subject), 0):
                    await _feed(log_decoder, stored, learn)
                offset = stored.offset
                reader.done(offset)
    finally:
        await reader.close()


async def _end(broker: Broker, track: LogSelection, publisher: str, last: int) -> int:
    """The offset of the last message of these publishers at or before `last`, 0 for none."""
    found = await broker.last(track.log, track.subjects(publisher), up_to=last)
    return found.offset if found is not None else 0


async def _feed(log_decoder: LogDecoder, stored: Stored, learn: Learn) -> None:
    """One message; a link that cannot read it is lost, and says so when it next has something to say."""

    def complain(fault: PeerFault) -> None:
        _log.warning("%s: the message at %d cannot be read: %s", stored.subject, stored.offset, fault)

    try:
        log_decoder.receive(stored, stored.time)
    except PeerFault as fault:
        link = log_decoder.link(publisher_in(stored.subject))
        await resolve_and_retry(link, fault, lambda: log_decoder.pass_on(stored, stored.time), learn, complain)
