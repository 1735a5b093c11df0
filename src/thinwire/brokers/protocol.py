"""What every transport offers: publish bytes under a subject, receive those that match a pattern.

A transport knows nothing of events or frames. What it can do beyond that is a list of capabilities, so that the rooms
above choose (16 instead of 8 bits of sequence, a header inside the body) instead of guessing.

What the live system asks of a broker: a log per topic, words that are not stored, and documents under keys.

A `Broker` is one client's connection. Memory and NATS have one each, and the same checks hold both to this page
(`thinwire.testing.broker_checks`). Names:

    log        messages under subjects, numbered 1, 2, 3 over all of them, kept for a while
    offset     a message's number in its log
    bucket     documents under keys; every change has a revision, and a write may insist on the one it has seen

All calls are coroutines of one event loop. A connection that is cut comes back by itself: until then calls wait, at
most `timeout` seconds, and raise `BrokerUnavailable` after that. What was acknowledged is stored.

What a reader of whole stretches of a log asks: no event loop, no pushing, one caller at a time.

A subscriber lives on what comes next; a table is made of what is there. A `LogSource` answers from a broker through a
blocking socket, or from a recording on disk, and both in the same words, so that whoever reads does not know which.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class TransportMessage(NamedTuple):
    """What travels.

    sequence: the transport's own number of the message within its subject, counted 1, 2, 3 without a gap; None where
    the transport has none

    >>> TransportMessage("building.rooms", b"21.5").headers
    mappingproxy({})
    """

    subject: str
    payload: bytes
    headers: Mapping[str, str] = NO_HEADERS
    sequence: int | None = None


@dataclass(frozen=True)
class Capabilities:
    """What a transport can do.

    gapless: it numbers the messages of a subject without a gap and can replay them from a number;
    headers: it carries headers; max_payload: bytes in one message, headers included
    """

    gapless: bool
    headers: bool
    max_payload: int


class Inbox(Protocol):
    """The messages that match one subscription, in a queue of bounded length."""

    def receive(self) -> TransportMessage | None:
        """The next message that has arrived; None when there is none now."""

    def close(self) -> None:
        """Ask for no more; what has arrived can still be received."""


class Transport(Protocol):
    """A broker as its clients see it."""

    @property
    def capabilities(self) -> Capabilities: ...

    def publish(self, subject: str, payload: bytes, headers: Mapping[str, str] | None = None) -> int | None:
        """Send a message; its sequence where the transport has told one by now, else None."""

    def subscribe(self, pattern: str, *, limit: int = ...) -> Inbox:
        """Receive what is published from now on under subjects that match."""

    def close(self) -> None:
        """Leave; every inbox closes too."""


Handler = Callable[[str, bytes], Awaitable[bytes | None]]
"""subject and payload of a word; what it returns is the answer, None for none"""

ANY = -1
"""a revision or offset that is not insisted on"""
NOTHING = 0
"""insist that there is nothing under the key, or under the subjects, yet"""


class Stored(NamedTuple):
    """A message of a log; `time` is when the broker stored it, in seconds since the epoch."""

    offset: int
    subject: str
    payload: bytes
    time: float


class Span(NamedTuple):
    """What a log holds: the first and the last offset (1 and 0 when nothing was ever stored), messages and bytes.

    made: since when there is this log, which tells it from one of the same name that was deleted; empty where the
    broker does not say
    """

    first: int
    last: int
    messages: int
    stored_bytes: int
    made: str = ""


class BucketEntry(NamedTuple):
    """A document under its key; `value` is None where the key was deleted."""

    key: str
    value: bytes | None
    revision: int


@dataclass(frozen=True)
class Retention:
    """How long a log keeps its messages: seconds, bytes, messages; None for no limit. The oldest go first.

    A size is reserved at a NATS server when the log is made, whether it is ever used or not; hence none by default.
    """

    seconds: float | None = 7 * 86_400.0
    size: int | None = None
    messages: int | None = None


class LogReader(Protocol):
    """The messages of a log from a place on, in order, each once, across reconnects.

    At most `limit` messages that `done` has not been told of are on their way or waiting: a reader that is not read
    costs bounded memory here and nothing at the broker.
    """

    async def next(self, timeout: float | None = None) -> Stored | None:
        """The next message; None when none came within so many seconds."""

    def done(self, offset: int) -> None:
        """Messages up to this offset are worked off and make room for others."""

    async def close(self) -> None: ...


class Listener(Protocol):
    """Somebody who hears words; `close` ends it."""

    async def close(self) -> None: ...


class Bucket(Protocol):
    """Documents under keys (words joined by dots)."""

    async def get(self, key: str) -> BucketEntry | None:
        """The document, or None."""

    async def put(self, key: str, value: bytes, *, revision: int = ANY) -> int:
        """Store a document and return its revision; `Conflict` if the last one is not `revision` (NOTHING: none)."""

    async def delete(self, key: str, *, revision: int = ANY) -> None:
        """Forget a document; no harm if there is none."""

    async def entries(self, pattern: str = ">") -> list[BucketEntry]:
        """All documents whose key matches, in the order of their revisions."""

    def watch(self, pattern: str = ">") -> AsyncGenerator[BucketEntry | None, None]:
        """What is there now, then None once, then every change as it comes, across reconnects; close with aclose()."""


class Broker(Protocol):
    """One client's connection."""

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def url(self) -> str:
        """Where it leads, without secrets."""

    @property
    def connected(self) -> bool: ...

    async def open_log(self, log: str, subjects: Sequence[str], retention: Retention | None = None) -> None:
        """Make sure that a log keeps what is published under these subjects (patterns); an existing one stays."""

    async def delete_log(self, log: str) -> None:
        """Forget a log and its messages; no harm if there is none."""

    async def append(
        self, log: str, subject: str, payload: bytes, *, after: int = ANY, within: str = "", timeout: float = 60.0
    ) -> int:
        """Store a message and return its offset. Nothing else of this caller may be on its way under the subject.

        after: insist that the last message under `within` (a pattern; the subject itself by default) has this offset,
        NOTHING that there is none; `Conflict` otherwise and nothing is stored.
        A connection that breaks in between leaves it open whether the message was stored; the broker object finds out
        before it sends again, so that it is stored once.
        """

    async def read(
        self, log: str, *, first: int | None = None, subjects: Sequence[str] = (), limit: int = 256
    ) -> LogReader:
        """Read a log from an offset on (None: what comes from now on), only these subjects where given."""

    async def last(self, log: str, pattern: str, *, up_to: int | None = None) -> Stored | None:
        """The newest message under subjects that match, at or before an offset where given."""

    async def subjects(self, log: str, pattern: str = ">") -> dict[str, int]:
        """The subjects that have messages in the log, with how many."""

    async def offset_at(self, log: str, time: float) -> int:
        """The offset of the first message stored at this time or later; one past the last where there is none."""

    async def span(self, log: str) -> Span:
        """What the log holds now; `UnknownLog` if there is none."""

    async def logs(self) -> list[str]:
        """The names of all logs."""

    async def send(self, subject: str, payload: bytes) -> None:
        """Say something to whoever listens now; it is stored nowhere."""

    async def request(self, subject: str, payload: bytes, *, timeout: float = 2.0) -> bytes:
        """Ask, and return the first answer; `NobodyAnswers` at once if nobody listens, or after the timeout."""

    async def listen(self, pattern: str, handler: Handler) -> Listener:
        """Hear what is said under subjects that match, and answer it."""

    async def bucket(self, name: str, *, history: int = 1) -> Bucket:
        """The bucket of this name, made where there is none."""

    async def close(self) -> None:
        """Leave: readers, listeners and watches end; what waits for an answer gets `TransportClosed`."""


