"""Questions and answers over a connection that may be cut.

Every question has a reply subject of its own, short because it travels twice: `_INBOX.<eight letters>.<count>`.

One connection that may be cut and comes back: its life, and who has to know.
"""

from __future__ import annotations

import asyncio
import random
import re
import secrets
import string
from collections.abc import Callable
from typing import Protocol

from nats import errors

from thinwire.brokers.nats.client import Client, MessageHandler, ended, log
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
from thinwire.errors import BrokerRefused, ConfigError, MissingExtra, PayloadTooLarge, ThinwireError, TransportClosed

HANG_UPS = 4
"""connections that may be reset before a server counts as tried"""
PING = 10
"""seconds between signs of life; a connection with three of them missing is cut"""
PATIENCE = 5
"""seconds that a sign of life is waited for"""
LEAVING = 2.0
"""seconds that a goodbye may take"""
_FORBIDDEN = re.compile(r'permissions violation for (publish|subscription) to "([^"]+)"')


class Closes(Protocol):
    """A reader or a listener, which ends with the connection."""

    async def close(self) -> None: ...


class ReconnectingConnection:
    """A client's connection: it knows when it is cut, and whoever needs it waits until it is back."""

    def __init__(self, servers: list[str], options: NatsOptions) -> None:
        self.servers, self.options = servers, options
        self.url = ",".join(servers)
        self.client = Client(insist_on_tls=options.tls is not None)
        self.closing = self.closed = False
        self.came_back: set[Callable[[], None]] = set()
        """called after every reconnect"""
        self.open_ends: set[Closes] = set()
        """what has to be closed before the connection"""
        self._up = asyncio.Event()
        self._error: BaseException | None = None
        self._failures: asyncio.Queue[BaseException] | None = asyncio.Queue()
        """what has gone wrong before the first connection"""

    @property
    def connected(self) -> bool:
        return self._up.is_set() and not self.closed

    async def open(self) -> None:
        """Connect, or say why not once every server has been tried."""
        connecting = asyncio.create_task(self._connect())
        hopeless = asyncio.create_task(self._hopeless())
        try:
            await asyncio.wait(
                {connecting, hopeless}, timeout=self.options.connect_timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if not connecting.done():
                raise connection_error(self._error or TimeoutError(), self.url)
            connecting.result()
            self._failures = None
            self._up.set()
        except BaseException:
            self.closing = self.closed = True
            await ended(connecting)
            await self.client.leave(LEAVING)
            raise
        finally:
            await ended(hopeless)

    async def close(self) -> None:
        """End everything that lives on this connection, then the connection, in bounded time."""
        if self.closing:
            return
        self.closing = True
        for end in list(self.open_ends):
            await end.close()
        self.closed = True
        self._lost(TransportClosed())
        self._up.set()
        await self.client.leave(LEAVING)

    def deadline(self, timeout: float | None = None) -> float:
        """The time of the loop when a call that begins now gives up."""
        return asyncio.get_running_loop().time() + (self.options.timeout if timeout is None else timeout)

    async def ready(self, deadline: float | None) -> None:
        """Wait for a connection; None: for ever."""
        if not self._up.is_set() and not self.closed:
            try:
                async with asyncio.timeout_at(deadline):
                    await self._up.wait()
            except TimeoutError:
                raise connection_error(self._error, self.url) from None
        if self.closed:
            raise TransportClosed()

    async def still_time(self, deadline: float, reason: ThinwireError | None = None) -> None:
        """Wait for the connection; past the deadline, say why nothing could be done."""
        await self.ready(deadline)
        if asyncio.get_running_loop().time() >= deadline:
            raise reason or connection_error(self._error or TimeoutError(), self.url)

    async def round_trip(self) -> float:
        """Seconds to the server and back; everything written before has arrived there."""
        try:
            return await self.client.rtt(PATIENCE)
        except (errors.Error, OSError):
            raise connection_error(self._error or TimeoutError(), self.url) from None

    def attach(self, subject: str, handler: MessageHandler) -> int:
        """Let what comes under subjects that match go into the inlet."""
        return self.client.attach(subject, handler)

    def detach(self, sid: int) -> None:
        if not self.closed:
            self.client.detach(sid)

    def _lost(self, error: Exception) -> None:
        """What has been asked gets no answer any more."""

    def _forbidden(self, what: str, subject: str, error: BrokerRefused) -> None:
        """The server does not permit something, in small letters."""

    async def _connect(self) -> None:
        options = self.options
        try:
            await self.client.connect(
                self.servers,
                name=options.name,
                tls=options.tls.context() if options.tls else None,
                tls_hostname=options.tls.hostname if options.tls else None,
                token=options.token,
                user=options.user,
                password=options.password,
                user_credentials=_path(options.credentials),
                nkeys_seed=_path(options.nkey),
                inbox_prefix=options.inbox,
                connect_timeout=options.connect_timeout,  # type: ignore[arg-type]
                # every client waits a little differently, so that they do not come back all at once
                reconnect_time_wait=random.uniform(0.1, 0.4),  # type: ignore[arg-type]
                max_reconnect_attempts=-1,
                ping_interval=PING,
                error_cb=self._on_error,
                disconnected_cb=self._on_cut,
                reconnected_cb=self._on_back,
            )
        except ImportError:
            raise MissingExtra("credentials and nkey files need the package nkeys", extra="nats") from None
        except Exception as error:
            if options.credentials is None and options.nkey is None:
                raise
            # whatever a reader of keys says, it may quote what it has read
            raise ConfigError("the credentials or nkey file cannot be used", kind=type(error).__name__) from None

    async def _hopeless(self) -> None:
        """Returns when every server has been tried, or one has refused.

        A server that refuses says so and hangs up, and the second may overtake the first: that is tried again.
        """
        assert self._failures is not None
        tried = hung_up = 0
        while tried < len(self.servers):
            self._error = await self._failures.get()
            if is_refusal(self._error):
                return
            if isinstance(self._error, ConnectionResetError | BrokenPipeError) and hung_up < HANG_UPS:
                hung_up += 1
            else:
                tried += 1

    async def _on_error(self, error: Exception) -> None:
        log.debug("nats: %s", type(error).__name__ if isinstance(error, OSError) else error)
        forbidden = _FORBIDDEN.search(str(error))
        if forbidden is not None:
            what, subject = forbidden.groups()
            log.warning("the broker does not permit %s to %s", what, subject)
            self._forbidden(what, subject, BrokerRefused(f"no permission for {what}", subject=subject))
            return
        if self._failures is None:
            self._error = error
            return
        # A server that refuses hangs up after it: that it hung up is not the reason.
        if not is_refusal(self._error):
            self._error = error
        self._failures.put_nowait(error)

    async def _on_cut(self) -> None:
        self._up.clear()
        if not self.closed:
            log.info("connection to %s is cut", self.url)
            self._lost(ConnectionError("cut"))

    async def _on_back(self) -> None:
        log.info("connection to %s is back", self.url)
        self._error = None
        self._up.set()
        for hook in list(self.came_back):
            hook()


def _path(path: object) -> str | None:
    return None if path is None else str(path)


PROBE = 2
"""seconds for a sign of life when an answer does not come"""
HEADROOM = 1280
"""bytes for the headers of a message that insists on the one before, with the longest pattern"""
_LETTERS = string.ascii_letters + string.digits


class _Question:
    __slots__ = ("answers", "future", "many", "subject")

    def __init__(self, subject: str, future: asyncio.Future[None], many: bool) -> None:
        self.subject, self.future, self.many = subject, future, many
        self.answers: list[Answer] = []

    def take(self, answer: Answer) -> None:
        self.answers.append(answer)
        # several answers end with one that has a status (204: no more, 404: none)
        if (not self.many or status_of(answer.headers)) and not self.future.done():
            self.future.set_result(None)

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class NatsConnection(ReconnectingConnection, JetStreamCaller):
    """A line with a place for answers."""

    def __init__(self, servers: list[str], options: NatsOptions) -> None:
        super().__init__(servers, options)
        self._prefix = f"{options.inbox}.{letters(8)}."
        self._count = 0
        self._questions: dict[bytes, _Question] = {}
        self._probe: asyncio.Task[None] | None = None

    @property
    def max_payload(self) -> int:
        """Bytes of a payload: what the server takes, less the headers that a message may need when it is sent again."""
        limit: int = self.client.max_payload
        return max(limit - HEADROOM, limit // 2)

    async def open(self) -> None:
        await super().open()
        self.attach(f"{self._prefix}*", self._take_answer)

    async def close(self) -> None:
        """Whoever waits for an answer gets `TransportClosed`."""
        await super().close()
        if self._probe is not None:
            self._probe.cancel()
            await asyncio.gather(self._probe, return_exceptions=True)

    def new_inbox(self) -> str:
        """A subject that nobody else has."""
        self._count += 1
        return f"{self._prefix}d.{self._count}"

    def post(self, subject: str, payload: bytes, reply: str = "", headers: bytes = b"") -> None:
        """Write a message to the socket."""
        self.check_size(payload, headers)
        address = f"{subject} {reply}" if reply else subject
        if headers:
            line = f"HPUB {address} {len(headers)} {len(headers) + len(payload)}\r\n"
            self.client.write(b"%b%b%b\r\n" % (line.encode(), headers, payload))
        else:
            self.client.write(b"%b%b\r\n" % (f"PUB {address} {len(payload)}\r\n".encode(), payload))

    def check_size(self, payload: bytes, headers: bytes = b"") -> None:
        """A larger message would make the server hang up."""
        if len(payload) > self.max_payload or len(payload) + len(headers) > self.client.max_payload:
            raise PayloadTooLarge(size=len(payload), limit=self.max_payload)

    async def ask(self, subject: str, payload: bytes, *, headers: bytes = b"", patience: float = ATTEMPT) -> Answer:
        """The first answer; `Unanswered` or `NobodyThere` where there is none."""
        answer = (await self._ask(subject, payload, headers, patience, many=False))[0]
        if answer.headers is not None and status_of(answer.headers) == NO_RESPONDERS and not answer.payload:
            raise NobodyThere
        return answer

    async def ask_many(self, subject: str, payload: bytes, *, patience: float = ATTEMPT) -> list[Answer]:
        """All answers up to the one with a status, which is the last of them."""
        answers = await self._ask(subject, payload, b"", patience, many=True)
        if status_of(answers[-1].headers) == NO_RESPONDERS:
            raise NobodyThere
        return answers

    def attempt(self, deadline: float) -> float:
        """Seconds for one attempt."""
        return min(ATTEMPT, max(0.05, deadline - asyncio.get_running_loop().time()))

    async def pause(self) -> None:
        """Give a server that is not ready yet a moment."""
        await asyncio.sleep(PAUSE)

    async def _ask(self, subject: str, payload: bytes, headers: bytes, patience: float, many: bool) -> list[Answer]:
        if not self.connected:
            raise TransportClosed() if self.closed else Unanswered()
        loop = asyncio.get_running_loop()
        self._count += 1
        token = b"%x" % self._count
        question = self._questions[token] = _Question(subject, loop.create_future(), many)
        timer = loop.call_later(patience, self._on_timeout, question)
        try:
            self.post(subject, payload, f"{self._prefix}{self._count:x}", headers)
            await question.future
            return question.answers
        finally:
            timer.cancel()
            del self._questions[token]

    def _take_answer(self, subject: bytes, reply: bytes, payload: bytes, headers: bytes | None) -> None:
        question = self._questions.get(subject[len(self._prefix) :])
        if question is not None:
            question.take(Answer(payload, headers))

    def _lost(self, error: Exception) -> None:
        for question in self._questions.values():
            question.fail(error if isinstance(error, TransportClosed) else Unanswered())

    def _forbidden(self, what: str, subject: str, error: BrokerRefused) -> None:
        for question in self._questions.values():
            if what == "subscription" or question.subject.lower() == subject:
                question.fail(error)

    def _on_timeout(self, question: _Question) -> None:
        question.fail(Unanswered())
        if self.connected and (self._probe is None or self._probe.done()):
            self._probe = asyncio.create_task(self._hang_up_if_dead())

    async def _hang_up_if_dead(self) -> None:
        """A connection that swallows everything looks alive for a long while; a new one is cheap."""
        try:
            await self.client.rtt(PROBE)
        except (errors.Error, OSError):
            self.client.hang_up()


def letters(count: int) -> str:
    """Letters and digits that nobody else has."""
    return "".join(secrets.choice(_LETTERS) for _ in range(count))
