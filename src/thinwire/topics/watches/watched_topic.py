"""The log of one topic as a watch reads it, and the liveness of the publishers of a watch.

The values of a publisher that stopped stay valid. Its watermark does not advance any more, so the watch stops waiting
for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from thinwire.brokers.protocol import Broker, LogReader, StoredMessage
from thinwire.clock import Clock
from thinwire.codec import State
from thinwire.codec.decoder_state import DecoderState
from thinwire.codec.stream_config import MAX_SILENCE
from thinwire.errors import BrokerUnavailable, PeerFault, TransportClosed, TransportError
from thinwire.filters.composite.feed_sequencer import LogEntry, WatchInput
from thinwire.schema import Event
from thinwire.topics.key_frame_requests import KeyFrameRequests
from thinwire.topics.log_decoder import LogDecoder
from thinwire.topics.log_selection import LogSelection
from thinwire.topics.names import REGISTRY, log_of, publisher_in, publisher_subjects
from thinwire.topics.registry_client import publisher_names
from thinwire.topics.seeker import Seeker
from thinwire.topics.topic_metadata import TopicMetadata
from thinwire.topics.watches.watch_documents import WatchNotice
from thinwire.topics.watches.watch_quantities import TopicQuantities, TopicReadings

MAX_SEEK = 65_536
"""messages that a new watch reads to restore decoders; beyond that it requests key frames"""
PREFETCH = 256
"""messages that the reader fetches ahead"""
RETRY_DELAY = 1.0

_log = logging.getLogger("thinwire.watches")


class WatchedTopic:
    """Reads the log of one topic and extracts the quantities of a watch.

    first: offset of the first message it reads
    last_received: when a message of each publisher last arrived, by the clock of the event loop
    """

    def __init__(self, broker: Broker, clock: Clock, metadata: TopicMetadata, quantities: TopicQuantities) -> None:
        self.metadata = metadata
        self.topic = metadata.name
        self.first = 1
        self.last_received: dict[str, float] = {}
        self._broker = broker
        self._clock = clock
        self._quantities = quantities
        self._requests = KeyFrameRequests(broker, metadata.name)
        self._log_decoder = LogDecoder(metadata.lookup, dictionaries=metadata.dictionary)
        self._delivered_states: dict[str, DecoderState] = {}
        self._reader: LogReader | None = None

    async def begin(self, first: int, *, new: bool) -> list[TopicReadings]:
        """Seek to an offset and return the state of all sources before it.

        new: the watch has no earlier state; a limited seek that leaves sources unknown is sufficient
        """
        seeker = Seeker(self._broker, LogSelection(self.topic), self._fetch_definition)
        found = await seeker.seek(self._log_decoder, first, max_messages=MAX_SEEK if new else None)
        self._log_decoder = found.log_decoder
        self.first = first
        self._reader = await self._broker.read(
            log_of(self.topic), first=first, subjects=[publisher_subjects(self.topic)], max_unacknowledged=PREFETCH
        )
        if not self._log_decoder.decoders or any(self._log_decoder.waiting()):
            await self._requests.request_all()
        return [await self._read_current_state(name) for name in sorted(self._log_decoder.decoders)]

    async def next(self, timeout: float) -> TopicReadings | None:
        """Return the readings of the next message; None if none arrives within `timeout` seconds."""
        assert self._reader is not None
        stored = await self._reader.next(timeout)
        readings = await self._read_message(stored) if stored is not None else None
        await self._requests.request_missing(self._log_decoder, self._clock.now())
        return readings

    async def _read_message(self, stored: StoredMessage) -> TopicReadings:
        publisher, unreadable = publisher_in(stored.subject), list[WatchNotice]()

        def on_unreadable(fault: PeerFault) -> None:
            facts = {"offset": stored.offset, "reason": str(fault)}
            unreadable.append(WatchNotice("unreadable", self.topic, publisher, facts))

        deliveries = await self._log_decoder.receive_and_fetch(
            stored, self._clock.now(), self._fetch_definition, on_unreadable
        )
        deliveries = [*deliveries, *self._take_new_state(publisher)]
        readings = self._quantities.read_message(publisher, stored, deliveries)
        self.last_received[publisher] = asyncio.get_running_loop().time()
        return readings._replace(notices=[*unreadable, *readings.notices])

    def done(self, readings: TopicReadings) -> None:
        """Release the prefetch capacity of a message."""
        assert self._reader is not None
        self._reader.done(readings.entry.offset)

    async def close(self) -> None:
        if self._reader is not None:
            await self._reader.close()

    async def _read_current_state(self, publisher: str) -> TopicReadings:
        """Return the state of a publisher's sources before `first`, with the time of its last message there."""
        self.last_received[publisher] = asyncio.get_running_loop().time()
        last = await self._broker.last(
            log_of(self.topic), publisher_subjects(self.topic, publisher), up_to=self.first - 1
        )
        stored = StoredMessage(self.first - 1, "", b"", last.time if last is not None else 0.0)
        readings = self._quantities.read_message(publisher, stored, self._take_new_state(publisher))
        entry = readings.entry
        # No message was read, so there is no watermark.
        return readings._replace(entry=LogEntry(entry.feed, entry.offset, entry.readings))

    def _take_new_state(self, publisher: str) -> list[Event]:
        """Return the latest event of all sources if the decoder state is new: key frames add values without events."""
        decoder = self._log_decoder.open_decoder(publisher)
        state = decoder.decoder_state
        if decoder.state is not State.READY or state is None or state is self._delivered_states.get(publisher):
            return []
        self._delivered_states[publisher] = state
        return decoder.current_events()

    async def _fetch_definition(self, definition_id: bytes) -> bool:
        """Fetch a schema or dictionary. Retries while the broker is unavailable: skipping the message loses events."""
        while True:
            try:
                return await self.metadata.fetch_definition(definition_id)
            except BrokerUnavailable:
                await asyncio.sleep(RETRY_DELAY)


