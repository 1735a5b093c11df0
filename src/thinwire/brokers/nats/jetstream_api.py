"""Asking JetStream, whoever carries the question: a connection of an event loop, or a socket that blocks.

The header block of a NATS message: a status line, then names and values.

>>> block = b"NATS/1.0 404 Message Not Found\\r\\n\\r\\n"
>>> status_of(block), status_of(b"NATS/1.0\\r\\nNats-Sequence: 7\\r\\n\\r\\n")
(404, 0)
>>> fields_of(b"NATS/1.0\\r\\nNats-Sequence: 7\\r\\n\\r\\n")
{'Nats-Sequence': '7'}
>>> headers_block({"KV-Operation": "DEL"})
b'NATS/1.0\\r\\nKV-Operation: DEL\\r\\n\\r\\n'

What the server says, in our words.
"""

from __future__ import annotations

import json
import ssl
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

from nats import errors

from thinwire.brokers.nats.client import NoTls
from thinwire.errors import BrokerRefused, BrokerUnavailable, Conflict, PayloadTooLarge, ThinwireError, UnknownLog

LEAD = b"NATS/1.0"

EXPECT = "Nats-Expected-Last-Subject-Sequence"
EXPECT_WITHIN = "Nats-Expected-Last-Subject-Sequence-Subject"
OPERATION = "KV-Operation"


def status_of(block: bytes | None) -> int:
    """The status of a message; 0 if it has none."""
    if block is None or block[8:9] != b" ":
        return 0
    digits = block[9:12]
    return int(digits) if digits.isdigit() else 0


def fields_of(block: bytes | None) -> dict[str, str]:
    """Names and values; the last one where a name comes twice."""
    if block is None:
        return {}
    lines = block.decode("utf-8", "replace").split("\r\n")[1:]
    return {name.strip(): value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon}


def headers_block(fields: Mapping[str, str]) -> bytes:
    """The block of bytes that goes before the payload."""
    return b"%b\r\n%b\r\n" % (LEAD, b"".join(f"{name}: {value}\r\n".encode() for name, value in fields.items()))


def expectation(offset: int, within: str = "") -> bytes:
    """Insist that the last message under the subject, or under a pattern, has this offset."""
    fields = {EXPECT: str(offset)}
    if within:
        fields[EXPECT_WITHIN] = within
    return headers_block(fields)


NOT_FOUND = 404
NO_STREAM = 10059
NAME_IN_USE = 10058
_CONFLICT = frozenset({10071, 10164})
_TOO_LARGE = frozenset({10054})
_NO_ROOM = frozenset({10023, 10028, 10047, 10077, 10122})
_NO_JETSTREAM = frozenset({10039, 10076})
_PASSING = frozenset({10008, 10009, 10074, 10118})
"""the server is about to be ready: no leader yet, catching up"""

NO_JETSTREAM = "JetStream is not enabled: start the server as `nats-server -js`, or enable it for this account"
NO_ROOM = "the broker has no room left: free disk space, raise its store limit, or keep less (retention)"
_CREDENTIALS = "the credentials are missing or wrong"
_AUTHORIZATION = ("authorization", "authentication")


class JetStreamRefusal(Exception):
    """An error in an answer of JetStream."""

    def __init__(self, error: dict[str, Any]) -> None:
        self.status = int(error.get("code", 500))
        self.code = int(error.get("err_code", 0))
        self.text = str(error.get("description", "unknown"))
        super().__init__(self.text)

    @property
    def passing(self) -> bool:
        """Would the same question be answered in a moment?"""
        return self.code in _PASSING

    @property
    def conflict(self) -> bool:
        return self.code in _CONFLICT

    def translated(self, **facts: Any) -> ThinwireError:
        """The error of ours."""
        if self.code == NO_STREAM:
            return UnknownLog(**facts)
        if self.conflict:
            return Conflict(self.text, **facts)
        if self.code in _TOO_LARGE:
            return PayloadTooLarge(self.text, **facts)
        if self.code in _NO_ROOM:
            return BrokerRefused(f"{NO_ROOM} ({self.text})", **facts)
        if self.code in _NO_JETSTREAM:
            return BrokerRefused(NO_JETSTREAM, **facts)
        return BrokerRefused(self.text, code=self.code, **facts)


