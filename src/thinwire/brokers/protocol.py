"""Protocols that every broker implements.

`Broker` is one client's connection. It offers three kinds of storage and messaging:

    log        stored messages under subjects, numbered 1, 2, 3 over all subjects, removed according to a `Retention`
    unstored   messages and requests between clients that are connected at the same time
    bucket     documents under keys; every change has a revision, and a write can state the revision it replaces

All calls of a `Broker` are coroutines of one event loop. A lost connection is restored in the background. Until then
calls wait, at most `timeout` seconds, and then raise `BrokerUnavailable`. Acknowledged messages are stored.

`LogSource` reads ranges of logs without an event loop, for one caller at a time. NATS servers and recordings on disk
implement it.

The checks in `tests/brokers/broker_checks` run for every implementation.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T")


Handler = Callable[[str, bytes], Awaitable[bytes | None]]
"""receives subject and payload of an unstored message; returns the reply, or None for no reply"""

ANY = -1
"""expected revision or offset: no expectation"""
NOTHING = 0
"""expected revision or offset: no document under the key, no message under the subjects"""


class StoredMessage(NamedTuple):
    """A message of a log. `time` is the time at which the broker stored the message, in seconds since the epoch."""

    offset: int
    subject: str
    payload: bytes
    time: float


class Span(NamedTuple):
    """The content of a log: first and last offset (1 and 0 for a new log), number of messages, bytes.

    log_id: identity of the log. A log that was deleted and created again under the same name has another identity
    and starts again at offset 1. Empty if the broker offers none; compare with `is_same_log`.
    """

    first: int
    last: int
    messages: int
    stored_bytes: int
    log_id: str = ""


def is_same_log(log_id: str, other: str) -> bool:
    """Return whether two log identities can belong to the same log. An empty identity matches every log.

    >>> is_same_log("a", "a"), is_same_log("a", "b"), is_same_log("", "b")
    (True, False, True)
    """
    return not log_id or not other or log_id == other


class BucketEntry(NamedTuple):
    """A document under its key. `value` is None if the key was deleted."""

    key: str
    value: bytes | None
    revision: int


@dataclass(frozen=True)
class Retention:
    """Limits of the messages that a log stores; None for no limit. The oldest messages are removed first.

    max_age: seconds since a message was stored; max_bytes, max_messages: size of the whole log

    A NATS server reserves `max_bytes` on its disk when the log is created; therefore the default is no limit.
    """

    max_age: float | None = 7 * 86_400.0
    max_bytes: int | None = None
    max_messages: int | None = None


class LogReader(Protocol):
    """Messages of a log from an offset on, in order, each once, across reconnects.

    At most `max_unacknowledged` messages (see `Broker.read`) are in transit, queued, or returned by `next` and not yet
    acknowledged by `done`. The memory of a reader that is not read is therefore limited.

    A reader stays on its log: if the log is deleted, `next` raises `UnknownLog`, also if a log of the same name was
    created again.
    """

    @property
    def log_id(self) -> str:
        """Identity of the log, as in `Span.log_id`."""

    async def next(self, timeout: float | None = None) -> StoredMessage | None:
        """Return the next message, or None if none arrives within `timeout` seconds."""

    def done(self, offset: int) -> None:
        """Acknowledge all messages up to `offset`."""

    async def close(self) -> None: ...


class Listener(Protocol):
    """A subscription to unstored messages. `close` ends it."""

    async def close(self) -> None: ...


class Bucket(Protocol):
    """Documents under keys. A key is tokens joined by dots."""

    async def get(self, key: str) -> BucketEntry | None:
        """Return the document, or None."""

    async def put(self, key: str, value: bytes, *, revision: int = ANY) -> int:
        """Store a document and return its revision. Raise `Conflict` if the last revision is not `revision`."""

    async def delete(self, key: str, *, revision: int = ANY) -> None:
        """Delete a document, if it exists. Raise `Conflict` if its revision is not `revision`."""

    async def entries(self, pattern: str = ">") -> list[BucketEntry]:
        """Return all documents whose key matches, ordered by revision."""

    def watch(self, pattern: str = ">") -> AsyncGenerator[BucketEntry | None, None]:
        """Yield the current documents, then None once, then every change, across reconnects. End it with aclose()."""


class Broker(Protocol):
    """One client's connection to a broker."""

    @property
    def max_payload(self) -> int:
        """Largest number of bytes in a message."""

    @property
    def url(self) -> str:
        """The address, without credentials."""

    @property
    def connected(self) -> bool: ...

    async def ensure_log(self, log: str, subjects: Sequence[str], retention: Retention | None = None) -> None:
        """Create a log for messages under these subjects (patterns), unless it exists."""

    async def delete_log(self, log: str) -> None:
        """Delete a log and its messages, if it exists."""

    async def append(
        self,
        log: str,
        subject: str,
        payload: bytes,
        *,
        expected_last: int = ANY,
        last_pattern: str = "",
        timeout: float = 60.0,
    ) -> int:
        """Store a message and return its offset. Callers must not append concurrently under one subject.

        expected_last: offset that the last message whose subject matches `last_pattern` must have, NOTHING if there
            must be none. If it differs, `Conflict` is raised and nothing is stored.
        last_pattern: pattern for `expected_last`; the subject of the message if it is empty

        If the connection is lost before the acknowledgement, the message is looked up in the log before it is sent
        again, so that it is stored once.
        """

    async def read(
        self, log: str, *, first: int | None = None, subjects: Sequence[str] = (), max_unacknowledged: int = 256
    ) -> LogReader:
        """Read a log from offset `first` on, or only new messages if None.

        subjects: patterns of the messages to read; empty for all messages
        """

    async def last(self, log: str, pattern: str, *, up_to: int | None = None) -> StoredMessage | None:
        """Return the newest message whose subject matches, at or before offset `up_to` if given."""

    async def subjects(self, log: str, pattern: str = ">") -> dict[str, int]:
        """Return the matching subjects that have messages in the log, with their number of messages."""

    async def offset_at(self, log: str, time: float) -> int:
        """Return the offset of the first message stored at or after `time`; one past the last if there is none."""

    async def span(self, log: str) -> Span:
        """Return the current content of a log. Raise `UnknownLog` if it does not exist."""

    async def logs(self) -> list[str]:
        """Return the names of all logs."""

    async def send(self, subject: str, payload: bytes) -> None:
        """Send an unstored message to the clients that are subscribed now."""

    async def request(self, subject: str, payload: bytes, *, timeout: float = 2.0) -> bytes:
        """Send a request and return the first reply.

        Raise `ServiceUnavailable` at once if no client is subscribed, or after the timeout.
        """

    async def listen(self, pattern: str, handler: Handler) -> Listener:
        """Subscribe to unstored messages whose subject matches. The result of `handler` is sent as the reply."""

    async def bucket(self, name: str) -> Bucket:
        """Return the bucket of this name. It is created if it does not exist."""

    async def close(self) -> None:
        """Close the connection, its readers, listeners and watches. Pending calls raise `TransportClosed`."""


