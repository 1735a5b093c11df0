"""What a publisher does about dictionaries: it packs with those that are announced, or trains for itself.

It uses the one whose expiry lies farthest ahead. While there is none, or none can be had, it goes on without: nothing
that is published ever waits for a dictionary.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from math import inf

from thinwire.brokers.protocol import Broker
from thinwire.clock import Clock
from thinwire.codec import StreamEncoder
from thinwire.codec.frame_encoder import MAX_SLOT
from thinwire.dictionaries import Dictionary
from thinwire.dictionaries.byte_account import ALONE
from thinwire.dictionaries.policies.policy_catalogue import policy
from thinwire.errors import PeerFault, RegistryError, TransportClosed, TransportError
from thinwire.topics.dictionary_documents import ActiveDictionaries, DictionaryReference, StoredDictionaries
from thinwire.topics.dictionary_retention import PublisherDictionaryStore
from thinwire.topics.dictionary_sampler import Sampler, Terms
from thinwire.topics.dictionary_store import Bodies, DictionaryCache
from thinwire.topics.names import dictionary_subject
from thinwire.topics.topic import TopicMetadata

REREAD = 300.0
"""seconds after which the document is read again although nothing was announced: words may get lost"""
RETRY = 1.0
PULSE = 0.25
"""seconds between two looks of a publisher that trains for itself"""
SAMPLED = 16_384
"""frames that wait for such a look, at most"""

_log = logging.getLogger("thinwire.client")


class DictionarySlots:
    """What a publisher has bound: one dictionary at a time, each new one to the next slot.

    say: takes the frames of a binding
    most: slots to go round, at most

    >>> from thinwire.schema import opaque
    >>> first, second = (Dictionary(said, "zlib", 6, 64) for said in (b"one two", b"three"))
    >>> link, said = StreamEncoder(opaque("notes"), compiled=False), []
    >>> slots = DictionarySlots(link, said.extend)
    >>> slots.use(first, 100); slots.use(first, 200); slots.use(second, 300); slots.use(first, 400)
    >>> slots.bound == first.hash, slots.slot, len(said)
    (True, 3, 4)
    """

    def __init__(self, link: StreamEncoder, say: Callable[[list[bytes]], None], most: int = MAX_SLOT) -> None:
        self.link = link
        self.say = say
        self.most = most
        self.version = 0
        self.bound = b""
        self.slot = 0
        self.expires = 0
        link.await_dictionaries()

    def choose(self, in_use: ActiveDictionaries, now: float) -> DictionaryReference | None:
        """The one to use after this word, None where that is for none: then the one in use is dropped. A word older
        than one that was followed counts for nothing."""
        if in_use.version < self.version:
            return None
        said = in_use.farthest(now)
        if said is None:
            self.drop()
            self.version = in_use.version
        return said

    def follow(self, in_use: ActiveDictionaries, said: DictionaryReference, dictionary: Dictionary) -> None:
        """Use the one that was chosen."""
        if in_use.version >= self.version:
            self.version = in_use.version
            self.use(dictionary, said.expires)

    def use(self, dictionary: Dictionary, expires: int) -> None:
        """Pack with it; nothing is said where that is so already."""
        if (dictionary.hash, expires) == (self.bound, self.expires):
            return
        before = self.slot
        if dictionary.hash != self.bound:
            self.slot = before % self.most + 1
        self.say(self.link.use(dictionary, self.slot, expires))
        if before and before != self.slot:
            self.link.drop(before)
        self.bound, self.expires = dictionary.hash, expires

    def drop(self) -> None:
        """Pack without."""
        if self.slot:
            self.link.drop(self.slot)
        self.bound, self.expires = b"", 0

    def end(self) -> None:
        """Pack without, and look forward to none."""
        self.drop()
        self.link.await_dictionaries(False)


class Announced:
    """Packs with the dictionaries of the topic, as they are announced; `run` it as a task, cancel that to end it.

    heard: bytes of announcements
    """

    def __init__(
        self, view: TopicMetadata, broker: Broker, clock: Clock, slots: DictionarySlots, terms: Terms | None = None
    ) -> None:
        self.heard = 0
        self._view = view
        self._broker = broker
        self._clock = clock
        self.slots = slots
        self._terms = terms or Terms()
        self._said: ActiveDictionaries | None = None
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                await self._follow()
            except TransportClosed:
                return
            except TransportError as problem:
                _log.info("%s: word of dictionaries cannot be heard now: %s", self._view.name, problem)
                await asyncio.sleep(RETRY)

    async def _follow(self) -> None:
        listener = await self._broker.listen(dictionary_subject(self._view.name), self._on_announcement)
        try:
            await self._use_all()
        finally:
            await listener.close()

    async def _use_all(self) -> None:
        while True:
            self._wake.clear()
            said, self._said = self._said, None
            try:
                await self._take(said or await self._view.dictionaries_in_use())
            except TransportClosed:
                raise
            except (TransportError, PeerFault) as problem:
                _log.info("%s: a dictionary cannot be had now: %s", self._view.name, problem)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._poll_interval()):
                    await self._wake.wait()

    def _poll_interval(self) -> float:
        """Seconds until it is asked again whether the one in use was prolonged without our hearing of it."""
        left = self.slots.expires - self._terms.latency - self._clock.now()
        return min(REREAD, max(left, self._terms.latency / 2)) if self.slots.bound else REREAD

    async def _take(self, in_use: ActiveDictionaries | None) -> None:
        said = self.slots.choose(in_use, self._clock.now()) if in_use is not None else None
        dictionary = await self._found(said) if said is not None else None
        if in_use is not None and said is not None and dictionary is not None:
            self.slots.follow(in_use, said, dictionary)

    async def _found(self, said: DictionaryReference) -> Dictionary | None:
        known = self._view.dictionary(said.name)
        if known is None and await self._view.learn(said.name):
            known = self._view.dictionary(said.name)
        return known

    async def _on_announcement(self, subject: str, payload: bytes) -> bytes | None:
        self.heard += len(payload)
        try:
            said = ActiveDictionaries.decode(payload)
        except RegistryError as problem:
            _log.warning("%s: an announcement that cannot be read was ignored: %s", self._view.name, problem)
            return None
        if self._said is None or said.version >= self._said.version:
            self._said = said
            self._wake.set()
        return None


class SelfTrained:
    """Trains on what the publisher itself says, where nobody looks after the dictionaries of its topic.

    pulse: seconds between two decisions; tidy: between two looks for what the store can do without
    """

    def __init__(
        self,
        topic: str,
        broker: Broker,
        clock: Clock,
        slots: DictionarySlots,
        pulse: float = PULSE,
        tidy: float = REREAD,
    ) -> None:
        self.heard = 0
        self.topic = topic
        self.slots = slots
        self._clock = clock
        self._pulse = pulse
        self._tidy = tidy
        self._frames: deque[bytes] = deque(maxlen=SAMPLED)
        self._known = DictionaryCache()
        self._bodies = Bodies(self._known.find)
        self._stored = PublisherDictionaryStore(broker, topic)
        self._sampler = Sampler(policy("ours", ALONE), ActiveDictionaries(topic), StoredDictionaries(topic))

    def note(self, frames: list[bytes]) -> None:
        """What is said now."""
        self._frames.extend(frames)

    async def run(self) -> None:
        """Until it is cancelled."""
        now = asyncio.get_running_loop().time
        tidied = -inf
        while True:
            try:
                if now() - tidied >= self._tidy:
                    tidied = now()
                    await self._stored.tidy(self._clock.now(), self._sampler.present)
                await self._look()
            except TransportClosed:
                return
            except (TransportError, RegistryError) as problem:
                _log.info("%s: dictionaries cannot be stored now: %s", self.topic, problem)
            await asyncio.sleep(self._pulse)

    async def _look(self) -> None:
        now = self._clock.now()
        while self._frames:
            self._sampler.offer(self._bodies.read("", self._frames.popleft()), 0, now)
        # training takes a while: what is published meanwhile must not wait
        action = await asyncio.to_thread(self._sampler.decide, now)
        if action is None:
            return
        said = action.in_use.farthest(now)
        dictionary = action.dictionary or self._sampler.present
        if said is not None and dictionary is not None:
            await self._stored.keep(said, dictionary, action.travelling)
            self._known.keep(dictionary)
        self._sampler.done(action)
        if said is None or dictionary is None:
            self.slots.drop()
        else:
            self.slots.use(dictionary, said.expires)
            self._bodies.know("", self.slots.slot, self.slots.bound)
