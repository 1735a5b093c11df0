"""Writes checkpoints of a topic without stopping the translation for longer than it takes to copy state.

The snapshots of all decoders are taken at one log offset. The snapshots of channels follow in portions; each states the
offset of the channel message after which it is valid.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass, field

from thinwire.brokers.protocol import Broker
from thinwire.codec import State
from thinwire.codec.stream_snapshot import snapshot_decoder, snapshot_encoder
from thinwire.errors import RegistryError, TransportClosed, TransportError
from thinwire.services.translator.channel_writer import ChannelWriter
from thinwire.services.translator.translation import Translation
from thinwire.topics.checkpoint_store import MAX_PARTS, CheckpointStore
from thinwire.topics.log_selection import LogSelection
from thinwire.topics.names import log_of

SOURCES_PER_PORTION = 20_000
"""sources of channels that are copied between two messages"""
CHANNEL_COST = 64
"""fixed cost of copying a channel, expressed as a number of sources"""
MAX_SIZE = 1 << 26
"""bytes of the channel snapshots in a checkpoint; channels above it are left out, and their readers start with key
frames"""

ChannelName = tuple[str, str]
"""class and publisher"""

_log = logging.getLogger("thinwire.translator")


@dataclass
class _Draft:
    """A checkpoint in progress.

    offsets: channel offset of each part
    waiting: channels that are not copied yet
    portion: channels that are copied now
    """

    offset: int
    time: float
    parts: dict[str, bytes] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)
    waiting: deque[ChannelName] = field(default_factory=deque)
    portion: list[ChannelName] = field(default_factory=list)
    size: int = 0
    has_decoders: bool = False

    @property
    def is_full(self) -> bool:
        return self.size > MAX_SIZE or len(self.parts) >= MAX_PARTS


class CheckpointWriter:
    """The checkpoints of one topic.

    messages, seconds: interval between two checkpoints, whichever is over first
    offset: log offset after which the translation starts

    The caller runs one cycle per write round: `select_portion` before it takes messages from the translation, `copy`
    after that, and `confirm` when they are stored.
    """

    def __init__(
        self,
        broker: Broker,
        store: CheckpointStore,
        topic: str,
        *,
        epoch: int,
        messages: int,
        seconds: float,
        offset: int,
    ) -> None:
        self.topic = topic
        self.epoch = epoch
        self.messages = messages
        self.seconds = seconds
        self._broker = broker
        self._store = store
        self._last_offset = offset
        self._last_begun_at = asyncio.get_running_loop().time()
        self._draft: _Draft | None = None
        self._writing: asyncio.Task[None] | None = None
        self._is_disabled = False

    def is_due(self, offset: int) -> bool:
        """Report whether there is something to copy; `offset` is that of the last processed message."""
        if self._draft is not None:
            return True
        if self._is_disabled or (self._writing is not None and not self._writing.done()):
            return False
        messages = offset - self._last_offset
        has_waited = asyncio.get_running_loop().time() - self._last_begun_at >= self.seconds
        return messages >= self.messages or (messages > 0 and has_waited)

    def select_portion(self, translation: Translation, offset: int, time: float) -> None:
        """Select the next channels to copy and report their suppressed events. Begin a checkpoint if there is none."""
        if self._draft is None:
            self._draft = _Draft(offset, time, waiting=deque(translation.list_channels()))
            self._last_offset, self._last_begun_at = offset, asyncio.get_running_loop().time()
        draft, sources = self._draft, 0
        while draft.waiting and sources < SOURCES_PER_PORTION and not draft.is_full:
            channel = draft.waiting.popleft()
            stream = translation.find_stream(*channel)
            if stream is not None:
                translation.send_suppressed(*channel)
                sources += CHANNEL_COST + stream.reducer.source_count
                draft.portion.append(channel)

    def copy(self, translation: Translation) -> None:
        """Copy the snapshots. May run in a thread while the translation is not used."""
        draft = self._draft
        assert draft is not None
        if not draft.has_decoders:
            draft.has_decoders = True
            ready = {name: decoder for name, decoder in translation.decoders.items() if decoder.state is State.READY}
            selection = LogSelection(self.topic)
            draft.parts |= {selection.part_name(name): snapshot_decoder(decoder) for name, decoder in ready.items()}
        for channel in draft.portion:
            stream = translation.find_stream(*channel)
            assert stream is not None
            data = snapshot_encoder(stream)
            draft.parts[self._part(channel)] = data
            draft.size += len(data)

    def confirm(self, writer: ChannelWriter) -> None:
        """Record the offsets of the copied channels after their messages are stored."""
        draft = self._draft
        assert draft is not None
        draft.offsets |= {self._part(channel): writer.last(*channel) for channel in draft.portion}
        draft.portion.clear()
        if not draft.waiting or draft.is_full:
            self._draft = None
            self._writing = asyncio.create_task(self._write(draft), name=f"checkpoint {self.topic}")

    async def close(self) -> None:
        """Cancel a checkpoint that is being written."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)

    def _part(self, channel: ChannelName) -> str:
        class_id, publisher = channel
        return LogSelection(self.topic, class_id).part_name(publisher)

    async def _write(self, draft: _Draft) -> None:
        try:
            await self._store.put(
                self.topic, draft.offset, draft.parts, epoch=self.epoch, time=draft.time, channel_offsets=draft.offsets
            )
            await self._store.prune(self.topic, (await self._broker.span(log_of(self.topic))).first)
        except TransportClosed:
            return
        except RegistryError as problem:
            self._is_disabled = True
            _log.warning("checkpoints of topic %s disabled; readers start with key frames: %s", self.topic, problem)
        except TransportError as problem:
            _log.warning("cannot write checkpoint of topic %s at offset %d: %s", self.topic, draft.offset, problem)
