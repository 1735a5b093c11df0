"""A watch that is evaluated here, where no service does: the same evaluation, and it ends with this process.

A watch as its watcher sees it: an endless series of notifications over several topics.

Nothing is read on its own: asking for the next notification reads. Asking also says that those handed out before are
worked off.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Literal, Protocol

from thinwire.brokers.protocol import Broker, Listener
from thinwire.client.notices import Notice, NoTranslator, OutageMonitor
from thinwire.client.served_watch import ServedWatch
from thinwire.client.subscription import MAX_NOTICES, OnNotice
from thinwire.client.watch_hit import Hit, HitMaker, notice_of
from thinwire.clock import Clock
from thinwire.codec.kernel_warmup import warm_up
from thinwire.errors import ConfigError, NobodyAnswers, TransportClosed
from thinwire.filters.composite import Condition, parse
from thinwire.schema import Schema
from thinwire.topics.names import alive_subject, evaluator_subject
from thinwire.topics.watches.watch_documents import WatchDocument, WatchOptions
from thinwire.topics.watches.watch_evaluation import Evaluation
from thinwire.topics.watches.watch_quantities import Resolved, resolve_live


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

    async def acknowledge(self, hit: Hit) -> None:
        """Nothing is kept."""

    async def close(self, last: Hit | None) -> None:
        """Read no more, and ask for nothing."""
        await self._evaluation.close()
        if self._listener is not None:
            await self._listener.close()
            await self._evaluation.demands.end()


async def _alive(subject: str, payload: bytes) -> bytes | None:
    return b"here"


PULSE = 0.5
"""seconds without a notification after which a watcher looks around"""
ANSWER = 2.0
"""seconds that a service has to answer"""
HERE = "no watch service runs: this process evaluates the watch itself, and forgets it when it ends"
_NEEDS_SERVICE = "a durable watch needs the watch service: run `thinwire up`, or leave out durable"

_log = logging.getLogger("thinwire.client")


class Source(Protocol):
    """Where notifications come from."""

    async def open(self) -> list[Hit]: ...

    async def next(self, timeout: float) -> list[Hit]: ...

    async def acknowledge(self, hit: Hit) -> None: ...

    async def close(self, last: Hit | None) -> None: ...


class Watch:
    """Notifications of a watch, as `async for`. Made by `Bus.watch`.

    notices: the last things it was told beside notifications
    identity: its own among those who follow the watch, the durable name where it has one
    evaluated: "service" beside the broker, or "here" in this process; None before it is open
    """

    def __init__(
        self,
        broker: Broker,
        clock: Clock,
        expression: str,
        options: WatchOptions,
        *,
        identity: str,
        durable: str | None = None,
        schemas: Iterable[Schema] = (),
        ack_every: float = 0.2,
        limit: int = 256,
        on_notice: OnNotice | None = None,
    ) -> None:
        self.expression = str(parse(expression))  # what cannot be read is refused at once
        self.options = options
        self.identity = identity
        self.durable = durable
        self.notices: deque[Notice] = deque(maxlen=MAX_NOTICES)
        self.evaluated: Literal["service", "here"] | None = None
        self._written = expression
        self._broker = broker
        self._clock = clock
        self._schemas = tuple(schemas)
        self._ack_every = ack_every
        self._limit = limit
        self._on_notice = on_notice
        self._outage_monitor = OutageMonitor(broker.url, self._notify)
        self._resolved: Resolved | None = None
        self._source: Source | None = None
        self._ready: deque[Hit] = deque()
        self._handed_out: Hit | None = None
        self._acknowledged: Hit | None = None
        self._closed = False

    async def __aenter__(self) -> Watch:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(failed=kind is not None)

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Hit:
        await self.open()
        source = self._source
        if source is None:
            raise StopAsyncIteration
        if self._handed_out is not None:
            self._acknowledged, self._handed_out = self._handed_out, None
            await source.acknowledge(self._acknowledged)
        while not self._ready:
            if self._closed:
                raise StopAsyncIteration
            self._ready.extend(await source.next(PULSE))
            self._outage_monitor.note(self._broker.connected, self._clock.now())
        self._handed_out = self._ready.popleft()
        return self._handed_out

    @property
    def condition(self) -> Condition:
        """What is waited for, in ticks; known once it is open."""
        if self._resolved is None:
            raise TransportClosed("this watch is not open: use `async with bus.watch(...)`")
        return self._resolved.condition

    @property
    def watch(self) -> str:
        """The name of the watch: equal for all that mean the same, with the same options."""
        return WatchDocument.of(self.expression, self.condition.fingerprint, self.options).watch

    async def open(self) -> None:
        """Find the topics, and begin to watch.

        Raises ExpressionError, with the place, where the expression does not fit the topics.
        """
        if self._source is not None or self._closed:
            return
        self._resolved = resolved = await resolve_live(self._broker, self._written, self._schemas)
        await asyncio.to_thread(warm_up)
        source: Source
        if await self._is_served(resolved):
            source = self._served(resolved)
        else:
            self._notify(NoTranslator(HERE))
            _log.warning(HERE)
            source = DirectWatch(self._broker, self._clock, resolved, self.options, self.identity, self._notify)
        try:
            self._ready.extend(await source.open())
        except BaseException:
            await source.close(None)
            raise
        self._source, self.evaluated = source, "service" if isinstance(source, ServedWatch) else "here"

    async def close(self, *, failed: bool = False) -> None:
        """Stop. What was handed out counts as worked off, but for the last one where the caller failed on it. A
        durable watch goes on being evaluated, others end when nobody follows them."""
        if self._closed:
            return
        self._closed = True
        if self._source is not None:
            last = self._acknowledged if failed or self._handed_out is None else self._handed_out
            await self._source.close(last)

    async def _is_served(self, resolved: Resolved) -> bool:
        """Does a service evaluate watches? It knows only topics that are registered."""
        if self._schemas or not all(topic.managed for topic in resolved.topics.values()):
            if self.durable is not None:
                raise ConfigError("a durable watch needs registered topics", durable=self.durable)
            return False
        try:
            await self._broker.request(evaluator_subject(), b"", timeout=ANSWER)
        except NobodyAnswers:
            # one that was there before waits for its service, which is away for a while
            if self.durable is not None and not await self._served(resolved).is_known():
                raise ConfigError(_NEEDS_SERVICE, durable=self.durable) from None
            return self.durable is not None
        return True

    def _served(self, resolved: Resolved) -> ServedWatch:
        document = WatchDocument.of(self.expression, resolved.condition.fingerprint, self.options)
        return ServedWatch(
            self._broker,
            self._clock,
            resolved,
            document,
            self.identity,
            durable=self.durable,
            ack_every=self._ack_every,
            limit=self._limit,
            tell=self._notify,
        )

    def _notify(self, notice: Notice) -> None:
        self.notices.append(notice)
        if self._on_notice is not None:
            self._on_notice(notice)
