"""A transport of messages with faults, driven by a clock that may be virtual. It does not implement `Broker`.

Without faults it keeps the order of messages, numbers the messages of each subject without a gap, and retains them in
a log. With faults it loses, delays, duplicates, reorders and corrupts messages; the same seed repeats the same faults.
It has no threads: a message arrives when it is due by the clock and the caller publishes, receives or steps.

>>> from thinwire.clock import VirtualClock
>>> clock = VirtualClock()
>>> broker = LossyTransport(clock, Faults(delay=(0.5, 0.5)))
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
from transport_faults import Faults, FaultyPath

from thinwire.brokers.subjects import check_pattern, check_subject, is_literal, matches
from thinwire.clock import Clock
from thinwire.errors import ConfigError, DataLoss, PayloadTooLarge, TransportClosed, TransportError

Policy = Literal["block", "drop"]
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Backpressure(TransportError, summary="the queue of a consumer is full", retriable=True):
    """A consumer is slow and its messages must not be dropped."""


class TransportMessage(NamedTuple):
    """A message. `sequence` numbers the messages of a subject from 1; None if they are not numbered."""

    subject: str
    payload: bytes
    headers: Mapping[str, str] = NO_HEADERS
    sequence: int | None = None


class InFlightMessages:
    """Messages on one path that have not arrived, in the order of arrival."""

    def __init__(self, path: FaultyPath) -> None:
        self.path = path
        self._messages: list[tuple[float, int, TransportMessage]] = []
        self._number = count()

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def next_due(self) -> float:
        """The time at which the next message arrives; there must be one."""
        return self._messages[0][0]

    def send(self, message: TransportMessage, now: float) -> None:
        """Add a message with the faults of the path."""
        for due, payload in self.path.arrivals(message.payload, now):
            arriving = message if payload is message.payload else message._replace(payload=payload)
            heapq.heappush(self._messages, (due, next(self._number), arriving))

    def is_due(self, now: float) -> bool:
        """Return whether the next message has arrived."""
        return bool(self._messages) and self._messages[0][0] <= now

    def take(self) -> tuple[float, TransportMessage]:
        """Remove the next message and return it with its time of arrival."""
        due, _, message = heapq.heappop(self._messages)
        return due, message

    def clear(self) -> None:
        self._messages.clear()


class MemoryInbox:
    """The messages of one subscription.

    limit, policy: see `LossyTransport.subscribe`; deliver: stores and forwards the messages that have arrived, and
    returns the time; on_close: removes the inbox from the transport; dropped: number of messages lost because the
    inbox was full
    """

    def __init__(
        self,
        pattern: str,
        limit: int,
        policy: Policy,
        in_flight: InFlightMessages,
        deliver: Callable[[], float],
        on_close: Callable[[MemoryInbox], None],
    ) -> None:
        if limit < 1:
            raise ConfigError("must be 1 or more", limit=limit)
        if policy not in ("block", "drop"):
            raise ConfigError("choose 'block' or 'drop'", policy=policy)
        self.pattern = pattern
        self.limit = limit
        self.policy = policy
        self.in_flight = in_flight
        self.dropped = 0
        self.closed = False
        self._arrived: deque[TransportMessage] = deque()
        self._deliver = deliver
        self._on_close = on_close

    def receive(self) -> TransportMessage | None:
        """Return the next message that has arrived, or None."""
        if not self.closed:
            self.deliver_due(self._deliver())
        return self._arrived.popleft() if self._arrived else None

    def __iter__(self) -> Iterator[TransportMessage]:
        """Receive all messages that have arrived."""
        while (message := self.receive()) is not None:
            yield message

    def __len__(self) -> int:
        """Return the number of messages that have arrived and are not received."""
        return len(self._arrived)

    def close(self) -> None:
        """End the subscription: messages in flight are lost; messages that have arrived can still be received."""
        if not self.closed:
            self.deliver_due(self._deliver())
            self.closed = True
            self.in_flight.clear()
            self._on_close(self)

    def is_blocking(self) -> bool:
        """Return whether a publisher must wait because the inbox is full."""
        return self.policy == "block" and len(self._arrived) + len(self.in_flight) >= self.limit

    def send(self, message: TransportMessage, now: float) -> None:
        """Send a message to this inbox."""
        self.deliver_due(now)
        if self.policy == "drop" and len(self.in_flight) >= self.limit:
            self.dropped += 1
            return
        self.in_flight.send(message, now)
        self.deliver_due(now)

    def deliver_due(self, now: float) -> None:
        """Add the messages that are due. With the policy "block", messages that do not fit stay in flight."""
        while self.in_flight.is_due(now) and (self.policy == "drop" or len(self._arrived) < self.limit):
            _, message = self.in_flight.take()
            if len(self._arrived) < self.limit:
                self._arrived.append(message)
            else:
                self.dropped += 1


class RetainedLog:
    """The newest messages of a subject, numbered without a gap.

    >>> log = RetainedLog("rooms", retain=2)
    >>> [log.store(TransportMessage("rooms", text)).sequence for text in (b"a", b"b", b"c")]
    [1, 2, 3]
    >>> log.first, [message.payload for message in log.since(3)]
    (2, [b'c'])
    """

    def __init__(self, subject: str, retain: int) -> None:
        self.subject = subject
        self.retain = retain
        self.last = 0
        self._messages: deque[TransportMessage] = deque(maxlen=retain)

    @property
    def first(self) -> int:
        """The oldest retained sequence; `last + 1` if the log is empty."""
        return self.last - len(self._messages) + 1

    def store(self, message: TransportMessage) -> TransportMessage:
        """Store a message and return it with its sequence."""
        self.last += 1
        numbered = message._replace(sequence=self.last)
        self._messages.append(numbered)
        return numbered

    def since(self, first: int) -> list[TransportMessage]:
        """Return the messages from a sequence on; none if the sequence is not assigned yet."""
        if first < 1:
            raise TransportError("sequences count from 1", subject=self.subject, sequence=first)
        if first < self.first:
            details = {"sequence": first, "first": self.first, "last": self.last}
            raise DataLoss("before the first retained message", subject=self.subject, **details)
        return list(islice(self._messages, first - self.first, None))


_NO_FAULTS = Faults()


class LossyTransport:
    """A transport with subjects, inboxes and a log per subject.

    gapless: number the messages and keep a log, as JetStream; without it, neither, as MQTT
    headers: messages may have headers
    max_payload: largest size of a message in bytes, including headers
    retain: number of messages in the log of a subject
    limit: number of messages in flight to the broker
    """

    def __init__(
        self,
        clock: Clock,
        faults: Faults = _NO_FAULTS,
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
        self.gapless = gapless
        self.headers = headers
        self.max_payload = max_payload
        self.retain = retain
        self.limit = limit
        self.closed = False
        self._random = np.random.default_rng(seed)
        self._inbound = InFlightMessages(FaultyPath(self._faults_at("publish"), self._random))
        self._literal: dict[str, list[MemoryInbox]] = {}
        self._wildcard: list[MemoryInbox] = []
        self._logs: dict[str, RetainedLog] = {}

    def publish(self, subject: str, payload: bytes, headers: Mapping[str, str] | None = None) -> int | None:
        """Send a message. Return its sequence, or None if it has no sequence or has not reached the broker.

        Raises `Backpressure`, without any effect, if an inbox with the policy "block" is full.
        """
        message = self._create_message(subject, payload, headers)
        now = self._admit()
        self._check_capacity(subject)
        before = self._log(subject).last
        self._inbound.send(message, now)
        self._admit(now)
        return before + 1 if self._log(subject).last > before else None

    def subscribe(self, pattern: str, *, limit: int = 65_536, policy: Policy = "block") -> MemoryInbox:
        """Return an inbox for the messages that are published from now on to matching subjects.

        limit: number of messages in the inbox and in flight to it; policy: at the limit, "block" raises `Backpressure`
        in `publish`, "drop" loses the newest message and counts it
        """
        self._check_open()
        check_pattern(pattern)
        in_flight = InFlightMessages(FaultyPath(self._faults_at("delivery"), self._random))
        inbox = MemoryInbox(pattern, limit, policy, in_flight, self._admit, self._remove)
        self._group_of(pattern).append(inbox)
        return inbox

    def replay(self, subject: str, first: int = 1) -> Iterator[TransportMessage]:
        """Return the retained messages of a subject from a sequence on, without faults of delivery."""
        self._check_open()
        if not self.gapless:
            raise TransportError("without sequences there is no log to replay", subject=subject)
        self._admit()
        return iter(self._log(subject).since(first))

    def span(self, subject: str) -> tuple[int, int]:
        """Return the first retained and the last sequence of a subject; (1, 0) if there is none."""
        self._admit()
        log = self._log(subject)
        return log.first, log.last

    def inject(self, faults: Faults) -> None:
        """Replace the faults. Scripted faults count messages from this call."""
        self._admit()
        self.faults = faults
        self._inbound.path.inject(self._faults_at("publish"))
        for inbox in self._inboxes():
            inbox.in_flight.path.inject(self._faults_at("delivery"))

    def step(self, now: float | None = None) -> None:
        """Deliver the messages that are due at a time, by default that of the clock."""
        now = self._admit(now)
        for inbox in self._inboxes():
            inbox.deliver_due(now)

    def next_due(self) -> float | None:
        """Return the time of the next arrival; None if no message is in flight."""
        paths = [self._inbound, *(inbox.in_flight for inbox in self._inboxes())]
        return min((messages.next_due for messages in paths if len(messages)), default=None)

    def close(self) -> None:
        """Close every inbox: messages in flight are lost; messages that have arrived can still be received."""
        if not self.closed:
            self.step()
            for inbox in self._inboxes():
                inbox.close()
            self.closed = True

    def __enter__(self) -> LossyTransport:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        self.close()

    def _create_message(self, subject: str, payload: bytes, headers: Mapping[str, str] | None) -> TransportMessage:
        self._check_open()
        check_subject(subject)
        if not isinstance(payload, bytes | bytearray | memoryview):
            raise TransportError("a payload must be bytes", subject=subject, given=type(payload).__name__)
        if headers and not self.headers:
            raise TransportError("this transport has no headers", subject=subject, headers=list(headers))
        copied = MappingProxyType(dict(headers)) if headers else NO_HEADERS
        size = len(payload) + sum(_line_size(name, text) for name, text in copied.items())
        if size > self.max_payload:
            raise PayloadTooLarge(subject=subject, size=size, limit=self.max_payload)
        return TransportMessage(subject, bytes(payload), copied)

    def _check_capacity(self, subject: str) -> None:
        if len(self._inbound) >= self.limit:
            raise Backpressure("too many messages in flight to the broker", subject=subject, limit=self.limit)
        full = next((inbox for inbox in self._matching(subject) if inbox.is_blocking()), None)
        if full is not None:
            raise Backpressure(subject=subject, pattern=full.pattern, limit=full.limit)

    def _admit(self, now: float | None = None) -> float:
        """Store and forward the messages that have reached the broker. Return the time."""
        now = self.clock.now() if now is None else now
        while self._inbound.is_due(now):
            due, message = self._inbound.take()
            if self.gapless:
                message = self._logs.setdefault(message.subject, self._log(message.subject)).store(message)
            for inbox in self._matching(message.subject):
                inbox.send(message, due)
        return now

    def _matching(self, subject: str) -> list[MemoryInbox]:
        wildcard = [inbox for inbox in self._wildcard if matches(inbox.pattern, subject)]
        return [*self._literal.get(subject, ()), *wildcard]

    def _log(self, subject: str) -> RetainedLog:
        return self._logs.get(subject) or RetainedLog(subject, self.retain)

    def _group_of(self, pattern: str) -> list[MemoryInbox]:
        return self._literal.setdefault(pattern, []) if is_literal(pattern) else self._wildcard

    def _inboxes(self) -> list[MemoryInbox]:
        return [*(inbox for group in self._literal.values() for inbox in group), *self._wildcard]

    def _remove(self, inbox: MemoryInbox) -> None:
        group = self._group_of(inbox.pattern)
        group.remove(inbox)
        if not group:
            self._literal.pop(inbox.pattern, None)

    def _faults_at(self, path: str) -> Faults:
        return self.faults if self.faults.at == path else _NO_FAULTS

    def _check_open(self) -> None:
        if self.closed:
            raise TransportClosed()


def _line_size(name: str, text: str) -> int:
    if not name or any(letter in name + text for letter in "\r\n") or ":" in name:
        raise TransportError("a header is a name without a colon and a text, on one line", header=name)
    return len(f"{name}: {text}\r\n".encode())
