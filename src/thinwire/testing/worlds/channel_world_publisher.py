"""What the translators of a topic share: its logs, the lease, which classes are open, and checkpoints.

A publisher of a world of classes: sensors, a link with its lives, and its messages in the log of the topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from random import Random
from typing import NamedTuple

from thinwire.codec import StreamConfig, StreamEncoder
from thinwire.schema import Schema
from thinwire.services.translator.translator_recovery import MAX_STALE_ROUNDS, ChannelEnd
from thinwire.testing.worlds.channel_world_logs import WorldLog
from thinwire.testing.worlds.world_observer import Truth
from thinwire.testing.worlds.world_sensors import WorldSensors
from thinwire.topics.channel_documents import ChannelDocument
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.log_decoder import Lookup
from thinwire.topics.log_selection import PublisherOffsets
from thinwire.topics.names import (
    channel_key_subject,
    channel_subjects,
    data_subject,
    key_subject,
    publisher_in,
    publisher_subjects,
)
from thinwire.topics.position import Position, decode_envelope
from thinwire.topics.topic_settings import demand_for
from thinwire.wire import FrameKind, Request, begins_round, join

Tell = Callable[[str], None]
Message = tuple[str, bytes]


class ChannelPublisherSite:
    """A publisher that writes to the log of its topic as clients do: key frames that begin a round stand alone.

    config: what the registry last told it; it goes over to it when it next works
    harm: what becomes of its next messages: "hole", "unsent" or "spoilt"
    """

    def __init__(
        self,
        name: str,
        schema: Schema,
        sensors: WorldSensors,
        chance: Random,
        log: WorldLog,
        config: StreamConfig,
        tell: Tell,
    ) -> None:
        self.name = name
        self.schema = schema
        self.sensors = sensors
        self.truth = Truth()
        self.config = config
        self.publisher: StreamEncoder | None = None
        self.mute = False
        self.harm: list[str] = []
        self._incarnation = chance.choice((0, 1, 7))
        self._chance = chance
        self._log = log
        self._pending: list[bytes] = []
        self._tell = tell

    def start(self, now: float) -> None:
        """A new life."""
        self._incarnation += 1
        config = self._registry_config()
        self.truth.begin(self._incarnation, self.schema, config)
        self.publisher = StreamEncoder(
            self.schema, config, name=self.name, incarnation=self._incarnation, now=now, compiled=False
        )
        self._pending += self.publisher.start(now)
        self._tell(f"{self.name} starts life {self._incarnation} with version {config.version}: {config.demand}")

    def crash(self) -> None:
        """The end of a life: what was not stored never will be."""
        self._tell(f"{self.name} crashes with {len(self._pending)} frames unsent")
        self.publisher = None
        self._pending.clear()

    def work(self, now: float, events: int) -> None:
        """Measure, publish, see to what is due, and store most of it."""
        if self.publisher is None:
            return
        if self.config.version > self.publisher.config.version:
            self._switch_configuration(now)
        for _ in range(0 if self.mute else events):
            values = self.sensors.read(self.schema, now)
            self._pending += self.publisher.publish(values, now)
            self.truth.publish(values, now)
        self._pending += self.publisher.poll(now)
        if self._chance.random() < 0.8:
            self.flush(now)

    def answer(self, now: float) -> None:
        """Somebody lost its way in the log."""
        if self.publisher is not None:
            self._pending += self.publisher.answer(Request(0, 0), now)

    def finish(self, now: float) -> None:
        """A last round of key frames and a heartbeat, all of it stored."""
        assert self.publisher is not None
        self.harm.clear()
        self.flush(now)
        self._pending += self.publisher.answer(Request(0, 0), now)
        self._pending += self.publisher.heartbeat(now)
        self.flush(now)

    def flush(self, now: float) -> None:
        """Store what is pending, in one message or in several."""
        for subject, payload in self._messages():
            harm = self.harm.pop(0) if self.harm else ""
            if harm:
                self._tell(f"a message of {self.name} is harmed: {harm}")
            if harm == "hole":
                self._log.skip()
            elif harm != "unsent":
                self._log.append(subject, spoilt(payload, self._chance) if harm else payload, now)

    def _messages(self) -> Iterator[Message]:
        frames, self._pending = self._pending, []
        while frames:
            size = self._size(frames)
            subject = (key_subject if begins_round(frames[0]) else data_subject)(self.schema.name, self.name)
            yield subject, join(frames[:size])
            frames = frames[size:]

    def _size(self, frames: list[bytes]) -> int:
        """How many frames share the next message."""
        if begins_round(frames[0]):
            return 1
        most = self._chance.randint(1, len(frames))
        return next((number for number in range(1, most) if begins_round(frames[number])), most)

    def _switch_configuration(self, now: float) -> None:
        assert self.publisher is not None
        config = self._registry_config()
        self._pending += self.publisher.reconfigure(config, now)
        self.truth.configure(config)
        self._tell(f"{self.name} goes over to version {config.version}: {config.demand}")

    def _registry_config(self) -> StreamConfig:
        """What the registry told, without what concerns properties of other versions of the schema."""
        config = self.config
        return StreamConfig(
            config.version,
            demand_for(self.schema, config.demand),
            config.format,
            config.key_frame_interval,
            config.max_silence,
            config.audit_every,
        )


def spoilt(payload: bytes, chance: Random) -> bytes:
    """The message altered so that no reader takes it for what it was: its first check is wrong, or it breaks off.

    What the one byte of check lets pass by chance is the matter of `thinwire.testing.worlds.stream_world`.
    """
    if chance.random() < 0.3:
        return payload[: chance.randint(1, 3)]
    batch = payload[0] & 0x0F == FrameKind.BATCH
    start = 2 if batch else 0  # after the head of a batch and the length of its first frame, where that is one byte
    if batch and payload[1] >= 0x80:
        return payload[:-1]
    head = payload[start]
    check = start + 2 + bool(head & 0x10) + bool(head & 0x20)
    return payload[:check] + bytes((payload[check] ^ 1 << chance.randrange(8),)) + payload[check + 1 :]


TERM = 2.5
"""seconds that a lease lasts"""


@dataclass
class WorldLease:
    """Who translates, in which epoch, until when unless it says again that it is there."""

    holder: str = ""
    epoch: int = 0
    until: float = 0.0

    def keep(self, name: str, epoch: int, now: float) -> bool:
        """Say that the holder is there; False where it is no longer the holder."""
        if (name, epoch) != (self.holder, self.epoch):
            return False
        self.until = now + TERM
        return True

    def take(self, name: str, now: float, *, again: bool = False) -> bool:
        """Take it over once it has run out; the holder itself may begin another epoch `again`."""
        if now < self.until and not (again and self.holder == name):
            return False
        self.holder, self.until = name, now + TERM
        self.epoch += 1
        return True


class LogCheckpoint(NamedTuple):
    """A checkpoint of the log: the state of the links of publishers after the message at an offset."""

    offset: int
    states: dict[str, bytes]


class ChannelCheckpoint(NamedTuple):
    """The state of a channel's readers after its message at an offset, and what that message says of itself."""

    offset: int
    epoch: int
    position: Position
    state: bytes


