"""The log of one topic as a watch reads it: message by message, each with what it says of the watch's quantities.

Publishers that are gone: those that left, and those that have not been heard for longer than their heartbeats allow.

What they told stays true until somebody says otherwise; only their word that they are complete is not waited for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from thinwire.brokers.protocol import Broker, LogReader, Stored
from thinwire.clock import Clock
from thinwire.codec import Delivery, State
from thinwire.codec.decoder_state import DecoderState
from thinwire.errors import BrokerUnavailable, PeerFault, RegistryError, TransportClosed, TransportError
from thinwire.filters.composite import LogEntry, WatchInput
from thinwire.schema import Event
from thinwire.topics.log_decoder import KeyFrameRequests, LogDecoder, resolve_and_retry
from thinwire.topics.log_position import LogSelection
from thinwire.topics.log_seek import seek_decoders
from thinwire.topics.names import REGISTRY, log_of, publisher_in, publisher_subjects
from thinwire.topics.topic import TopicMetadata
from thinwire.topics.topic_documents import PublisherDocument, decode
from thinwire.topics.topic_settings import publisher_key
from thinwire.topics.watches.watch_documents import WatchNotice
from thinwire.topics.watches.watch_quantities import TopicQuantities, TopicReadings

NEARBY = 65_536
"""messages to read for a watch that begins now; beyond that publishers are asked for key frames"""
AHEAD = 256
"""messages read ahead"""
RETRY = 1.0


class TopicLog:
    """A reader of one topic's log.

    place: the offset of the first message it reads; heard: when each publisher was last heard, by this process's clock
    """

    def __init__(self, broker: Broker, clock: Clock, view: TopicMetadata, quantities: TopicQuantities) -> None:
        self.view = view
        self.topic = view.name
        self.place = 1
        self.heard: dict[str, float] = {}
        self._broker = broker
        self._clock = clock
        self._quantities = quantities
        self._requests = KeyFrameRequests(broker, view.name)
        self._log_decoder = LogDecoder(view.lookup, dictionaries=view.dictionary)
        self._stood: dict[str, DecoderState] = {}
        self._reader: LogReader | None = None

    async def begin(self, place: int, *, fresh: bool) -> list[TopicReadings]:
        """Go to a place; where every source stands before it. `fresh`: begin there although little may be known."""
        furthest = NEARBY if fresh else None
        track, learn = LogSelection(self.topic), self._learn
        self._log_decoder = await seek_decoders(
            self._broker, track, place, self._log_decoder, learn=learn, furthest=furthest
        )
        self._log_decoder.offset, self.place = place - 1, place
        self._reader = await self._broker.read(
            log_of(self.topic), first=place, subjects=[publisher_subjects(self.topic)], limit=AHEAD
        )
        if not self._log_decoder.links or any(self._log_decoder.lost()):
            await self._requests.request_all()
        return [await self._read_current_state(name) for name in sorted(self._log_decoder.links)]

    async def next(self, timeout: float) -> TopicReadings | None:
        """What the next message says; None when none came within so many seconds."""
        assert self._reader is not None
        stored = await self._reader.next(timeout)
        if stored is None:
            await self._requests.ask(self._log_decoder, self._clock.now())
            return None
        publisher, unread = publisher_in(stored.subject), list[WatchNotice]()
        found = await self._receive(stored, unread)
        told = self._quantities.read_message(publisher, stored, found, self._take_new_state(publisher))
        self.heard[publisher] = asyncio.get_running_loop().time()
        if any(self._log_decoder.lost()):
            await self._requests.ask(self._log_decoder, self._clock.now())
        return told._replace(notices=[*unread, *told.notices])

    def done(self, told: TopicReadings) -> None:
        """A message is worked off, or waits elsewhere, and makes room for another."""
        assert self._reader is not None
        self._reader.done(told.entry.offset)

    async def close(self) -> None:
        if self._reader is not None:
            await self._reader.close()

    async def _read_current_state(self, publisher: str) -> TopicReadings:
        """Where a publisher's sources stand before the place, by its last message there."""
        self.heard[publisher] = asyncio.get_running_loop().time()
        last = await self._broker.last(
            log_of(self.topic), publisher_subjects(self.topic, publisher), up_to=self.place - 1
        )
        stored = Stored(self.place - 1, "", b"", last.time if last is not None else 0.0)
        told = self._quantities.read_message(publisher, stored, (), self._take_new_state(publisher))
        return told._replace(entry=_without_mark(told))

    def _take_new_state(self, publisher: str) -> list[Event]:
        """Where all sources stand, once for every beginning of a link: key frames tell values without events."""
        link = self._log_decoder.link(publisher)
        if (
            link.state is not State.READY
            or link.decoder_state is None
            or link.decoder_state is self._stood.get(publisher)
        ):
            return []
        self._stood[publisher] = link.decoder_state
        return link.present()

    async def _receive(self, stored: Stored, unread: list[WatchNotice]) -> list[Delivery]:
        """What a message brings; a schema or a dictionary that is not known yet is asked for."""
        publisher, now = publisher_in(stored.subject), self._clock.now()

        def complain(fault: PeerFault) -> None:
            facts = {"offset": stored.offset, "reason": str(fault)}
            unread.append(WatchNotice("unreadable", self.topic, publisher, facts))

        try:
            return self._log_decoder.receive(stored, now)
        except PeerFault as fault:
            again = partial(self._log_decoder.pass_on, stored, now)
            return await resolve_and_retry(self._log_decoder.link(publisher), fault, again, self._learn, complain)

    async def _learn(self, name: bytes) -> bool:
        """Ask for what is not known, however long the broker is away: the message behind it cannot be passed over."""
        while True:
            try:
                return await self.view.learn(name)
            except BrokerUnavailable:
                await asyncio.sleep(RETRY)


