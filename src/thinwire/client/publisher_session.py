"""One incarnation of a publisher: its encoder, its outbox, and the tasks for requests and configurations."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

from thinwire.brokers.protocol import Broker, Listener
from thinwire.client.background_tasks import BackgroundTasks
from thinwire.client.event_rejection import PayloadLimit, SizeLimit, event_text
from thinwire.client.outbox import Outbox
from thinwire.client.publisher_dictionaries import PublisherDictionaries
from thinwire.client.publisher_identity import CLAIM
from thinwire.clock import Clock
from thinwire.codec import StreamConfig, StreamEncoder
from thinwire.errors import EventRejected, LocalFault, PayloadTooLarge, PeerFault, ThinwireError
from thinwire.schema.kind_conversion import kind_conversion
from thinwire.topics.dead_letters import DeadLetters
from thinwire.topics.names import request_all_subject, request_subject
from thinwire.topics.static_properties import Factoring
from thinwire.topics.topic_metadata import TopicMetadata
from thinwire.topics.topic_settings import ConfigDocument
from thinwire.wire import Request, read

MAX_POLL_INTERVAL = 0.25
"""seconds between two checks for due heartbeats and key frames"""
CLOSE_TIMEOUT = 10.0

_log = logging.getLogger("thinwire.client")


class PublisherSession:
    """One incarnation of a publisher.

    config: the publisher's own configuration, until the registry sends one
    document: the configuration of the topic's publishers; None before the registry's first one
    dictionaries: True, False, or None for the setting of the topic
    wanted: the topic has subscriptions, or retains its events; otherwise nothing is sent
    listeners: answer requests for key frames and claims of the name
    """

    def __init__(
        self,
        broker: Broker,
        clock: Clock,
        topic: TopicMetadata,
        outbox: Outbox,
        *,
        incarnation: int,
        config: StreamConfig,
        document: ConfigDocument | None,
        dictionaries: bool | None,
    ) -> None:
        name = outbox.publisher
        if document is not None:
            config = document.stream_config(topic.wire_schema)
        elif config.version == 0:
            config = topic.initial_config(config)
        self.topic = topic
        self.encoder = StreamEncoder(topic.wire_schema, config, name=name, incarnation=incarnation, now=clock.now())
        self.outbox = outbox
        self.wanted = document is None or document.wanted
        self.tasks = BackgroundTasks()
        self.dictionaries = PublisherDictionaries(
            topic, broker, clock, self.encoder, self.send, self.tasks, dictionaries
        )
        self.payload_limit = PayloadLimit(topic.schema, broker.max_payload)
        self.size_limit = SizeLimit(topic.schema, broker.max_payload)
        self.factoring = Factoring(topic.schema) if topic.has_static_properties else None
        self._kinds = kind_conversion(topic.schema)
        self._broker = broker
        self._clock = clock
        self._name = name
        self._dead_letters = DeadLetters(broker, name)
        self.listeners: list[Listener] = []
        self._settings = document or (topic.document.settings if topic.document is not None else None)
        self._request: Request | None = None

    async def start(self) -> None:
        """Register, send the first key frames, and start to answer requests."""
        await self.topic.put_publisher(self._name, self.encoder.incarnation, self._clock.now())
        self.send(self.encoder.start(self._clock.now()))
        self.outbox.start()
        for subject in (request_subject(self.topic.name, self._name), request_all_subject(self.topic.name)):
            self.listeners.append(await self._broker.listen(subject, self._on_request))
        self.tasks.start(self._poll(), f"publisher {self.topic.name} {self._name}")
        self.tasks.start(self._follow_configuration(), f"configuration {self.topic.name} {self._name}")
        self.dictionaries.update(self._settings is not None and self._settings.dictionaries)
        await self.outbox.wait_until_stored(CLOSE_TIMEOUT)

    async def publish(self, event: Mapping[str, Any] | bytes) -> None:
        """Encode an event and queue its frames. A rejected event is stored as a dead letter."""
        outbox = self.outbox
        if outbox.is_blocked:
            await outbox.wait_for_capacity()
        try:
            payload = self.payload_limit.payload_of(event) if self.payload_limit.applies else None
            if payload is not None:
                frames = self.encoder.send(payload, self._clock.now())
            else:
                values = cast(Mapping[str, Any], event)
                if self._kinds is not None:
                    values = self._kinds.to_base(values)
                if self.size_limit.is_needed:
                    self.size_limit.check(values)
                if self.factoring is not None:
                    values = await self.topic.store_facts(self.factoring, values)
                frames = self.encoder.publish(values, self._clock.now())
        except (EventRejected, PayloadTooLarge) as problem:
            await self._store_dead_letter(event, problem)
            raise
        if frames and self.wanted:
            outbox.put(frames)

    async def publish_batch(self, events: list[Mapping[str, Any] | bytes]) -> int:
        """Encode events, in one step if possible, and return how many were accepted."""
        if self.factoring is not None or self.payload_limit.applies:
            return await self._publish_each(events)
        outbox = self.outbox
        if outbox.is_blocked:
            await outbox.wait_for_capacity()
        now = self._clock.now()
        frames: list[bytes] = []
        rejected: list[tuple[Mapping[str, Any], LocalFault]] = []
        for event in cast(list[Mapping[str, Any]], events):
            try:
                values = event if self._kinds is None else self._kinds.to_base(event)
                self.size_limit.check(values)
                frames += self.encoder.publish(values, now)
            except (EventRejected, PayloadTooLarge) as problem:
                rejected.append((event, problem))
        self.send(frames)
        for event, reason in rejected:
            await self._store_dead_letter(event, reason)
        return len(events) - len(rejected)

    async def flush(self, timeout: float | None) -> None:
        """Wait until everything published is stored, suppressed events included."""
        if self.encoder.has_unsent_suppressed:
            self.send(self.encoder.heartbeat(self._clock.now()))
        await self.outbox.wait_until_stored(timeout)

    async def close(self, timeout: float) -> None:
        """Flush and unregister."""
        try:
            if not self.outbox.has_raised:
                await self.flush(timeout)
        finally:
            await self.abort()
            await self.topic.remove_publisher(self._name)

    async def abort(self) -> None:
        """Stop; frames that are not stored are dropped."""
        await self.tasks.close()
        for listener in self.listeners:
            await listener.close()
        await self.outbox.close()

    def send(self, frames: list[bytes]) -> None:
        if self.wanted:
            self.outbox.put(frames)

    async def _publish_each(self, events: list[Mapping[str, Any] | bytes]) -> int:
        accepted = 0
        for event in events:
            with suppress(EventRejected, PayloadTooLarge):
                await self.publish(event)
                accepted += 1
        return accepted

    async def _store_dead_letter(self, event: Any, problem: ThinwireError) -> None:
        text = event_text(event, self.topic.schema)
        await self._dead_letters.store(self.topic.name, reason=str(problem), error=type(problem).__name__, event=text)

    async def _on_request(self, subject: str, payload: bytes) -> bytes | None:
        if payload == CLAIM:
            return CLAIM
        try:
            self._request = Request.decode(read(payload).body)
        except PeerFault:
            _log.warning("%s: ignored an invalid request", self.topic.name)
            return None
        self._answer()
        return None

    def _answer(self) -> None:
        """Answer the last request. The encoder limits the rate: a request that is too early is answered later."""
        if self._request is not None and (frames := self.encoder.answer(self._request, self._clock.now())):
            self._request = None
            self.send(frames)

    async def _poll(self) -> None:
        """Send due heartbeats and key frames, and answer deferred requests."""
        while True:
            await asyncio.sleep(min(MAX_POLL_INTERVAL, self.encoder.config.max_silence / 4))
            now = self._clock.now()
            if self.encoder.is_due(now) and not self.outbox.is_blocked:
                self.send(self.encoder.poll(now))
            self._answer()

    async def _follow_configuration(self) -> None:
        async for config in self.topic.configurations():
            try:
                self._apply(config)
            except LocalFault as problem:
                _log.warning("%s: cannot apply configuration %d: %s", self.topic.name, config.version, problem)

    def _apply(self, config: ConfigDocument) -> None:
        """Apply a configuration. Suppressed events are sent before a pause, and key frames after it."""
        encoder, now = self.encoder, self._clock.now()
        resumes = config.wanted and not self.wanted
        if not config.wanted:
            self.send(encoder.heartbeat(now))
        self.wanted = config.wanted
        self.dictionaries.update(config.dictionaries)
        stream_config = config.stream_config(encoder.schema)
        if stream_config.version > encoder.config.version:
            self.send(encoder.reconfigure(stream_config, now))
        elif resumes:
            self.send(encoder.start(now))
