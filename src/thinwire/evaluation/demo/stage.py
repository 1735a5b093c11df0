"""What stands on the stage: a broker, a registry, publishers and subscribers, and the wires between them.

    registry -------------------------+
    3 publishers --- a proxy ------ broker --- a proxy each --- subscribers within 1, 0.5 and 0

The proxies run here, in the parent, and count every byte both ways.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any

import thinwire as tw
from thinwire.control.names import REGISTRY, log_of
from thinwire.control.topics import Topic
from thinwire.errors import BrokerUnavailable
from thinwire.evaluation.demo.children import Child
from thinwire.evaluation.demo.plants import PLANTS, TOPIC
from thinwire.evaluation.live.processes import Crew, WorkerFailed
from thinwire.transports.broker import Broker, Span
from thinwire.transports.embedded import LOOPBACK, EmbeddedServer
from thinwire.transports.proxy import Proxy
from thinwire.workload.samples import building

MAX_SILENCE = 1.0
"""seconds after which a publisher says that what was expected has happened"""
ANSWER = 30.0
"""seconds in which a process must answer"""
_POLL = 0.05


class Stage:
    """Everything that runs; ends with the block, and leaves nothing behind.

    run: the name of the run in the ledger; tolerances: one subscriber each
    """

    def __init__(self, run: str, tolerances: Iterable[float]) -> None:
        self.run = run
        self.tolerances = tuple(tolerances)
        self.publishers: list[Child] = []
        self.subscribers: dict[float, Child] = {}
        self._opened = AsyncExitStack()
        self._wires: dict[float, Proxy] = {}

    async def __aenter__(self) -> Stage:
        try:
            await self._open()
        except BaseException:
            await self._opened.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._opened.aclose()

    @property
    def publishers_bytes(self) -> int:
        """On the publishers' sockets so far."""
        return _bytes(self._common)

    def subscriber_bytes(self, tolerance: float) -> int:
        """On a subscriber's socket so far."""
        return _bytes(self._wires[tolerance])

    async def ask(self, children: Iterable[Child], **command: Any) -> list[dict[str, Any]]:
        """The same command to all of these, and their answers. Everybody is heard before a failure is raised: an answer
        that nobody took would be mistaken for that of the next command."""
        if not self._server.running:
            raise BrokerUnavailable(f"the broker ended by itself. Its log ends with:\n{self._server.log_tail()}\n")
        patience = ANSWER + command.get("patience", 0.0)
        asking = (child.ask(patience, **command) for child in children)
        answers = await asyncio.gather(*asking, return_exceptions=True)
        return [_taken(answer) for answer in answers]

    async def in_force(self, tolerance: float) -> None:
        """Wait until the registry has told publishers of this tolerance: without any they would not publish."""
        topic = await Topic.find(self._broker, await self._broker.bucket(REGISTRY), TOPIC)
        for _ in range(round(ANSWER / _POLL)):
            config = await topic.configuration()
            if config is not None and config.wanted and config.demand.default_tolerance == tolerance:
                return
            await asyncio.sleep(_POLL)
        raise WorkerFailed("it has not told publishers what is asked", name="registry", waited=ANSWER)

    async def span(self) -> Span:
        """What the broker keeps."""
        return await self._broker.span(log_of(TOPIC))

    async def _open(self) -> None:
        enter = self._opened.enter_async_context
        self._server: EmbeddedServer = await enter(EmbeddedServer())
        self._common: Proxy = await enter(Proxy(LOOPBACK, self._server.port))
        for tolerance in self.tolerances:
            self._wires[tolerance] = await enter(Proxy(LOOPBACK, self._server.port))
        self.publishers = [self._publisher(k) for k in range(PLANTS)]
        self.subscribers = {tolerance: self._subscriber(tolerance) for tolerance in self.tolerances}
        registry = Child("the registry", "registry", {"url": self._server.url})
        await enter(Crew([registry, *self.publishers, *self.subscribers.values()]))
        bus = await enter(tw.connect(self._server.url))
        await bus.register(building.schema(), max_silence=MAX_SILENCE)
        self._broker: Broker = bus.broker

    def _publisher(self, plant: int) -> Child:
        settings = {"url": _url(self._common), "run": self.run, "plant": plant}
        return Child(f"the publisher of plant {plant + 1}", "publishing", settings)

    def _subscriber(self, tolerance: float) -> Child:
        settings = {"url": _url(self._wires[tolerance]), "run": self.run, "tolerance": tolerance}
        return Child(f"the subscriber within {tolerance:g}", "subscribing", settings)


def _taken(answer: dict[str, Any] | BaseException) -> dict[str, Any]:
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _bytes(wire: Proxy) -> int:
    return wire.to_broker + wire.from_broker


def _url(wire: Proxy) -> str:
    return f"nats://{LOOPBACK}:{wire.port}"