def _without_mark(told: TopicReadings) -> LogEntry:
    """Nothing was read that could say how far the log is complete."""
    entry = told.entry
    return LogEntry(entry.feed, entry.offset, entry.readings)


LOOK = 5.0
"""seconds between two looks"""
HEARTBEATS = 2.0
"""that a publisher may leave out"""
LEAVING = 5.0
"""seconds in which the last words of one that has left are read"""
_ANY = "any"

_log = logging.getLogger("thinwire.watching")


class Vanishing:
    """Who is there of a watch's publishers."""

    def __init__(self, broker: Broker, logs: Sequence[TopicLog]) -> None:
        self._broker = broker
        self._logs = logs
        self._gone: set[WatchInput] = set()
        self._looked: float | None = None

    async def present(self, log: TopicLog) -> set[str]:
        """The publishers of a topic that are registered, or have been heard; from now on they are waited for."""
        now = asyncio.get_running_loop().time()
        for name in await self._registered(log):
            log.heard.setdefault(name, now)
        return set(log.heard)

    async def find_vanished(self, now: float) -> list[tuple[WatchInput, float]]:
        """Those that are gone since the last look, and for how many seconds."""
        if self._looked is not None and now - self._looked < LOOK:
            return []
        self._looked = now
        try:
            return [found for log in self._logs for found in await self._find_vanished_in(log, now)]
        except TransportClosed:
            raise
        except TransportError as problem:  # nobody is gone because the broker is away
            _log.debug("publishers cannot be looked for: %s", problem)
            return []

    async def _find_vanished_in(self, log: TopicLog, now: float) -> list[tuple[WatchInput, float]]:
        there = await self._registered(log)
        patience = HEARTBEATS * _max_silence(log) + LEAVING
        found: list[tuple[WatchInput, float]] = []
        for publisher, heard in log.heard.items():
            feed, quiet = WatchInput(log.topic, publisher), now - heard
            if quiet < (patience if publisher in there or not log.view.managed else LEAVING):
                self._gone.discard(feed)
            elif feed not in self._gone:
                self._gone.add(feed)
                found.append((feed, quiet))
        return found

    async def _registered(self, log: TopicLog) -> set[str]:
        if not log.view.managed:
            return set()
        bucket = await self._broker.bucket(REGISTRY)
        names: set[str] = set()
        for entry in await bucket.entries(publisher_key(log.topic, _ANY).removesuffix(_ANY) + "*"):
            try:
                document = decode(entry.key, entry.value) if entry.value is not None else None
            except RegistryError:
                continue
            if isinstance(document, PublisherDocument):
                names.add(document.name)
        return names


def _max_silence(log: TopicLog) -> float:
    return log.view.document.settings.max_silence if log.view.document is not None else 30.0
