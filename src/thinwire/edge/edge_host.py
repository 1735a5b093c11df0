"""An edge host: processes its assigned topics, each in a worker process, and reports measurements.

A topic runs on the host that the assignment names. The controller reassigns the topics of a host that stopped. Hosts do
not depend on it: after `TAKEOVER_TERMS` without a holder one of the remaining hosts, chosen by rendezvous hashing,
takes a topic, and returns it when its host is back. A topic that moves ends after the current message, stores its
position and releases its lease; see `thinwire.services.leased_service`.

A host can have its own broker, which is connected to the hub as a leaf node. Publishers and subscribers near the host
use it. Messages under `tw.near` stay there; the broker does not forward them. Everything that must survive the host is
stored at the hub: logs of topics that may move, the assignment and the leases.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from thinwire.brokers.embedded import EmbeddedServer
from thinwire.brokers.nats.broker import connect
from thinwire.brokers.protocol import Broker
from thinwire.edge.edge_documents import (
    EDGE,
    EDGE_LEASES,
    EDGE_REPORTS,
    NEAR,
    EdgeHostDocument,
    EdgeReport,
    EdgeTopic,
    edge_key,
)
from thinwire.edge.edge_state import EdgeState
from thinwire.edge.topic_processor import TopicProcessor
from thinwire.edge.topic_worker import ProcessWorker, TopicWorker
from thinwire.errors import TransportError
from thinwire.services.leased_service import HeldTopic, LeasedService, LeasePolicy, choose_instance
from thinwire.topics.dead_letters import DeadLetters
from thinwire.topics.leases import Lease, Leases

TAKEOVER_TERMS = 3.0
"""lease terms that a topic waits for its host, or for a controller, before another host takes it"""
TERM = 2.0
"""lease term in seconds"""
REPORT_INTERVAL = 1.0

_log = logging.getLogger("thinwire.edge")


class AssignedLeasePolicy(LeasePolicy):
    """The topics that one host should hold, by the assignment."""

    def __init__(self, name: str, leases: Leases, state: EdgeState) -> None:
        super().__init__(name, leases, handover_delay=0.0)
        self._state = state

    def preferred_host(self, topic: str, now: float) -> str:
        """Return the running host that should have a topic; "" if its only host is not running."""
        assigned = self._state.assignment.hosts.get(topic, "")
        running = self.leases.running_instances(now) | {self.name}
        document = self._state.topics.get(topic)
        if assigned in running:
            return assigned
        if document is not None and document.host:
            return ""
        return choose_instance(topic, running)

    def can_take(self, topic: str, now: float) -> bool:
        """An assigned topic is taken once it is free; the topic of a stopped host after `TAKEOVER_TERMS`."""
        if not self.leases.is_free(topic, now) or self.preferred_host(topic, now) != self.name:
            return False
        is_assigned = self._state.assignment.hosts.get(topic) == self.name
        return is_assigned or self.leases.unchanged_seconds(topic, now) >= TAKEOVER_TERMS * self.leases.term

    def should_hand_over(self, topic: str, held_for: float, now: float) -> bool:
        return self.preferred_host(topic, now) not in (self.name, "")


class EdgeHost(LeasedService[TopicProcessor]):
    """One host. Run `run` as a task and cancel it to stop the host.

    about: name and capacity
    near: the host's own broker, for topics whose messages stay here
    path: folders that are searched first for the modules of functions
    term: lease term in seconds
    report: seconds between two reports
    worker: creates the worker of a topic; worker processes by default
    """

    def __init__(
        self,
        broker: Broker,
        about: EdgeHostDocument,
        *,
        near: Broker | None = None,
        path: Sequence[str] = (),
        term: float = TERM,
        report: float = REPORT_INTERVAL,
        worker: Callable[[EdgeTopic], TopicWorker] | None = None,
    ) -> None:
        leases = Leases(term, "host")
        self._state = EdgeState(broker, leases)
        super().__init__(broker, about.name, leases, EDGE_LEASES, self._state, 0.0, _log)
        self._lease_policy = AssignedLeasePolicy(about.name, leases, self._state)
        self.about, self.near, self.path, self.report = about, near, tuple(path), report
        self._create_worker = worker or self._create_process_worker
        self._letters = DeadLetters(broker, about.name)
        self._reports = 0

    def _tasks(self) -> Mapping[str, Coroutine[Any, Any, None]]:
        return {**super()._tasks(), "reports": self._report_all()}

    def _needed_topics(self) -> set[str]:
        return {topic for topic in self._state.assigned_topics() if self._is_reachable(self._state.topics[topic])}

    def _is_reachable(self, document: EdgeTopic) -> bool:
        """Return whether this host can read the input log. One that stays at a host is readable there only."""
        return not document.near or (document.host == self.name and self.near is not None)

    def _create_work(self, lease: Lease) -> TopicProcessor:
        document = self._state.topics[lease.topic]
        source = self.near if document.near and self.near is not None else self.broker
        return TopicProcessor(source, self.broker, lease, document, self._create_worker(document), self._letters)

    def _create_process_worker(self, document: EdgeTopic) -> TopicWorker:
        model = partial(self._state.models.get, document.topic)
        return ProcessWorker(document.function, document.megabytes, self.path, model)

    async def _update_work(self, topic: str, held: HeldTopic[TopicProcessor]) -> None:
        """Stop a topic that should run elsewhere, or whose settings changed."""
        has_changed = self._state.topics.get(topic) != held.work.document
        if has_changed or topic not in self._needed_topics() or self._should_hand_over(topic, held):
            held.work.stop()

    async def _report_all(self) -> None:
        """Store the document of this host, then a report at every interval."""
        await self.ready()
        is_registered = False
        while True:
            with suppress(TransportError, TimeoutError):
                async with asyncio.timeout(self.leases.term):
                    if not is_registered:
                        await (await self.broker.bucket(EDGE)).put(edge_key("host", self.name), self.about.encode())
                        is_registered = True
                    await self._report()
            await asyncio.sleep(self.report)

    async def _report(self) -> None:
        processors = self.active_work
        await asyncio.gather(
            *(processor.sample_log(time.monotonic()) for processor in processors.values()), return_exceptions=True
        )
        self._reports += 1
        now = time.time()
        topics = {topic: processor.measurements(now) for topic, processor in processors.items()}
        report = EdgeReport(self.name, self._reports, topics)
        await (await self.broker.bucket(EDGE_REPORTS)).put(self.name, report.encode())


@asynccontextmanager
async def running_host(host: EdgeHost) -> AsyncIterator[asyncio.Task[None]]:
    """Run a host; yields its task when others can see it."""
    task = asyncio.create_task(host.run(), name=f"host {host.name}")
    try:
        await host.ready()
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def edge_server(name: str, leaf: str | None, directory: Path | None = None, port: int = 0) -> EmbeddedServer:
    """Return the broker of a host, not started; `leaf` is the hub's address for leaf nodes, None without a hub."""
    return EmbeddedServer(directory, port=port, hub=leaf, name=name, inside=[NEAR])


@asynccontextmanager
async def edge_node(
    hub: Broker, about: EdgeHostDocument, server: EmbeddedServer, *, path: Sequence[str] = (), term: float = TERM
) -> AsyncIterator[tuple[EdgeHost, asyncio.Task[None]]]:
    """Run a host with its own broker, which has been started; yields the host and its task."""
    near = await connect(server.url)
    host = EdgeHost(hub, replace(about, url=server.url), near=near, path=path, term=term)
    try:
        async with running_host(host) as task:
            yield host, task
    finally:
        await near.close()
