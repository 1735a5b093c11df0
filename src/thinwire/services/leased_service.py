"""A service of which several instances share topics. A lease per topic elects the instance that works on it.

Topics are distributed by rendezvous hashing. Every instance computes the same assignment from the same names. When an
instance starts or stops, only the topics that it gains or had move. The assignment is a preference and the lease
decides, so instances that observe different sets of running instances for a moment cause no harm.

All results are stored at the broker, fenced by expected offset and epoch, so an instance may be killed at any time:
after one lease term another instance takes the lease over and resumes from the stored results.

>>> choose_instance("rooms", {"t1", "t2", "t3"}) == choose_instance("rooms", ["t3", "t2", "t1"])
True
>>> two, three = ["t1", "t2"], ["t1", "t2", "t3"]
>>> moved = [topic for topic in map(str, range(99)) if choose_instance(topic, two) != choose_instance(topic, three)]
>>> {choose_instance(topic, three) for topic in moved}
{'t3'}
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Generic, Protocol, TypeVar

from thinwire.brokers.protocol import Broker, Bucket
from thinwire.errors import Superseded, ThinwireError, TransportClosed, TransportError, UnknownLog, UnknownTopic
from thinwire.services.service_base import ServiceBase, loop_time
from thinwire.topics.bucket_follower import BucketFollower
from thinwire.topics.leases import RENEWALS, Lease, LeaseDocument, Leases, heartbeat_key, take
from thinwire.topics.names import check_name_token

TAKEOVER_TERMS = 2.0
"""lease terms for which a free topic is reserved for its preferred instance"""
BACKOFF = 5.0
"""seconds before a topic whose work failed is taken again"""
RELEASE_TIMEOUT = 1.0
"""seconds for releasing leases when the service stops"""
CHECK_INTERVAL = 0.25
"""seconds between two checks of all topics without a change in a bucket"""


def choose_instance(topic: str, names: Iterable[str]) -> str:
    """Return the name of the preferred instance for a topic; "" without names."""
    return max(names, key=lambda name: (blake2b(f"{topic}\n{name}".encode(), digest_size=8).digest(), name), default="")


class LeasePolicy:
    """Decides which leases an instance takes and hands over.

    name: name of the instance
    handover_delay: seconds that a topic is held, at least, before it is handed over
    """

    def __init__(self, name: str, leases: Leases, handover_delay: float = 10.0) -> None:
        self.name = name
        self.leases = leases
        self.handover_delay = handover_delay

    def is_preferred(self, topic: str, now: float) -> bool:
        """Return whether this instance is the preferred one for the topic."""
        return choose_instance(topic, self.leases.running_instances(now) | {self.name}) == self.name

    def can_take(self, topic: str, now: float) -> bool:
        """Return whether this instance may take the lease of the topic now."""
        if not self.leases.is_free(topic, now):
            return False
        reserved = TAKEOVER_TERMS * self.leases.term
        return self.is_preferred(topic, now) or self.leases.unchanged_seconds(topic, now) >= reserved

    def should_hand_over(self, topic: str, held_for: float, now: float) -> bool:
        """Return whether this instance should release a topic that it has held for `held_for` seconds."""
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


class LeasedService(ServiceBase, Generic[W]):
    """One instance of a service that shares topics with other instances.

    name: unique among the instances; a random one by default
    leases: leases and heartbeats that `follower` has read
    lease_bucket: name of the bucket that stores leases and heartbeats
    handover_delay: seconds that a topic is held, at least, before it is handed over
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
        self.lease_bucket = lease_bucket
        self._lease_policy = LeasePolicy(name, leases, handover_delay)
        self._held: dict[str, HeldTopic[W]] = {}
        self._backoff_until: dict[str, float] = {}
        self._cancelled_tasks: set[asyncio.Task[None]] = set()
        self._opened_bucket: Bucket | None = None
        self._heartbeats = 0

    @property
    def active_work(self) -> dict[str, W]:
        """The work on the topics that this instance holds."""
        return {topic: held.work for topic, held in self._held.items()}

    def _tasks(self) -> Mapping[str, Coroutine[Any, Any, None]]:
        return {"renews leases": self._renew_leases(), "manages topics": self._manage_topics()}

    def _needed_topics(self) -> set[str]:
        """Return the topics that some instance should hold."""
        raise NotImplementedError

    def _create_work(self, lease: Lease) -> W:
        """Create the work on a topic whose lease was taken."""
        raise NotImplementedError

    async def _update_work(self, topic: str, held: HeldTopic[W]) -> None:
        """Pass changes on to running work; stop the work if the topic should be handed over."""
        raise NotImplementedError

    async def _release_deleted(self, topic: str, held: HeldTopic[W], reason: str) -> None:
        """Release a topic that was deleted or whose log was deleted."""
        self._log.info("released topic %s: %s", topic, reason)
        await self._release(topic, held, BACKOFF)

    def _should_hand_over(self, topic: str, held: HeldTopic[W]) -> bool:
        return self._lease_policy.should_hand_over(topic, loop_time() - held.taken_at, loop_time())

    async def _renew_leases(self) -> None:
        await self._follower.complete.wait()
        while True:
            await asyncio.gather(
                self._call(self.name, self._write_heartbeat), *(self._renew(held) for held in self._held.values())
            )
            await asyncio.sleep(self.leases.term / RENEWALS)

    async def _write_heartbeat(self) -> None:
        """Store the heartbeat of this instance and delete those of instances that stopped long ago."""
        self._heartbeats += 1
        bucket = await self._open_bucket()
        document = LeaseDocument(self.name, beat=self._heartbeats)
        await bucket.put(heartbeat_key(self.kind, self.name), document.encode())
        self._initialized.set()
        for name in self.leases.find_expired(loop_time()):
            await bucket.delete(heartbeat_key(self.kind, name))

    async def _renew(self, held: HeldTopic[W]) -> None:
        topic = held.lease.topic
        try:
            await self._call(topic, held.lease.renew)
        except Superseded as problem:
            if self._held.get(topic) is held:
                self._log.warning("lost the lease of topic %s: %s", topic, problem)
                del self._held[topic]
                self._cancel(held)

    def _cancel(self, held: HeldTopic[W]) -> None:
        """Cancel the work. Appends still in flight are refused by offset or dropped by epoch."""
        held.task.cancel()
        self._cancelled_tasks.add(held.task)
        held.task.add_done_callback(self._discard)

    def _discard(self, task: asyncio.Task[None]) -> None:
        """Forget an ended task. Reading its exception avoids the warning that the exception was never retrieved."""
        self._cancelled_tasks.discard(task)
        if not task.cancelled():
            task.exception()

    async def _manage_topics(self) -> None:
        """Take free topics, update the work on held ones, handle the end of work."""
        await self._initialized.wait()
        while True:
            self._follower.changed.clear()
            for topic, held in list(self._held.items()):
                if self._held.get(topic) is held:  # the lease may have been lost while another topic was handled
                    await (self._handle_end if held.task.done() else self._update_work)(topic, held)
            for topic in self._needed_topics() - self._held.keys():
                now = loop_time()
                if self._backoff_until.get(topic, 0.0) <= now and self._lease_policy.can_take(topic, now):
                    await self._take(topic)
            with suppress(TimeoutError):
                async with asyncio.timeout(min(CHECK_INTERVAL, self.leases.term / RENEWALS)):
                    await self._follower.changed.wait()

    async def _take(self, topic: str) -> None:
        async def take_lease() -> Lease | None:
            return await take(await self._open_bucket(), self.leases, topic, self.name, loop_time())

        lease = await self._call(topic, take_lease)
        if lease is not None:
            self._start_work(lease, loop_time())

    def _start_work(self, lease: Lease, taken_at: float) -> None:
        work = self._create_work(lease)
        task = asyncio.create_task(work.run(), name=f"{self.kind} {lease.topic}")
        task.add_done_callback(lambda _: self._follower.changed.set())
        self._held[lease.topic] = HeldTopic(lease, work, task, taken_at)

    async def _handle_end(self, topic: str, held: HeldTopic[W]) -> None:
        """Release or restart a topic whose work is done, superseded or failed."""
        failure = held.task.exception() if not held.task.cancelled() else None
        if isinstance(failure, TransportClosed):
            raise failure
        if isinstance(failure, UnknownLog | UnknownTopic):
            await self._release_deleted(topic, held, str(failure))
        elif isinstance(failure, Superseded):
            await self._restart(topic, held, failure)
        elif failure is not None:
            unexpected = None if isinstance(failure, ThinwireError) else failure
            self._log.warning("work on topic %s failed: %s", topic, failure, exc_info=unexpected)
            await self._release(topic, held, BACKOFF)
        else:
            await self._release(topic, held)

    async def _restart(self, topic: str, held: HeldTopic[W], failure: Superseded) -> None:
        """Restart superseded work under a new epoch if this instance still holds the lease.

        The write that superseded the work is then from a former holder that was paused. The restarted work resumes
        after that write.
        """

        async def advance_epoch() -> bool:
            await held.lease.advance()
            return True

        del self._held[topic]
        self._log.warning("work on topic %s superseded: %s", topic, failure)
        with suppress(Superseded):
            if await self._call(topic, advance_epoch):
                self._start_work(held.lease, held.taken_at)

    async def _release(self, topic: str, held: HeldTopic[W], backoff: float = 0.0) -> None:
        self._held.pop(topic, None)
        if backoff:
            self._backoff_until[topic] = loop_time() + backoff
        with suppress(Superseded):
            await self._call(topic, held.lease.release)

    async def _call(self, name: str, call: Callable[[], Awaitable[T]]) -> T | None:
        """Make a broker call for at most one lease term. Return None if it fails; callers continue or repeat it later.

        name: topic or instance that the call is for, used in the log
        """
        try:
            async with asyncio.timeout(self.leases.term):
                return await call()
        except (TransportClosed, Superseded):
            raise
        except (TransportError, TimeoutError) as problem:
            self._log.info("%s: no answer from the broker for %s: %s", self.kind, name, problem)
            return None

    async def _open_bucket(self) -> Bucket:
        if self._opened_bucket is None:
            self._opened_bucket = await self.broker.bucket(self.lease_bucket)
        return self._opened_bucket

    async def _stop(self) -> None:
        """Cancel all work and release the leases, so that other instances need not wait until the leases expire."""
        released, self._held = list(self._held.values()), {}
        for held in released:
            self._cancel(held)
        await asyncio.gather(*self._cancelled_tasks, return_exceptions=True)
        with suppress(TransportError, TimeoutError):
            async with asyncio.timeout(RELEASE_TIMEOUT):
                for held in released:
                    with suppress(Superseded):
                        await held.lease.release()
                await (await self._open_bucket()).delete(heartbeat_key(self.kind, self.name))
