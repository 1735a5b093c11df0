"""Services of which several may run: topics are spread over them, and a lease says who has each.

Topics are spread by rendezvous hashing, leases elect, and what one has written says where another goes on: any of them
may be killed at any time.

Which translator takes which topic: rendezvous hashing among those that are there, and leases above it.

Every translator comes to the same choice from the same names, and when one joins or leaves only the topics it wins or
had move. The choice is a wish; the lease decides. So two that see different translators for a moment do no harm.

>>> chosen("rooms", {"t1", "t2", "t3"}) == chosen("rooms", ["t3", "t2", "t1"])
True
>>> moved = [t for t in map(str, range(99)) if chosen(t, ["t1", "t2"]) != chosen(t, ["t1", "t2", "t3"])]
>>> {chosen(topic, ["t1", "t2", "t3"]) for topic in moved}
{'t3'}
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import Generic, Protocol, TypeVar

from thinwire.brokers.protocol import Broker, Bucket
from thinwire.errors import Superseded, ThinwireError, TransportClosed, TransportError, UnknownLog, UnknownTopic
from thinwire.topics.bucket_follower import BucketFollower
from thinwire.topics.leases import BEATS, Lease, LeaseDocument, Leases, member_key, take

RELUCTANCE = 2.0
"""terms that a free topic waits for the one it is meant for, before another takes it"""


def chosen(topic: str, translators: Iterable[str]) -> str:
    """The translator that a topic is meant for; "" where there is none."""
    return max(translators, key=lambda name: (_weight(topic, name), name), default="")


class TopicShare:
    """The share of one translator.

    pause: seconds that a topic stays where it is before it is handed over
    """

    def __init__(self, name: str, leases: Leases, pause: float = 10.0) -> None:
        self.name = name
        self.leases = leases
        self.pause = pause

    def is_ours(self, topic: str, now: float) -> bool:
        """Is the topic meant for this translator?"""
        return chosen(topic, self.leases.members(now) | {self.name}) == self.name

    def may_take(self, topic: str, now: float) -> bool:
        """Is it this translator's turn to take a topic that it does not hold?"""
        if not self.leases.is_free(topic, now):
            return False
        return self.is_ours(topic, now) or self.leases.quiet(topic, now) >= RELUCTANCE * self.leases.term

    def should_hand_over(self, topic: str, held_for: float, now: float) -> bool:
        """Is a topic that this translator holds meant for another one that is there?"""
        return held_for >= self.pause and not self.is_ours(topic, now)


def _weight(topic: str, name: str) -> bytes:
    return blake2b(f"{topic}\n{name}".encode(), digest_size=8).digest()


REST = 5.0
"""seconds before a topic is tried again that could not be looked after"""
FAREWELL = 1.0
"""seconds that giving back leases may take at the end"""
TICK = 0.25


class Work(Protocol):
    """What is done about one topic."""

    async def run(self) -> None:
        """Until there is nothing left to do, or it is stopped; `Superseded` where another does it."""

    def stop(self) -> None:
        """End at a clean place."""


T = TypeVar("T")
W = TypeVar("W", bound=Work)


@dataclass
class HeldTopic(Generic[W]):
    """A topic that is being looked after."""

    lease: Lease
    work: W
    task: asyncio.Task[None]
    taken: float