class Block(NamedTuple):
    """Messages of a log in columns, one entry per message in each."""

    offsets: npt.NDArray[np.int64]
    times: npt.NDArray[np.float64]
    subjects: list[str]
    payloads: list[bytes]

    def messages(self) -> list[StoredMessage]:
        rows = zip(self.offsets.tolist(), self.subjects, self.payloads, self.times.tolist(), strict=True)
        return list(starmap(StoredMessage, rows))

    def slice(self, begin: int, end: int) -> Block:
        """Return the messages with the indices `begin` to `end`, `end` excluded."""
        if end - begin == len(self.payloads):
            return self
        offsets, times, subjects, payloads = self
        return Block(offsets[begin:end], times[begin:end], subjects[begin:end], payloads[begin:end])


def run_inline(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never suspends, without an event loop.

    >>> async def double(number: int) -> int:
    ...     return 2 * number
    >>> run_inline(double(21))
    42
    """
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        coroutine.close()
    raise RuntimeError("the coroutine waits for an event loop")


class LogSource(Protocol):
    """Logs and documents, read without an event loop."""

    def logs(self) -> list[str]:
        """Return the names of all logs."""

    def span(self, log: str) -> Span:
        """Return the current content of a log. Raise `UnknownLog` if it does not exist."""

    def last(self, log: str, pattern: str, *, up_to: int | None = None) -> StoredMessage | None:
        """Return the newest message whose subject matches, at or before offset `up_to` if given."""

    def subjects(self, log: str, pattern: str = ">") -> dict[str, int]:
        """Return the matching subjects that have messages in the log, with their number of messages."""

    def offset_at(self, log: str, time: float) -> int:
        """Return the offset of the first message stored at or after `time`; one past the last if there is none."""

    def read(self, log: str, first: int, last: int, *, subjects: Sequence[str] = ()) -> Iterator[list[StoredMessage]]:
        """Yield the messages from offset `first` to `last`, both included, in order, in blocks of bounded size.

        Ends at `last` or at the end of the log. Removed messages are skipped; the offsets show the gap.
        """
        return (block.messages() for block in self.read_blocks(log, first, last, subjects=subjects))

    def read_blocks(self, log: str, first: int, last: int, *, subjects: Sequence[str] = ()) -> Iterator[Block]:
        """Like `read`, in columns. Faster, because no object is created per message except its payload."""

    def document(self, bucket: str, key: str) -> bytes | None:
        """Return the document under a key of a bucket, or None."""

    def documents(self, bucket: str, pattern: str = ">") -> dict[str, bytes]:
        """Return all documents whose key matches."""

    def close(self) -> None: ...
