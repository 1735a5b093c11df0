"""A `LogSource` as a broker.

Seek, topic metadata and stores are written once, as coroutines over a `Broker`. Spark executors have no event loop and
run the same coroutines over a blocking source with `run_inline`: every await returns at once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from typing import cast

from thinwire.brokers.protocol import Broker, Bucket, BucketEntry, LogSource, Span, StoredMessage, run_inline
from thinwire.codec import StreamDecoder
from thinwire.codec.stream_snapshot import restore_decoder
from thinwire.errors import UnknownLog
from thinwire.topics.names import REGISTRY
from thinwire.topics.seeker import Seeker
from thinwire.topics.topic_metadata import TopicMetadata

EMPTY = Span(1, 0, 0, 0)
"""the span of a log that does not exist"""


def span_of(source: LogSource, log: str) -> Span:
    """Return the span of a log, an empty one if the log does not exist."""
    try:
        return source.span(log)
    except UnknownLog:
        return EMPTY


class SourceBroker:
    """The read methods of `Broker` that `Seeker` and `TopicMetadata` use, over a `LogSource`."""

    def __init__(self, source: LogSource) -> None:
        self._source = source

    async def span(self, log: str) -> Span:
        return span_of(self._source, log)

    async def last(self, log: str, pattern: str, *, up_to: int | None = None) -> StoredMessage | None:
        return self._source.last(log, pattern, up_to=up_to)

    async def subjects(self, log: str, pattern: str = ">") -> dict[str, int]:
        return self._source.subjects(log, pattern)

    async def bucket(self, name: str) -> Bucket:
        return cast(Bucket, SourceBucket(self._source, name))


class SourceBucket:
    """The read methods of `Bucket` over a `LogSource`, which has no revisions."""

    def __init__(self, source: LogSource, name: str) -> None:
        self._source = source
        self._name = name

    async def get(self, key: str) -> BucketEntry | None:
        value = self._source.document(self._name, key)
        return BucketEntry(key, value, 0) if value is not None else None

    async def entries(self, pattern: str = ">") -> list[BucketEntry]:
        return [BucketEntry(key, value, 0) for key, value in self._source.documents(self._name, pattern).items()]


def source_broker(source: LogSource) -> Broker:
    """Return a source as a broker that can only read."""
    return cast(Broker, SourceBroker(source))


class SourceSeeker(Seeker):
    """A seeker over a blocking source.

    messages_read: messages decoded by seeks so far
    """

    def __init__(self, source: LogSource, metadata: TopicMetadata) -> None:
        super().__init__(source_broker(source), metadata.selection, metadata.fetch_definition)
        self.messages_read = 0
        self._source = source

    async def _apply_snapshot(self, decoder: StreamDecoder, data: bytes) -> None:
        restore_decoder(decoder, data)

    async def _read(self, first: int, last: int, subjects: Collection[str]) -> AsyncGenerator[StoredMessage, None]:
        if first > last:
            return
        for block in self._source.read(self.selection.log, first, last, subjects=list(subjects)):
            self.messages_read += len(block)
            for stored in block:
                yield stored


def read_topic(source: LogSource, topic: str) -> TopicMetadata:
    """Return the metadata of a registered topic."""
    broker = source_broker(source)
    return run_inline(TopicMetadata.find(broker, run_inline(broker.bucket(REGISTRY)), topic))
