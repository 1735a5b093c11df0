"""Questions and answers over a connection that may be cut.

Every question has a reply subject of its own, short because it travels twice: `_INBOX.<eight letters>.<count>`.
"""

from __future__ import annotations

import asyncio
import secrets
import string

from nats import errors

from thinwire.brokers.nats.connection_line import Line
from thinwire.brokers.nats.jetstream_api import ATTEMPT, NO_RESPONDERS, PAUSE, Answer, Asking, NobodyThere, Unanswered
from thinwire.brokers.nats.jetstream_api_headers import status_of
from thinwire.brokers.nats.options import Options
from thinwire.errors import BrokerRefused, PayloadTooLarge, TransportClosed

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


class Connection(Line, Asking):
    """A line with a place for answers."""

    def __init__(self, servers: list[str], options: Options) -> None:
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
        timer = loop.call_later(patience, self._out_of_patience, question)
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


def letters(count: int) -> str:
    """Letters and digits that nobody else has."""
    return "".join(secrets.choice(_LETTERS) for _ in range(count))
