"""A site that subscribes: a subscriber with its lives, and the observer that watches each of them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Literal

from thinwire.brokers.protocol import Message
from thinwire.codec import Missed, State, Subscriber
from thinwire.errors import CorruptFrame, PeerFault
from thinwire.schema import Schema
from thinwire.testing.worlds.lossy_transport_memory import MemoryBroker
from thinwire.testing.worlds.world_observer import Observer, chain_state
from thinwire.testing.worlds.world_observer_world_truth import Truth, chain_after
from thinwire.testing.worlds.world_sites import PublishingSite, Tell
from thinwire.wire import FrameKind, read, split

Standing = tuple[int, int, int] | None
"""life, next sequence and running check of a subscriber that is not lost"""


class SubscribingSite:
    """A subscriber of one publisher; when it crashes it starts anew and is owed nothing from before.

    unlucky: how likely a message is altered so that it meets the check all the same
    """

    def __init__(
        self,
        name: str,
        site: PublishingSite,
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
        self.observer: Observer | None = None
        self.subscriber: Subscriber | None = None
        self.finished: list[Observer] = []
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
        self.subscriber = Subscriber(self._lookup, publisher=self.site.name, resync=self.resync, compiled=self.compiled)
        self.observer = Observer(self.site.truth)
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

    def _receive(self, message: Message, now: float) -> None:
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
        observer.settle(subscriber.state, now)
        if subscriber.state is not was:
            missed = [thing for thing in told if isinstance(thing, Missed)]
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
