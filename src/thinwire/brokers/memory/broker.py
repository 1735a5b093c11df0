"""A client's connection to a broker in memory.

A client's view of a bucket.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from thinwire.brokers.memory.connection import LocalReader, SimulatedConnection
from thinwire.brokers.memory.server import LocalListener, LocalServer, UnstoredMessage
from thinwire.brokers.memory.storage import Documents, MessageLog, WakeUp
from thinwire.brokers.protocol import ANY, NOTHING, BucketEntry, Capabilities, Handler, Retention, Span, Stored
from thinwire.brokers.subjects import check_subject
from thinwire.errors import Conflict, NobodyAnswers, PayloadTooLarge, TransportClosed, TransportError


class LocalBucket:
    """Documents under keys."""

    def __init__(self, documents: Documents, line: SimulatedConnection, max_payload: int) -> None:
        self.max_payload = max_payload
        self._documents = documents
        self._line = line

    async def get(self, key: str) -> BucketEntry | None:
        """The document, or None."""
        return await self._line.call(lambda: self._documents.get(key))

    async def put(self, key: str, value: bytes, *, revision: int = ANY) -> int:
        """Store a document and return its revision; `Conflict` if the last one is not `revision` (NOTHING: none)."""
        if len(value) > self.max_payload:
            raise PayloadTooLarge(key=key, size=len(value), limit=self.max_payload)
        return await self._line.call(lambda: self._documents.put(key, bytes(value), revision))

    async def delete(self, key: str, *, revision: int = ANY) -> None:
        """Forget a document; no harm if there is none."""
        await self._line.call(lambda: self._documents.delete(key, revision))

    async def entries(self, pattern: str = ">") -> list[BucketEntry]:
        """All documents whose key matches, in the order of their revisions."""
        return await self._line.call(lambda: self._documents.entries(pattern))

    async def watch(self, pattern: str = ">") -> AsyncGenerator[BucketEntry | None, None]:
        """What is there now, then None once, then every change as it comes; it ends when the broker is closed."""
        with self._listening() as bell:
            known = await self._line.call(lambda: self._documents.since(0, pattern))
            for entry in known:
                if entry.value is not None:
                    yield entry
            yield None
            seen = known[-1].revision if known else 0
            while not self._line.closed:
                changes = self._documents.since(seen, pattern) if self._line.up else []
                for entry in changes:
                    seen = entry.revision
                    yield entry
                if not changes:
                    await bell.wait()
                    await self._line.travel()

    @contextmanager
    def _listening(self) -> Iterator[WakeUp]:
        bell = WakeUp()
        homes = (self._line.bells, self._documents.listeners)
        for home in homes:
            home.add(bell)
        try:
            yield bell
        finally:
            for home in homes:
                home.discard(bell)


class LocalBroker:
    """Implements `thinwire.brokers.protocol.Broker`; it is made inside a running event loop.

    server: where it leads; timeout: seconds that a call without one of its own waits for a broken connection

    >>> async def story():
    ...     async with LocalBroker(LocalServer()) as broker:
    ...         await broker.open_log("rooms", ["rooms.*"])
    ...         reader = await broker.read("rooms", first=1)
    ...         await broker.append("rooms", "rooms.a", b"21.5")
    ...         message = await reader.next()
    ...         return message.offset, message.subject, message.payload
    >>> asyncio.run(story())
    (1, 'rooms.a', b'21.5')
    """

    def __init__(self, server: LocalServer, *, timeout: float = 60.0) -> None:
        self.server = server
        self.timeout = timeout
        self.readers: set[LocalReader] = set()
        self._answers: set[asyncio.Future[bytes]] = set()
        self.line = server.enter(self)

    @property
    def capabilities(self) -> Capabilities:
        return self.server.capabilities

    @property
    def url(self) -> str:
        """Where it leads."""
        return self.server.url

    @property
    def connected(self) -> bool:
        return self.line.up

    async def open_log(self, log: str, subjects: Sequence[str], retention: Retention | None = None) -> None:
        """Make sure that a log keeps what is published under these subjects; an existing one stays."""
        await self.line.call(lambda: self.server.open_log(log, subjects, retention))

    async def delete_log(self, log: str) -> None:
        """Forget a log and its messages; no harm if there is none."""
        await self.line.call(lambda: self.server.delete_log(log))

    async def append(
        self, log: str, subject: str, payload: bytes, *, after: int = ANY, within: str = "", timeout: float = 60.0
    ) -> int:
        """Store a message and return its offset; `Conflict` if the last one under `within` is not `after`."""
        self._check_message(subject, payload)

        def store() -> int:
            kept = self.server.log(log)
            _check_last(kept, within or subject, after)
            offset = kept.store(subject, bytes(payload))
            self.server.acknowledge(self.line)
            return offset

        return await self.line.call(store, timeout)

    async def read(
        self, log: str, *, first: int | None = None, subjects: Sequence[str] = (), limit: int = 256
    ) -> LocalReader:
        """Read a log from an offset on (None: what comes from now on), only these subjects where given."""

        def begin() -> LocalReader:
            kept = self.server.log(log)
            place = kept.span().last + 1 if first is None else max(first, 1)
            reader = LocalReader(kept, self.line, place, subjects, limit, self.readers.discard)
            self.readers.add(reader)
            return reader

        return await self.line.call(begin)

    async def last(self, log: str, pattern: str, *, up_to: int | None = None) -> Stored | None:
        """The newest message under subjects that match, at or before an offset where given."""
        return await self.line.call(lambda: self.server.log(log).last(pattern, up_to))

    async def subjects(self, log: str, pattern: str = ">") -> dict[str, int]:
        """The subjects that have messages in the log, with how many."""
        return await self.line.call(lambda: self.server.log(log).subjects(pattern))

    async def offset_at(self, log: str, time: float) -> int:
        """The offset of the first message stored at this time or later; one past the last where there is none."""
        return await self.line.call(lambda: self.server.log(log).offset_at(time))

    async def span(self, log: str) -> Span:
        """What the log holds now; `UnknownLog` if there is none."""
        return await self.line.call(lambda: self.server.log(log).span())

    async def logs(self) -> list[str]:
        """The names of all logs."""
        return await self.line.call(lambda: sorted(self.server.logs))

    async def send(self, subject: str, payload: bytes) -> None:
        """Say something to whoever listens now; it is stored nowhere."""
        self._check_message(subject, payload)
        await self.line.call(lambda: self._deliver(UnstoredMessage(subject, bytes(payload))))

    async def request(self, subject: str, payload: bytes, *, timeout: float = 2.0) -> bytes:
        """Ask, and return the first answer; `NobodyAnswers` at once if nobody listens, or after the timeout."""
        self._check_message(subject, payload)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        deadline = loop.time() + timeout
        self._answers.add(answer)
        try:
            if not await self.line.call(
                lambda: self._deliver(UnstoredMessage(subject, bytes(payload), answer)), timeout
            ):
                raise NobodyAnswers("nobody listens", subject=subject)
            async with asyncio.timeout_at(deadline):
                return await answer
        except TimeoutError:
            raise NobodyAnswers("in time", subject=subject, timeout=timeout) from None
        finally:
            self._answers.discard(answer)
            answer.cancel()

    async def listen(self, pattern: str, handler: Handler) -> LocalListener:
        """Hear what is said under subjects that match, and answer it."""
        return await self.line.call(lambda: LocalListener(pattern, handler, self.line, self.server))

    async def bucket(self, name: str, *, history: int = 1) -> LocalBucket:
        """The bucket of this name, made where there is none; it keeps the last document of each key."""
        documents = await self.line.call(lambda: self.server.bucket(name))
        return LocalBucket(documents, self.line, self.server.max_payload)

    async def close(self) -> None:
        """Leave: readers, listeners and watches end; what waits for an answer gets `TransportClosed`."""
        if self.line.closed:
            return
        self.line.change(closed=True)
        self.server.leave(self)
        for answer in self._answers:
            if not answer.done():
                answer.set_exception(TransportClosed(url=self.url))
        for reader in list(self.readers):
            await reader.close()
        for listener in [one for one in self.server.listeners if one.line is self.line]:
            await listener.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _deliver(self, word: UnstoredMessage) -> int:
        """Pass a word on; how many hear it."""
        hearing = [listener for listener in self.server.listeners if listener.hears(word.subject)]
        for listener in hearing:
            listener.deliver(word)
        return len(hearing)

    def _check_message(self, subject: str, payload: bytes) -> None:
        self.line.check_open()
        check_subject(subject)
        if not isinstance(payload, bytes | bytearray | memoryview):
            raise TransportError("a payload is bytes", subject=subject, given=type(payload).__name__)
        if len(payload) > self.capabilities.max_payload:
            raise PayloadTooLarge(subject=subject, size=len(payload), limit=self.capabilities.max_payload)


def _check_last(log: MessageLog, within: str, after: int) -> None:
    if after == ANY:
        return
    newest = log.last(within)
    last = NOTHING if newest is None else newest.offset
    if last != after:
        raise Conflict(log=log.name, within=within, expected=after, last=last)
