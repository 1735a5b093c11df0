"""A site that publishes: sensors, a publisher with its lives, and what is on its way to the broker.

A site that subscribes: a subscriber with its lives, and the observer that watches each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Literal

from thinwire.codec import EventsMissed, State, StreamConfig, StreamDecoder, StreamEncoder
from thinwire.errors import CorruptFrame, EventRejected, PeerFault
from thinwire.schema import Schema
from thinwire.testing.worlds.lossy_transport import MemoryBroker, TransportMessage
from thinwire.testing.worlds.world_observer import StreamObserver, Truth, chain_after, chain_state
from thinwire.testing.worlds.world_sensors import WorldSensors, draw_demand
from thinwire.wire import FrameKind, Request, join, read, split

Tell = Callable[[str], None]


class StreamPublisherSite:
    """A publisher with its sensors; when it crashes, what it has not sent is gone and its next life begins anew."""

    def __init__(
        self,
        name: str,
        schema: Schema,
        sensors: WorldSensors,
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
        self.publisher: StreamEncoder | None = None
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
        self.publisher = StreamEncoder(
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

    def _answer(self, message: TransportMessage, now: float) -> None:
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

    def _config(self, version: int) -> StreamConfig:
        chance = self._chance
        return StreamConfig(
            version=version,
            demand=draw_demand(self.schema, chance),
            format=chance.choice(("compact", "compact", "json")),
            key_frame_interval=chance.choice((3.0, 10.0, 60.0)),
            max_silence=chance.choice((1.0, 3.0)),
            audit_every=chance.choice((0, 0, 5)),
        )


Standing = tuple[int, int, int] | None
"""life, next sequence and running check of a subscriber that is not lost"""


class SubscribingSite:
    """A subscriber of one publisher; when it crashes it starts anew and is owed nothing from before.

    unlucky: how likely a message is altered so that it meets the check all the same
    """

    def __init__(
        self,
        name: str,
        site: StreamPublisherSite,
        lookup: Callable[[bytes], Schema | None],
        broker: MemoryBroker,
        *,
        resync: Literal["request", "wait"],
        compiled: bool,
        tell: Tell,
        chance: Random,
        unlucky: float,
    ) -> None:
        self.name = name
        self.site = site
        self.unlucky = unlucky
        self._chance = chance
        self.resync = resync
        self.compiled = compiled
        self.paused = False
        self.lives = 0
        self.observer: StreamObserver | None = None
        self.subscriber: StreamDecoder | None = None
        self.finished: list[StreamObserver] = []
        self.let_through = 0
        self._lookup = lookup
        self._broker = broker
        self._tell = tell

    @property
    def settled(self) -> bool:
        """Does it know every source of its publisher?"""
        return self.subscriber is not None and self.subscriber.state is State.READY

    def start(self) -> None:
        """Join, knowing nothing."""
        self.lives += 1
        self._inbox = self._broker.subscribe(f"data.{self.site.name}")
        self.subscriber = StreamDecoder(
            self._lookup, publisher=self.site.name, resync=self.resync, compiled=self.compiled
        )
        self.observer = StreamObserver(self.site.truth)
        self._tell(f"{self.name} joins {self.site.name}")

    def crash(self) -> None:
        """Forget everything."""
        assert self.observer is not None
        self._tell(f"{self.name} crashes")
        self._inbox.close()
        self.finished.append(self.observer)
        self.subscriber = self.observer = None

    def work(self, now: float) -> None:
        """Receive what has arrived, and ask for key frames where that is needed."""
        if self.subscriber is None or self.paused:
            return
        for message in self._inbox:
            if self._chance.random() < self.unlucky:
                message = message._replace(payload=self._altered(message.payload))  # noqa: PLW2901
            self._receive(message, now)
        for frame in self.subscriber.poll(now):
            self._broker.publish(f"request.{self.site.name}", frame)

    def _receive(self, message: TransportMessage, now: float) -> None:
        subscriber, observer = self.subscriber, self.observer
        assert subscriber is not None
        assert observer is not None
        before = chain_state(subscriber)
        was = subscriber.state
        known = len(observer.violations)
        told: list[Any] = []
        try:
            told = subscriber.receive(message.payload, now=now, position=message.sequence)
        except PeerFault as fault:
            self._tell(f"{self.name} meets {fault}")
        life = subscriber.incarnation or 0
        observer.take(told, life, subscriber.config_version or 0, now)
        observer.check_state(subscriber.state, now)
        if subscriber.state is not was:
            missed = [thing for thing in told if isinstance(thing, EventsMissed)]
            self._tell(f"{self.name} is {subscriber.state} with {missed}")
        self._explain(message.payload, before, known, life)

    def _altered(self, payload: bytes) -> bytes:
        """Another frame in place of this one that the running check does not tell from it."""
        state = chain_state(self.subscriber)
        kind, size = payload[0] & 0x0F, 3 + bool(payload[0] & 0x10) + bool(payload[0] & 0x20)
        if state is None or kind in (FrameKind.KEY, FrameKind.BATCH) or len(payload) <= size:
            return payload
        spoilt = bytearray(payload)
        spoilt[self._chance.randrange(size, len(payload))] ^= 1 << self._chance.randrange(8)
        spoilt[size - 1] = chain_after(bytes(spoilt), state[2]) & 0xFF
        return bytes(spoilt)

    def _explain(self, payload: bytes, before: Standing, known: int, life: int) -> None:
        """Did a frame pass by chance that was not sent in its place? Then what follows is not held against it."""
        observer, truth = self.observer, self.site.truth
        assert observer is not None
        after = chain_state(self.subscriber)
        astray = after is not None and after[1] > 0 and truth.chain(after[0], after[1] - 1) != after[2]
        if not astray and len(observer.violations) == known:
            return
        if astray or passed_by_chance(payload, before, truth):
            self.let_through += 1
            self._tell(f"{self.name} let a wrong frame pass: {observer.violations[known:]}")
            del observer.violations[known:]
            observer.taint(life)


def passed_by_chance(payload: bytes, before: Standing, truth: Truth) -> bool:
    """Would a reader that stands here take a frame of this message that was not sent in its place?"""
    if before is None:
        return False
    life, sequence, chain = before
    try:
        frames = [read(raw) for raw in split(payload)]
    except CorruptFrame:
        return False
    for frame in frames:
        if frame.kind == FrameKind.KEY:
            return False
        after = chain_after(frame.raw, chain)
        if after & 0xFF != frame.check or frame.sequence != sequence & (0xFFFF if frame.wide else 0xFF):
            return False
        if truth.chain(life, sequence) != after:
            return True
        sequence, chain = sequence + 1, after
    return False