@dataclass
class ChannelWorldBroker:
    """Everything at the broker.

    asked: what each reader asks; documents: how each class is served; opened: where its channel begins
    checkpoints, copies: of the log, and of channels by class and publisher
    asks: classes and publishers ("" for all) of which key frames are asked; wanted: publishers of the log likewise
    """

    topic: str
    lookup: Lookup
    tell: Tell
    log: WorldLog = field(default_factory=WorldLog)
    channels: WorldLog = field(default_factory=WorldLog)
    lease: WorldLease = field(default_factory=WorldLease)
    asked: dict[str, DemandClass] = field(default_factory=dict)
    documents: dict[str, ChannelDocument] = field(default_factory=dict)
    classes: dict[str, DemandClass] = field(default_factory=dict)
    opened: dict[str, int] = field(default_factory=dict)
    checkpoints: list[LogCheckpoint] = field(default_factory=list)
    copies: dict[tuple[str, str], ChannelCheckpoint] = field(default_factory=dict)
    asks: set[tuple[str, str]] = field(default_factory=set)
    wanted: set[str] = field(default_factory=set)
    refused: int = 0

    def open(self, asked: DemandClass, epoch: int, since: int, offset: int) -> None:
        """A class has a channel, which tells what comes after `since`; its key frames come after this offset of it."""
        self.classes[asked.id] = asked
        self.documents[asked.id] = ChannelDocument(self.topic, asked.id, "open", epoch, since)
        self.opened[asked.id] = offset

    def close(self, class_id: str) -> None:
        """A class has no channel any more."""
        del self.documents[class_id], self.opened[class_id]
        self.copies = {channel: copied for channel, copied in self.copies.items() if channel[0] != class_id}

    def ends(self, class_id: str) -> dict[str, ChannelEnd]:
        """Where the channels of a class end, by publisher."""
        return {publisher: end for publisher in self.publishers().newest for end in self._end(class_id, publisher)}

    def publishers(self) -> PublisherOffsets:
        """What the log has of each publisher."""
        names = {publisher_in(stored.subject) for stored in self.log.read(1)}
        newest = {name: self.log.last(publisher_subjects(self.topic, name)) for name in sorted(names)}
        keys = {name: self.log.last(key_subject(self.topic, name)) for name in sorted(names)}
        return PublisherOffsets(
            {name: stored.offset for name, stored in newest.items() if stored is not None},
            {name: stored.offset for name, stored in keys.items() if stored is not None},
        )

    def spoil_checkpoint(self, chance: Random) -> None:
        """One bit of the last checkpoint is another."""
        if self.checkpoints and self.checkpoints[-1].states:
            states = self.checkpoints[-1].states
            name = chance.choice(sorted(states))
            spoilt = bytearray(states[name])
            spoilt[chance.randrange(len(spoilt))] ^= 1 << chance.randrange(8)
            states[name] = bytes(spoilt)
            self.tell("a checkpoint is spoilt")

    def copy(self, class_id: str, publisher: str, offset: int, state: bytes) -> None:
        """A checkpoint of a channel after its message at this offset."""
        stored = next(self.channels.read(offset, 1))
        epoch, position, _ = decode_envelope(stored.payload)
        self.copies[class_id, publisher] = ChannelCheckpoint(offset, epoch, position, state)

    def epoch_before(self, class_id: str, publisher: str, offset: int) -> int:
        """The last translator that had written to a channel before this offset."""
        before = self.channels.back(channel_subjects(self.topic, class_id, publisher), offset - 1)
        return max((decode_envelope(stored.payload)[0] for stored in before), default=0)

    def _end(self, class_id: str, publisher: str) -> Iterator[ChannelEnd]:
        """Where a channel ends: what one that had slept wrote behind its successor's key frames tells nothing."""
        served = self.documents[class_id].epoch if class_id in self.documents else 0
        begun, offset = 0, 0
        keys = self.channels.back(channel_key_subject(self.topic, class_id, publisher))
        for key in islice(keys, 1 + MAX_STALE_ROUNDS):
            begun = max(begun, decode_envelope(key.payload)[0])
            if begun >= served:
                break
        for stored in self.channels.back(channel_subjects(self.topic, class_id, publisher)):
            offset = offset or stored.offset
            epoch, position, _ = decode_envelope(stored.payload)
            if epoch >= begun:
                yield ChannelEnd(offset, epoch, position)
                return
