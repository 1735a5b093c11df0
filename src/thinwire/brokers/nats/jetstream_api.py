"""The JetStream API: requests with JSON bodies, their errors, and headers of stored messages.

`JetStreamCaller` is implemented by the asyncio connection and by the blocking one, so that both share the calls in
`streams.py`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from thinwire.brokers.nats.options import NatsOptions
from thinwire.brokers.nats.protocol_core import parse_status
from thinwire.brokers.nats.server_pool import connection_error
from thinwire.errors import BrokerRefused, Conflict, PayloadTooLarge, ThinwireError, UnknownLog

T = TypeVar("T")

OPERATION = "KV-Operation"
"""header of a change in a bucket"""
LAST_OFFSET_HEADER = "Nats-Expected-Last-Subject-Sequence"
LAST_PATTERN_HEADER = "Nats-Expected-Last-Subject-Sequence-Subject"

REQUEST_TIMEOUT = 5.0
"""seconds until a request without a reply is repeated"""
RETRY_PAUSE = 0.05
"""seconds until a request to a server that is not ready is repeated"""
NO_RESPONDERS, NOT_FOUND = 503, 404
"""status codes of replies"""
# The numbers below are error codes in replies of JetStream.
NO_STREAM, STREAM_NAME_IN_USE = 10059, 10058
_CONFLICT = frozenset({10071, 10164})
_TOO_LARGE = frozenset({10054})
_STORAGE_FULL = frozenset({10023, 10028, 10047, 10077, 10122})
_NO_JETSTREAM = frozenset({10039, 10076})
_NOT_READY = frozenset({10008, 10009, 10074, 10118})
"""the stream has no leader yet, or is catching up"""

NO_JETSTREAM = "JetStream is not enabled: start the server as `nats-server -js`, or enable it for this account"
STORAGE_FULL = "the storage of the broker is full: free disk space, raise its store limit, or reduce the retention"


def expected_last_fields(offset: int, pattern: str = "") -> dict[str, str]:
    """Return header fields with which a message is stored only if the last offset is `offset`.

    pattern: subjects whose last offset is compared; the subject of the message if it is empty
    """
    fields = {LAST_OFFSET_HEADER: str(offset)}
    return fields | {LAST_PATTERN_HEADER: pattern} if pattern else fields


class JetStreamRefusal(Exception):
    """An error in a reply of JetStream, with its `code` and `text`."""

    def __init__(self, error: dict[str, Any]) -> None:
        self.code = int(error.get("err_code", 0))
        self.text = str(error.get("description", "unknown"))
        super().__init__(self.text)

    @property
    def is_temporary(self) -> bool:
        """Whether the same request can succeed a moment later."""
        return self.code in _NOT_READY

    @property
    def is_conflict(self) -> bool:
        return self.code in _CONFLICT

    def translate(self, **facts: Any) -> ThinwireError:
        """Return the corresponding thinwire error."""
        if self.code == NO_STREAM:
            return UnknownLog(**facts)
        if self.is_conflict:
            return Conflict(self.text, **facts)
        if self.code in _TOO_LARGE:
            return PayloadTooLarge(self.text, **facts)
        if self.code in _STORAGE_FULL:
            return BrokerRefused(f"{STORAGE_FULL} ({self.text})", **facts)
        if self.code in _NO_JETSTREAM:
            return BrokerRefused(NO_JETSTREAM, **facts)
        return BrokerRefused(self.text, code=self.code, **facts)


class NoReply(Exception):
    """The connection was lost or the reply did not arrive in time. The request may have been processed."""


class NoResponders(Exception):
    """No client is subscribed to the subject. The request was not processed."""


class Reply(NamedTuple):
    payload: bytes
    headers: bytes | None


class JetStreamCaller(ABC):
    """A connection that sends requests to JetStream and waits for replies.

    The coroutines of the blocking implementation never suspend, so `run_inline` returns their results.
    """

    url: str
    options: NatsOptions

    @abstractmethod
    def now(self) -> float:
        """Return the time by the monotonic clock of the implementation."""

    @abstractmethod
    async def wait_connected(self, deadline: float, reason: ThinwireError | None = None) -> None:
        """Wait for the connection. Raise `reason` if the deadline has passed."""

    @abstractmethod
    async def pause(self) -> None:
        """Wait before a request is repeated."""

    @abstractmethod
    async def exchange(self, subject: str, payload: bytes, headers: bytes, timeout: float, many: bool) -> list[Reply]:
        """Send a request and return its reply in a list. Raise `NoReply` if no reply arrives.

        many: the request has several replies; the last of them has a status
        """

    def deadline(self, timeout: float | None = None) -> float:
        """Return the time at which a call that starts now times out."""
        return self.now() + (self.options.timeout if timeout is None else timeout)

    def attempt_timeout(self, deadline: float) -> float:
        """Return the seconds that one attempt may take: short, so that a lost request is soon repeated."""
        return min(REQUEST_TIMEOUT, max(0.05, deadline - self.now()))

    async def request(
        self, subject: str, payload: bytes, *, headers: bytes = b"", timeout: float = REQUEST_TIMEOUT
    ) -> Reply:
        """Return the first reply. Raise `NoReply` or `NoResponders` if there is none."""
        reply = (await self.exchange(subject, payload, headers, timeout, many=False))[0]
        if reply.headers is not None and parse_status(reply.headers) == NO_RESPONDERS and not reply.payload:
            raise NoResponders
        return reply

    async def request_many(self, subject: str, payload: bytes, *, timeout: float = REQUEST_TIMEOUT) -> list[Reply]:
        """Return all replies of a request that has several. The last one has a status."""
        replies = await self.exchange(subject, payload, b"", timeout, many=True)
        if parse_status(replies[-1].headers) == NO_RESPONDERS:
            raise NoResponders
        return replies

    async def call_api(self, suffix: str, body: Mapping[str, Any] | None = None, *, deadline: float) -> dict[str, Any]:
        """Send an idempotent API request, repeated until there is a reply. Return the decoded reply.

        suffix: end of the subject, after `$JS.API.`. Raise `JetStreamRefusal` for an error that is not temporary.
        """
        payload = json.dumps(body, separators=(",", ":")).encode() if body else b""

        async def attempt(timeout: float) -> dict[str, Any]:
            return await self.request_json(f"$JS.API.{suffix}", payload, timeout=timeout)

        async def explain() -> ThinwireError:
            return BrokerRefused(f"JetStream does not answer. {NO_JETSTREAM}; or {STORAGE_FULL}", servers=self.url)

        return await self.repeat(attempt, deadline, explain)

    async def request_json(
        self, subject: str, payload: bytes, *, headers: bytes = b"", timeout: float = REQUEST_TIMEOUT
    ) -> dict[str, Any]:
        """Return the decoded reply of JetStream. Raise `JetStreamRefusal` for an error."""
        reply = await self.request(subject, payload, headers=headers, timeout=timeout)
        result: dict[str, Any] = json.loads(reply.payload)
        if "error" in result:
            raise JetStreamRefusal(result["error"])
        return result

    async def repeat(
        self,
        attempt: Callable[[float], Awaitable[T]],
        deadline: float,
        explain: Callable[[], Awaitable[ThinwireError]],
    ) -> T:
        """Repeat a request until there is a reply without a temporary error. At the deadline `wait_connected` raises.

        attempt: sends the request; receives the timeout of the attempt
        explain: returns the error to raise if there is still no responder at the deadline
        """
        reason: ThinwireError | None = None
        while True:
            await self.wait_connected(deadline, reason)
            try:
                return await attempt(self.attempt_timeout(deadline))
            except NoReply:
                reason = None
                continue
            except NoResponders:
                reason = await explain()
            except JetStreamRefusal as refusal:
                if not refusal.is_temporary:
                    raise
                reason = refusal.translate(servers=self.url)
            await self.pause()

    async def check_jetstream(self, timeout: float) -> None:
        """Raise `BrokerRefused` if the server has no JetStream."""
        try:
            await self.request_json("$JS.API.INFO", b"", timeout=timeout)
        except NoResponders:
            raise BrokerRefused(NO_JETSTREAM, servers=self.url) from None
        except NoReply:
            raise connection_error(TimeoutError(), self.url) from None
        except JetStreamRefusal as refusal:
            raise refusal.translate(servers=self.url) from None
