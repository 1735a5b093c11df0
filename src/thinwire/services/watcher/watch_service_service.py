"""The watch service at a broker: it evaluates the watches that are its share.

Several may run, and any of them may be killed at any time: see `thinwire.services.leased_service`. A watch goes on
where its own log ends, so those who follow it notice a pause and nothing else.
"""

from __future__ import annotations

import json
import logging
import secrets

from thinwire.brokers.protocol_broker import Broker
from thinwire.clock import Clock, WallClock
from thinwire.services.leased_service import Held, SharingService
from thinwire.services.watcher.watch_runner import Habits, WatchWork
from thinwire.services.watcher.watch_service import Knowledge
from thinwire.topics.leases import Lease, Leases
from thinwire.topics.names import WATCH_LEASES, check_word, evaluator_subject

_log = logging.getLogger("thinwire.watching")


class WatchService(SharingService[WatchWork]):
    """One watch service at one connection; `run` it as a task and cancel that to end it.

    name: its own among them; lease: seconds without a sign of life after which others take its watches over
    handover: seconds that a watch stays where it is, at least, before it goes to the one that it is meant for
    habits: how watches are looked after
    """

    def __init__(
        self,
        broker: Broker,
        clock: Clock | None = None,
        *,
        name: str = "",
        lease: float = 2.5,
        handover: float = 10.0,
        habits: Habits | None = None,
    ) -> None:
        name = check_word(name or f"w{secrets.token_hex(4)}", "name")
        leases = Leases(lease, kind="watcher")
        self._knowledge = Knowledge(broker, leases)
        super().__init__(broker, name, leases, WATCH_LEASES, self._knowledge, handover, _log)
        self.clock = clock or WallClock()
        self.habits = habits or Habits()

    async def run(self) -> None:
        """Serve until cancelled, or until the connection is closed."""
        listener = await self.broker.listen(evaluator_subject(), self._present)
        try:
            await super().run()
        finally:
            await listener.close()

    def _needed(self) -> set[str]:
        return self._knowledge.needed()

    def _begin(self, lease: Lease) -> WatchWork:
        return WatchWork(self.broker, self.clock, lease, self.habits, self._knowledge.watchers(lease.topic))

    async def _look_after(self, topic: str, held: Held[WatchWork]) -> None:
        held.work.ask(self._knowledge.watchers(topic))
        if self._should_hand_over(topic, held):
            held.work.stop()

    async def _present(self, subject: str, payload: bytes) -> bytes | None:
        """That there is somebody who evaluates watches."""
        return json.dumps({"name": self.name, "watches": len(self.works)}).encode()
