"""A topic as its publisher sees it: events in, and the certainty that they are stored."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from itertools import islice
from types import TracebackType
from typing import Any, cast

from thinwire.brokers.protocol import Broker, Listener
from thinwire.client.event_rejection import DeadLetters, PayloadLimit, SizeLimit, shown
from thinwire.client.outbox import Outbox
from thinwire.client.publisher_dictionaries import Announced, DictionarySlots, SelfTrained
from thinwire.client.publisher_identity import CLAIM, LastMessage, claim, read_last_events
from thinwire.clock import Clock
from thinwire.codec import Counts, StreamConfig, StreamEncoder
from thinwire.codec.kernel_warmup import warm_up
from thinwire.dictionaries import Dictionary
from thinwire.errors import EventRejected, LocalFault, PayloadTooLarge, PeerFault, TransportClosed
from thinwire.schema import Event
from thinwire.topics.names import ask_subject, call_subject
from thinwire.topics.static_properties import Factoring
from thinwire.topics.topic import TopicMetadata
from thinwire.topics.topic_settings import ConfigDocument
from thinwire.wire import Request, read

MAX_PENDING = 8 << 20
AT_ONCE = 256
"""events published without giving way to anybody else"""
CLOSE_PATIENCE = 10.0
_PACE = 0.25
"""seconds between two looks at what is due, at most"""

_log = logging.getLogger("thinwire.client")


class Publisher:
    """Publishes events of one topic under one name. Use it with `async with`.

    linger: seconds in which frames gather into one message; max_batch: bytes of such a message, at most
    max_pending: bytes that may wait for the broker before `publish` waits too
    recover: read what an earlier life under this name has told, into `told`
    dictionaries: pack with those of the topic; None: as the topic's setting says. True on a topic that no registry
        knows: train on what is said here, and pack with that

    told: for each source the last event that is in the log, where `recover` was asked for: go on after it
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
        linger: float = 0.005,
        max_batch: int = 65_536,
        max_pending: int = MAX_PENDING,
        recover: bool = False,
        dictionaries: bool | None = None,
    ) -> None:
        self.name = name
        self.topic = topic
        self.told: dict[tuple[Any, ...], Event] = {}
        self.wanted = True
        self._broker = broker
        self._find_topic = find_topic
        self._clock = clock
        self._config = config
        self._recover = recover
        self._dictionaries = dictionaries
        self._packing: tuple[Announced | SelfTrained, asyncio.Task[None]] | None = None
        self._sampled: SelfTrained | None = None
        self._batching = {"linger": linger, "max_batch": max_batch, "max_pending": max_pending}
        self._unsent: Request | None = None
        self._factoring: Factoring | None = None
        self._link: StreamEncoder | None = None
        self._outbox: Outbox | None = None
        self._listeners: list[Listener] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Publisher:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def counts(self) -> Counts:
        """Events, frames and bytes so far."""
        return self._opened()[0].counts

    @property
    def link(self) -> StreamEncoder:
        """The publishing end of the link."""
        return self._opened()[0]

    @property
    def messages(self) -> int:
        """Messages stored so far."""
        return self._opened()[1].messages

    @property
    def dictionary(self) -> bytes:
        """The hash of the dictionary that it packs with; empty where there is none."""
        slots = self._packing[0].slots if self._packing is not None else None
        return slots.bound if slots is not None and slots.expires > self._clock.now() else b""

    @property
    def dictionary_bytes(self) -> int:
        """Bytes of dictionaries that came here, and of word of them."""
        return self._view.dictionary_bytes + (self._packing[0].heard if self._packing is not None else 0)

    async def open(self) -> None:
        """Take the name, find out what it said before, and begin a new life under it."""
        if self._link is not None:
            return
        try:
            await self._open()
        except BaseException:
            await self._abandon()
            raise

    async def _open(self) -> None:
        self._view = await self._find_topic()
        await asyncio.to_thread(warm_up)
        self._dead = DeadLetters(self._broker, self._view.schema, self.name)
        max_payload = self._broker.capabilities.max_payload
        self._sizes = SizeLimit(self._view.schema, max_payload)
        self._payloads = PayloadLimit(self._view.schema, max_payload)
        await self._view.open_log()
        before = await claim(self._broker, self.topic, self.name)
        if self._recover:
            self.told = await read_last_events(self._broker, self._view, self.name)
        config = await self._view.configuration()
        if config is not None:
            self.wanted = config.wanted
            self._config = config.link_config(self._view.travelling)
        elif self._config.version == 0:
            self._config = self._view.settled(self._config)
        link = self._link = self._new_life(before)
        await self._view.publisher_starts(self.name, link.incarnation, self._clock.now())
        self._send_frames(link.start(self._clock.now()))
        outbox = self._opened()[1]
        outbox.start()
        self._listeners = [
            await self._broker.listen(ask_subject(self.topic, self.name), self._on_request),
            await self._broker.listen(call_subject(self.topic), self._on_request),
        ]
        self._tasks = [asyncio.create_task(self._keep_time()), asyncio.create_task(self._follow_configuration())]
        document = self._view.document
        self._pack(config.dictionaries if config is not None else bool(document and document.settings.dictionaries))
        await outbox.drained(CLOSE_PATIENCE)

    async def publish(self, event: Mapping[str, Any] | bytes) -> None:
        """Publish an event; waits only where the broker does not keep up. A bad one raises EventRejected and is kept
        with the reason as a dead letter; the stream goes on without it. On a topic without a schema events are bytes.
        """
        link, outbox = self._opened()
        if outbox.failure is not None or outbox.full:
            await outbox.room()
        try:
            payload = self._payloads.of(event) if self._payloads.serves else None
            if payload is not None:
                frames = link.send(payload, self._clock.now())
            else:
                told = cast(Mapping[str, Any], event)
                self._sizes.check(told)
                if self._factoring is not None:
                    told = await self._view.store_facts(self._factoring, told)
                frames = link.publish(told, self._clock.now())
        except (EventRejected, PayloadTooLarge) as problem:
            await self._dead.keep(shown(event), problem)
            raise
        if frames and self.wanted:
            outbox.put(frames)
            if self._sampled is not None:
                self._sampled.note(frames)

    async def use(self, dictionary: Dictionary, slot: int, expires: float = 0) -> None:
        """Store a dictionary, then pack with it from here on: see `StreamEncoder.use`."""
        await self._view.store_dictionary(dictionary)
        self._send_frames(self.link.use(dictionary, slot, expires))

    def drop(self, slot: int) -> None:
        """Pack no more with the dictionary of this slot."""
        self.link.drop(slot)

    async def publish_all(self, events: Iterable[Mapping[str, Any] | bytes]) -> int:
        """Publish several events, faster than one by one; refused ones become dead letters. How many were taken."""
        taken = 0
        remaining = iter(events)
        while some := list(islice(remaining, AT_ONCE)):
            if self._factoring is not None or self._payloads.serves:
                taken += await self._publish_singly(some)
                continue
            outbox = self._opened()[1]
            if outbox.failure is not None or outbox.full:
                await outbox.room()
            refused = self._publish_together(cast(list[Mapping[str, Any]], some))
            taken += len(some) - len(refused)
            for event, problem in refused:
                await self._dead.keep(event, problem)
        return taken

    def _publish_together(self, events: list[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], LocalFault]]:
        """Without a pause in between, in which somebody else could speak; the refused ones, with the reason."""
        link, outbox = self._opened()
        now = self._clock.now()
        frames: list[bytes] = []
        refused: list[tuple[Mapping[str, Any], LocalFault]] = []
        for event in events:
            try:
                self._sizes.check(event)
                frames += link.publish(event, now)
            except (EventRejected, PayloadTooLarge) as problem:
                refused.append((event, problem))
        if self.wanted:
            outbox.put(frames)
            if self._sampled is not None:
                self._sampled.note(frames)
        return refused

    async def _publish_singly(self, events: list[Mapping[str, Any] | bytes]) -> int:
        taken = 0
        for event in events:
            with suppress(EventRejected, PayloadTooLarge):
                await self.publish(event)
                taken += 1
        return taken

    async def flush(self, timeout: float | None = None) -> None:
        """Return when everything published so far is stored at the broker, what was passed over in silence included.

        timeout: seconds after which BrokerUnavailable is raised; what waits is kept and still sent
        """
        link, outbox = self._opened()
        if link.has_unsent_suppressed and self.wanted:
            outbox.put(link.heartbeat(self._clock.now()))
        await outbox.drained(timeout)

    async def close(self, timeout: float = CLOSE_PATIENCE) -> None:
        """Tell and store what is left, and give the name back."""
        if self._link is None:
            return
        outbox = self._opened()[1]
        try:
            if not outbox.raised:
                await self.flush(timeout)
        finally:
            await self._abandon()
            await self._view.publisher_ends(self.name)

    async def _abandon(self) -> None:
        """Stop everything; what waits is given up."""
        tasks = [*self._tasks, *([self._packing[1]] if self._packing is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for listener in self._listeners:
            await listener.close()
        if self._outbox is not None:
            await self._outbox.close()
        self._link, self._outbox, self._tasks, self._listeners = None, None, [], []
        self._packing = self._sampled = None

    def _opened(self) -> tuple[StreamEncoder, Outbox]:
        if self._link is None or self._outbox is None:
            raise TransportClosed("this publisher is not open", topic=self.topic, name=self.name)
        return self._link, self._outbox

    def _send_frames(self, frames: list[bytes]) -> None:
        if self.wanted:
            self._opened()[1].put(frames)
            if self._sampled is not None:
                self._sampled.note(frames)

    def _pack(self, wanted: bool) -> None:
        """Begin to pack with dictionaries, or end it; what was asked for goes before what the topic's owner wants."""
        wanted = wanted if self._dictionaries is None else self._dictionaries
        if wanted and self._packing is None:
            slots = DictionarySlots(self.link, self._send_frames)
            doing: Announced | SelfTrained
            if self._view.managed:
                doing = Announced(self._view, self._broker, self._clock, slots)
            else:
                doing = self._sampled = SelfTrained(self.topic, self._broker, self._clock, slots)
            self._packing = doing, asyncio.create_task(doing.run(), name=f"dictionaries {self.topic} {self.name}")
        elif not wanted and self._packing is not None:
            doing, task = self._packing
            task.cancel()
            doing.slots.end()
            self._tasks.append(task)
            self._packing = self._sampled = None

    def _new_life(self, before: LastMessage) -> StreamEncoder:
        """The publishing end, one incarnation after the last that the log knows."""
        self._outbox = Outbox(self._broker, self.topic, self.name, last=before.offset, **self._batching)  # type: ignore[arg-type]
        if self._view.factored:
            self._factoring = Factoring(self._view.schema)
        return StreamEncoder(
            self._view.travelling,
            self._config,
            name=self.name,
            incarnation=before.incarnation + 1,
            now=self._clock.now(),
        )

    async def _on_request(self, subject: str, payload: bytes) -> bytes | None:
        if payload == CLAIM:
            return CLAIM
        try:
            request = Request.decode(read(payload).body)
        except PeerFault:
            _log.warning("%s: a request that cannot be read was ignored", self.topic)
            return None
        self._unsent = request
        self._pay()
        return None

    def _pay(self) -> None:
        """Answer the last request; one that comes too soon after another is answered a little later."""
        if self._unsent is not None and (frames := self.link.answer(self._unsent, self._clock.now())):
            self._unsent = None
            self._send_frames(frames)

    async def _keep_time(self) -> None:
        while True:
            link, outbox = self._opened()
            await asyncio.sleep(min(_PACE, link.config.max_silence / 4))
            now = self._clock.now()
            if link.is_due(now) and not outbox.full:
                self._send_frames(link.poll(now))
            self._pay()

    async def _follow_configuration(self) -> None:
        async for config in self._view.configurations():
            try:
                self._follow(config)
            except LocalFault as problem:
                _log.warning("%s: configuration %d cannot be followed: %s", self.topic, config.version, problem)

    def _follow(self, config: ConfigDocument) -> None:
        """Do as the registry says; who falls silent tells first what is untold, who wakes says where things stand."""
        link, now = self.link, self._clock.now()
        woken = config.wanted and not self.wanted
        if not config.wanted:
            self._send_frames(link.heartbeat(now))
        self.wanted = config.wanted
        self._pack(config.dictionaries)
        wanted = config.link_config(link.schema)
        if wanted.version > link.config.version:
            self._send_frames(link.reconfigure(wanted, now))
        elif woken:
            self._send_frames(link.start(now))
