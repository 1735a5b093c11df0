"""One topic being translated: read, translate, write, until nobody needs it or another translator does it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from importlib.util import find_spec

from thinwire.brokers.protocol import Broker, Stored
from thinwire.clock import Clock
from thinwire.codec import Delivery
from thinwire.codec.kernel_warmup import warm_up
from thinwire.errors import PeerFault
from thinwire.services.translator.channel_lifecycle import ChannelLifecycle
from thinwire.services.translator.checkpoint_writer import Checkpoints
from thinwire.services.translator.subscription_groups import ServingDecision
from thinwire.services.translator.translation import Translation
from thinwire.services.translator.translator_recovery import resume
from thinwire.topics.leases import Lease
from thinwire.topics.log_decoder import KeyFrameRequests, resolve_and_retry
from thinwire.topics.names import channel_ask_subject, log_of, publisher_in, publisher_subjects, translator_subject

MAX_BATCH = 65_536
"""bytes of a message, at most"""
MAX_WAITING = 4 << 20
"""bytes of memory that frames need which wait to be stored, before reading stops"""
PULSE = 0.5
"""seconds between two looks at lost links and checkpoints"""
QUIET = 60.0
"""seconds without a word, heartbeats included, after which a publisher counts as gone"""
TICK = 0.25
"""seconds after which the classes are looked at although nothing else was asked"""


@dataclass(frozen=True)
class TranslationSettings:
    """How a topic is worked on: see `TranslatorService`."""

    linger: float = 0.005
    checkpoint_messages: int = 20_000
    checkpoint_seconds: float = 60.0
    grace: float = 10.0


class TopicTranslation:
    """The translation of one topic under one lease; `run` it once.

    stored: up to this message of the log, everything that channels tell is stored
    """

    _translation: Translation

    def __init__(
        self,
        broker: Broker,
        clock: Clock,
        lease: Lease,
        pace: TranslationSettings,
        asked: Mapping[str, ServingDecision],
    ) -> None:
        self.topic = lease.topic
        self.lease = lease
        self.clock = clock
        self.pace = pace
        self.stored = 0
        self._broker = broker
        self._asked = asked
        self._requests = KeyFrameRequests(broker, self.topic)
        self._lock = asyncio.Lock()
        self._some, self._room, self._wake = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._room.set()
        self._stopping = self._ending = False

    @property
    def translation(self) -> Translation | None:
        """What is done; None before the predecessor's work is taken up."""
        return getattr(self, "_translation", None)

    @property
    def announced_count(self) -> int:
        """How many classes have a channel, and know it."""
        return self._serving.announced_count if self.translation is not None else 0

    def ask(self, asked: Mapping[str, ServingDecision]) -> None:
        """What is asked now."""
        if asked is not self._asked and asked != self._asked:
            self._asked = asked
            self._wake.set()

    def stop(self) -> None:
        """End at a clean place: everything read is stored."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Until nobody needs it, or it is stopped.

        Raises `Superseded` where another translator writes, `UnknownLog` where the topic has no log any more.
        """
        await asyncio.to_thread(_warm_up)
        resumed = await resume(self._broker, self.lease, self._asked)
        self._view, self._writer = resumed.view, resumed.writer
        self._translation = resumed.translation
        self._serving = ChannelLifecycle(self._broker, self.lease, resumed, self._lock, self.pace.grace)
        self._checkpoints = Checkpoints(
            self._broker,
            resumed.store,
            self.topic,
            epoch=self.lease.epoch,
            messages=self.pace.checkpoint_messages,
            seconds=self.pace.checkpoint_seconds,
        )
        log_decoder = resumed.translation.log_decoder
        if not log_decoder.links or any(log_decoder.lost()):
            await self._requests.request_all()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._checkpoints.close)
            for subject, handler in (
                (channel_ask_subject(self.topic), self._answer),
                (translator_subject(self.topic), self._present),
            ):
                stack.push_async_callback((await self._broker.listen(subject, handler)).close)
            await self._work(resumed.first)

    async def _work(self, first: int) -> None:
        reading, writing, following = tasks = [
            asyncio.create_task(work, name=f"translator {self.topic} {name}")
            for name, work in (("reads", self._read(first)), ("writes", self._write()), ("serves", self._follow()))
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if following.done() and following.exception() is None and not writing.done():
                reading.cancel()
                await asyncio.wait([reading])
                self._ending = True
                self._some.set()
                await writing  # which ends when everything is stored
            for task in tasks:
                if task.done() and not task.cancelled():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self) -> None:
        """Serve the classes that are asked for; ends when there is nothing left to do."""
        while not self._stopping:
            self._wake.clear()
            await self._serving.follow(self._asked)
            self._some.set()
            if self._serving.idle:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK):
                    await self._wake.wait()

    async def _read(self, first: int) -> None:
        subjects = [publisher_subjects(self.topic)]
        reader = await self._broker.read(log_of(self.topic), first=first, subjects=subjects)
        loop, looked = asyncio.get_running_loop(), 0.0
        heard: dict[str, float] = {}
        try:
            while True:
                stored = await reader.next(PULSE)
                if stored is not None:
                    async with self._lock:
                        await self._receive(stored)
                    reader.done(stored.offset)
                    heard[publisher_in(stored.subject)] = loop.time()
                    await asyncio.sleep(0)  # while messages wait nobody else would come to word, leases among them
                    await self._room.wait()
                if loop.time() - looked >= PULSE:
                    looked = loop.time()
                    await self._requests.ask(self._translation.log_decoder, self.clock.now())
                    await self._send_suppressed(heard, looked - QUIET)
        finally:
            await reader.close()

    async def _send_suppressed(self, heard: dict[str, float], before: float) -> None:
        """A publisher that is gone tells no heartbeat any more: its classes learn what was passed over before."""
        for publisher in [name for name, at in heard.items() if at <= before]:
            del heard[publisher]
            async with self._lock:
                self._translation.send_suppressed(publisher=publisher)
            self._some.set()

    async def _receive(self, stored: Stored) -> None:
        """One message; a schema or a dictionary that is not known yet is asked for."""
        try:
            self._translation.receive(stored)
        except PeerFault as fault:
            link = self._translation.log_decoder.link(publisher_in(stored.subject))
            await resolve_and_retry(link, fault, lambda: self._again(stored), self._view.learn, self._complain)
        self._checkpoints.note()
        self._some.set()
        if self._translation.waiting > MAX_WAITING:
            self._room.clear()

    def _again(self, stored: Stored) -> list[Delivery]:
        self._translation.receive(stored)
        return []

    def _complain(self, fault: PeerFault) -> None:
        self._translation.problems.note(str(fault))

    async def _write(self) -> None:
        """Store what the translation brings, round by round; frames gather for a moment, and while others travel."""
        while True:
            await self._some.wait()
            if self.pace.linger and not self._ending:
                await asyncio.sleep(self.pace.linger)
            await self._write_round()
            if self._ending and not self._some.is_set():
                return

    async def _write_round(self) -> None:
        checkpoints, translation = self._checkpoints, self._translation
        async with self._lock:
            self._some.clear()
            copying = checkpoints.is_due() and not self._ending
            if copying:
                checkpoints.begin(translation, self._offset, translation.time)
            messages = translation.take(min(MAX_BATCH, self._broker.capabilities.max_payload))
            offset = self._offset
            beginning = self._serving.cut()
            if copying:
                await asyncio.to_thread(checkpoints.copy, translation)
        self._room.set()
        await self._writer.write(messages)
        self.stored = offset
        if copying:
            checkpoints.stored(self._writer)
            self._some.set()  # there may be more to copy
        for one in beginning:
            one.cut = True
            self._wake.set()

    @property
    def _offset(self) -> int:
        """The last message worked off."""
        return self._translation.log_decoder.offset or 0

    async def _answer(self, subject: str, payload: bytes) -> bytes | None:
        """A subscriber that lost its way in a channel asks for key frames."""
        with suppress(UnicodeDecodeError):
            async with self._lock:
                self._translation.answer(subject.rpartition(".")[2], payload.decode(), self.clock.now())
            self._some.set()
        return None

    async def _present(self, subject: str, payload: bytes) -> bytes | None:
        """Who translates the topic, how far it has read, and up to where everything it told is stored."""
        who = {"name": self.lease.document.holder, "epoch": self.lease.epoch}
        return json.dumps({**who, "offset": self._offset, "stored": self.stored}).encode()


def _warm_up() -> None:
    """Compile what the translation runs, while the event loop is free for leases."""
    warm_up()
    if find_spec("numba") is not None:
        from thinwire.services.translator.hold_group import warm_up_holding

        warm_up_holding()
