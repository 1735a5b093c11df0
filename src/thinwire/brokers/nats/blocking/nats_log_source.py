"""The logs and buckets of a NATS server as a `LogSource`: no event loop, one caller at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

from thinwire.brokers.nats.blocking.log_range import LogRange
from thinwire.brokers.nats.blocking.session import Session, now
from thinwire.brokers.nats.bucket import GONE
from thinwire.brokers.nats.jetstream_api import OPERATION
from thinwire.brokers.nats.options import NatsOptions
from thinwire.brokers.nats.streams import Store
from thinwire.brokers.protocol import Block, Span, Stored
from thinwire.brokers.subjects import check_pattern, check_subject
from thinwire.errors import UnknownLog


class NatsSource:
    """Made by `open_source`. Stretches that are read at the same time have a connection each."""

    def __init__(self, servers: list[str], options: NatsOptions) -> None:
        self._servers, self._options = servers, options
        self._session = Session(servers, options)
        self._store = Store(self._session)
        self._idle: list[Session] = []
        self._busy: set[Session] = set()

    def __repr__(self) -> str:
        return f"NatsSource({self.url!r})"

    @property
    def url(self) -> str:
        """Where it leads, without secrets."""
        return self._session.url

    def open(self) -> None:
        """Connect, and refuse a server that stores nothing."""
        self._session.open()
        try:
            now(self._session.check_jetstream(self._options.connect_timeout))
        except BaseException:
            self.close()
            raise

    def logs(self) -> list[str]:
        return now(self._store.logs())

    def span(self, log: str) -> Span:
        return now(self._store.span(log))

    def last(self, log: str, pattern: str, *, up_to: int | None = None) -> Stored | None:
        return now(self._store.last(log, pattern, up_to))

    def subjects(self, log: str, pattern: str = ">") -> dict[str, int]:
        return now(self._store.subjects(log, pattern))

    def offset_at(self, log: str, time: float) -> int:
        return now(self._store.offset_at(log, time))

    def read(self, log: str, first: int, last: int, *, subjects: Sequence[str] = ()) -> Iterator[list[Stored]]:
        for block in self.read_blocks(log, first, last, subjects=subjects):
            columns = (block.offsets.tolist(), block.subjects, block.payloads, block.times.tolist())
            yield list(map(Stored, *columns))

    def read_blocks(self, log: str, first: int, last: int, *, subjects: Sequence[str] = ()) -> Iterator[Block]:
        for pattern in subjects:
            check_pattern(pattern)
        session = self._take_session()
        stretch = LogRange(session, log, first, last, subjects)
        try:
            yield from stretch.blocks()
        finally:
            self._give_back(session, tidy=stretch.left)

    def document(self, bucket: str, key: str) -> bytes | None:
        check_subject(key)
        return self._newest(bucket, [_prefix(bucket) + key]).get(key)

    def documents(self, bucket: str, pattern: str = ">") -> dict[str, bytes]:
        check_pattern(pattern)
        try:
            subjects = self.subjects(_log(bucket), _prefix(bucket) + pattern)
        except UnknownLog:
            return {}
        return self._newest(bucket, list(subjects))

    def close(self) -> None:
        """Give back the connections; a stretch that is being read ends with `TransportClosed`."""
        for session in (self._session, *self._idle, *self._busy):
            session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _newest(self, bucket: str, subjects: list[str]) -> dict[str, bytes]:
        """What stands under these subjects and is not deleted."""
        try:
            found = now(self._store.newest(_log(bucket), subjects))
        except UnknownLog:
            return {}
        prefix = _prefix(bucket)
        return {
            message.subject.removeprefix(prefix): message.payload
            for message, fields in found
            if fields.get(OPERATION) not in GONE
        }

    def _take_session(self) -> Session:
        session = self._idle.pop() if self._idle else Session(self._servers, self._options)
        if self._session.closed:
            session.close()
        self._busy.add(session)
        return session

    def _give_back(self, session: Session, tidy: bool) -> None:
        """A connection with messages on their way that nobody wants any more is not worth keeping."""
        self._busy.discard(session)
        if tidy and not session.closed:
            self._idle.append(session)
        else:
            session.close()


def _log(bucket: str) -> str:
    return f"KV_{bucket}"


def _prefix(bucket: str) -> str:
    return f"$KV.{bucket}."
