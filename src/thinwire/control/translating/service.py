"""The translator as a service at a broker: it watches what is asked, and translates the topics that are its share.

Several may run: topics are spread over them by rendezvous hashing, and a lease says who has each. What one has written
says where another goes on, so any of them may be killed at any time.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from thinwire.clock import Clock, WallClock
from thinwire.control.leases import BEATS, Lease, LeaseDocument, Leases, take, translator_key
from thinwire.control.names import LEASES, check_word
from thinwire.control.translating.knowing import Knowledge
from thinwire.control.translating.resuming import forget
from thinwire.control.translating.spreading import Spreading
from thinwire.control.translating.working import Pace, TopicWork
from thinwire.errors import Superseded, ThinwireError, TransportClosed, TransportError, UnknownLog, UnknownTopic
from thinwire.transports.broker import Broker, Bucket

REST = 5.0
"""seconds before a topic is tried again that could not be translated"""
FAREWELL = 1.0
"""seconds that giving back leases may take at the end"""
TICK = 0.25

T = TypeVar("T")

_log = logging.getLogger("thinwire.translator")


@dataclass
class _Held:
    """A topic that is being translated."""

    lease: Lease
    work: TopicWork
    task: asyncio.Task[None]
    taken: float


class TranslatorService:
    """One translator at one connection; `run` it as a task and cancel that to end it.

    name: its own among translators; lease: seconds without a sign of life after which others take its topics over
    linger: seconds for which frames gather before they are stored
    checkpoint_messages, checkpoint_seconds: what lies between two checkpoints of a topic, whichever is over first
    grace: seconds that a channel outlives its last subscriber; handover: seconds that a topic stays where it is, at
        least, before it goes to a translator that it is meant for
    """

    def __init__(
        self,
        broker: Broker,
        clock: Clock | None = None,
        *,
        name: str = "",
        lease: float = 2.5,
        linger: float = 0.005,
        checkpoint_messages: int = 20_000,
        checkpoint_seconds: float = 60.0,
        grace: float = 10.0,
        handover: float = 10.0,
    ) -> None:
        self.broker = broker
        self.clock = clock or WallClock()
        self.name = check_word(name or f"t{secrets.token_hex(4)}", "name")
        self.leases = Leases(lease)
        self.pace = Pace(linger, checkpoint_messages, checkpoint_seconds, grace)
        self._knowledge = Knowledge(broker, self.leases)
        self._spreading = Spreading(self.name, self.leases, handover)
        self._held: dict[str, _Held] = {}
        self._rests: dict[str, float] = {}
        self._mourned: set[str] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._leases_bucket: Bucket | None = None
        self._beats = 0
        self._ready = asyncio.Event()

    @property
    def works(self) -> dict[str, TopicWork]:
        """The topics that it translates now."""
        return {topic: held.work for topic, held in self._held.items()}

    async def ready(self) -> None:
        """Wait until it has read what there is and others know of it; returns as well when it has ended."""
        await self._ready.wait()

    async def run(self) -> None:
        """Serve until cancelled, or until the connection is closed."""
        try:
            async with asyncio.TaskGroup() as group:
                for bucket in self._knowledge.buckets:
                    group.create_task(self._knowledge.follow(bucket), name=f"translator {bucket}")
                group.create_task(self._live(), name="translator lives")
                group.create_task(self._govern(), name="translator governs")
        except* TransportClosed:
            _log.info("the connection was closed: the translator ends")
        finally:
            await self._leave()
            self._ready.set()

    async def _live(self) -> None:
        """Say again and again that this translator is there, and that it has what it has."""
        await self._knowledge.complete.wait()
        while True:
            await asyncio.gather(self._announce(), *(self._beat(held) for held in list(self._held.values())))
            await asyncio.sleep(self.leases.term / BEATS)

    async def _announce(self) -> None:
        self._beats += 1
        await self._tried(self.name, self._said(LeaseDocument(self.name, beat=self._beats)))

    async def _said(self, document: LeaseDocument) -> None:
        bucket = await self._bucket()
        await bucket.put(translator_key(self.name), document.encode())
        self._ready.set()
        for name in self.leases.gone(_now()):
            await bucket.delete(translator_key(name))

    async def _beat(self, held: _Held) -> None:
        try:
            await self._tried(held.lease.topic, held.lease.beat())
        except Superseded as problem:
            if self._held.get(held.lease.topic) is held:
                _log.warning("%s is let go: %s", held.lease.topic, problem)
                del self._held[held.lease.topic]
                self._end(held)

    def _end(self, held: _Held) -> None:
        """Stop at once; whatever it still writes is refused, or dropped by its epoch."""
        held.task.cancel()
        self._ending.add(held.task)
        held.task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Whatever it ended with, such as being refused while it was told to stop, is of no interest any more."""
        self._ending.discard(task)
        if not task.cancelled():
            task.exception()

    async def _govern(self) -> None:
        """Take topics, look after those that are held, hand over those that others shall have."""
        await self._ready.wait()
        while True:
            self._knowledge.changed.clear()
            for topic, held in list(self._held.items()):
                await (self._conclude if held.task.done() else self._look_after)(topic, held)
            for topic in self._knowledge.needed() - self._held.keys():
                if self._rests.get(topic, 0.0) <= _now() and self._spreading.may_take(topic, _now()):
                    await self._take(topic)
            with suppress(TimeoutError):
                async with asyncio.timeout(min(TICK, self.leases.term / BEATS)):
                    await self._knowledge.changed.wait()

    async def _take(self, topic: str) -> None:
        async def taken() -> Lease | None:
            return await take(await self._bucket(), self.leases, topic, self.name, _now())

        lease = await self._tried(topic, taken())
        if lease is not None:
            self._start(lease, _now())

    def _start(self, lease: Lease, taken: float) -> None:
        topic = lease.topic
        work = TopicWork(self.broker, self.clock, lease, self.pace, self._knowledge.asked(topic))
        task = asyncio.create_task(work.run(), name=f"translator {topic}")
        task.add_done_callback(lambda _: self._knowledge.changed.set())
        self._held[topic] = _Held(lease, work, task, taken)

    async def _look_after(self, topic: str, held: _Held) -> None:
        if not self._knowledge.is_registered(topic):
            held.task.cancel()
            await asyncio.gather(held.task, return_exceptions=True)
            await self._remove(topic, held, "it is no longer registered")
            return
        held.work.ask(self._knowledge.asked(topic))
        if self._spreading.should_hand_over(topic, _now() - held.taken, _now()):
            held.work.stop()

    async def _conclude(self, topic: str, held: _Held) -> None:
        """A topic's work has ended: by itself, because another has taken over, or because something is wrong."""
        failure = held.task.exception() if not held.task.cancelled() else None
        if isinstance(failure, TransportClosed):
            raise failure
        if isinstance(failure, UnknownLog | UnknownTopic):
            await self._remove(topic, held, str(failure))
        elif isinstance(failure, Superseded):
            await self._start_over(topic, held, failure)
        elif failure is not None:
            unforeseen = None if isinstance(failure, ThinwireError) else failure
            _log.warning("%s cannot be translated now: %s", topic, failure, exc_info=unforeseen)
            await self._let_go(topic, held, REST)
        else:
            await self._let_go(topic, held)

    async def _start_over(self, topic: str, held: _Held, failure: Superseded) -> None:
        """Somebody else wrote: with the lease still ours, it was one that had slept, and its last word is taken up."""

        async def advanced() -> bool:
            await held.lease.advance()
            return True

        del self._held[topic]
        _log.warning("%s: %s", topic, failure)
        with suppress(Superseded):
            if await self._tried(topic, advanced()):
                self._start(held.lease, held.taken)

    async def _remove(self, topic: str, held: _Held, why: str) -> None:
        known, self._mourned = self._mourned, self._mourned | {topic}
        _log.log(logging.INFO if topic in known else logging.WARNING, "%s is not translated any more: %s", topic, why)
        with suppress(Superseded):
            await self._tried(topic, forget(self.broker, topic, held.lease.epoch))
        await self._let_go(topic, held, REST)

    async def _let_go(self, topic: str, held: _Held, rest: float = 0.0) -> None:
        self._held.pop(topic, None)
        if rest:
            self._rests[topic] = _now() + rest
        with suppress(Superseded):
            await self._tried(topic, held.lease.release())

    async def _tried(self, what: str, call: Awaitable[T]) -> T | None:
        """What a call to the broker brings; None where it does not come about in time: it is tried again, or spared."""
        try:
            async with asyncio.timeout(self.leases.term):
                return await call
        except (TransportClosed, Superseded):
            raise
        except (TransportError, TimeoutError) as problem:
            _log.info("%s: the broker does not answer the translator: %s", what, problem)
            return None

    async def _bucket(self) -> Bucket:
        if self._leases_bucket is None:
            self._leases_bucket = await self.broker.bucket(LEASES)
        return self._leases_bucket

    async def _leave(self) -> None:
        """Stop at once, and let others take over without waiting for the leases to run out."""
        held, self._held = list(self._held.values()), {}
        for one in held:
            self._end(one)
        await asyncio.gather(*self._ending, return_exceptions=True)
        with suppress(TransportError, TimeoutError):
            async with asyncio.timeout(FAREWELL):
                for one in held:
                    with suppress(Superseded):
                        await one.lease.release()
                await (await self._bucket()).delete(translator_key(self.name))


def _now() -> float:
    """The time by which leases run out: this process's own, which nobody sets."""
    return asyncio.get_running_loop().time()
