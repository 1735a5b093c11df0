"""A publisher: encodes the events of one topic and stores them in its log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Any

from thinwire.brokers.protocol import Broker
from thinwire.client.outbox import Outbox
from thinwire.client.publisher_identity import claim, read_last_events
from thinwire.client.publisher_session import CLOSE_TIMEOUT, PublisherSession
from thinwire.clock import Clock
from thinwire.codec import Counts, StreamConfig, StreamEncoder
from thinwire.codec.kernel_warmup import warm_up
from thinwire.errors import TransportClosed
from thinwire.schema import Event
from thinwire.topics.topic_metadata import TopicMetadata

MAX_PENDING = 8 << 20
BATCH_EVENTS = 256
"""events that `publish_all` encodes without yielding to other tasks"""


class Publisher:
    """Publishes events of one topic under one name. Use it with `async with`.

    linger: seconds in which frames are collected into one message; max_batch: largest message in bytes
    max_pending: bytes that may wait for the broker before `publish` waits as well
    config: the configuration until the registry sends one
    recover: read the last events that were published under this name, into `last_events`
    dictionaries: pack with the dictionaries of the topic; None to use the topic's setting

    last_events: with `recover`, the last event of each source in the log: continue after it
    """

    def __init__(
        self,
        find_topic: Callable[[], Awaitable[TopicMetadata]],
        broker: Broker,
        clock: Clock,
        topic: str,
        config: StreamConfig,
        *,
        name: str,
        linger: float,
        max_batch: int,
        max_pending: int,
        recover: bool,
        dictionaries: bool | None,
    ) -> None:
        self.name = name
        self.topic = topic
        self.last_events: dict[tuple[Any, ...], Event] = {}
        self._find_topic = find_topic
        self._broker = broker
        self._clock = clock
        self._config = config
        self._recover = recover
        self._dictionaries = dictionaries
        self._create_outbox = partial(
            Outbox, broker, topic, name, linger=linger, max_batch=max_batch, max_pending=max_pending
        )
        self._session: PublisherSession | None = None

    async def __aenter__(self) -> Publisher:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def session(self) -> PublisherSession:
        """The open session. Raises TransportClosed if the publisher is not open."""
        if self._session is None:
            raise TransportClosed("this publisher is not open", topic=self.topic, name=self.name)
        return self._session

    @property
    def wanted(self) -> bool:
        """Report whether events are sent: the topic has subscriptions, or retains its events."""
        return self._session is None or self._session.wanted

    @property
    def counts(self) -> Counts:
        """Events, frames and bytes so far."""
        return self.session.encoder.counts

    @property
    def encoder(self) -> StreamEncoder:
        """The encoder of the stream."""
        return self.session.encoder

    @property
    def messages(self) -> int:
        """The number of stored messages."""
        return self.session.outbox.messages

    @property
    def dictionary(self) -> bytes:
        """The hash of the dictionary in use; empty if there is none."""
        return self.session.dictionaries.current

    @property
    def dictionary_bytes(self) -> int:
        """The size of fetched dictionaries and announcements."""
        return self.session.dictionaries.received_bytes

    async def open(self) -> None:
        """Claim the name and start a new incarnation. Raises NameInUse if a publisher with this name runs."""
        if self._session is not None:
            return
        topic = await self._find_topic()
        await asyncio.to_thread(warm_up)
        await topic.ensure_log()
        last = await claim(self._broker, self.topic, self.name)
        if self._recover:
            self.last_events = await read_last_events(self._broker, topic, self.name)
        session = PublisherSession(
            self._broker,
            self._clock,
            topic,
            self._create_outbox(last=last.offset),
            incarnation=last.incarnation + 1,
            config=self._config,
            document=await topic.configuration(),
            dictionaries=self._dictionaries,
        )
        try:
            await session.start()
        except BaseException:
            await session.abort()
            raise
        self._session = session

    async def publish(self, event: Mapping[str, Any] | bytes) -> None:
        """Publish an event. Waits only if `max_pending` bytes wait for the broker.

        An invalid event raises EventRejected and is stored as a dead letter; the stream continues without it. Topics
        without a schema take bytes.
        """
        await self.session.publish(event)

    async def publish_all(self, events: Iterable[Mapping[str, Any] | bytes]) -> int:
        """Publish several events, faster than one by one, and return how many were accepted.

        Invalid events are stored as dead letters.
        """
        accepted = 0
        remaining = iter(events)
        while batch := list(islice(remaining, BATCH_EVENTS)):
            accepted += await self.session.publish_batch(batch)
        return accepted

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until all published events are stored, suppressed ones included.

        timeout: seconds after which BrokerUnavailable is raised; pending frames are kept and still sent
        """
        await self.session.flush(timeout)

    async def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """Store pending frames and release the name."""
        if self._session is None:
            return
        try:
            await self._session.close(timeout)
        finally:
            self._session = None
