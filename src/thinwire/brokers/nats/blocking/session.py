"""A connection that is made again where it was cut, and questions over it: one after the other.

The answers are coroutines because `thinwire.brokers.nats.streams` asks both this and the connection of an event loop;
these ones never wait for anything but the socket, so that `now` gets the result out of them without a loop.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from nats import errors

from thinwire.brokers.nats.blocking.socket_connection import ConnectionLost, Garbled, NatsMessage, Wire, parse
from thinwire.brokers.nats.connection import HANG_UPS, letters
from thinwire.brokers.nats.jetstream_api import (
    ATTEMPT,
    NO_RESPONDERS,
    PAUSE,
    Answer,
    JetStreamCaller,
    NobodyThere,
    Unanswered,
    connection_error,
    is_refusal,
    status_of,
)
from thinwire.brokers.nats.options import NatsOptions
from thinwire.errors import BrokerRefused, BrokerUnavailable, ThinwireError, TransportClosed

T = TypeVar("T")
LONGEST_PAUSE = 2.0
"""seconds between attempts to connect again, at most"""
_FORBIDDEN = re.compile(r'permissions violation for (publish|subscription) to "([^"]+)"')
_ANSWERS = 1
"""the number of the subscription to answers"""


def now(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits for anybody."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        coroutine.close()
    raise RuntimeError("it waits for an event loop")


class Session(JetStreamCaller):
    """One client's connection to one of several servers."""

    def __init__(self, servers: list[str], options: NatsOptions) -> None:
        self.servers, self.options, self.url = servers, options, ",".join(servers)
        self.prefix = f"{options.inbox}.{letters(8)}"
        """how the subjects begin that answers come to"""
        self._wire: Wire | None = None
        self._count = 0
        self.closed = False

    def open(self) -> None:
        """Connect, or say why not once every server has been tried."""
        self._dial(time.monotonic() + self.options.connect_timeout)

    def close(self) -> None:
        self.closed = True
        self.hang_up()

    def hang_up(self) -> None:
        """Whoever needs the connection next makes a new one."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def wire(self, deadline: float) -> Wire:
        """The connection, made again if need be: with pauses that grow, until the deadline."""
        pause = PAUSE
        while self._wire is None:
            try:
                self._dial(min(deadline, time.monotonic() + self.options.connect_timeout))
            except BrokerUnavailable:
                if time.monotonic() + pause >= deadline:
                    raise
                time.sleep(pause * random.uniform(0.5, 1.0))  # so that clients do not come back all at once
                pause = min(2 * pause, LONGEST_PAUSE)
        return self._wire

    def post(self, subject: str, payload: bytes, reply: str) -> None:
        """Write a message to the socket."""
        self._write(b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), reply.encode(), len(payload), payload))

    def subscribe(self, subject: str) -> int:
        """Let in what comes under a pattern, until the connection is cut; the number that it comes with."""
        self._count += 1
        self._write(b"SUB %b %d\r\n" % (subject.encode(), _ANSWERS + self._count))
        return _ANSWERS + self._count

    def unsubscribe(self, number: int) -> None:
        """Let no more in; what is on its way still comes."""
        self._write(b"UNSUB %d\r\n" % number)

    def take_line(self, line: bytes) -> None:
        """What the server says beside messages."""
        if line == b"PING":
            self._write(b"PONG\r\n")
        elif line.startswith(b"-ERR"):
            self._complain(line[4:].decode("utf-8", "replace").strip().strip("'").lower())
        elif not line.startswith((b"PONG", b"INFO", b"+OK")):
            raise ConnectionLost

    def deadline(self, timeout: float | None = None) -> float:
        return time.monotonic() + (self.options.timeout if timeout is None else timeout)

    def attempt(self, deadline: float) -> float:
        return min(ATTEMPT, max(0.05, deadline - time.monotonic()))

    async def still_time(self, deadline: float, reason: ThinwireError | None = None) -> None:
        self.wire(deadline)
        if time.monotonic() >= deadline:
            raise reason or connection_error(TimeoutError(), self.url)

    async def pause(self) -> None:
        time.sleep(PAUSE)

    async def ask(self, subject: str, payload: bytes, *, headers: bytes = b"", patience: float = ATTEMPT) -> Answer:
        answer = self._ask(subject, payload, patience, many=False)[0]
        if status_of(answer.headers) == NO_RESPONDERS and not answer.payload:
            raise NobodyThere
        return answer

    async def ask_many(self, subject: str, payload: bytes, *, patience: float = ATTEMPT) -> list[Answer]:
        answers = self._ask(subject, payload, patience, many=True)
        if status_of(answers[-1].headers) == NO_RESPONDERS:
            raise NobodyThere
        return answers

    def _ask(self, subject: str, payload: bytes, patience: float, many: bool) -> list[Answer]:
        """A connection that does not answer may be dead and look alive: a new one is cheap."""
        self._count += 1
        inbox = f"{self.prefix}.{self._count}"
        answers: list[Answer] = []
        until = time.monotonic() + patience
        try:
            self.post(subject, payload, inbox)
            while not answers or (many and not status_of(answers[-1].headers)):
                message = self._message(until)
                if message.subject == inbox.encode():
                    answers.append(Answer(message.payload, message.headers))
        except (ConnectionLost, Garbled):
            self.hang_up()
            raise Unanswered from None
        return answers

    def _message(self, until: float) -> NatsMessage:
        """The next message, of whatever question."""
        wire = self._wire
        if wire is None:
            raise ConnectionLost
        while True:
            found = parse(wire.data, wire.begin, wire.end)
            if found is None:
                if not wire.receive(until - time.monotonic()):
                    raise ConnectionLost
                continue
            command, wire.begin = found
            if isinstance(command, NatsMessage):
                return command
            self.take_line(command)

    def _write(self, command: bytes) -> None:
        if self._wire is None:
            raise ConnectionLost
        self._wire.send(command)

    def _complain(self, text: str) -> None:
        """The server hangs up after most complaints, which is told by itself."""
        forbidden = _FORBIDDEN.search(text)
        if forbidden is not None:
            what, subject = forbidden.groups()
            raise BrokerRefused(f"no permission for {what}", subject=subject)
        error = errors.Error(text)
        if is_refusal(error):
            raise connection_error(error, self.url)

    def _dial(self, deadline: float) -> None:
        """Try every server once."""
        if self.closed:
            raise TransportClosed()
        reason: BaseException | None = None
        for server in self.servers:
            try:
                wire = _reach(server, self.options, deadline)
                wire.send(b"SUB %b.* %d\r\n" % (self.prefix.encode(), _ANSWERS))
            except (OSError, errors.Error, ConnectionLost) as error:
                reason = error
                if is_refusal(error):
                    break
            else:
                self._wire = wire
                return
        raise connection_error(reason, self.url)


def _reach(server: str, options: NatsOptions, deadline: float) -> Wire:
    """A server that refuses says so and hangs up, and the second may overtake the first: that is tried again."""
    for _ in range(HANG_UPS):
        with suppress(ConnectionResetError, BrokenPipeError):
            return Wire(server, options, deadline)
    return Wire(server, options, deadline)
