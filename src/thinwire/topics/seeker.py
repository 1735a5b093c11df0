"""Seek: bring decoders to an offset of a topic log or channel without reading it from the start.

A key frame round starts with a message under a subject of its own, so the broker can return the last one before an
offset. If a checkpoint is nearer, its snapshots are restored instead. All messages from that start up to the offset are
decoded and their events discarded. If a publisher is not ready then, because its key frame round was incomplete or the
checkpoint is damaged, the seek is repeated from the next earlier start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing
from typing import Generic, NamedTuple, TypeVar

from thinwire.brokers.protocol import Broker, StoredMessage
from thinwire.codec import State, StreamDecoder
from thinwire.codec.stream_snapshot import restore_decoder
from thinwire.errors import CorruptCheckpoint, CorruptFrame, PeerFault, UnknownSchema
from thinwire.topics.checkpoint_store import Checkpoint, CheckpointPart, CheckpointStore
from thinwire.topics.log_decoder import ChannelDecoder, FetchDefinition, LogDecoder, resolve_and_retry
from thinwire.topics.log_selection import LogSelection
from thinwire.topics.names import CHECKPOINTS, publisher_in
from thinwire.topics.position import Position, decode_envelope

D = TypeVar("D", bound=LogDecoder)

NEAR = 64
"""messages; key frames at most this far back are used without looking for a checkpoint"""
MAX_FILTERED = 64
"""publishers whose messages are selected by subject; for more, all messages of the log are read"""
POLL_INTERVAL = 1.0
INACTIVE_AFTER = 600.0
"""seconds without a message after which a publisher is not needed for a seek"""
MAX_STARTS = 8

_NO_OFFSETS: Mapping[str, int] = {}
_log = logging.getLogger("thinwire.services")


class SeekResult(NamedTuple, Generic[D]):
    """Decoders at the requested offset. `origin` describes the start that was used, for log lines."""

    log_decoder: D
    origin: str


class SeekStart(NamedTuple):
    """Where decoding can start: the first offset to read, and the checkpoint before it, or None for key frames."""

    first: int
    checkpoint: Checkpoint | None = None


class RestoredState(NamedTuple):
    """The first offset to read. Messages of a publisher up to its offset in `decoded` are in its snapshot already."""

    first: int
    decoded: Mapping[str, int] = _NO_OFFSETS


class Seeker:
    """Brings decoders to an offset of one topic log or channel.

    fetch: fetches a schema by fingerprint or a dictionary by hash; returns False for an unknown one
    """

    def __init__(self, broker: Broker, selection: LogSelection, fetch: FetchDefinition) -> None:
        self.selection = selection
        self._broker = broker
        self._fetch = fetch
        self._checkpoints: list[Checkpoint] | None = None

    async def seek(
        self,
        log_decoder: D,
        offset: int,
        *,
        publishers: Collection[str] | None = None,
        read_all: bool = False,
        max_messages: int | None = None,
    ) -> SeekResult[D]:
        """Return decoders in the state of a reader that has decoded everything before `offset`.

        log_decoder: a fresh one; the result is an empty copy of it
        publishers: the publishers to decode; by default all active ones
        read_all: read the messages of other publishers too, so that the decoder can detect gaps in the offsets
        max_messages: return empty decoders if more messages would have to be read
        """
        names = set(publishers) if publishers is not None else await self._active_publishers(offset)
        subjects = self._subjects(names if publishers is not None and not read_all else None)
        starts, missing = _Starts(self, offset), names
        found = SeekResult(log_decoder, "without state")
        for _ in range(MAX_STARTS):
            start = await starts.next(missing) if missing else None
            if start is None or (max_messages is not None and offset - start.first > max_messages):
                break
            decoders = log_decoder.copy_empty()
            restored = await self._begin(start, decoders, offset, publishers)
            if restored is None:
                continue
            await self._replay(restored, decoders, offset, subjects)
            if not isinstance(decoders, ChannelDecoder):
                _keep_ready(found.log_decoder, decoders)
            found = SeekResult(decoders, _describe(start, offset - restored.first))
            ready = {name for name, link in decoders.decoders.items() if link.state is State.READY}
            missing = (names | decoders.decoders.keys()) - ready
        _log.info("%s: seek to offset %d %s", self.selection.topic, offset, found.origin)
        return found

    async def start_offset(self, publisher: str, offset: int) -> int:
        """Return the offset from which a seek of this publisher reads; `offset` itself if there is no start."""
        key = await self._broker.last(self.selection.log, self.selection.keys(publisher), up_to=offset - 1)
        part = self.selection.part(publisher)
        usable = [one.offset + 1 for one in await self.checkpoints() if one.offset < offset and part in one.parts]
        return max(key.offset if key is not None else 0, *usable, 0) or offset

    async def last_key_frames(self, publishers: Collection[str], offset: int) -> int:
        """Return the lowest offset of the last key frame rounds before `offset`; `offset` itself if there is none."""
        return await last_key_frames(self._broker, self.selection, publishers, offset)

    async def checkpoints(self) -> list[Checkpoint]:
        """Return the checkpoints from which the current content of the log can be decoded, in order of offset."""
        if self._checkpoints is None:
            found = await (await self._store()).all(self.selection.topic)
            if not self.selection.class_id:  # offsets of a checkpoint are those of the topic log
                span = await self._broker.span(self.selection.log)
                found = [one for one in found if span.first - 1 <= one.offset <= span.last]
            self._checkpoints = found
        return self._checkpoints

    async def first_offset(self) -> int:
        """Return the first offset of the log."""
        return (await self._broker.span(self.selection.log)).first

    async def _active_publishers(self, offset: int) -> set[str]:
        """Publishers with messages at or after `offset`, or shortly before the end. Other publishers need no state:
        they begin with key frames when they send again."""
        subjects = await self._broker.subjects(self.selection.log, self.selection.keys())
        newest = {name: await self._last(self.selection.subjects(name)) for name in map(publisher_in, subjects)}
        end = max((stored.time for stored in newest.values() if stored is not None), default=0.0)
        return {
            name
            for name, stored in newest.items()
            if stored is not None and (stored.offset >= offset or stored.time >= end - INACTIVE_AFTER)
        }

    async def _begin(
        self, start: SeekStart, decoders: LogDecoder, offset: int, publishers: Collection[str] | None
    ) -> RestoredState | None:
        """Restore the checkpoint of a start, if it has one. Return None if it is unusable."""
        if start.checkpoint is None:
            return RestoredState(start.first)
        try:
            return await self._restore(start.checkpoint, decoders, offset, publishers)
        except (CorruptCheckpoint, UnknownSchema) as problem:
            _log.warning("%s: skipped checkpoint at %d: %s", self.selection.topic, start.checkpoint.offset, problem)
            return None

    async def _restore(
        self, checkpoint: Checkpoint, decoders: LogDecoder, offset: int, publishers: Collection[str] | None
    ) -> RestoredState:
        """Restore the snapshots of a checkpoint into fresh decoders. After an error the decoders are unusable."""
        prefix = self.selection.part("")
        snapshots = {name.removeprefix(prefix): p for name, p in checkpoint.parts.items() if name.startswith(prefix)}
        parts = {name: part for name, part in snapshots.items() if publishers is None or name in publishers}
        if isinstance(decoders, ChannelDecoder):
            return await self._restore_channel(checkpoint, parts, decoders, offset)
        await self._check_log(checkpoint)
        for name in parts:
            await self._restore_decoder(checkpoint, decoders.decoder(name))
        decoders.offset = checkpoint.offset
        return RestoredState(checkpoint.offset + 1)

    async def _restore_channel(
        self, checkpoint: Checkpoint, parts: Mapping[str, CheckpointPart], decoders: ChannelDecoder, offset: int
    ) -> RestoredState:
        decoded: dict[str, int] = {}
        for name, part in parts.items():
            envelope = await self._find_envelope(checkpoint, name, part) if part.place < offset else None
            if envelope is not None:
                await self._restore_decoder(checkpoint, decoders.decoder(name))
                decoders.set_position(name, *envelope)
                decoded[name] = part.place
        end = max(decoded.values(), default=offset - 1)
        # Each channel of a checkpoint has its own offset. Publishers with messages between theirs and the highest one
        # are read from their own offset on.
        behind = [
            at for name, at in decoded.items() if await self._last_matching([self.selection.subjects(name)], end) > at
        ]
        return RestoredState(min(behind, default=end) + 1, decoded)

    async def _find_envelope(
        self, checkpoint: Checkpoint, publisher: str, part: CheckpointPart
    ) -> tuple[int, Position] | None:
        """Epoch and position of the channel message before a snapshot; None if removed, or its writer was fenced."""
        subjects = self.selection.subjects(publisher)
        stored = await self._last(subjects, part.place)
        before = await self._last(subjects, part.place - 1)
        if stored is None or stored.offset != part.place:
            return None
        try:
            epoch, position, _ = decode_envelope(stored.payload)
            previous_epoch = decode_envelope(before.payload)[0] if before is not None else epoch
        except CorruptFrame:
            return None
        return (epoch, position) if previous_epoch <= epoch == checkpoint.epoch else None

    async def _check_log(self, checkpoint: Checkpoint) -> None:
        """Refuse a checkpoint of a deleted log: in a recreated one the message at its offset is newer."""
        stored = await self._last(self.selection.subjects(), checkpoint.offset)
        if stored is not None and stored.time > checkpoint.time:
            detail = "the checkpoint belongs to a deleted log"
            raise CorruptCheckpoint(detail, topic=self.selection.topic, offset=checkpoint.offset)

    async def _restore_decoder(self, checkpoint: Checkpoint, link: StreamDecoder) -> None:
        data = await (await self._store()).part(checkpoint, self.selection.part(link.publisher))
        try:
            await self._restore_snapshot(link, data)
        except UnknownSchema as unknown:
            await self._fetch(bytes.fromhex(unknown.fingerprint))
            await self._restore_snapshot(link, data)

    async def _restore_snapshot(self, link: StreamDecoder, data: bytes) -> None:
        await asyncio.to_thread(restore_decoder, link, data)

    async def _replay(
        self, restored: RestoredState, decoders: LogDecoder, offset: int, subjects: Collection[str]
    ) -> None:
        """Decode the messages from a start up to `offset`, which is not decoded itself."""
        last = min(offset - 1, (await self._broker.span(self.selection.log)).last)
        async with aclosing(self._read(restored.first, last, subjects)) as messages:
            async for stored in messages:
                if stored.offset > restored.decoded.get(publisher_in(stored.subject), 0):
                    await self._decode(decoders, stored)

    async def _read(self, first: int, last: int, subjects: Collection[str]) -> AsyncGenerator[StoredMessage, None]:
        end, offset = await self._last_matching(subjects, last), first - 1
        if end <= offset:
            return
        reader = await self._broker.read(self.selection.log, first=first, subjects=list(subjects))
        try:
            while offset < end:
                stored = await reader.next(POLL_INTERVAL)
                if stored is None:  # retention may have removed the last messages meanwhile
                    end = min(end, await self._last_matching(subjects, last))
                elif stored.offset > last:
                    return
                else:
                    yield stored
                    offset = stored.offset
                    reader.done(offset)
        finally:
            await reader.close()

    async def _decode(self, decoders: LogDecoder, stored: StoredMessage) -> None:
        """Decode one message. A decoder that cannot read it waits for key frames."""

        def report(fault: PeerFault) -> None:
            _log.warning("%s: cannot decode the message at %d: %s", stored.subject, stored.offset, fault)

        try:
            decoders.receive(stored, stored.time)
        except PeerFault as fault:
            link = decoders.decoder(publisher_in(stored.subject))
            await resolve_and_retry(link, fault, lambda: decoders.decode(stored, stored.time), self._fetch, report)

    def _subjects(self, publishers: Collection[str] | None) -> list[str]:
        if publishers is None or len(publishers) > MAX_FILTERED:
            return [self.selection.subjects()]
        return [self.selection.subjects(name) for name in sorted(publishers)]

    async def _last_matching(self, subjects: Collection[str], up_to: int) -> int:
        """The offset of the last message under one of the subjects, 0 for none."""
        found = [await self._last(pattern, up_to) for pattern in subjects]
        return max((stored.offset for stored in found if stored is not None), default=0)

    async def _last(self, pattern: str, up_to: int | None = None) -> StoredMessage | None:
        return await self._broker.last(self.selection.log, pattern, up_to=up_to)

    async def _store(self) -> CheckpointStore:
        return CheckpointStore(await self._broker.bucket(CHECKPOINTS))


class _Starts:
    """The starts of one seek, the nearest to `offset` first."""

    def __init__(self, seeker: Seeker, offset: int) -> None:
        self._seeker = seeker
        self._selection = seeker.selection
        self._offset = self._before = offset
        self._checkpoints: list[SeekStart] | None = None

    async def next(self, publishers: Collection[str]) -> SeekStart | None:
        """Return the next start that has state of some of the publishers, or None."""
        key = await self._seeker.last_key_frames(publishers, self._before)
        found = SeekStart(key) if key < self._before else None
        if found is None or self._before - key > NEAR:
            found = await self._next_checkpoint(publishers, key if found is not None else 0) or found
        if found is not None:
            self._before = found.first
        return found

    async def _next_checkpoint(self, publishers: Collection[str], after: int) -> SeekStart | None:
        if self._checkpoints is None:
            first = await self._seeker.first_offset()
            starts = [self._start_after(one) for one in await self._seeker.checkpoints()]
            usable = (start for start in starts if first <= start.first <= self._offset)
            self._checkpoints = sorted(usable, key=lambda start: start.first)
        while self._checkpoints and self._checkpoints[-1].first > after:
            start = self._checkpoints.pop()
            assert start.checkpoint is not None
            parts = start.checkpoint.parts
            if start.first <= self._before and any(self._selection.part(name) in parts for name in publishers):
                return start
        return None

    def _start_after(self, checkpoint: Checkpoint) -> SeekStart:
        """The start after a checkpoint. Each channel of a checkpoint has an offset of its own."""
        if not self._selection.class_id:
            return SeekStart(checkpoint.offset + 1, checkpoint)
        prefix = self._selection.part("")
        offsets = [part.place for name, part in checkpoint.parts.items() if name.startswith(prefix)]
        return SeekStart(max((at for at in offsets if at < self._offset), default=-1) + 1, checkpoint)


async def last_key_frames(broker: Broker, selection: LogSelection, publishers: Collection[str], offset: int) -> int:
    """Return the lowest offset of the publishers' last key frame rounds before `offset`; `offset` if there is none."""
    found = [await broker.last(selection.log, selection.keys(name), up_to=offset - 1) for name in sorted(publishers)]
    return min((key.offset for key in found if key is not None), default=offset)


def _keep_ready(before: LogDecoder, decoders: LogDecoder) -> None:
    """Keep decoders that were ready after an earlier attempt, such as from a checkpoint, and are not ready now."""
    for name, link in before.decoders.items():
        if link.state is State.READY and decoders.decoder(name).state is not State.READY:
            decoders.decoders[name] = link


def _describe(start: SeekStart, messages: int) -> str:
    origin = f"the checkpoint at {start.checkpoint.offset}" if start.checkpoint is not None else "key frames"
    return f"from {origin}, {messages} offsets earlier"
