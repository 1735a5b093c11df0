"""The dictionary service at a broker: it samples the topics that are its share, and looks after their dictionaries.

Several may run, and any of them may be killed at any time: see `thinwire.services.leased_service`. While none runs,
publishers go on with the dictionaries they have until these expire, and without after that.
"""

from __future__ import annotations

import logging
import secrets
from functools import partial

from thinwire.brokers.protocol_broker import Broker
from thinwire.clock import Clock, WallClock
from thinwire.services.dictionary_trainer.dictionary_service import Knowledge
from thinwire.services.dictionary_trainer.topic_sampler import Habits, TopicSampling
from thinwire.services.leased_service import Held, SharingService
from thinwire.topics.leases import Lease, Leases
from thinwire.topics.names import SAMPLERS, check_word

_log = logging.getLogger("thinwire.dictionaries")


class DictionaryService(SharingService[TopicSampling]):
    """One dictionary service at one connection; `run` it as a task and cancel that to end it.

    name: its own among them; lease: seconds without a sign of life after which others take its topics over
    handover: seconds that a topic stays where it is, at least, before it goes to the one that it is meant for
    habits: how topics are sampled
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
        name = check_word(name or f"d{secrets.token_hex(4)}", "name")
        leases = Leases(lease, kind="sampler")
        self._knowledge = Knowledge(broker, leases)
        super().__init__(broker, name, leases, SAMPLERS, self._knowledge, handover, _log)
        self.clock = clock or WallClock()
        self.habits = habits or Habits()

    def _needed(self) -> set[str]:
        return self._knowledge.needed()

    def _begin(self, lease: Lease) -> TopicSampling:
        topology = partial(self._knowledge.topology, lease.topic)
        return TopicSampling(self.broker, self.clock, lease, self.habits, topology)

    async def _look_after(self, topic: str, held: Held[TopicSampling]) -> None:
        if not self._knowledge.needs(topic) or self._should_hand_over(topic, held):
            held.work.stop()