CHECK_INTERVAL = 5.0
"""seconds between two liveness checks"""
MISSED_HEARTBEATS = 2.0
"""heartbeat intervals until a registered publisher without messages counts as stopped, plus `UNREGISTERED_DELAY`"""
UNREGISTERED_DELAY = 5.0
"""seconds without a message after which a publisher that is no longer registered counts as stopped"""


class PublisherLiveness:
    """Detects publishers of a watch that left or sent nothing for longer than their heartbeat interval allows."""

    def __init__(self, broker: Broker, topics: Sequence[WatchedTopic]) -> None:
        self._broker = broker
        self._topics = topics
        self._stopped: set[WatchInput] = set()
        self._checked_at: float | None = None

    async def list_publishers(self, topic: WatchedTopic) -> set[str]:
        """Return the publishers of a topic that are registered or have sent a message."""
        now = asyncio.get_running_loop().time()
        for name in await self._registered(topic):
            topic.last_received.setdefault(name, now)
        return set(topic.last_received)

    async def find_stopped(self, now: float) -> list[tuple[WatchInput, float]]:
        """Return the publishers that stopped since the last check, with the seconds since their last message."""
        if self._checked_at is not None and now - self._checked_at < CHECK_INTERVAL:
            return []
        self._checked_at = now
        try:
            return [found for topic in self._topics for found in await self._find_stopped_in(topic, now)]
        except TransportClosed:
            raise
        except TransportError as problem:  # an unreachable broker does not mean that publishers stopped
            _log.debug("cannot check publishers: %s", problem)
            return []

    async def _find_stopped_in(self, topic: WatchedTopic, now: float) -> list[tuple[WatchInput, float]]:
        registered = await self._registered(topic)
        timeout = MISSED_HEARTBEATS * _heartbeat_interval(topic) + UNREGISTERED_DELAY
        found: list[tuple[WatchInput, float]] = []
        for publisher, received in topic.last_received.items():
            feed, silent = WatchInput(topic.topic, publisher), now - received
            is_registered = publisher in registered or not topic.metadata.managed
            if silent < (timeout if is_registered else UNREGISTERED_DELAY):
                self._stopped.discard(feed)
            elif feed not in self._stopped:
                self._stopped.add(feed)
                found.append((feed, silent))
        return found

    async def _registered(self, topic: WatchedTopic) -> set[str]:
        if not topic.metadata.managed:
            return set()
        return await publisher_names(await self._broker.bucket(REGISTRY), topic.topic)


def _heartbeat_interval(topic: WatchedTopic) -> float:
    document = topic.metadata.document
    return document.settings.max_silence if document is not None else MAX_SILENCE
