"""The placement controller: it watches promises, and moves topics whose promise is broken. Several may run; one leads.

Whoever holds the lease leads, and writes its epoch into the assignment; every write insists on the assignment it was
made from, so of two that believe to lead for a moment one is refused. The others read along and are ready at once.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import suppress

from thinwire.brokers.protocol import Broker
from thinwire.edge.edge_documents import ASSIGNMENT, EDGE, EDGE_LEADER, Assignment
from thinwire.edge.edge_host import TERM
from thinwire.edge.edge_state import EdgeState
from thinwire.edge.move_decision import Decider, EdgeView, Sight
from thinwire.errors import Conflict, Superseded, TransportClosed, TransportError
from thinwire.placement import Rising
from thinwire.placement.calibration import Learner
from thinwire.topics.bucket_follower import leased
from thinwire.topics.leases import BEATS, Lease, Leases, take
from thinwire.topics.names import check_name_token

LEADER = "edge"
GONE = 2.0
"""terms without a sign of life after which a host's topics are moved: moving them all costs more than a short wait"""
CALM = 60.0
"""seconds without a broken promise or a move before a host is spared"""

_log = logging.getLogger("thinwire.edge")


class Controller:
    """One controller at the hub; `run` it as a task and cancel that to end it.

    model: what latencies are expected; it goes on learning from reports
    k: topics on a host, at most; tick: seconds between two decisions; pause: seconds after a move before the next
    save: also move topics so that hosts are left over
    """

    def __init__(
        self,
        broker: Broker,
        model: Rising,
        *,
        name: str = "",
        k: int = 6,
        term: float = TERM,
        tick: float = 1.0,
        pause: float = 6.0,
        save: bool = False,
    ) -> None:
        self.name = check_name_token(name or f"c{secrets.token_hex(4)}", "name")
        self.tick, self.pause, self.save, self.k = tick, pause, save, k
        self.moved: list[tuple[str, str]] = []
        """the topics that it has moved, each with its new host"""
        self.short = False
        """does it lack a host? A new one is used as soon as it is there"""
        self._broker = broker
        self._learner = Learner(model)
        self._hosts, self._leaders = Leases(GONE * term, "host"), Leases(term, "controller")
        more = {EDGE_LEADER: lambda: leased(self._leaders)}
        self._state = EdgeState(broker, self._hosts, reported=True, more=more)
        self._sight = Sight(self._state)
        self._lease: Lease | None = None
        self._calm_since = self._rest_until = 0.0
        self._told_short = -CALM

    @property
    def leads(self) -> bool:
        """Does it lead, as far as it knows?"""
        return self._lease is not None

    async def run(self) -> None:
        """Control until cancelled, or until the connection is closed."""
        try:
            async with asyncio.TaskGroup() as group:
                for bucket in self._state.buckets:
                    group.create_task(self._state.follow(bucket), name=f"controller {bucket}")
                group.create_task(self._run_for_office(), name="controller leads")
                group.create_task(self._govern(), name="controller governs")
        except* TransportClosed:
            _log.info("the connection was closed: the controller ends")
        finally:
            await self._resign()

    async def _run_for_office(self) -> None:
        await self._state.complete.wait()
        while True:
            with suppress(TransportError, TimeoutError):
                async with asyncio.timeout(self._leaders.term):
                    await self._stand()
            await asyncio.sleep(self._leaders.term / BEATS)

    async def _stand(self) -> None:
        """Keep the lease, or take it where it is free."""
        if self._lease is not None:
            try:
                await self._lease.beat()
            except Superseded as problem:
                _log.warning("another controller leads: %s", problem)
                self._lease = None
        elif self._leaders.is_free(LEADER, _now()):
            bucket = await self._broker.bucket(EDGE_LEADER)
            self._lease = await take(bucket, self._leaders, LEADER, self.name, _now())
            self._calm_since = _now()

    async def _govern(self) -> None:
        await self._state.complete.wait()
        looked = _now()
        while True:
            await asyncio.sleep(self.tick)
            if _now() - looked > self.tick + self._leaders.term / 2:
                # it was asleep itself, and has not read yet what others said meanwhile
                await asyncio.sleep(self._leaders.term)
            looked = _now()
            if self._lease is not None:
                with suppress(TransportError, TimeoutError):
                    async with asyncio.timeout(self._leaders.term):
                        await self._decide(self._lease)

    async def _decide(self, lease: Lease) -> None:
        now = _now()
        view = self._sight.view(self._hosts.members(now), now)
        broken = self._sight.broken(now)
        gone = {topic for topic in view.topics if view.at.get(topic) not in view.hosts} - view.pinned
        if broken or gone:
            self._calm_since = now
        else:
            self.short = False
            self._learn(view, now)
        if now < self._rest_until and not gone:
            return
        decider = Decider(self._learner.model, self.k)
        if broken or gone:
            stubborn = self._sight.stubborn(now)
            moves = decider.moves(view, broken, stubborn)
            self._report_shortage(stubborn if not moves else set(), now)
            await self._move(lease, moves)
        elif self.save and now - self._calm_since >= CALM:
            await self._move(lease, decider.saves(view))

    def _report_shortage(self, helpless: set[str], now: float) -> None:
        """Say now and then that promises are broken which no change among the hosts that are there would mend."""
        self.short = bool(helpless)
        if self.short and now >= self._told_short + CALM:
            self._told_short = now
            _log.warning("one more host is needed, or a split of topics: no move mends %s", ", ".join(sorted(helpless)))

    def _learn(self, view: EdgeView, now: float) -> None:
        """Only from calm: while a queue runs full or empty its latency says nothing of the load."""
        if now < self._rest_until:
            return
        seen = self._sight.seen(now)
        for host, topics in view.placed().items():
            p90 = [seen[topic].p90 if topic in seen else None for topic in topics]
            if any(one is not None for one in p90):
                self._learner.observe([view.topics[topic] for topic in topics], view.hosts[host], p90)

    async def _move(self, lease: Lease, moves: dict[str, str]) -> None:
        if not moves:
            return
        before = self._state.assignment
        if before.epoch > lease.epoch:
            raise Superseded("a later controller has written", epoch=lease.epoch, newer=before.epoch)
        after = Assignment({**before.hosts, **moves}, before.version + 1, lease.epoch)
        bucket = await self._broker.bucket(EDGE)
        try:
            await bucket.put(ASSIGNMENT, after.encode(), revision=self._state.revision)
        except Conflict:
            return  # somebody else has changed it: the next decision starts from there
        self.moved += moves.items()
        self._rest_until = self._calm_since = _now() + self.pause
        for topic, host in moves.items():
            _log.warning("%s moves from %s to %s", topic, before.hosts.get(topic, "nowhere"), host)

    async def _resign(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            with suppress(TransportError, TimeoutError):
                async with asyncio.timeout(1.0):
                    await lease.release()


def _now() -> float:
    """The time by which leases run out: this process's own, which nobody sets."""
    return asyncio.get_running_loop().time()