class Block(NamedTuple):
    """Messages of a log side by side, as whoever reads very many of them wants them: one entry a message in each."""

    offsets: npt.NDArray[np.int64]
    times: npt.NDArray[np.float64]
    subjects: list[str]
    payloads: list[bytes]


class LogSource(Protocol):
    """Logs and documents to read; `close` gives back what it holds, and a `with` block does so by itself."""

    def logs(self) -> list[str]:
        """The names of all logs."""

    def span(self, log: str) -> Span:
        """What the log holds now; `UnknownLog` if there is none."""

    def last(self, log: str, pattern: str, *, up_to: int | None = None) -> Stored | None:
        """The newest message under subjects that match, at or before an offset where given."""

    def subjects(self, log: str, pattern: str = ">") -> dict[str, int]:
        """The subjects that have messages in the log, with how many."""

    def offset_at(self, log: str, time: float) -> int:
        """The offset of the first message stored at this time or later; one past the last where there is none."""

    def read(self, log: str, first: int, last: int, *, subjects: Sequence[str] = ()) -> Iterator[list[Stored]]:
        """The messages from an offset to another, both included, in order, in blocks of bounded size.

        It ends at `last`, or at the log's end where that comes first. What is no longer in the log is not there: a
        jump of the offsets says so.
        """

    def read_blocks(self, log: str, first: int, last: int, *, subjects: Sequence[str] = ()) -> Iterator[Block]:
        """The same, in columns: the fast door, for nothing is made for a single message but its payload."""

    def document(self, bucket: str, key: str) -> bytes | None:
        """The document under a key of a bucket; None where there is none."""

    def documents(self, bucket: str, pattern: str = ">") -> dict[str, bytes]:
        """All documents whose key matches."""

    def close(self) -> None: ...
