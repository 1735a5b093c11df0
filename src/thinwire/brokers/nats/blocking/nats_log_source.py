"""`NatsSource` implements `LogSource` for the logs and buckets of a NATS server, without an event loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

from thinwire.brokers.nats.blocking.log_range import LogRange
from thinwire.brokers.nats.blocking.session import BlockingConnection
from thinwire.brokers.nats.bucket import read_entries, read_entry
from thinwire.brokers.nats.options import NatsOptions
from thinwire.brokers.nats.streams import JetStreamStore
from thinwire.brokers.protocol import Block, LogSource, Span, StoredMessage, run_inline
from thinwire.brokers.subjects import check_pattern, check_subject
from thinwire.errors import UnknownLog


class NatsSource(LogSource):
    """Opened by `open_source`. Each range that is being read has its own connection."""

    def __init__(self, servers: list[str], options: NatsOptions) -> None:
        self._servers, self._options = servers, options
        self._connection = BlockingConnection(servers, options)
        self._store = JetStreamStore(self._connection)
        self._idle: list[BlockingConnection] = []
        self._busy: set[BlockingConnection] = set()

    def __repr__(self) -> str:
        return f"NatsSource({self.url!r})"

    @property
    def url(self) -> str:
        """The address, without credentials."""
        return self._connection.url

    def open(self) -> None:
        """Connect. Raise `BrokerRefused` if the server has no JetStream."""
        self._connection.open()
        try:
            run_inline(self._connection.check_jetstream(self._options.connect_timeout))
        except BaseException:
            self.close()
            raise

    def logs(self) -> list[str]:
        return run_inline(self._store.logs())

    def span(self, log: str) -> Span:
        return run_inline(self._store.span(log))

    def last(self, log: str, pattern: str, *, up_to: int | None = None) -> StoredMessage | None:
        return run_inline(self._store.last(log, pattern, up_to=up_to))

    def subjects(self, log: str, pattern: str = ">") -> dict[str, int]:
        return run_inline(self._store.subjects(log, pattern))

    def offset_at(self, log: str, time: float) -> int:
        return run_inline(self._store.offset_at(log, time))

    def read_blocks(self, log: str, first: int, last: int, *, subjects: Sequence[str] = ()) -> Iterator[Block]:
        for pattern in subjects:
            check_pattern(pattern)
        connection = self._take_connection()
        log_range = LogRange(connection, log, first, last, subjects)
        try:
            yield from log_range.blocks()
        finally:
            self._return_connection(connection, reusable=log_range.is_released)

    def document(self, bucket: str, key: str) -> bytes | None:
        check_subject(key)
        try:
            entry = run_inline(read_entry(self._store, bucket, key))
        except UnknownLog:
            return None
        return None if entry is None else entry.value

    def documents(self, bucket: str, pattern: str = ">") -> dict[str, bytes]:
        check_pattern(pattern)
        try:
            entries = run_inline(read_entries(self._store, bucket, pattern))
        except UnknownLog:
            return {}
        return {entry.key: entry.value for entry in entries if entry.value is not None}

    def close(self) -> None:
        """Close all connections. A range that is being read ends with `TransportClosed`."""
        for connection in (self._connection, *self._idle, *self._busy):
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take_connection(self) -> BlockingConnection:
        connection = self._idle.pop() if self._idle else BlockingConnection(self._servers, self._options)
        if self._connection.closed:
            connection.close()
        self._busy.add(connection)
        return connection

    def _return_connection(self, connection: BlockingConnection, reusable: bool) -> None:
        """Keep a connection for the next range, unless messages of an aborted range are still in transit."""
        self._busy.discard(connection)
        if reusable and not connection.closed:
            self._idle.append(connection)
        else:
            connection.close()
