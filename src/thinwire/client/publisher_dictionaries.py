"""Dictionaries of a publisher: it packs with the one that the dictionary trainer announces with the latest expiry.

Publishing never waits for a dictionary: without one, or if it cannot be fetched, frames are packed without.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from thinwire.brokers.protocol import Broker
from thinwire.client.background_tasks import BackgroundTasks
from thinwire.clock import Clock
from thinwire.codec import StreamEncoder
from thinwire.codec.dictionary_bindings import MAX_SLOT
from thinwire.dictionaries import Dictionary
from thinwire.errors import PeerFault, RegistryError, TransportClosed, TransportError
from thinwire.topics.dictionary_documents import ActiveDictionaries
from thinwire.topics.dictionary_sampler import DictionaryLifetimes
from thinwire.topics.names import dictionary_subject
from thinwire.topics.topic_metadata import TopicMetadata

REREAD_INTERVAL = 300.0
"""seconds after which the document is read again without an announcement: announcements may get lost"""
RETRY = 1.0

_log = logging.getLogger("thinwire.client")


class DictionarySlots:
    """The dictionary that a publisher packs with: one at a time, each new one under the next slot.

    send: called with the frames of a binding
    version: of the last announcement that was applied
    bound, expires: hash and expiry of the dictionary in use; slot: of the last one

    >>> from thinwire.schema import opaque
    >>> first, second = (Dictionary(content, "zlib", 6, 64) for content in (b"one two", b"three"))
    >>> encoder, frames = StreamEncoder(opaque("notes"), compiled=False), []
    >>> slots = DictionarySlots(encoder, frames.extend)
    >>> slots.use(first, 100); slots.use(first, 200); slots.use(second, 300); slots.use(first, 400)
    >>> slots.bound == first.hash, slots.slot, len(frames)
    (True, 3, 4)
    """

    def __init__(self, encoder: StreamEncoder, send: Callable[[list[bytes]], None]) -> None:
        self.encoder = encoder
        self.send = send
        self.version = 0
        self.bound = b""
        self.slot = 0
        self.expires = 0
        encoder.await_dictionaries()

    def use(self, dictionary: Dictionary, expires: int) -> None:
        """Pack with a dictionary until it expires."""
        if (dictionary.hash, expires) == (self.bound, self.expires):
            return
        before = self.slot
        if dictionary.hash != self.bound:
            self.slot = before % MAX_SLOT + 1
        self.send(self.encoder.use(dictionary, self.slot, expires))
        if before and before != self.slot:
            self.encoder.drop(before)
        self.bound, self.expires = dictionary.hash, expires

    def drop(self) -> None:
        """Pack without a dictionary."""
        if self.slot:
            self.encoder.drop(self.slot)
        self.bound, self.expires = b"", 0

    def close(self) -> None:
        """Pack without a dictionary, and do not wait for one."""
        self.drop()
        self.encoder.await_dictionaries(False)


class PublisherDictionaries:
    """Use of dictionaries by one publisher. The settings of the topic switch it on and off.

    wanted: the publisher's own setting, which has precedence; None to use the topic's
    slots: the dictionary in use; None while dictionaries are off
    """

    def __init__(
        self,
        topic: TopicMetadata,
        broker: Broker,
        clock: Clock,
        encoder: StreamEncoder,
        send: Callable[[list[bytes]], None],
        tasks: BackgroundTasks,
        wanted: bool | None,
    ) -> None:
        self.slots: DictionarySlots | None = None
        self._topic = topic
        self._broker = broker
        self._clock = clock
        self._encoder = encoder
        self._send = send
        self._tasks = tasks
        self._wanted = wanted
        self._latency = DictionaryLifetimes().latency
        self._announced_bytes = 0
        self._announced: ActiveDictionaries | None = None
        self._wake_up = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def current(self) -> bytes:
        """The hash of the dictionary in use; empty if there is none."""
        return self.slots.bound if self.slots is not None and self.slots.expires > self._clock.now() else b""

    @property
    def received_bytes(self) -> int:
        """The size of fetched dictionaries and announcements."""
        return self._topic.dictionary_bytes + self._announced_bytes

    def update(self, setting: bool) -> None:
        """Apply the setting of the topic. Dictionaries need a registered topic: a service trains them."""
        wanted = self._topic.managed and (setting if self._wanted is None else self._wanted)
        if wanted and self.slots is None:
            self.slots, self._announced = DictionarySlots(self._encoder, self._send), None
            self._task = self._tasks.start(self._run(self.slots), f"dictionaries {self._topic.name}")
        elif not wanted and self.slots is not None and self._task is not None:
            self._task.cancel()
            self.slots.close()
            self.slots = self._task = None

    async def _run(self, slots: DictionarySlots) -> None:
        """Apply the announcements of the topic's dictionaries until cancelled."""
        while True:
            try:
                listener = await self._broker.listen(dictionary_subject(self._topic.name), self._on_announcement)
                try:
                    await self._apply_all(slots)
                finally:
                    await listener.close()
            except TransportClosed:
                return
            except TransportError as problem:
                _log.info("%s: cannot follow dictionaries: %s", self._topic.name, problem)
                await asyncio.sleep(RETRY)

    async def _apply_all(self, slots: DictionarySlots) -> None:
        while True:
            self._wake_up.clear()
            announced, self._announced = self._announced, None
            try:
                await self._apply(slots, announced or await self._topic.active_dictionaries())
            except TransportClosed:
                raise
            except (TransportError, PeerFault) as problem:
                _log.info("%s: cannot fetch a dictionary: %s", self._topic.name, problem)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._poll_interval(slots)):
                    await self._wake_up.wait()

    def _poll_interval(self, slots: DictionarySlots) -> float:
        """Return the seconds until the document is read again: before the current dictionary expires."""
        left = slots.expires - self._latency - self._clock.now()
        return min(REREAD_INTERVAL, max(left, self._latency / 2)) if slots.bound else REREAD_INTERVAL

    async def _apply(self, slots: DictionarySlots, active: ActiveDictionaries | None) -> None:
        """Use the dictionary of an announcement, unless it is older than the last one applied."""
        if active is None or active.version < slots.version:
            return
        reference = active.last_to_expire(self._clock.now())
        if reference is None:
            slots.drop()
        else:
            dictionary = self._topic.dictionary(reference.hash_bytes)
            if dictionary is None and await self._topic.fetch_definition(reference.hash_bytes):
                dictionary = self._topic.dictionary(reference.hash_bytes)
            if dictionary is None:
                return
            slots.use(dictionary, reference.expires)
        slots.version = active.version

    async def _on_announcement(self, subject: str, payload: bytes) -> bytes | None:
        self._announced_bytes += len(payload)
        try:
            announced = ActiveDictionaries.decode(payload)
        except RegistryError as problem:
            _log.warning("%s: ignored an invalid announcement: %s", self._topic.name, problem)
            return None
        if self._announced is None or announced.version >= self._announced.version:
            self._announced = announced
            self._wake_up.set()
        return None
