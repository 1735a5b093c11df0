"""A publisher of a world of classes: sensors, a link with its lives, and its messages in the log of the topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from thinwire.codec import LinkConfig, Publisher
from thinwire.schema import Schema
from thinwire.testing.worlds.channel_world_logs_classes_world_logs import Log
from thinwire.testing.worlds.world_observer_world_truth import Truth
from thinwire.testing.worlds.world_sensors_world_readings import Sensors
from thinwire.topics.names import data_subject, key_subject
from thinwire.topics.topic_settings_settings import demand_for
from thinwire.wire import FrameKind, Request, begins_round, join

Tell = Callable[[str], None]
Message = tuple[str, bytes]


class PublishingSite:
    """A publisher that writes to the log of its topic as clients do: key frames that begin a round stand alone.

    config: what the registry last told it; it goes over to it when it next works
    harm: what becomes of its next messages: "hole", "unsent" or "spoilt"
    """

    def __init__(
        self, name: str, schema: Schema, sensors: Sensors, chance: Random, log: Log, config: LinkConfig, tell: Tell
    ) -> None:
        self.name = name
        self.schema = schema
        self.sensors = sensors
        self.truth = Truth()
        self.config = config
        self.publisher: Publisher | None = None
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
        config = self._told()
        self.truth.begin(self._incarnation, self.schema, config)
        self.publisher = Publisher(
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
            self._go_over(now)
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

    def _go_over(self, now: float) -> None:
        assert self.publisher is not None
        config = self._told()
        self._pending += self.publisher.reconfigure(config, now)
        self.truth.configure(config)
        self._tell(f"{self.name} goes over to version {config.version}: {config.demand}")

    def _told(self) -> LinkConfig:
        """What the registry told, without what concerns properties of other versions of the schema."""
        config = self.config
        return LinkConfig(
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
