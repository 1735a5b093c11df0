"""A site that publishes: sensors, a publisher with its lives, and what is on its way to the broker."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from thinwire.brokers.protocol import Message
from thinwire.codec import LinkConfig, Publisher
from thinwire.errors import EventRejected, PeerFault
from thinwire.schema import Schema
from thinwire.testing.worlds.lossy_transport_memory import MemoryBroker
from thinwire.testing.worlds.world_observer_world_truth import Truth
from thinwire.testing.worlds.world_sensors_world_readings import Sensors, draw_demand
from thinwire.wire import FrameKind, Request, join, read

Tell = Callable[[str], None]


class PublishingSite:
    """A publisher with its sensors; when it crashes, what it has not sent is gone and its next life begins anew."""

    def __init__(
        self,
        name: str,
        schema: Schema,
        sensors: Sensors,
        chance: Random,
        broker: MemoryBroker,
        *,
        wide: bool,
        compiled: bool,
        linger: bool,
        tell: Tell,
    ) -> None:
        self.name = name
        self.schema = schema
        self.sensors = sensors
        self.truth = Truth()
        self.publisher: Publisher | None = None
        self.wide = wide
        self.compiled = compiled
        self.linger = linger
        self.paused = False
        self.incarnation = chance.choice((0, 1, 7))
        self.frames = 0
        self._chance = chance
        self._broker = broker
        self._requests = broker.subscribe(f"request.{name}")
        self._pending: list[bytes] = []
        self._tell = tell

    @property
    def alive(self) -> bool:
        return self.publisher is not None

    def start(self, now: float) -> None:
        """A new life."""
        self.incarnation += 1
        config = self._config(1)
        self.truth.begin(self.incarnation, self.schema, config)
        self.publisher = Publisher(
            self.schema,
            config,
            name=self.name,
            incarnation=self.incarnation,
            wide=self.wide,
            now=now,
            compiled=self.compiled,
        )
        self._keep(self.publisher.start(now))
        self._tell(f"{self.name} starts life {self.incarnation} with {config}")

    def crash(self) -> None:
        """The end of a life, in the middle of whatever it did."""
        self._tell(f"{self.name} crashes with {len(self._pending)} frames unsent")
        self.publisher = None
        self._pending.clear()

    def reconfigure(self, now: float) -> None:
        """Other tolerances, another format, in the same life."""
        if self.publisher is not None:
            config = self._config(self.publisher.config.version + 1)
            self._keep(self.publisher.reconfigure(config, now))
            self.truth.configure(config)
            self._tell(f"{self.name} goes over to {config}")

    def work(self, now: float, events: int) -> None:
        """Measure, publish, and see to what is due."""
        if self.publisher is None or self.paused:
            return
        for _ in range(events):
            self.publish(self.sensors.read(self.schema, now), now)
        self._keep(self.publisher.poll(now))
        for message in self._requests:
            self._answer(message, now)
        self.flush()

    def publish(self, values: dict[str, Any], now: float) -> None:
        """One event; what is refused must leave no trace."""
        assert self.publisher is not None
        if self._chance.random() < 0.01:
            self._refused(values, now)
        self._keep(self.publisher.publish(values, now))
        self.truth.publish(values, now)

    def round(self, now: float) -> None:
        """Key frames of all sources, and a heartbeat."""
        assert self.publisher is not None
        self._keep(self.publisher.answer(Request(0, 0), now))
        self._keep(self.publisher.heartbeat(now))
        self.flush()

    def vanish(self, count: int, now: float) -> None:
        """Exactly so many frames are made and never sent."""
        if self.publisher is None or self.paused:
            return
        self.flush()
        made = self.truth.made
        while self.truth.made - made < count:
            self.publish(self.sensors.read(self.schema, now), now)
        lost, self._pending = self._pending[:count], self._pending[count:]
        self._tell(f"{self.name} loses exactly {len(lost)} frames")

    def flush(self) -> None:
        """Send what is pending, in one message or in several."""
        frames, self._pending = self._pending, []
        while frames:
            size = self._chance.randint(1, len(frames)) if self.linger else 1
            self._send(join(frames[:size]))
            frames = frames[size:]

    def _send(self, payload: bytes) -> None:
        self.truth.payloads.add(payload)
        self._broker.publish(f"data.{self.name}", payload)

    def _answer(self, message: Message, now: float) -> None:
        assert self.publisher is not None
        try:
            frame = read(message.payload)
            if frame.kind == FrameKind.REQUEST:
                self._keep(self.publisher.answer(Request.decode(frame.body), now))
        except PeerFault:
            self._tell(f"{self.name} cannot read a request")

    def _refused(self, values: dict[str, Any], now: float) -> None:
        assert self.publisher is not None
        try:
            self.publisher.publish({**values, "sensor": 1.5}, now)
        except EventRejected:
            return
        raise AssertionError("an event with a wrong dimension was accepted")

    def _keep(self, frames: list[bytes]) -> None:
        for frame in frames:
            self.truth.frame(frame)
        self.frames += len(frames)
        self._pending += frames

    def _config(self, version: int) -> LinkConfig:
        chance = self._chance
        return LinkConfig(
            version=version,
            demand=draw_demand(self.schema, chance),
            format=chance.choice(("compact", "compact", "json")),
            key_frame_interval=chance.choice((3.0, 10.0, 60.0)),
            max_silence=chance.choice((1.0, 3.0)),
            audit_every=chance.choice((0, 0, 5)),
        )
