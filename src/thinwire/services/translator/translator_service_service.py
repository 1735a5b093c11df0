"""The translator as a service at a broker: it watches what is asked, and translates the topics that are its share.

Several may run, and any of them may be killed at any time: see `thinwire.services.leased_service`.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import suppress

from thinwire.brokers.protocol_broker import Broker
from thinwire.clock import Clock, WallClock
from thinwire.errors import Superseded
from thinwire.services.leased_service import REST, Held, SharingService
from thinwire.services.translator.topic_translation import Pace, TopicWork
from thinwire.services.translator.translator_recovery_resuming import forget
from thinwire.services.translator.translator_service import Knowledge
from thinwire.topics.leases import Lease, Leases
from thinwire.topics.names import LEASES, check_word

_log = logging.getLogger("thinwire.translator")


class TranslatorService(SharingService[TopicWork]):
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
        name = check_word(name or f"t{secrets.token_hex(4)}", "name")
        leases = Leases(lease)
        self._knowledge = Knowledge(broker, leases)
        super().__init__(broker, name, leases, LEASES, self._knowledge, handover, _log)
        self.clock = clock or WallClock()
        self.pace = Pace(linger, checkpoint_messages, checkpoint_seconds, grace)
        self._mourned: set[str] = set()

    def _needed(self) -> set[str]:
        return self._knowledge.needed()

    def _begin(self, lease: Lease) -> TopicWork:
        return TopicWork(self.broker, self.clock, lease, self.pace, self._knowledge.asked(lease.topic))

    async def _look_after(self, topic: str, held: Held[TopicWork]) -> None:
        if not self._knowledge.is_registered(topic):
            held.task.cancel()
            await asyncio.gather(held.task, return_exceptions=True)
            await self._remove(topic, held, "it is no longer registered")
            return
        held.work.ask(self._knowledge.asked(topic))
        if self._should_hand_over(topic, held):
            held.work.stop()

    async def _remove(self, topic: str, held: Held[TopicWork], why: str) -> None:
        known, self._mourned = self._mourned, self._mourned | {topic}
        _log.log(logging.INFO if topic in known else logging.WARNING, "%s is not translated any more: %s", topic, why)
        with suppress(Superseded):
            await self._tried(topic, forget(self.broker, topic, held.lease.epoch))
        await self._let_go(topic, held, REST)
