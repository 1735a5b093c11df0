"""Which host takes which topic: the one that the assignment names, and another one where that is gone.

A controller moves the topics of a dead host by its model. Hosts do not rely on one: a topic that nobody has had for
three terms goes to one of those that are there, all of which come to the same choice; and back when its host is back.

An edge host: it processes the topics that are assigned to it, each in a worker of its own, and tells how it goes.

Topics come and go with the assignment. A topic that goes ends behind the message in hand, says how far it got and
gives its lease back; the next host goes on there. Any host may be killed at any time: see
`thinwire.services.leased_service`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

from thinwire.brokers.protocol import Broker
from thinwire.edge.edge_documents import (
    EDGE,
    EDGE_LEASES,
    EDGE_REPORTS,
    EdgeHostDocument,
    EdgeReport,
    EdgeTopic,
    host_key,
)
from thinwire.edge.edge_state import EdgeState
from thinwire.edge.result_log import EdgeLetters
from thinwire.edge.topic_processor import TopicProcessor
from thinwire.edge.topic_worker import ProcessWorker, TimedWorker, TopicWorker, VirtualCores
from thinwire.errors import TransportError
from thinwire.services.leased_service import HeldTopic, LeasedService, TopicShare, chosen
from thinwire.topics.leases import Lease, Leases
from thinwire.topics.names import check_name_token

RELUCTANCE = 3.0
"""terms that a topic waits for its host, or for a controller, before another host takes it"""


class Assigned(TopicShare):
    """The share of one host."""

    def __init__(self, name: str, leases: Leases, knowledge: EdgeState) -> None:
        super().__init__(name, leases, pause=0.0)
        self._state = knowledge

    def meant_for(self, topic: str, now: float) -> str:
        """The host that shall have a topic, among those that are there; "" where it must wait for one that is not."""
        wanted = self._state.assignment.hosts.get(topic, "")
        there = self.leases.members(now) | {self.name}
        document = self._state.topics.get(topic)
        if wanted in there:
            return wanted
        if document is not None and document.host:
            return ""
        return chosen(topic, there)

    def is_ours(self, topic: str, now: float) -> bool:
        return self.meant_for(topic, now) == self.name

    def may_take(self, topic: str, now: float) -> bool:
        """A topic named for this host is taken once it is free; that of a host that is gone, after a while."""
        if not self.leases.is_free(topic, now) or not self.is_ours(topic, now):
            return False
        named = self._state.assignment.hosts.get(topic) == self.name
        return named or self.leases.quiet(topic, now) >= RELUCTANCE * self.leases.term

    def should_hand_over(self, topic: str, held_for: float, now: float) -> bool:
        """Is another host that is there meant to have it?"""
        return self.meant_for(topic, now) not in (self.name, "")


TERM = 2.0
"""seconds without a sign of life after which others take a host's topics over"""
REPORT = 1.0

_log = logging.getLogger("thinwire.edge")


class EdgeHost(LeasedService[TopicProcessor]):
    """One host at the hub; `run` it as a task and cancel that to end it.

    about: its name, and what a placement may count on
    near: its own broker, for topics whose messages stay here
    emulated: give it cores that exist only by timer; functions are not called then
    path: folders where the modules of functions are looked for first
    """

    def __init__(
        self,
        broker: Broker,
        about: EdgeHostDocument,
        *,
        near: Broker | None = None,
        emulated: bool = False,
        path: Sequence[str] = (),
        term: float = TERM,
        report: float = REPORT,
    ) -> None:
        leases = Leases(term, "host")
        self._state = EdgeState(broker, leases)
        super().__init__(broker, check_name_token(about.name, "name"), leases, EDGE_LEASES, self._state, 0.0, _log)
        self._topic_share = Assigned(about.name, leases, self._state)
        self.about, self.near, self.path, self.report = about, near, tuple(path), report
        self._cores = VirtualCores(about.placed) if emulated else None
        self._letters = EdgeLetters(broker, about.name)
        self._reports = 0

    async def run(self) -> None:
        """Serve until cancelled, or until the connection is closed."""
        telling = asyncio.create_task(self._report(), name=f"host {self.name} reports")
        try:
            await super().run()
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)

    def _needed(self) -> set[str]:
        return {topic for topic in self._state.needed() if self._reachable(self._state.topics[topic])}

    def _reachable(self, document: EdgeTopic) -> bool:
        """A topic whose messages stay at a host is for that host alone."""
        return not document.near or (document.host == self.name and self.near is not None)

    def _begin(self, lease: Lease) -> TopicProcessor:
        document = self._state.topics[lease.topic]
        source = self.near if document.near and self.near is not None else self.broker
        return TopicProcessor(source, self.broker, lease, document, self._worker(document), self._letters)

    def _worker(self, document: EdgeTopic) -> TopicWorker:
        if self._cores is not None:
            return TimedWorker(self._cores, document.interval)
        model = partial(self._state.models.get, document.topic)
        return ProcessWorker(document.function, document.megabytes, self.path, model)

    async def _maintain(self, topic: str, held: HeldTopic[TopicProcessor]) -> None:
        """A topic ends here when it shall be elsewhere, or is processed otherwise from now on."""
        changed = self._state.topics.get(topic) != held.work.document
        if changed or topic not in self._needed() or self._should_hand_over(topic, held):
            held.work.stop()

    async def _report(self) -> None:
        """Say what this host is, then again and again how its topics do."""
        await self.ready()
        introduced = False
        while True:
            with suppress(TransportError, TimeoutError):
                async with asyncio.timeout(self.leases.term):
                    if not introduced:
                        await (await self.broker.bucket(EDGE)).put(host_key(self.name), self.about.encode())
                        introduced = True
                    await self._reported()
            await asyncio.sleep(self.report)

    async def _reported(self) -> None:
        works = self.works
        await asyncio.gather(*(work.look(time.monotonic()) for work in works.values()), return_exceptions=True)
        self._reports += 1
        now = time.time()
        report = EdgeReport(self.name, self._reports, {topic: work.seen(now) for topic, work in works.items()})
        await (await self.broker.bucket(EDGE_REPORTS)).put(self.name, report.encode())


@asynccontextmanager
async def at_work(host: EdgeHost) -> AsyncIterator[asyncio.Task[None]]:
    """A host that runs, and is known to others; the task ends when it does."""
    task = asyncio.create_task(host.run(), name=f"host {host.name}")
    try:
        await host.ready()
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
