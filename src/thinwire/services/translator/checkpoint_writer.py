"""Taking checkpoints in passing: the topic stands still for as long as its decoders are copied, and no longer.

The decoders of all publishers are taken at one place of the log. The channels follow a few at a time, each at a place
of its own: its part says after which message of the channel it is the state.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass, field

from thinwire.brokers.protocol import Broker
from thinwire.codec import State
from thinwire.codec.stream_snapshot import of_publisher, of_subscriber
from thinwire.errors import RegistryError, TransportClosed, TransportError
from thinwire.services.translator.channel_writer import ChannelWriter
from thinwire.services.translator.translation import Translation
from thinwire.topics.checkpoint_store import MAX_PARTS, CheckpointStore
from thinwire.topics.log_position import LogSelection
from thinwire.topics.names import log_of

SOURCES_AT_ONCE = 20_000
"""sources of channels that are copied between two messages"""
CHANNEL = 64
"""sources that take as long to copy as a channel does beside its sources"""
MAX_SIZE = 1 << 26
"""bytes of all channels in a checkpoint; who is left out begins with key frames"""

Channel = tuple[str, str]

_log = logging.getLogger("thinwire.translator")


@dataclass
class _Draft:
    """A checkpoint that is being taken."""

    offset: int
    time: float
    parts: dict[str, bytes] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    waiting: deque[Channel] = field(default_factory=deque)
    told: list[Channel] = field(default_factory=list)
    size: int = 0
    begun: bool = False

    @property
    def full(self) -> bool:
        return self.size > MAX_SIZE or len(self.parts) >= MAX_PARTS


class Checkpoints:
    """The checkpoints of one topic.

    messages, seconds: what lies between two of them, whichever is over first
    """

    def __init__(
        self, broker: Broker, store: CheckpointStore, topic: str, *, epoch: int, messages: int, seconds: float
    ) -> None:
        self.topic = topic
        self.epoch = epoch
        self.messages = messages
        self.seconds = seconds
        self._broker = broker
        self._store = store
        self._since = 0
        self._taken = asyncio.get_running_loop().time()
        self._draft: _Draft | None = None
        self._writing: asyncio.Task[None] | None = None
        self._impossible = False

    def note(self) -> None:
        """A message was worked off."""
        self._since += 1

    def is_due(self) -> bool:
        """Is there something to take, now that the topic stands between two messages?"""
        if self._draft is not None:
            return True
        idle = (self._writing is None or self._writing.done()) and not self._impossible
        waited = asyncio.get_running_loop().time() - self._taken >= self.seconds
        return idle and (self._since >= self.messages or (self._since > 0 and waited))

    def begin(self, translation: Translation, offset: int, time: float) -> None:
        """Choose what is taken this time, and have the silence told in it; before the messages are cut."""
        if self._draft is None:
            self._draft = _Draft(offset, time, waiting=deque(translation.channels()))
            self._since, self._taken = 0, asyncio.get_running_loop().time()
        draft, sources = self._draft, 0
        while draft.waiting and sources < SOURCES_AT_ONCE and not draft.full:
            channel = draft.waiting.popleft()
            publisher = translation.channel(*channel)
            if publisher is not None:
                translation.send_suppressed(*channel)
                sources += CHANNEL + publisher.encoder.reducer.columns.rows
                draft.told.append(channel)

    def copy(self, translation: Translation) -> None:
        """Take it; in a thread, while nothing else touches the translation. After the messages are cut."""
        draft = self._draft
        assert draft is not None
        if not draft.begun:
            draft.begun = True
            ready = {name: link for name, link in translation.links.items() if link.state is State.READY}
            draft.parts |= {LogSelection(self.topic).part(name): of_subscriber(link) for name, link in ready.items()}
        for channel in draft.told:
            publisher = translation.channel(*channel)
            assert publisher is not None
            data = of_publisher(publisher)
            draft.parts[self._part(channel)] = data
            draft.size += len(data)

    def stored(self, writer: ChannelWriter) -> None:
        """All messages that were cut are stored: where they end is what was copied."""
        draft = self._draft
        assert draft is not None
        draft.places |= {self._part(channel): writer.last(*channel) for channel in draft.told}
        draft.told.clear()
        if not draft.waiting or draft.full:
            self._draft = None
            self._writing = asyncio.create_task(self._write(draft), name=f"checkpoint {self.topic}")

    async def close(self) -> None:
        """Give up what is being written."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)

    def _part(self, channel: Channel) -> str:
        """The name of the part that holds the state of a channel."""
        class_id, publisher = channel
        return LogSelection(self.topic, class_id).part(publisher)

    async def _write(self, draft: _Draft) -> None:
        try:
            await self._store.put(
                self.topic, draft.offset, draft.parts, epoch=self.epoch, time=draft.time, places=draft.places
            )
            await self._store.prune(self.topic, (await self._broker.span(log_of(self.topic))).first)
        except TransportClosed:
            return
        except RegistryError as problem:
            self._impossible = True
            _log.warning("%s: no checkpoints, readers begin with key frames: %s", self.topic, problem)
        except TransportError as problem:
            _log.warning("%s: no checkpoint at %d: %s", self.topic, draft.offset, problem)
