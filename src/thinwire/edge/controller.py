"""The placement controller: moves topics whose latency limit is exceeded, or whose host stopped.

Several controllers may run; the holder of the lease decides. It writes its epoch into the assignment, and every write
expects the revision it was computed from, so that only one of two controllers that both assume leadership succeeds. The
others follow the state and take over after one lease term.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from thinwire.brokers.protocol import Broker
from thinwire.edge.edge_documents import ASSIGNMENT, EDGE, EDGE_LEADER, Assignment
from thinwire.edge.edge_host import TERM
from thinwire.edge.edge_state import EdgeState
from thinwire.edge.move_decision import EdgeMonitor, EdgeView, MoveDecider
from thinwire.errors import Conflict, Superseded, TransportError
from thinwire.placement import MonotoneModel
from thinwire.placement.latency_model import LatencyFeedback
from thinwire.services.leased_service import HeldTopic, LeasedService
from thinwire.services.service_base import loop_time
from thinwire.topics.leases import Lease, Leases

LEADER = "edge"
"""name of the controllers' lease"""
STOPPED_TERMS = 2.0
"""lease terms without renewal after which the topics of a host are moved; moving them costs more than a short wait"""
CALM_PERIOD = 60.0
"""seconds without a violation or a move before a host is emptied"""

_log = logging.getLogger("thinwire.edge")


@dataclass(eq=False)
class Leadership:
    """The work of the leading controller: one decision per interval."""

    lease: Lease
    decide: Callable[[Lease], Awaitable[None]]
    interval: float
    term: float
    is_stopping: bool = False

    def stop(self) -> None:
        self.is_stopping = True

    async def run(self) -> None:
        decided = loop_time()
        while not self.is_stopping:
            await asyncio.sleep(self.interval)
            if loop_time() - decided > self.interval + self.term / 2:
                # The process was paused, and the changes of that time have not been read yet.
                await asyncio.sleep(self.term)
            decided = loop_time()
            try:
                async with asyncio.timeout(self.term):
                    await self.decide(self.lease)
            except Superseded:
                raise
            except (TransportError, TimeoutError) as problem:
                _log.info("placement decision postponed: %s", problem)


class Controller(LeasedService[Leadership]):
    """One controller at the hub. Run `run` as a task and cancel it to stop the controller.

    model: latency model; it is adjusted by the reports
    k: topics on a host, at most
    tick: seconds between two decisions
    pause: seconds between two moves
    empty_hosts: also move topics so that fewer hosts are needed
    moved: the topics that were moved, with their new hosts
    lacks_host: no feasible move restores the latency limits; a new host is used as soon as it starts
    """

    def __init__(
        self,
        broker: Broker,
        model: MonotoneModel,
        *,
        name: str = "",
        k: int = 6,
        term: float = TERM,
        tick: float = 1.0,
        pause: float = 6.0,
        empty_hosts: bool = False,
    ) -> None:
        self.tick, self.pause, self.empty_hosts, self.k = tick, pause, empty_hosts, k
        self.moved: list[tuple[str, str]] = []
        self.lacks_host = False
        self._hosts, leaders = Leases(STOPPED_TERMS * term, "host"), Leases(term, "controller")
        self._state = EdgeState(broker, self._hosts, leaders)
        super().__init__(broker, name, leaders, EDGE_LEADER, self._state, 0.0, _log)
        self._feedback = LatencyFeedback(model)
        self._monitor = EdgeMonitor(self._state)
        self._calm_since = self._paused_until = 0.0
        self._last_warning = -CALM_PERIOD

    def _needed_topics(self) -> set[str]:
        return {LEADER}

    def _create_work(self, lease: Lease) -> Leadership:
        self._calm_since = loop_time()
        return Leadership(lease, self._decide, self.tick, self.leases.term)

    async def _update_work(self, topic: str, held: HeldTopic[Leadership]) -> None:
        """Nothing to pass on: decisions read the current state."""

    async def _write_heartbeat(self) -> None:
        """Store none: a controller that knows no other takes the lease as soon as it is free, and keeps it."""
        self._initialized.set()

    async def _decide(self, lease: Lease) -> None:
        now = loop_time()
        view = self._monitor.view(self._hosts.running_instances(now), now)
        violated = self._monitor.find_violated(now)
        unplaced = view.unplaced()
        if violated or unplaced:
            self._calm_since = now
        else:
            self.lacks_host = False
            self._adjust_model(view, now)
        if now < self._paused_until and not unplaced:
            return
        decider = MoveDecider(self._feedback.model, self.k, view)
        if violated or unplaced:
            persistent = self._monitor.find_persistent(now)
            moves = decider.find_moves(violated, persistent)
            self._report_shortage(persistent if not moves else set(), now)
            await self._move(lease, moves)
        elif self.empty_hosts and now - self._calm_since >= CALM_PERIOD:
            await self._move(lease, decider.find_savings())

    def _report_shortage(self, topics: set[str], now: float) -> None:
        """Log topics whose limit no feasible move restores, at most once per `CALM_PERIOD`."""
        self.lacks_host = bool(topics)
        if self.lacks_host and now >= self._last_warning + CALM_PERIOD:
            self._last_warning = now
            _log.warning("no feasible move restores %s; add a host or split a topic", ", ".join(sorted(topics)))

    def _adjust_model(self, view: EdgeView, now: float) -> None:
        """Adjust the model in calm periods only: while a backlog changes, latency does not reflect the load."""
        if now < self._paused_until:
            return
        measured = self._monitor.measurements(now)
        for host, topics in view.placed().items():
            p90 = [measured[topic].p90 if topic in measured else None for topic in topics]
            if any(latency is not None for latency in p90):
                self._feedback.observe([view.topics[topic] for topic in topics], view.hosts[host], p90)

    async def _move(self, lease: Lease, moves: dict[str, str]) -> None:
        if not moves:
            return
        before = self._state.assignment
        if before.epoch > lease.epoch:
            # Raises Superseded if a later controller leads. Otherwise the lease bucket was lost, and with it the epoch.
            await lease.advance(before.epoch)
        after = Assignment({**before.hosts, **moves}, before.version + 1, lease.epoch)
        bucket = await self.broker.bucket(EDGE)
        with suppress(Conflict):  # changed meanwhile; the next decision uses the new assignment
            await bucket.put(ASSIGNMENT, after.encode(), revision=self._state.revision)
            self.moved += moves.items()
            self._paused_until = self._calm_since = loop_time() + self.pause
            for topic, host in moves.items():
                _log.warning("moved topic %s from %s to %s", topic, before.hosts.get(topic, "no host"), host)
