"""A watch that is evaluated here, where no service does: the same evaluation, and it ends with this process."""

from __future__ import annotations

from collections.abc import Callable

from thinwire.brokers.protocol_broker import Broker, Listener
from thinwire.client.notices import Notice
from thinwire.client.watch_hit import Hit, HitMaker
from thinwire.client.watch_hit_watch_notices import notice_of
from thinwire.clock import Clock
from thinwire.topics.names import alive_subject
from thinwire.topics.watches.watch_documents import WatchOptions
from thinwire.topics.watches.watch_evaluation_evaluation import Evaluation
from thinwire.topics.watches.watch_quantities_resolving import Resolved


class DirectWatch:
    """Evaluates one watch for one watcher."""

    def __init__(
        self,
        broker: Broker,
        clock: Clock,
        resolved: Resolved,
        options: WatchOptions,
        identity: str,
        tell: Callable[[Notice], None],
    ) -> None:
        self._broker = broker
        self._identity = identity
        self._tell = tell
        self._condition = resolved.condition
        self._hits = HitMaker(resolved.condition, resolved.topics)
        self._evaluation = Evaluation(broker, clock, resolved, options, identity, durable=False)
        self._listener: Listener | None = None

    async def open(self) -> list[Hit]:
        """Begin; there is nothing to tell yet."""
        self._listener = await self._broker.listen(alive_subject(self._identity), _alive)
        await self._evaluation.begin()
        return []

    async def next(self, timeout: float) -> list[Hit]:
        """What is to be told now."""
        step = await self._evaluation.next(timeout)
        for notice in step.notices:
            self._tell(notice_of(notice))
        deliveries = (message.delivery(self._condition) for message in step.messages)
        return [self._hits.hit(delivery) for delivery in deliveries if delivery is not None]

    async def worked_off(self, hit: Hit) -> None:
        """Nothing is kept."""

    async def close(self, last: Hit | None) -> None:
        """Read no more, and ask for nothing."""
        await self._evaluation.close()
        if self._listener is not None:
            await self._listener.close()
            await self._evaluation.demands.end()


async def _alive(subject: str, payload: bytes) -> bytes | None:
    return b"here"
