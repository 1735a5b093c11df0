"""Seek: bring decoders to an offset of a topic log or channel without reading it from the start.

Decoding can start at a key frame round or after a checkpoint. A key frame round starts with a message under a subject
of its own, so the broker can return the last one before an offset. If a checkpoint is nearer, its snapshots are
restored instead. All messages from that start up to the offset are decoded and their events discarded. If a decoder is
not ready then, because its key frame round was incomplete or the checkpoint is damaged, the seek is repeated from the
next earlier start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from thinwire.brokers.protocol import Broker, StoredMessage
from thinwire.codec import State, StreamDecoder
from thinwire.codec.stream_snapshot import restore_decoder
from thinwire.errors import CorruptCheckpoint, CorruptFrame, PeerFault, UnknownSchema
from thinwire.topics.checkpoint_store import Checkpoint, CheckpointPart, CheckpointStore
from thinwire.topics.log_decoder import ChannelDecoder, FetchDefinition, LogDecoder
from thinwire.topics.log_selection import LogSelection, last_offset, newest_messages, read_range
from thinwire.topics.names import CHECKPOINTS, publisher_in
from thinwire.topics.position import Position, decode_envelope

D = TypeVar("D", bound=LogDecoder)

NEAR = 64
"""offsets; key frames at most this far back are used without looking for a checkpoint"""
MAX_FILTERED = 64
"""publishers whose messages are selected by subject; for more, all messages of the log are read"""
INACTIVE_AFTER = 600.0
"""seconds without a message after which a publisher is not needed for a seek"""
MAX_STARTS = 8
"""starts from which a seek is attempted"""

_log = logging.getLogger("thinwire.topics")


class SeekResult(NamedTuple, Generic[D]):
    """Decoders at the requested offset. `start_text` describes the start that was used, for log lines."""

    log_decoder: D
    start_text: str


class SeekStart(NamedTuple):
    """Where decoding can start: the first offset to read, and the checkpoint before it, or None for key frames."""

    first: int
    checkpoint: Checkpoint | None = None


class _RestoredState(NamedTuple):
    """The first offset to read, and by publisher the offset of the last message that its snapshot contains."""

    first: int
    decoded: Mapping[str, int] = MappingProxyType({})


class Seeker:
    """Brings decoders to an offset of one topic log or channel.

    fetch: fetches a schema by fingerprint or a dictionary by hash; returns False for an unknown one
    """

    def __init__(self, broker: Broker, selection: LogSelection, fetch: FetchDefinition) -> None:
        self.selection = selection
        self.broker = broker
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

        log_decoder: a decoder without state; the result is a copy of it with state, or itself if there is no start
        publishers: the publishers to decode; by default all active ones
        read_all: read the messages of other publishers too, so that the decoder can detect gaps in the offsets
        max_messages: do not start more than this many offsets earlier; decoders without a nearer start stay empty
        """
        names = set(publishers) if publishers is not None else await self._active_publishers(offset)
        subjects = self._subjects(names if publishers is not None and not read_all else None)
        starts, unready = _Starts(self, offset), names
        found = SeekResult(log_decoder, "without state")
        for _ in range(MAX_STARTS):
            start = await starts.next(unready) if unready else None
            if start is None or (max_messages is not None and offset - start.first > max_messages):
                break
            decoders = log_decoder.copy_empty()
            restored = await self._restore_start(start, decoders, offset, publishers)
            if restored is None:
                continue
            await self._replay(restored, decoders, offset, subjects)
            if not isinstance(decoders, ChannelDecoder):
                _reuse_ready(found.log_decoder, decoders)
            found = SeekResult(decoders, _describe(start, offset - restored.first))
            ready = {name for name, decoder in decoders.decoders.items() if decoder.state is State.READY}
            unready = (names | decoders.decoders.keys()) - ready
        found.log_decoder.offset = offset - 1
        _log.info("%s: seek to offset %d %s", self.selection.topic, offset, found.start_text)
        return found

    async def start_offset(self, publisher: str, offset: int) -> int:
        """Return the offset from which a seek of this publisher reads first; `offset` itself if there is no start."""
        start = await _Starts(self, offset).next([publisher])
        return start.first if start is not None else offset

    async def checkpoints(self) -> list[Checkpoint]:
        """Return the checkpoints from which the current content of the log can be decoded, in order of offset."""
        if self._checkpoints is None:
            found = await (await self._store()).read_all(self.selection.topic)
            if not self.selection.class_id:  # offsets of a checkpoint are those of the topic log
                span = await self.broker.span(self.selection.log)
                found = [each for each in found if span.first - 1 <= each.offset <= span.last]
            self._checkpoints = found
        return self._checkpoints

    async def starts_after_checkpoints(self, offset: int) -> list[SeekStart]:
        """Return the starts after checkpoints that a seek to `offset` can use, in order of offset."""
        checkpoints = await self.checkpoints()
        if not self.selection.class_id:
            return [SeekStart(each.offset + 1, each) for each in checkpoints if each.offset < offset]
        first = (await self.broker.span(self.selection.log)).first
        # Each channel of a checkpoint has an offset of its own.
        starts = [SeekStart(_channel_offset(each, self.selection, offset) + 1, each) for each in checkpoints]
        return sorted((start for start in starts if first <= start.first <= offset), key=lambda start: start.first)

    async def _active_publishers(self, offset: int) -> set[str]:
        """Publishers with messages at or after `offset`, or shortly before the end.

        Other publishers need no state: they begin with key frames when they send again.
        """
        newest = await newest_messages(self.broker, self.selection)
        active_since = max((stored.time for stored in newest.values()), default=0.0) - INACTIVE_AFTER
        return {name for name, stored in newest.items() if stored.offset >= offset or stored.time >= active_since}

    async def _restore_start(
        self, start: SeekStart, decoders: LogDecoder, offset: int, publishers: Collection[str] | None
    ) -> _RestoredState | None:
        """Restore the checkpoint of a start, if it has one. Return None if the checkpoint is unusable."""
        if start.checkpoint is None:
            return _RestoredState(start.first)
        try:
            return await self._restore_checkpoint(start.checkpoint, decoders, offset, publishers)
        except (CorruptCheckpoint, UnknownSchema) as problem:
            _log.warning("%s: skipped checkpoint at %d: %s", self.selection.topic, start.checkpoint.offset, problem)
            return None

    async def _restore_checkpoint(
        self, checkpoint: Checkpoint, decoders: LogDecoder, offset: int, publishers: Collection[str] | None
    ) -> _RestoredState:
        """Restore the snapshots of a checkpoint into fresh decoders. After an error the decoders are unusable."""
        by_publisher = _parts_of(checkpoint, self.selection)
        parts = {name: part for name, part in by_publisher.items() if publishers is None or name in publishers}
        if isinstance(decoders, ChannelDecoder):
            return await self._restore_channel(checkpoint, parts, decoders, offset)
        await self._check_log(checkpoint)
        for name in parts:
            await self._restore_part(checkpoint, decoders.open_decoder(name))
        decoders.offset = checkpoint.offset
        return _RestoredState(checkpoint.offset + 1)

    async def _restore_channel(
        self, checkpoint: Checkpoint, parts: Mapping[str, CheckpointPart], decoders: ChannelDecoder, offset: int
    ) -> _RestoredState:
        decoded: dict[str, int] = {}
        for name, part in parts.items():
            envelope = await self._find_envelope(checkpoint, name, part) if part.channel_offset < offset else None
            if envelope is not None:
                await self._restore_part(checkpoint, decoders.open_decoder(name))
                decoders.set_position(name, *envelope)
                decoded[name] = part.channel_offset
        # The snapshots of a channel are at different offsets. Reading starts after the highest of these offsets, or
        # after a lower one if its publisher has messages up to the highest.
        end = max(decoded.values(), default=offset - 1)
        log, subjects = self.selection.log, self.selection.subjects
        behind = [at for name, at in decoded.items() if await last_offset(self.broker, log, [subjects(name)], end) > at]
        return _RestoredState(min(behind, default=end) + 1, decoded)

    async def _find_envelope(
        self, checkpoint: Checkpoint, publisher: str, part: CheckpointPart
    ) -> tuple[int, Position] | None:
        """Epoch and position of the last channel message in a snapshot; None if it was removed or fenced."""
        subjects = self.selection.subjects(publisher)
        stored = await self._last(subjects, part.channel_offset)
        before = await self._last(subjects, part.channel_offset - 1)
        if stored is None or stored.offset != part.channel_offset:
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

    async def _restore_part(self, checkpoint: Checkpoint, decoder: StreamDecoder) -> None:
        name = self.selection.part_name(decoder.publisher)
        data = await (await self._store()).read_part(self.selection.topic, checkpoint, name)
        await self.restore_snapshot(decoder, data)

    async def restore_snapshot(self, decoder: StreamDecoder, data: bytes) -> None:
        """Restore a snapshot and fetch the schema that it needs. Raise `UnknownSchema` if there is none."""
        try:
            await self._apply_snapshot(decoder, data)
        except UnknownSchema as unknown:
            await self._fetch(bytes.fromhex(unknown.fingerprint))
            await self._apply_snapshot(decoder, data)

    async def _apply_snapshot(self, decoder: StreamDecoder, data: bytes) -> None:
        """Restore a snapshot in a thread: a large one takes seconds and would block the event loop."""
        await asyncio.to_thread(restore_decoder, decoder, data)

    async def _replay(
        self, restored: _RestoredState, decoders: LogDecoder, offset: int, subjects: Collection[str]
    ) -> None:
        """Decode the messages from a start up to, but not including, `offset`."""
        last = min(offset - 1, (await self.broker.span(self.selection.log)).last)
        async with aclosing(self._read(restored.first, last, subjects)) as messages:
            async for stored in messages:
                if stored.offset > restored.decoded.get(publisher_in(stored.subject), 0):
                    await self._decode(decoders, stored)

    def _read(self, first: int, last: int, subjects: Collection[str]) -> AsyncGenerator[StoredMessage, None]:
        return read_range(self.broker, self.selection.log, first, last, subjects)

    async def _decode(self, decoders: LogDecoder, stored: StoredMessage) -> None:
        """Decode one message. A decoder that cannot read it waits for key frames."""

        def report(fault: PeerFault) -> None:
            _log.warning("%s: cannot decode the message at %d: %s", stored.subject, stored.offset, fault)

        await decoders.receive_and_fetch(stored, stored.time, self._fetch, report)

    def _subjects(self, publishers: Collection[str] | None) -> list[str]:
        if publishers is None or len(publishers) > MAX_FILTERED:
            return [self.selection.subjects()]
        return [self.selection.subjects(name) for name in sorted(publishers)]

    async def _last(self, pattern: str, up_to: int | None = None) -> StoredMessage | None:
        return await self.broker.last(self.selection.log, pattern, up_to=up_to)

    async def _store(self) -> CheckpointStore:
        return CheckpointStore(await self.broker.bucket(CHECKPOINTS))


