"""Questions and answers over one connection that may be cut and comes back.

Every question has a reply subject of its own, short because it travels twice: `_INBOX.<eight letters>.<count>`.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import secrets
import string
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from nats import errors

from thinwire.errors import (
    BrokerRefused,
    ConfigError,
    MissingExtra,
    PayloadTooLarge,
    ThinwireError,
    TransportClosed,
)
from thinwire.transports.nats.client import Client, Inlet, log
from thinwire.transports.nats.headers import status_of
from thinwire.transports.nats.options import Options
from thinwire.transports.nats.refusals import NO_JETSTREAM, NO_ROOM, Refused, connection_error, is_refusal

ATTEMPT = 5.0
"""seconds until a question that is not answered is asked again"""
PING = 10
"""seconds between signs of life; a connection with three of them missing is cut"""
PROBE = 2
"""seconds for a sign of life when an answer does not come"""
PAUSE = 0.05
"""seconds until a server that is not ready yet is asked again"""
_NO_RESPONDERS = 503
_LETTERS = string.ascii_letters + string.digits
_FORBIDDEN = re.compile(r'permissions violation for (publish|subscription) to "([^"]+)"')


class Unanswered(Exception):
    """No answer: the connection was cut, or the answer did not come in time. What was asked may have been done."""


class NobodyThere(Exception):
    """Nobody listens under that subject: what was asked has not been done."""


class Closes(Protocol):
    """A reader or a listener, which ends with the connection."""

    async def close(self) -> None: ...


class Answer(NamedTuple):
    payload: bytes
    headers: bytes | None


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


class Connection:
    """A client's connection: it knows when it is cut, and whoever asks waits until it is back."""

    def __init__(self, servers: list[str], options: Options) -> None:
        self.servers, self.options = servers, options
        self.url = ",".join(servers)
        self.client = Client(insist_on_tls=options.tls is not None)
        self.closed = False
        self.came_back: set[Callable[[], None]] = set()
        """called after every reconnect"""
        self.open_ends: set[Closes] = set()
        """what has to be closed before the connection"""
        self._identity = "".join(secrets.choice(_LETTERS) for _ in range(8))
        self._prefix = f"{options.inbox}.{self._identity}."
        self._count = 0
        self._questions: dict[bytes, _Question] = {}
        self._up = asyncio.Event()
        self._error: BaseException | None = None
        self._failures: asyncio.Queue[BaseException] = asyncio.Queue()
        self._probe: asyncio.Task[None] | None = None

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
            self.client.attach(f"{self._prefix}*", self._take_answer)
            self._up.set()
        except BaseException:
            await self._give_up(connecting)
            raise
        finally:
            hopeless.cancel()
            await asyncio.gather(hopeless, return_exceptions=True)

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
                reconnect_time_wait=random.uniform(0.1, 0.4),  # type: ignore[arg-type]
                max_reconnect_attempts=-1,
                ping_interval=PING,
                error_cb=self._on_error,
                disconnected_cb=self._on_cut,
                reconnected_cb=self._on_back,
            )
        except ImportError:
            raise MissingExtra("credentials and nkey files need the package nkeys", extra="nats") from None
        except (ValueError, IndexError) as error:
            raise ConfigError(f"the credentials cannot be read: {type(error).__name__}") from None

    async def _hopeless(self) -> None:
        """Returns when every server has been tried, or one has refused."""
        for _ in self.servers:
            self._error = await self._failures.get()
            if is_refusal(self._error):
                return

    async def _give_up(self, connecting: asyncio.Task[None]) -> None:
        self.closed = True
        connecting.cancel()
        await asyncio.gather(connecting, return_exceptions=True)
        await self.client.leave(1.0)

    async def close(self) -> None:
        """Whoever waits for an answer gets `TransportClosed`."""
        if self.closed:
            return
        for end in list(self.open_ends):
            await end.close()
        self.closed = True
        self._fail_all(TransportClosed())
        self._up.set()
        if self._probe is not None:
            self._probe.cancel()
            await asyncio.gather(self._probe, return_exceptions=True)
        await self.client.leave(2.0)

    async def _on_error(self, error: Exception) -> None:
        log.debug("nats: %s", type(error).__name__ if isinstance(error, OSError) else error)
        self._error = error
        forbidden = _FORBIDDEN.search(str(error))
        if forbidden is not None:
            self._forbid(*forbidden.groups())
        elif not self._up.is_set():
            self._failures.put_nowait(error)

    def _forbid(self, what: str, subject: str) -> None:
        """The server says so in passing, in small letters; whoever waits for an answer shall hear it."""
        log.warning("the broker does not permit %s to %s", what, subject)
        error = BrokerRefused(f"no permission for {what}", subject=subject)
        for question in self._questions.values():
            if what == "subscription" or question.subject.lower() == subject:
                question.fail(error)

    async def _on_cut(self) -> None:
        self._up.clear()
        if not self.closed:
            log.info("connection to %s is cut", self.url)
        self._fail_all(Unanswered())

    async def _on_back(self) -> None:
        log.info("connection to %s is back", self.url)
        self._error = None
        self._up.set()
        for hook in list(self.came_back):
            hook()

    def _fail_all(self, error: Exception) -> None:
        for question in self._questions.values():
            question.fail(error)

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
        size = len(payload) + len(headers)
        if size > self.client.max_payload:
            raise PayloadTooLarge(size=size, limit=self.client.max_payload)

    async def ask(self, subject: str, payload: bytes, *, headers: bytes = b"", patience: float = ATTEMPT) -> Answer:
        """The first answer; `Unanswered` or `NobodyThere` where there is none."""
        answer = (await self._ask(subject, payload, headers, patience, many=False))[0]
        if answer.headers is not None and status_of(answer.headers) == _NO_RESPONDERS and not answer.payload:
            raise NobodyThere
        return answer

    async def ask_many(self, subject: str, payload: bytes, *, patience: float = ATTEMPT) -> list[Answer]:
        """All answers up to the one with a status, which is the last of them."""
        answers = await self._ask(subject, payload, b"", patience, many=True)
        if status_of(answers[-1].headers) == _NO_RESPONDERS:
            raise NobodyThere
        return answers

    async def _ask(self, subject: str, payload: bytes, headers: bytes, patience: float, many: bool) -> list[Answer]:
        if not self.connected:
            raise TransportClosed() if self.closed else Unanswered()
        loop = asyncio.get_running_loop()
        self._count += 1
        token = b"%x" % self._count
        question = self._questions[token] = _Question(subject, loop.create_future(), many)
        timer = loop.call_later(patience, self._out_of_patience, question)
        try:
            self.post(subject, payload, f"{self._prefix}{self._count:x}", headers)
            await question.future
            return question.answers
        finally:
            timer.cancel()
            del self._questions[token]

    def _out_of_patience(self, question: _Question) -> None:
        question.fail(Unanswered())
        if self.connected and (self._probe is None or self._probe.done()):
            self._probe = asyncio.create_task(self._hang_up_if_dead())

    async def _hang_up_if_dead(self) -> None:
        """A connection that swallows everything looks alive for a long while; a new one is cheap."""
        try:
            await self.client.rtt(PROBE)
        except (errors.Error, OSError):
            self.client.hang_up()

    def _take_answer(self, subject: bytes, reply: bytes, payload: bytes, headers: bytes | None) -> None:
        question = self._questions.get(subject[len(self._prefix) :])
        if question is not None:
            question.take(Answer(payload, headers))

    async def api(self, verb: str, body: Mapping[str, Any] | None = None, *, deadline: float) -> dict[str, Any]:
        """Ask JetStream until it answers; `Refused` if it says no. Only for what may be asked twice."""
        payload = json.dumps(body, separators=(",", ":")).encode() if body else b""
        reason: ThinwireError | None = None
        while True:
            await self.still_time(deadline, reason)
            try:
                answer = await self.ask(f"$JS.API.{verb}", payload, patience=self.attempt(deadline))
            except Unanswered:
                reason = None
                continue
            except NobodyThere:
                reason = BrokerRefused(f"JetStream does not answer. {NO_JETSTREAM}; or {NO_ROOM}", servers=self.url)
                await asyncio.sleep(PAUSE)
                continue
            reply: dict[str, Any] = json.loads(answer.payload)
            if "error" not in reply:
                return reply
            refused = Refused(reply["error"])
            if not refused.passing:
                raise refused
            reason = refused.translated(servers=self.url)
            await asyncio.sleep(PAUSE)

    async def still_time(self, deadline: float, reason: ThinwireError | None = None) -> None:
        """Wait for the connection; past the deadline, say why nothing could be done."""
        await self.ready(deadline)
        if asyncio.get_running_loop().time() >= deadline:
            raise reason or connection_error(self._error or TimeoutError(), self.url)

    def attempt(self, deadline: float) -> float:
        """Seconds for one attempt."""
        return min(ATTEMPT, max(0.05, deadline - asyncio.get_running_loop().time()))

    def attach(self, subject: str, inlet: Inlet) -> int:
        return self.client.attach(subject, inlet)

    def detach(self, sid: int) -> None:
        if not self.closed:
            self.client.detach(sid)

    async def round_trip(self) -> float:
        """Seconds to the server and back; everything written before has arrived there."""
        try:
            return await self.client.rtt(int(ATTEMPT))
        except (errors.Error, OSError):
            raise connection_error(self._error or TimeoutError(), self.url) from None


def _path(path: object) -> str | None:
    return None if path is None else str(path)
