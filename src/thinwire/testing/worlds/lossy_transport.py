"""Where messages wait: on their way in a `Flight`, and arrived in an inbox of bounded length.

The log of one subject: its last messages under numbers without a gap.

>>> log = RetainedLog("rooms", retain=2)
>>> [log.store(TransportMessage("rooms", text)).sequence for text in (b"a", b"b", b"c")]
[1, 2, 3]
>>> log.first, [message.payload for message in log.since(3)]
(2, [b'c'])

A broker in memory, driven by a clock that may be virtual. It comes first, and users test with it as we do.

Without faults it is a good broker: order per publisher, one number after the other per subject, a log to replay.
With faults it is as bad as told, and as bad in the same way again with the same seed. Nothing happens by itself: a
message arrives when its time has come by the clock and somebody publishes, receives or steps. One thread drives it.

>>> from thinwire.clock import VirtualClock
>>> clock = VirtualClock()
>>> broker = MemoryBroker(clock, Faults(delay=(0.5, 0.5)))
>>> inbox = broker.subscribe("building.>")
>>> broker.publish("building.rooms", b"21.5")
1
>>> inbox.receive()
>>> clock.advance(0.5)
>>> inbox.receive().payload
b'21.5'
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import count, islice
from types import MappingProxyType, TracebackType
from typing import Any, Literal, NamedTuple

import numpy as np

from thinwire.brokers.protocol import Capabilities
from thinwire.brokers.subjects import check_pattern, check_subject, is_literal, matches
from thinwire.clock import Clock
from thinwire.errors import Backpressure, ConfigError, DataLoss, PayloadTooLarge, TransportClosed, TransportError
from thinwire.testing.worlds.transport_faults import Faults, FaultyPath

Policy = Literal["block", "drop"]
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class TransportMessage(NamedTuple):
    """A message of the lossy transport. `sequence` numbers the messages of a subject 1, 2, 3; None if not numbered."""

    subject: str
    payload: bytes
    headers: Mapping[str, str] = NO_HEADERS
    sequence: int | None = None


class Flight:
    """Messages on one way, in the order in which they will arrive."""

    def __init__(self, way: FaultyPath) -> None:
        self.way = way
        self._messages: list[tuple[float, int, TransportMessage]] = []
        self._number = count()

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def next_due(self) -> float:
        """When the next message arrives; there must be one."""
        return self._messages[0][0]

    def send(self, message: TransportMessage, now: float) -> None:
        """Put it on its way, with whatever happens to it there."""
        for due, payload in self.way.arrivals(message.payload, now):
            as_it_arrives = message if payload is message.payload else message._replace(payload=payload)
            heapq.heappush(self._messages, (due, next(self._number), as_it_arrives))

    def is_due(self, now: float) -> bool:
        """Has the next message arrived by now?"""
        return bool(self._messages) and self._messages[0][0] <= now

    def take(self) -> tuple[float, TransportMessage]:
        """The next message, and when it arrived."""
        due, _, message = heapq.heappop(self._messages)
        return due, message

    def clear(self) -> None:
        self._messages.clear()


class MemoryInbox:
    """The messages of one subscription.

    dropped: how many were lost because they found the inbox full
    """

    def __init__(
        self,
        pattern: str,
        limit: int,
        policy: Policy,
        flight: Flight,
        catch_up: Callable[[], float],
        forget: Callable[[MemoryInbox], None],
    ) -> None:
        if limit < 1:
            raise ConfigError("must be 1 or more", limit=limit)
        if policy not in ("block", "drop"):
            raise ConfigError("choose 'block' or 'drop'", policy=policy)
        self.pattern = pattern
        self.limit = limit
        self.policy = policy
        self.flight = flight
        self.dropped = 0
        self.closed = False
        self._arrived: deque[TransportMessage] = deque()
        self._catch_up = catch_up
        self._forget = forget

    def receive(self) -> TransportMessage | None:
        """The next message that has arrived by now; None when there is none."""
        if not self.closed:
            self.deliver_due(self._catch_up())
        return self._arrived.popleft() if self._arrived else None

    def __iter__(self) -> Iterator[TransportMessage]:
        """Receive until nothing is left now."""
        while (message := self.receive()) is not None:
            yield message

    def __len__(self) -> int:
        """How many have arrived and wait."""
        return len(self._arrived)

    def close(self) -> None:
        """Ask for no more: what is on its way is lost, what has arrived can still be received."""
        if not self.closed:
            self.deliver_due(self._catch_up())
            self.closed = True
            self.flight.clear()
            self._forget(self)

    def blocks(self) -> bool:
        """Must a publisher wait for this inbox?"""
        return self.policy == "block" and len(self._arrived) + len(self.flight) >= self.limit

    def send(self, message: TransportMessage, now: float) -> None:
        """Put a message on its way to this inbox."""
        self.deliver_due(now)
        if self.policy == "drop" and len(self.flight) >= self.limit:
            self.dropped += 1
            return
        self.flight.send(message, now)
        self.deliver_due(now)

    def deliver_due(self, now: float) -> None:
        """Let arrive what is due; for a publisher that must wait, what does not fit stays on its way."""
        while self.flight.is_due(now) and (self.policy == "drop" or len(self._arrived) < self.limit):
            _, message = self.flight.take()
            if len(self._arrived) < self.limit:
                self._arrived.append(message)
            else:
                self.dropped += 1


class RetainedLog:
    """Keeps as many messages as it is told to retain, the newest."""

    def __init__(self, subject: str, retain: int) -> None:
        self.subject = subject
        self.retain = retain
        self.last = 0
        self._messages: deque[TransportMessage] = deque(maxlen=retain)

    @property
    def first(self) -> int:
        """The oldest sequence still here; one above `last` when the log is empty."""
        return self.last - len(self._messages) + 1

    def store(self, message: TransportMessage) -> TransportMessage:
        """The message under its number."""
        self.last += 1
        numbered = message._replace(sequence=self.last)
        self._messages.append(numbered)
        return numbered

    def since(self, first: int) -> list[TransportMessage]:
        """The messages from this sequence on; none if it has not come yet."""
        if first < 1:
            raise TransportError("sequences count from 1", subject=self.subject, sequence=first)
        if first < self.first:
            facts = {"sequence": first, "first": self.first, "last": self.last}
            raise DataLoss("before the first retained message", subject=self.subject, **facts)
        return list(islice(self._messages, first - self.first, None))


_QUIET = Faults()


class MemoryBroker:
    """Subjects, inboxes and a log per subject.

    clock: whose time it is; faults, seed: what goes wrong; gapless: number the messages and keep a log, as JetStream
    does, or neither, as MQTT; headers: carry headers; max_payload: bytes in a message; retain: messages kept in the
    log of a subject; limit: messages on their way to the broker
    """

    def __init__(
        self,
        clock: Clock,
        faults: Faults = _QUIET,
        seed: int = 0,
        *,
        gapless: bool = True,
        headers: bool = True,
        max_payload: int = 1 << 20,
        retain: int = 65_536,
        limit: int = 65_536,
    ) -> None:
        for name, value in {"max_payload": max_payload, "retain": retain, "limit": limit}.items():
            if value < 1:
                raise ConfigError("must be 1 or more", **{name: value})
        self.clock = clock
        self.faults = faults
        self.seed = seed
        self.capabilities = Capabilities(gapless, headers, max_payload)
        self.retain = retain
        self.limit = limit
        self.closed = False
        self._chance = np.random.default_rng(seed)
        self._inbound = Flight(FaultyPath(self._faults_at("publish"), self._chance))
        self._literal: dict[str, list[MemoryInbox]] = {}
        self._wild: list[MemoryInbox] = []
        self._logs: dict[str, RetainedLog] = {}

    def publish(self, subject: str, payload: bytes, headers: Mapping[str, str] | None = None) -> int | None:
        """Send a message; its sequence, or None if it has none or has not reached the broker.

        When an inbox that must lose nothing is full, `Backpressure` is raised and nothing has happened.
        """
        message = self._message(subject, payload, headers)
        now = self._admit()
        self._reserve(subject)
        before = self._log(subject).last
        self._inbound.send(message, now)
        self._admit(now)
        return before + 1 if self._log(subject).last > before else None

    def subscribe(self, pattern: str, *, limit: int = 65_536, policy: Policy = "block") -> MemoryInbox:
        """Receive what is published from now on under subjects that match.

        limit: messages that may wait, on their way included; policy: when it is reached, "block" refuses the
        publisher, "drop" loses the newest and counts it
        """
        self._check_open()
        check_pattern(pattern)
        way = FaultyPath(self._faults_at("delivery"), self._chance)
        inbox = MemoryInbox(pattern, limit, policy, Flight(way), self._admit, self._forget)
        self._matching_inboxes(pattern).append(inbox)
        return inbox

    def replay(self, subject: str, first: int = 1) -> Iterator[TransportMessage]:
        """The retained messages of a subject from a sequence on, as the broker stored them: faults spare the log."""
        self._check_open()
        if not self.capabilities.gapless:
            raise TransportError("without sequences there is no log to replay", subject=subject)
        self._admit()
        return iter(self._log(subject).since(first))

    def span(self, subject: str) -> tuple[int, int]:
        """The first retained and the last sequence of a subject; (1, 0) when there is none yet."""
        self._admit()
        log = self._log(subject)
        return log.first, log.last

    def inject(self, faults: Faults) -> None:
        """Misbehave like this from now on; scripted faults count messages from here."""
        self._admit()
        self.faults = faults
        self._inbound.way.inject(self._faults_at("publish"))
        for inbox in self._inboxes():
            inbox.flight.way.inject(self._faults_at("delivery"))

    def step(self, now: float | None = None) -> None:
        """Let everything arrive that is due at this time, the clock's unless given."""
        now = self._admit(now)
        for inbox in self._inboxes():
            inbox.deliver_due(now)

    def next_due(self) -> float | None:
        """When something will arrive next; None when nothing is on its way."""
        flights = [self._inbound, *(inbox.flight for inbox in self._inboxes())]
        return min((flight.next_due for flight in flights if len(flight)), default=None)

    def close(self) -> None:
        """Close every inbox; what is still on its way is lost, what has arrived can still be received."""
        if not self.closed:
            self.step()
            for inbox in self._inboxes():
                inbox.close()
            self.closed = True

    def __enter__(self) -> MemoryBroker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        self.close()

    def _message(self, subject: str, payload: bytes, headers: Mapping[str, str] | None) -> TransportMessage:
        self._check_open()
        check_subject(subject)
        if not isinstance(payload, bytes | bytearray | memoryview):
            raise TransportError("a payload is bytes", subject=subject, given=type(payload).__name__)
        if headers and not self.capabilities.headers:
            raise TransportError("this transport carries no headers", subject=subject, headers=list(headers))
        kept = MappingProxyType(dict(headers)) if headers else NO_HEADERS
        size = len(payload) + sum(_line_size(name, text) for name, text in kept.items())
        if size > self.capabilities.max_payload:
            raise PayloadTooLarge(subject=subject, size=size, limit=self.capabilities.max_payload)
        return TransportMessage(subject, bytes(payload), kept)

    def _reserve(self, subject: str) -> None:
        if len(self._inbound) >= self.limit:
            raise Backpressure("too many messages on their way to the broker", subject=subject, limit=self.limit)
        full = next((inbox for inbox in self._matching(subject) if inbox.blocks()), None)
        if full is not None:
            raise Backpressure(subject=subject, pattern=full.pattern, limit=full.limit)

    def _admit(self, now: float | None = None) -> float:
        """Store and pass on what has reached the broker, each message at the time at which it did."""
        now = self.clock.now() if now is None else now
        while self._inbound.is_due(now):
            due, message = self._inbound.take()
            if self.capabilities.gapless:
                message = self._logs.setdefault(message.subject, self._log(message.subject)).store(message)
            for inbox in self._matching(message.subject):
                inbox.send(message, due)
        return now

    def _matching(self, subject: str) -> list[MemoryInbox]:
        wild = [inbox for inbox in self._wild if matches(inbox.pattern, subject)]
        return [*self._literal.get(subject, ()), *wild]

    def _log(self, subject: str) -> RetainedLog:
        return self._logs.get(subject) or RetainedLog(subject, self.retain)

    def _matching_inboxes(self, pattern: str) -> list[MemoryInbox]:
        return self._literal.setdefault(pattern, []) if is_literal(pattern) else self._wild

    def _inboxes(self) -> list[MemoryInbox]:
        return [*(inbox for shelf in self._literal.values() for inbox in shelf), *self._wild]

    def _forget(self, inbox: MemoryInbox) -> None:
        shelf = self._matching_inboxes(inbox.pattern)
        shelf.remove(inbox)
        if not shelf:
            self._literal.pop(inbox.pattern, None)

    def _faults_at(self, place: str) -> Faults:
        return self.faults if self.faults.at == place else _QUIET

    def _check_open(self) -> None:
        if self.closed:
            raise TransportClosed()


def _line_size(name: str, text: str) -> int:
    if not name or any(letter in name + text for letter in "\r\n") or ":" in name:
        raise TransportError("a header is a name without a colon and a text, on one line", header=name)
    return len(f"{name}: {text}\r\n".encode())
