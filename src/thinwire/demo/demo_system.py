"""What stands on the stage: a broker, a registry, a translator, publishers and subscribers, and the wires between them.

    registry -------------------------+
    translator ------- a proxy -------+
    3 publishers ----- a proxy ---- broker --- a proxy each --- 5 subscribers
                                      +------- a proxy -------- Spark

The proxies run here, in the parent, and count every byte both ways.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any

import thinwire as tw
from thinwire.brokers.embedded import LOOPBACK, EmbeddedServer
from thinwire.brokers.protocol import Broker
from thinwire.brokers.proxy import Proxy
from thinwire.client import Bus
from thinwire.demo import building
from thinwire.demo.demo_scenario import GUESTS, PLANTS, TOPIC, Guest, describe_demand
from thinwire.demo.process_group import Child, Crew, WorkerFailed
from thinwire.demo.spark_table import SparkLeg
from thinwire.errors import BrokerUnavailable
from thinwire.ledger import Row
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.names import REGISTRY, DocumentKind, channel_log_of, log_of
from thinwire.topics.topic_documents import SubscriptionDocument, decode
from thinwire.topics.topic_metadata import TopicMetadata

MAX_SILENCE = 1.0
"""seconds after which a publisher says that what was expected has happened"""
ANSWER = 30.0
"""seconds in which a process must answer"""
_POLL = 0.05


class Stage:
    """Everything that runs; ends with the block, and leaves nothing behind.

    run: the name of the run in the ledger; with_spark: does the stream land in a table, too?
    """

    def __init__(self, run: str, *, with_spark: bool = False) -> None:
        self.run = run
        self.with_spark = with_spark
        self.spark: SparkLeg | None = None
        self.publishers: list[Child] = []
        self.subscribers: dict[Guest, Child] = {}
        self._opened = AsyncExitStack()
        self._wires: dict[Guest, Proxy] = {}

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

    @property
    def translator_bytes(self) -> int:
        """On the translator's socket so far."""
        return _bytes(self._beside)

    def subscriber_bytes(self, guest: Guest) -> int:
        """On a subscriber's socket so far."""
        return _bytes(self._wires[guest])

    async def ask(self, children: Iterable[Child], **command: Any) -> list[dict[str, Any]]:
        """The same command to all of these, and their answers. Everybody is heard before a failure is raised: an answer
        that nobody took would be mistaken for that of the next command."""
        if not self._server.running:
            raise BrokerUnavailable(f"the broker ended by itself. Its log ends with:\n{self._server.log_tail()}\n")
        patience = ANSWER + command.get("patience", 0.0)
        asking = (child.ask(patience, **command) for child in children)
        answers = await asyncio.gather(*asking, return_exceptions=True)
        return [_taken(answer) for answer in answers]

    async def in_force(self, asked: str) -> None:
        """Wait until the registry has told publishers what is asked: without any demand they would not publish."""
        topic = await TopicMetadata.find(self._broker, await self._broker.bucket(REGISTRY), TOPIC)
        for _ in range(round(ANSWER / _POLL)):
            config = await topic.configuration()
            if config is not None and config.wanted and describe_demand(config.demand) == asked:
                return
            await asyncio.sleep(_POLL)
        raise WorkerFailed("it has not told publishers what is asked", name="registry", waited=ANSWER)

    async def subscribers_by_class(self) -> Counter[str]:
        """How many subscriptions each class has, by the registry's documents."""
        registry = await self._broker.bucket(REGISTRY)
        entries = await registry.entries(f"{DocumentKind.SUBSCRIPTION}.{TOPIC}.*")
        found = (decode(entry.key, entry.value) for entry in entries if entry.value is not None)
        return Counter(DemandClass.of(asked).id for asked in found if isinstance(asked, SubscriptionDocument))

    async def stored(self) -> list[Row]:
        """What the broker keeps: of the log, and of the channels where there are any."""
        logs = set(await self._broker.logs())
        places = (("log", log_of(TOPIC)), ("channel", channel_log_of(TOPIC)))
        return [await self._row_of(link, log) for link, log in places if log in logs]

    async def _row_of(self, link: str, log: str) -> Row:
        span = await self._broker.span(log)
        return Row(self.run, TOPIC, link, role="broker", messages=span.messages, stored_bytes=span.stored_bytes)

    async def _open(self) -> None:
        enter = self._opened.enter_async_context
        self._server: EmbeddedServer = await enter(EmbeddedServer())
        self._common: Proxy = await enter(Proxy(LOOPBACK, self._server.port))
        self._beside: Proxy = await enter(Proxy(LOOPBACK, self._server.port))
        for guest in GUESTS:
            self._wires[guest] = await enter(Proxy(LOOPBACK, self._server.port))
        self.translator = Child("the translator", "translating", {"url": _url(self._beside)})
        self.publishers = [self._publisher(k) for k in range(PLANTS)]
        self.subscribers = {guest: self._subscriber(place, guest) for place, guest in enumerate(GUESTS)}
        registry = Child("the registry", "registry", {"url": self._server.url})
        await enter(Crew([registry, self.translator, *self.publishers, *self.subscribers.values()]))
        self.bus: Bus = await enter(tw.connect(self._server.url))
        await self.bus.register(building.schema(), max_silence=MAX_SILENCE)
        self._broker: Broker = self.bus.broker
        if self.with_spark:
            self.spark = await enter(SparkLeg(self.run, self._server.port))

    def _publisher(self, plant: int) -> Child:
        settings = {"url": _url(self._common), "run": self.run, "plant": plant}
        return Child(f"the publisher of plant {plant + 1}", "publishing", settings)

    def _subscriber(self, place: int, guest: Guest) -> Child:
        settings = {"url": _url(self._wires[guest]), "run": self.run, "guest": place}
        return Child(f"the subscriber within {guest.name}", "subscribing", settings)


def _taken(answer: dict[str, Any] | BaseException) -> dict[str, Any]:
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _bytes(wire: Proxy) -> int:
    return wire.to_broker + wire.from_broker


def _url(wire: Proxy) -> str:
    return f"nats://{LOOPBACK}:{wire.port}"