class _Starts:
    """The starts of one seek, the nearest to `offset` first."""

    def __init__(self, seeker: Seeker, offset: int) -> None:
        self._seeker = seeker
        self._selection = seeker.selection
        self._offset = self._search_end = offset
        self._checkpoint_starts: list[SeekStart] | None = None

    async def next(self, publishers: Collection[str]) -> SeekStart | None:
        """Return the next start that has state of some of the publishers, or None."""
        round_start = await find_round_start(self._seeker.broker, self._selection, publishers, self._search_end)
        found = SeekStart(round_start) if round_start < self._search_end else None
        if found is None or self._search_end - round_start > NEAR:
            found = await self._next_checkpoint(publishers, found.first if found is not None else 0) or found
        if found is not None:
            self._search_end = found.first
        return found

    async def _next_checkpoint(self, publishers: Collection[str], after: int) -> SeekStart | None:
        if self._checkpoint_starts is None:
            self._checkpoint_starts = await self._seeker.starts_after_checkpoints(self._offset)
        while self._checkpoint_starts and self._checkpoint_starts[-1].first > after:
            start = self._checkpoint_starts.pop()
            assert start.checkpoint is not None
            parts = _parts_of(start.checkpoint, self._selection)
            if start.first <= self._search_end and any(name in parts for name in publishers):
                return start
        return None


