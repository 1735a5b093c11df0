"""A service of which several instances share topics. A lease per topic elects the instance that works on it.

Topics are distributed by rendezvous hashing. Every instance computes the same assignment from the same names. When an
instance joins or leaves, only the topics that it gains or had move. The assignment is a preference and the lease
decides, so instances that see different members for a moment cause no harm.

All results are stored at the broker, fenced by expected offset and epoch, so an instance may be killed at any time:
another one takes the lease over after one term and resumes from the stored results.

>>> choose_member("rooms", {"t1", "t2", "t3"}) == choose_member("rooms", ["t3", "t2", "t1"])
True
>>> moved = [t for t in map(str, range(99)) if choose_member(t, ["t1", "t2"]) != choose_member(t, ["t1", "t2", "t3"])]
>>> {choose_member(topic, ["t1", "t2", "t3"]) for topic in moved}
{'t3'}
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Generic, Protocol, TypeVar

from thinwire.brokers.protocol import Broker, Bucket
from thinwire.errors import Superseded, ThinwireError, TransportClosed, TransportError, UnknownLog, UnknownTopic
from thinwire.services.service_shell import ServiceShell, loop_time
from thinwire.topics.bucket_follower import BucketFollower
from thinwire.topics.leases import RENEWALS, Lease, LeaseDocument, Leases, member_key, take
from thinwire.topics.names import check_name_token

TAKEOVER_TERMS = 2.0
"""lease terms that a free topic is reserved for its preferred member before any other takes it"""
BACKOFF = 5.0
"""seconds before a topic whose work failed is taken again"""
RELEASE_TIMEOUT = 1.0
"""seconds for releasing leases when the service stops"""
CHECK_INTERVAL = 0.25


def choose_member(topic: str, members: Iterable[str]) -> str:
    """Return the preferred member for a topic; "" if there is none."""
    return max(members, key=lambda name: (_weight(topic, name), name), default="")


def _weight(topic: str, name: str) -> bytes:
    return blake2b(f"{topic}\n{name}".encode(), digest_size=8).digest()


class TopicShare:
    """The topics that one member should hold.

    handover_delay: seconds that a topic is held at least before it is handed over
    """

    def __init__(self, name: str, leases: Leases, handover_delay: float = 10.0) -> None:
        self.name = name
        self.leases = leases
        self.handover_delay = handover_delay

    def is_preferred(self, topic: str, now: float) -> bool:
        """Return whether this member is the preferred one for the topic."""
        return choose_member(topic, self.leases.members(now) | {self.name}) == self.name

    def may_take(self, topic: str, now: float) -> bool:
        """Return whether this member may take the lease of the topic now."""
        if not self.leases.is_free(topic, now):
            return False
        return (
            self.is_preferred(topic, now)
            or self.leases.unchanged_seconds(topic, now) >= TAKEOVER_TERMS * self.leases.term
        )

    def should_hand_over(self, topic: str, held_for: float, now: float) -> bool:
        """Return whether this member should release a topic that it holds, in favour of the preferred one."""
        return held_for >= self.handover_delay and not self.is_preferred(topic, now)


class LeasedWork(Protocol):
    """The work on one topic under a lease."""

    async def run(self) -> None:
        """Work until done or stopped. Raises `Superseded` if another instance has written."""

    def stop(self) -> None:
        """End `run` at the next consistent point."""


T = TypeVar("T")
W = TypeVar("W", bound=LeasedWork)


@dataclass
class HeldTopic(Generic[W]):
    """A topic whose lease this instance holds; `taken_at` is the time of the takeover."""

    lease: Lease
    work: W
    task: asyncio.Task[None]
    taken_at: float


class LeasedService(ServiceShell, Generic[W]):
    """One instance of a service that shares topics with others.

    name: unique among the instances; a random one by default
    leases: the leases and members seen so far
    lease_bucket: name of the bucket that stores them
    handover_delay: seconds that a topic is held at least before it is handed over
    """

    def __init__(
        self,
        broker: Broker,
        name: str,
        leases: Leases,
        lease_bucket: str,
        follower: BucketFollower,
        handover_delay: float,
        log: logging.Logger,
    ) -> None:
        super().__init__(broker, leases.kind, follower, log)
        name = self.name = check_name_token(name or f"{leases.kind}-{secrets.token_hex(4)}", "name")
        self.leases = leases
        self._lease_bucket_name = lease_bucket
        self._topic_share = TopicShare(name, leases, handover_delay)
        self._held: dict[str, HeldTopic[W]] = {}
        self._backoff_until: dict[str, float] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._lease_bucket: Bucket | None = None
        self._beats = 0

    @property
    def active_work(self) -> dict[str, W]:
        """The work on the topics that this instance holds."""
        return {topic: held.work for topic, held in self._held.items()}

    def _tasks(self) -> Mapping[str, Coroutine[Any, Any, None]]:
        return {"renews leases": self._renew_leases(), "manages topics": self._manage_topics()}

    def _needed(self) -> set[str]:
        """Return the topics that need work."""
        raise NotImplementedError

    def _begin(self, lease: Lease) -> W:
        """Create the work on a topic whose lease was taken."""
        raise NotImplementedError

    async def _maintain(self, topic: str, held: HeldTopic[W]) -> None:
        """Pass changes on to running work; stop it if the topic should be handed over."""
        raise NotImplementedError

    async def _remove(self, topic: str, held: HeldTopic[W], reason: str) -> None:
        """Release a topic that, or whose log, does not exist any more."""
        self._log.info("released topic %s: %s", topic, reason)
        await self._release(topic, held, BACKOFF)

    def _should_hand_over(self, topic: str, held: HeldTopic[W]) -> bool:
        return self._topic_share.should_hand_over(topic, loop_time() - held.taken_at, loop_time())

    async def _renew_leases(self) -> None:
        await self._follower.complete.wait()
        while True:
            await asyncio.gather(self._renew_membership(), *(self._renew(held) for held in list(self._held.values())))
            await asyncio.sleep(self.leases.term / RENEWALS)

    async def _renew_membership(self) -> None:
        self._beats += 1
        await self._call(self.name, self._write_membership(LeaseDocument(self.name, beat=self._beats)))

    async def _write_membership(self, document: LeaseDocument) -> None:
        bucket = await self._bucket()
        await bucket.put(member_key(self.kind, self.name), document.encode())
        self._ready.set()
        for name in self.leases.find_expired(loop_time()):
            await bucket.delete(member_key(self.kind, name))

    async def _renew(self, held: HeldTopic[W]) -> None:
        try:
            await self._call(held.lease.topic, held.lease.beat())
        except Superseded as problem:
            if self._held.get(held.lease.topic) is held:
                self._log.warning("lost the lease of topic %s: %s", held.lease.topic, problem)
                del self._held[held.lease.topic]
                self._cancel(held)

    def _cancel(self, held: HeldTopic[W]) -> None:
        """Cancel the work. Appends still in flight are refused by offset or dropped by epoch."""
        held.task.cancel()
        self._ending.add(held.task)
        held.task.add_done_callback(self._discard)

    def _discard(self, task: asyncio.Task[None]) -> None:
        """Forget an ended task. Reading its exception avoids the warning about one that was never retrieved."""
        self._ending.discard(task)
        if not task.cancelled():
            task.exception()

    async def _manage_topics(self) -> None:
        """Take free topics, maintain held ones, conclude those whose work has ended."""
        await self._ready.wait()
        while True:
            self._follower.changed.clear()
            for topic, held in list(self._held.items()):
                await (self._conclude if held.task.done() else self._maintain)(topic, held)
            for topic in self._needed() - self._held.keys():
                if self._backoff_until.get(topic, 0.0) <= loop_time() and self._topic_share.may_take(
                    topic, loop_time()
                ):
                    await self._take(topic)
            with suppress(TimeoutError):
                async with asyncio.timeout(min(CHECK_INTERVAL, self.leases.term / RENEWALS)):
                    await self._follower.changed.wait()

    async def _take(self, topic: str) -> None:
        async def take_lease() -> Lease | None:
            return await take(await self._bucket(), self.leases, topic, self.name, loop_time())

        lease = await self._call(topic, take_lease())
        if lease is not None:
            self._start(lease, loop_time())

    def _start(self, lease: Lease, taken_at: float) -> None:
        work = self._begin(lease)
        task = asyncio.create_task(work.run(), name=f"{self.kind} {lease.topic}")
        task.add_done_callback(lambda _: self._follower.changed.set())
        self._held[lease.topic] = HeldTopic(lease, work, task, taken_at)

    async def _conclude(self, topic: str, held: HeldTopic[W]) -> None:
        """Handle the end of the work on a topic: done, superseded or failed."""
        failure = held.task.exception() if not held.task.cancelled() else None
        if isinstance(failure, TransportClosed):
            raise failure
        if isinstance(failure, UnknownLog | UnknownTopic):
            await self._remove(topic, held, str(failure))
        elif isinstance(failure, Superseded):
            await self._restart(topic, held, failure)
        elif failure is not None:
            unexpected = None if isinstance(failure, ThinwireError) else failure
            self._log.warning("work on topic %s failed: %s", topic, failure, exc_info=unexpected)
            await self._release(topic, held, BACKOFF)
        else:
            await self._release(topic, held)

    async def _restart(self, topic: str, held: HeldTopic[W], failure: Superseded) -> None:
        """Restart the work under a new epoch if the lease is still held.

        In that case the other writer is a former holder that was paused. The restarted work resumes after its message.
        """

        async def advance_epoch() -> bool:
            await held.lease.advance()
            return True

        del self._held[topic]
        self._log.warning("work on topic %s superseded: %s", topic, failure)
        with suppress(Superseded):
            if await self._call(topic, advance_epoch()):
                self._start(held.lease, held.taken_at)

    async def _release(self, topic: str, held: HeldTopic[W], backoff: float = 0.0) -> None:
        self._held.pop(topic, None)
        if backoff:
            self._backoff_until[topic] = loop_time() + backoff
        with suppress(Superseded):
            await self._call(topic, held.lease.release())

    async def _call(self, subject: str, call: Awaitable[T]) -> T | None:
        """Await a broker call for at most one lease term; None if it fails. Callers repeat or omit the call."""
        try:
            async with asyncio.timeout(self.leases.term):
                return await call
        except (TransportClosed, Superseded):
            raise
        except (TransportError, TimeoutError) as problem:
            self._log.info("%s: no answer from the broker for %s: %s", self.kind, subject, problem)
            return None

    async def _bucket(self) -> Bucket:
        if self._lease_bucket is None:
            self._lease_bucket = await self.broker.bucket(self._lease_bucket_name)
        return self._lease_bucket

    async def _stop(self) -> None:
        """Cancel all work and release the leases, so that others need not wait for their expiry."""
        held, self._held = list(self._held.values()), {}
        for topic in held:
            self._cancel(topic)
        await asyncio.gather(*self._ending, return_exceptions=True)
        with suppress(TransportError, TimeoutError):
            async with asyncio.timeout(RELEASE_TIMEOUT):
                for topic in held:
                    with suppress(Superseded):
                        await topic.lease.release()
                await (await self._bucket()).delete(member_key(self.kind, self.name))
