"""The translation of one topic under a lease: three tasks read the log, write channels, and open and close classes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from importlib.util import find_spec

from thinwire.brokers.protocol import Broker, StoredMessage
from thinwire.clock import Clock
from thinwire.codec import Delivery
from thinwire.codec.kernel_warmup import warm_up
from thinwire.errors import PeerFault
from thinwire.services.translator.channel_lifecycle import ChannelLifecycle
from thinwire.services.translator.channel_plan import ServingDecision
from thinwire.services.translator.checkpoint_writer import CheckpointWriter
from thinwire.services.translator.translation import Translation
from thinwire.services.translator.translator_recovery import resume
from thinwire.topics.key_frame_requests import KeyFrameRequests
from thinwire.topics.leases import Lease
from thinwire.topics.log_decoder import resolve_and_retry
from thinwire.topics.names import channel_request_subject, log_of, publisher_in, publisher_subjects, translator_subject

MAX_BATCH = 65_536
"""bytes of a channel message"""
MAX_PENDING = 4 << 20
"""bytes of buffered frames above which reading pauses"""
POLL_INTERVAL = 0.5
"""seconds between two checks for lost streams and silent publishers"""
SILENT_AFTER = 60.0
"""seconds without a message, heartbeats included, after which a publisher counts as stopped"""
CHECK_INTERVAL = 0.25
"""seconds between two checks of the classes without a change"""


@dataclass(frozen=True)
class TranslationSettings:
    """Settings of a translation; see `TranslatorService`."""

    linger: float
    checkpoint_messages: int
    checkpoint_seconds: float
    grace: float


class TopicTranslation:
    """Translates one topic. `run` is called once.

    stored: log offset up to which all channel messages are stored
    """

    _translation: Translation

    def __init__(
        self,
        broker: Broker,
        clock: Clock,
        lease: Lease,
        settings: TranslationSettings,
        decisions: Mapping[str, ServingDecision],
    ) -> None:
        self.topic = lease.topic
        self.lease = lease
        self.clock = clock
        self.settings = settings
        self.stored = 0
        self._broker = broker
        self._decisions = decisions
        self._max_message = min(MAX_BATCH, broker.max_payload)
        self._requests = KeyFrameRequests(broker, self.topic)
        self._lock = asyncio.Lock()
        self._has_output, self._has_capacity, self._classes_changed = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._has_capacity.set()
        self._stopping = self._draining = False

    @property
    def translation(self) -> Translation | None:
        """The translation; None before it is restored."""
        return getattr(self, "_translation", None)

    @property
    def announced_count(self) -> int:
        """Number of classes whose document states that they have a channel."""
        return self._lifecycle.announced_count if self.translation is not None else 0

    def update_decisions(self, decisions: Mapping[str, ServingDecision]) -> None:
        """Set how the classes are to be served."""
        if decisions is not self._decisions and decisions != self._decisions:
            self._decisions = decisions
            self._classes_changed.set()

    def stop(self) -> None:
        """End `run` after everything that was read is stored."""
        self._stopping = True
        self._classes_changed.set()

    async def run(self) -> None:
        """Translate until no class needs a channel or `stop` is called.

        Raises `Superseded` if another translator has written, `UnknownLog` if the topic has no log.
        """
        await asyncio.to_thread(_warm_up)
        resumed = await resume(self._broker, self.lease, self._decisions)
        self._metadata, self._writer = resumed.metadata, resumed.writer
        self._translation = resumed.translation
        self._lifecycle = ChannelLifecycle(self._broker, self.lease, resumed, self._lock, self.settings.grace)
        self._checkpoints = CheckpointWriter(
            self._broker,
            resumed.checkpoints,
            self.topic,
            epoch=self.lease.epoch,
            messages=self.settings.checkpoint_messages,
            seconds=self.settings.checkpoint_seconds,
            offset=resumed.first - 1,
        )
        log_decoder = resumed.translation.log_decoder
        if not log_decoder.decoders or any(log_decoder.waiting()):
            await self._requests.request_all()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._checkpoints.close)
            for subject, handler in (
                (channel_request_subject(self.topic), self._handle_key_frame_request),
                (translator_subject(self.topic), self._answer_status),
            ):
                stack.push_async_callback((await self._broker.listen(subject, handler)).close)
            await self._run_tasks(resumed.first)

    async def _run_tasks(self, first: int) -> None:
        reading, writing, serving = tasks = [
            asyncio.create_task(work, name=f"translator {self.topic} {name}")
            for name, work in (("reads", self._read(first)), ("writes", self._write()), ("serves", self._serve()))
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if serving.done() and serving.exception() is None and not writing.done():
                reading.cancel()
                await asyncio.wait([reading])
                self._draining = True
                self._has_output.set()
                await writing  # ends when everything is stored
            for task in tasks:
                if task.done() and not task.cancelled():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self) -> None:
        """Open and close classes until stopped or no class needs a channel."""
        while not self._stopping:
            self._classes_changed.clear()
            await self._lifecycle.apply(self._decisions)
            self._has_output.set()
            if self._lifecycle.is_idle:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_INTERVAL):
                    await self._classes_changed.wait()

    async def _read(self, first: int) -> None:
        subjects = [publisher_subjects(self.topic)]
        reader = await self._broker.read(log_of(self.topic), first=first, subjects=subjects)
        loop, checked = asyncio.get_running_loop(), 0.0
        last_received: dict[str, float] = {}
        try:
            while True:
                stored = await reader.next(POLL_INTERVAL)
                if stored is not None:
                    async with self._lock:
                        await self._receive(stored)
                    reader.done(stored.offset)
                    last_received[publisher_in(stored.subject)] = loop.time()
                    await asyncio.sleep(0)  # a backlog must not delay other tasks, such as the renewal of leases
                    await self._has_capacity.wait()
                if loop.time() - checked >= POLL_INTERVAL:
                    checked = loop.time()
                    if any(self._translation.log_decoder.waiting()):
                        await self._requests.request_missing(self._translation.log_decoder, self.clock.now())
                    await self._send_suppressed(last_received, checked - SILENT_AFTER)
        finally:
            await reader.close()

    async def _send_suppressed(self, last_received: dict[str, float], before: float) -> None:
        """Report the suppressed events of publishers that stopped; no heartbeat of theirs does it any more."""
        for publisher in [name for name, received in last_received.items() if received <= before]:
            del last_received[publisher]
            async with self._lock:
                self._translation.send_suppressed(publisher=publisher)
            self._has_output.set()

    async def _receive(self, stored: StoredMessage) -> None:
        """Process one message; fetch a schema or dictionary that is not cached."""
        try:
            self._translation.receive(stored)
        except PeerFault as fault:
            decoder = self._translation.log_decoder.open_decoder(publisher_in(stored.subject))
            problems, fetch = self._translation.problems, self._metadata.fetch_definition
            await resolve_and_retry(
                decoder, fault, lambda: self._retry(stored), fetch, lambda one: problems.add(str(one))
            )
        self._has_output.set()
        if self._translation.pending_bytes > MAX_PENDING:
            self._has_capacity.clear()

    def _retry(self, stored: StoredMessage) -> list[Delivery]:
        self._translation.receive(stored)
        return []

    async def _write(self) -> None:
        """Store channel messages in rounds. Frames are collected for `linger` seconds and during the previous round."""
        while True:
            await self._has_output.wait()
            if self.settings.linger and not self._draining:
                await asyncio.sleep(self.settings.linger)
            await self._write_round()
            if self._draining and not self._has_output.is_set():
                return

    async def _write_round(self) -> None:
        checkpoints, translation = self._checkpoints, self._translation
        async with self._lock:
            self._has_output.clear()
            offset = translation.log_decoder.offset or 0
            is_copying = not self._draining and checkpoints.is_due(offset)
            if is_copying:
                checkpoints.select_portion(translation, offset, translation.time)
            messages = translation.take_messages(self._max_message)
            starting = [one for one in self._lifecycle.starting.values() if not one.is_stored]
            if is_copying:
                await asyncio.to_thread(checkpoints.copy, translation)
        self._has_capacity.set()
        await self._writer.write(messages)
        self.stored = offset
        if is_copying:
            checkpoints.confirm(self._writer)
            self._has_output.set()  # there may be another portion to copy
        for one in starting:
            one.is_stored = True
            self._classes_changed.set()

    async def _handle_key_frame_request(self, subject: str, payload: bytes) -> bytes | None:
        """Send key frames of a class for the publisher in the payload; requested by a subscriber after a loss."""
        with suppress(UnicodeDecodeError):
            async with self._lock:
                self._translation.request_key_frames(subject.rpartition(".")[2], payload.decode(), self.clock.now())
            self._has_output.set()
        return None

    async def _answer_status(self, subject: str, payload: bytes) -> bytes | None:
        """Answer with the translator's name and epoch, the last processed offset and the last stored one.

        A request can state a channel by class and `since`. The last stored offset is 0 if this channel is not open: a
        closed channel does not contain everything up to the offset.
        """
        holder = {"name": self.lease.document.holder, "epoch": self.lease.epoch}
        offset = self._translation.log_decoder.offset or 0
        stored = self.stored if not payload or self._is_open(payload) else 0
        return json.dumps({**holder, "offset": offset, "stored": stored}).encode()

    def _is_open(self, request: bytes) -> bool:
        """Report whether the channel that a request states is open."""
        try:
            channel = json.loads(request)
            return self._lifecycle.is_open(channel["class"], channel["since"])
        except (ValueError, KeyError, TypeError):
            return False


def _warm_up() -> None:
    """Compile the kernels of the translation before it starts; runs in a thread so that leases are renewed."""
    warm_up()
    if find_spec("numba") is not None:
        from thinwire.services.translator.hold_group import warm_up_hold_group

        warm_up_hold_group()