async def find_round_start(broker: Broker, selection: LogSelection, publishers: Collection[str], offset: int) -> int:
    """Return the offset at which the earliest of the publishers' last key frame rounds before `offset` starts.

    `offset` itself if no publisher has such a round.
    """
    subjects = [selection.key_subject(name) for name in sorted(publishers)]
    found = [await broker.last(selection.log, subject, up_to=offset - 1) for subject in subjects]
    return min((key.offset for key in found if key is not None), default=offset)


def _parts_of(checkpoint: Checkpoint, selection: LogSelection) -> dict[str, CheckpointPart]:
    """The parts of a checkpoint with decoder snapshots of a log or channel, by publisher."""
    prefix = selection.part_name("")
    return {name.removeprefix(prefix): p for name, p in checkpoint.parts.items() if name.startswith(prefix)}


def _channel_offset(checkpoint: Checkpoint, selection: LogSelection, offset: int) -> int:
    """The highest channel offset before `offset` in the parts of a checkpoint; -1 if there is none."""
    offsets = [part.channel_offset for part in _parts_of(checkpoint, selection).values()]
    return max((each for each in offsets if each < offset), default=-1)


def _reuse_ready(earlier: LogDecoder, decoders: LogDecoder) -> None:
    """Replace decoders that are not ready by those of an earlier attempt that are, such as from a checkpoint."""
    for name, decoder in earlier.decoders.items():
        if decoder.state is State.READY and decoders.open_decoder(name).state is not State.READY:
            decoders.decoders[name] = decoder


def _describe(start: SeekStart, distance: int) -> str:
    kind = f"the checkpoint at {start.checkpoint.offset}" if start.checkpoint is not None else "key frames"
    return f"from {kind}, {distance} offsets earlier"
