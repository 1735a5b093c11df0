"""The sites of a stream world: a publisher with sensors, and a subscriber with the checks of what it receives.

A site survives the crashes of its encoder or decoder.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Literal

from lossy_transport import TransportMessage
from random_events import RandomSensors, draw_demand
from stream_observer import PublishedStream, StreamObserver, StreamPosition, chain_after, position_of

from thinwire.codec import EventsMissed, State, StreamConfig, StreamDecoder, StreamEncoder
from thinwire.errors import CorruptFrame, EventRejected, PeerFault
from thinwire.schema import Schema
from thinwire.wire import FrameKind, Request, join, read, split

if TYPE_CHECKING:
    from stream_world import StreamWorld


class StreamPublisherSite:
    """A publisher with its sensors. After a crash, frames that were not sent are lost, and a new incarnation starts.

    published: everything that was published, by all incarnations; encoder: None after a crash
    is_batching: several frames may be sent in one message; frames: number of encoded frames
    """

    def __init__(
        self, world: StreamWorld, name: str, schema: Schema, sensors: RandomSensors, *, is_batching: bool
    ) -> None:
        self.name = name
        self.schema = schema
        self.sensors = sensors
        self.published = PublishedStream()
        self.encoder: StreamEncoder | None = None
        self.is_batching = is_batching
        self.is_paused = False
        self.incarnation = world.random.choice((0, 1, 7))
        self.frames = 0
        self._world = world
        self._random = world.random
        self._requests = world.broker.subscribe(f"request.{name}")
        self._pending: list[bytes] = []

    def start(self, now: float) -> None:
        """Start the next incarnation."""
        self.incarnation += 1
        config = self._draw_config(1)
        self.published.begin(self.incarnation, self.schema, config)
        self.encoder = StreamEncoder(
            self.schema,
            config,
            name=self.name,
            incarnation=self.incarnation,
            wide=self._world.wide,
            now=now,
            compiled=self._world.compiled,
        )
        self._add_frames(self.encoder.start(now))
        self._world.record(f"{self.name} starts incarnation {self.incarnation} with {config}")

    def crash(self) -> None:
        """End the incarnation without sending the pending frames."""
        self._world.record(f"{self.name} crashes with {len(self._pending)} unsent frames")
        self.encoder = None
        self._pending.clear()

    def reconfigure(self, now: float) -> None:
        """Change tolerances, format and intervals within the incarnation."""
        if self.encoder is not None:
            config = self._draw_config(self.encoder.config.version + 1)
            self._add_frames(self.encoder.reconfigure(config, now))
            self.published.configure(self.incarnation, config)
            self._world.record(f"{self.name} changes to {config}")

    def work(self, now: float, events: int) -> None:
        """Publish some events, answer requests, and send everything that is due."""
        if self.encoder is None or self.is_paused:
            return
        for _ in range(events):
            self.publish(self.sensors.read(self.schema, now), now)
        self._add_frames(self.encoder.poll(now))
        for message in self._requests:
            self._answer(message, now)
        self.flush()

    def publish(self, values: dict[str, Any], now: float) -> None:
        """Publish an event; in rare cases after an invalid one, which must change nothing."""
        assert self.encoder is not None
        if self._random.random() < 0.01:
            self._publish_invalid(values, now)
        self._add_frames(self.encoder.publish(values, now))
        self.published.add(self.incarnation, self.encoder.config.version, values, now)

    def send_key_frames(self, now: float) -> None:
        """Send a key frame round and a heartbeat."""
        assert self.encoder is not None
        self._add_frames(self.encoder.answer(Request(0, 0), now))
        self._add_frames(self.encoder.heartbeat(now))
        self.flush()

    def lose_frames(self, count: int, now: float) -> None:
        """Publish events until `count` frames are encoded, and do not send these frames."""
        if self.encoder is None or self.is_paused:
            return
        self.flush()
        end = self.published.frames + count
        while self.published.frames < end:
            self.publish(self.sensors.read(self.schema, now), now)
        lost, self._pending = self._pending[:count], self._pending[count:]
        self._world.record(f"{self.name} loses exactly {len(lost)} frames")

    def flush(self) -> None:
        """Send the pending frames in one or several messages."""
        frames, self._pending = self._pending, []
        while frames:
            size = self._random.randint(1, len(frames)) if self.is_batching else 1
            self._world.broker.publish(f"data.{self.name}", join(frames[:size]))
            frames = frames[size:]

    def _answer(self, message: TransportMessage, now: float) -> None:
        assert self.encoder is not None
        try:
            frame = read(message.payload)
            if frame.kind == FrameKind.REQUEST:
                self._add_frames(self.encoder.answer(Request.decode(frame.body), now))
        except PeerFault:
            self._world.record(f"{self.name} cannot read a request")

    def _publish_invalid(self, values: dict[str, Any], now: float) -> None:
        assert self.encoder is not None
        try:
            self.encoder.publish({**values, "sensor": 1.5}, now)
        except EventRejected:
            return
        raise AssertionError("an event with an invalid dimension was accepted")

    def _add_frames(self, frames: list[bytes]) -> None:
        for frame in frames:
            self.published.add_frame(frame)
        self.frames += len(frames)
        self._pending += frames

    def _draw_config(self, version: int) -> StreamConfig:
        random = self._random
        return StreamConfig(
            version=version,
            demand=draw_demand(self.schema, random),
            format=random.choice(("compact", "compact", "json")),
            key_frame_interval=random.choice((3.0, 10.0, 60.0)),
            max_silence=random.choice((1.0, 3.0)),
            audit_every=random.choice((0, 0, 5)),
        )


class StreamSubscriberSite:
    """A subscriber of one publisher. After a crash it starts with an empty state.

    decoder, observer: of the current run; None after a crash; finished: the observers of earlier runs
    alteration_rate: probability that a frame is altered although its check matches
    undetected: number of wrong frames that the decoder accepted because their one-byte check matched
    """

    def __init__(
        self,
        world: StreamWorld,
        name: str,
        publisher: StreamPublisherSite,
        *,
        resync: Literal["request", "wait"],
        random: Random,
        alteration_rate: float,
    ) -> None:
        self.name = name
        self.publisher = publisher
        self.resync = resync
        self.alteration_rate = alteration_rate
        self.is_paused = False
        self.observer: StreamObserver | None = None
        self.decoder: StreamDecoder | None = None
        self.finished: list[StreamObserver] = []
        self.undetected = 0
        self._world = world
        self._random = random

    @property
    def is_ready(self) -> bool:
        """Whether the decoder knows every source of its publisher."""
        return self.decoder is not None and self.decoder.state is State.READY

    def start(self) -> None:
        """Subscribe with a new decoder."""
        self._inbox = self._world.broker.subscribe(f"data.{self.publisher.name}")
        self.decoder = StreamDecoder(
            self._world.find_schema,
            publisher=self.publisher.name,
            resync=self.resync,
            compiled=self._world.compiled,
        )
        self.observer = StreamObserver(self.publisher.published)
        self._world.record(f"{self.name} subscribes to {self.publisher.name}")

    def crash(self) -> None:
        """End the run and drop its state."""
        assert self.observer is not None
        self._world.record(f"{self.name} crashes")
        self._inbox.close()
        self.finished.append(self.observer)
        self.decoder = self.observer = None

    def work(self, now: float) -> None:
        """Decode the messages that have arrived, and send the requests for key frames that are due."""
        if self.decoder is None or self.is_paused:
            return
        for message in self._inbox:
            is_altered = self._random.random() < self.alteration_rate
            payload = self._alter(message.payload) if is_altered else message.payload
            self._receive(payload, message.sequence, now)
        for frame in self.decoder.poll(now):
            self._world.broker.publish(f"request.{self.publisher.name}", frame)

    def _receive(self, payload: bytes, offset: int | None, now: float) -> None:
        decoder, observer = self.decoder, self.observer
        assert decoder is not None
        assert observer is not None
        position, state = position_of(decoder), decoder.state
        known_violations = len(observer.violations)
        deliveries = []
        try:
            deliveries = decoder.receive(payload, now=now, position=offset)
        except PeerFault as fault:
            self._world.record(f"{self.name} raises {fault!r}")
        observer.check_deliveries(deliveries, decoder.incarnation or 0, decoder.config_version or 0)
        observer.update_state(decoder.state, now)
        if decoder.state is not state:
            missed = [delivery for delivery in deliveries if isinstance(delivery, EventsMissed)]
            self._world.record(f"{self.name} is {decoder.state} with {missed}")
        self._excuse(payload, position, known_violations)

    def _alter(self, payload: bytes) -> bytes:
        """Return an altered frame whose one-byte check matches, if the message is a frame that can be altered."""
        position = position_of(self.decoder)
        kind, size = payload[0] & 0x0F, 3 + bool(payload[0] & 0x10) + bool(payload[0] & 0x20)
        if position is None or kind in (FrameKind.KEY, FrameKind.BATCH) or len(payload) <= size:
            return payload
        altered = bytearray(payload)
        altered[self._random.randrange(size, len(payload))] ^= 1 << self._random.randrange(8)
        altered[size - 1] = chain_after(bytes(altered), position.chain) & 0xFF
        return bytes(altered)

    def _excuse(self, payload: bytes, before: StreamPosition | None, known_violations: int) -> None:
        """Excuse the incarnation if the decoder accepted a wrong frame because its one-byte check matched."""
        observer, published, decoder = self.observer, self.publisher.published, self.decoder
        assert observer is not None
        assert decoder is not None
        after = position_of(decoder)
        has_diverged = (
            after is not None
            and after.sequence > 0
            and published.chain(after.incarnation, after.sequence - 1) != after.chain
        )
        if not has_diverged and len(observer.violations) == known_violations:
            return
        if has_diverged or has_undetected_frame(payload, before, published):
            self.undetected += 1
            self._world.record(f"{self.name} accepts a wrong frame: {observer.violations[known_violations:]}")
            del observer.violations[known_violations:]
            observer.excused.add(decoder.incarnation or 0)


def has_undetected_frame(payload: bytes, position: StreamPosition | None, published: PublishedStream) -> bool:
    """Return whether a decoder at this position accepts a frame of the message that is not the published one."""
    if position is None:
        return False
    incarnation, sequence, chain = position
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
        if published.chain(incarnation, sequence) != after:
            return True
        sequence, chain = sequence + 1, after
    return False