def connection_error(error: BaseException | None, servers: str) -> ThinwireError:
    """Why there is no connection. Texts of other libraries are shown only where they cannot hold a secret."""
    if isinstance(error, NoTls):
        return BrokerRefused("it offers no TLS: check the port, or connect with nats://", servers=servers)
    if isinstance(error, ssl.SSLCertVerificationError):
        return BrokerRefused(f"its certificate is not trusted: {error.verify_message}", servers=servers)
    if isinstance(error, ssl.SSLError):
        return BrokerRefused(f"TLS failed: {error.reason}", servers=servers)
    if isinstance(error, errors.AuthorizationError) or is_refusal(error):
        return BrokerRefused(_CREDENTIALS, servers=servers)
    if isinstance(error, ConnectionRefusedError):
        return BrokerUnavailable("nobody listens there", servers=servers)
    if isinstance(error, TimeoutError):
        return BrokerUnavailable("no answer in time", servers=servers)
    if isinstance(error, OSError):
        return BrokerUnavailable(error.strerror or type(error).__name__, servers=servers)
    if isinstance(error, errors.Error) and "expecting INFO" in str(error):
        return BrokerUnavailable("something else than a NATS server listens there", servers=servers)
    if isinstance(error, errors.Error) and "maximum" in str(error).lower():
        return BrokerRefused(str(error).removeprefix("nats: "), servers=servers)
    return BrokerUnavailable(servers=servers)


def is_refusal(error: BaseException | None) -> bool:
    """Did the server say that it does not want this client?"""
    text = str(error).lower() if isinstance(error, errors.Error) else ""
    return any(word in text for word in _AUTHORIZATION) and "permissions" not in text


ATTEMPT = 5.0
"""seconds until a question that is not answered is asked again"""
PAUSE = 0.05
"""seconds until a server that is not ready yet is asked again"""
NO_RESPONDERS = 503


class Unanswered(Exception):
    """No answer: the connection was cut, or the answer did not come in time. What was asked may have been done."""


class NobodyThere(Exception):
    """Nobody listens under that subject: what was asked has not been done."""


class Answer(NamedTuple):
    payload: bytes
    headers: bytes | None


class JetStreamCaller(ABC):
    """Somebody who carries questions to a server and brings the answers."""

    url: str

    @abstractmethod
    def deadline(self, timeout: float | None = None) -> float:
        """When a call that begins now gives up, in the time of whoever waits."""

    @abstractmethod
    def attempt(self, deadline: float) -> float:
        """Seconds for one attempt."""

    @abstractmethod
    async def still_time(self, deadline: float, reason: ThinwireError | None = None) -> None:
        """Wait for the connection; past the deadline, say why nothing could be done."""

    @abstractmethod
    async def pause(self) -> None:
        """Give a server that is not ready yet a moment."""

    @abstractmethod
    async def ask(self, subject: str, payload: bytes, *, headers: bytes = b"", patience: float = ATTEMPT) -> Answer:
        """The first answer; `Unanswered` or `NobodyThere` where there is none."""

    @abstractmethod
    async def ask_many(self, subject: str, payload: bytes, *, patience: float = ATTEMPT) -> list[Answer]:
        """All answers up to the one with a status, which is the last of them."""

    async def api(self, verb: str, body: Mapping[str, Any] | None = None, *, deadline: float) -> dict[str, Any]:
        """Ask JetStream until it answers; `JetStreamRefusal` if it says no. Only for what may be asked twice."""
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
                await self.pause()
                continue
            reply: dict[str, Any] = json.loads(answer.payload)
            if "error" not in reply:
                return reply
            refused = JetStreamRefusal(reply["error"])
            if not refused.passing:
                raise refused
            reason = refused.translated(servers=self.url)
            await self.pause()

    async def check_jetstream(self, patience: float) -> None:
        """Refuse a server that stores nothing."""
        try:
            answer = await self.ask("$JS.API.INFO", b"", patience=patience)
        except NobodyThere:
            raise BrokerRefused(NO_JETSTREAM, servers=self.url) from None
        except Unanswered:
            raise connection_error(TimeoutError(), self.url) from None
        refusal = json.loads(answer.payload).get("error")
        if refusal:
            raise JetStreamRefusal(refusal).translated(servers=self.url)