class LeasedService(Generic[W]):
    """One of those that share topics; `run` it as a task and cancel that to end it.

    name: its own among them; leases: who has what, as far as it is known; bucket: where that is written
    knowledge: what it reads along; pause: seconds that a topic stays where it is, at least, before it is handed over
    """

    def __init__(
        self,
        broker: Broker,
        name: str,
        leases: Leases,
        bucket: str,
        knowledge: BucketFollower,
        pause: float,
        log: logging.Logger,
    ) -> None:
        self.broker = broker
        self.name = name
        self.leases = leases
        self._bucket_name = bucket
        self._follower = knowledge
        self._topic_share = TopicShare(name, leases, pause)
        self._log = log
        self._held: dict[str, HeldTopic[W]] = {}
        self._rests: dict[str, float] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._leases_bucket: Bucket | None = None
        self._beats = 0
        self._ready = asyncio.Event()

    @property
    def works(self) -> dict[str, W]:
        """The topics that it looks after now."""
        return {topic: held.work for topic, held in self._held.items()}

    async def ready(self) -> None:
        """Wait until it has read what there is and others know of it; returns as well when it has ended."""
        await self._ready.wait()

    async def run(self) -> None:
        """Serve until cancelled, or until the connection is closed."""
        try:
            async with asyncio.TaskGroup() as group:
                for bucket in self._follower.buckets:
                    group.create_task(self._follower.follow(bucket), name=f"{self.leases.kind} {bucket}")
                group.create_task(self._live(), name=f"{self.leases.kind} lives")
                group.create_task(self._govern(), name=f"{self.leases.kind} governs")
        except* TransportClosed:
            self._log.info("the connection was closed: the %s ends", self.leases.kind)
        finally:
            await self._leave()
            self._ready.set()

    def _needed(self) -> set[str]:
        """The topics that must be looked after."""
        raise NotImplementedError

    def _begin(self, lease: Lease) -> W:
        """The work on a topic that is now ours."""
        raise NotImplementedError

    async def _maintain(self, topic: str, held: HeldTopic[W]) -> None:
        """A topic's work goes on: what has changed for it?"""
        raise NotImplementedError

    async def _remove(self, topic: str, held: HeldTopic[W], why: str) -> None:
        """A topic, or its log, is no longer there."""
        self._log.info("%s is looked after no more: %s", topic, why)
        await self._let_go(topic, held, REST)

    def _should_hand_over(self, topic: str, held: HeldTopic[W]) -> bool:
        return self._topic_share.should_hand_over(topic, _now() - held.taken, _now())

    async def _live(self) -> None:
        """Say again and again that this one is there, and that it has what it has."""
        await self._follower.complete.wait()
        while True:
            await asyncio.gather(self._announce(), *(self._beat(held) for held in list(self._held.values())))
            await asyncio.sleep(self.leases.term / BEATS)

    async def _announce(self) -> None:
        self._beats += 1
        await self._tried(self.name, self._write_membership(LeaseDocument(self.name, beat=self._beats)))

    async def _write_membership(self, document: LeaseDocument) -> None:
        bucket = await self._bucket()
        await bucket.put(member_key(self.leases.kind, self.name), document.encode())
        self._ready.set()
        for name in self.leases.find_expired(_now()):
            await bucket.delete(member_key(self.leases.kind, name))

    async def _beat(self, held: HeldTopic[W]) -> None:
        try:
            await self._tried(held.lease.topic, held.lease.beat())
        except Superseded as problem:
            if self._held.get(held.lease.topic) is held:
                self._log.warning("%s is let go: %s", held.lease.topic, problem)
                del self._held[held.lease.topic]
                self._end(held)

    def _end(self, held: HeldTopic[W]) -> None:
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
            self._follower.changed.clear()
            for topic, held in list(self._held.items()):
                await (self._conclude if held.task.done() else self._maintain)(topic, held)
            for topic in self._needed() - self._held.keys():
                if self._rests.get(topic, 0.0) <= _now() and self._topic_share.may_take(topic, _now()):
                    await self._take(topic)
            with suppress(TimeoutError):
                async with asyncio.timeout(min(TICK, self.leases.term / BEATS)):
                    await self._follower.changed.wait()

    async def _take(self, topic: str) -> None:
        async def taken() -> Lease | None:
            return await take(await self._bucket(), self.leases, topic, self.name, _now())

        lease = await self._tried(topic, taken())
        if lease is not None:
            self._start(lease, _now())

    def _start(self, lease: Lease, taken: float) -> None:
        work = self._begin(lease)
        task = asyncio.create_task(work.run(), name=f"{self.leases.kind} {lease.topic}")
        task.add_done_callback(lambda _: self._follower.changed.set())
        self._held[lease.topic] = HeldTopic(lease, work, task, taken)

    async def _conclude(self, topic: str, held: HeldTopic[W]) -> None:
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
            self._log.warning("%s cannot be looked after now: %s", topic, failure, exc_info=unforeseen)
            await self._let_go(topic, held, REST)
        else:
            await self._let_go(topic, held)

    async def _start_over(self, topic: str, held: HeldTopic[W], failure: Superseded) -> None:
        """Somebody else wrote: with the lease still ours, it was one that had slept, and its last word is taken up."""

        async def advanced() -> bool:
            await held.lease.advance()
            return True

        del self._held[topic]
        self._log.warning("%s: %s", topic, failure)
        with suppress(Superseded):
            if await self._tried(topic, advanced()):
                self._start(held.lease, held.taken)

    async def _let_go(self, topic: str, held: HeldTopic[W], rest: float = 0.0) -> None:
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
            self._log.info("%s: the broker does not answer the %s: %s", what, self.leases.kind, problem)
            return None

    async def _bucket(self) -> Bucket:
        if self._leases_bucket is None:
            self._leases_bucket = await self.broker.bucket(self._bucket_name)
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
                await (await self._bucket()).delete(member_key(self.leases.kind, self.name))


def _now() -> float:
    """The time by which leases run out: this process's own, which nobody sets."""
    return asyncio.get_running_loop().time()
