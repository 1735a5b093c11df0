"""A hundred thousand subscriptions of a thousand tolerances on one source: what does their translator do, and need?

One source that walks at random, and subscribers that must be told exactly what `greedy` delivers.

>>> walk(5).tolist()
[49997, 49994, 49996, 49996, 49997]
>>> tolerances(4)
[1, 10, 100, 1000]
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import numpy as np
import numpy.typing as npt

import thinwire as tw
from thinwire.brokers.protocol import Broker
from thinwire.client import Publisher, Subscription
from thinwire.demo.process_group import ProcessGroup, WorkerProcess
from thinwire.schema import Property, Schema
from thinwire.topics.registry_client import open_registry, put_subscriptions
from thinwire.topics.topic_documents import SubscriptionDocument
from thinwire_lab.live.load_chain import IN_MEMORY
from thinwire_lab.live.process_measurement import ProcessSampler
from thinwire_lab.live.service_roles import NotServed
from thinwire_lab.overlay_sim.filters.greedy_filter import greedy

TOPIC = "bench.walk"
SOURCE = "S1"
TICKS = 100
"""a unit of the price"""
START = 1_700_000_000_000_000
PERIOD = 500
"""microseconds between two events, as their timestamps tell"""
WIDEST = 1_000
"""ticks of the widest tolerance"""
SEED = 11
_BEATS = 50
"""times a second that events are handed to the publisher"""
_POLL = 0.1


def walk_schema() -> Schema:
    """A timestamp, the source, one measurement."""
    stamp = Property("time", "timestamp", "header", form="epoch", step=1)
    return Schema(TOPIC, [stamp, Property("symbol", "string", "dimension"), Property("price", "number", step="0.01")])


def walk(events: int) -> npt.NDArray[np.int64]:
    """The values in ticks: steps of at most three either way."""
    moves = np.random.default_rng(SEED).integers(-3, 4, events)
    values: npt.NDArray[np.int64] = 50_000 + np.cumsum(moves)
    return values


def tolerances(count: int) -> list[int]:
    """So many different tolerances in ticks, from one to the widest, each about the same factor wider."""
    steps = count
    while len(found := np.unique(np.geomspace(1, WIDEST, steps).round().astype(int))) < count:
        steps += 1
    return [int(each) for each in found[-count:]] if count > 1 else [WIDEST]


def asked(ticks: int) -> dict[str, float]:
    """A tolerance as a subscription has it."""
    return {"price": ticks / TICKS}


class WalkingRole:
    """Publishes the walk at a rate."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._opened = AsyncExitStack()

    async def open(self) -> None:
        bus = await self._opened.enter_async_context(tw.connect(self.url))
        self._out: Publisher = await self._opened.enter_async_context(bus.publisher(TOPIC, name="p1"))

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        """`walk`: so many `events`, at a `rate`; returns when they are stored, with when it began."""
        values = (walk(command["events"]) / TICKS).tolist()
        events = [{"time": START + PERIOD * k, "symbol": SOURCE, "price": value} for k, value in enumerate(values)]
        slice_ = max(1, command["rate"] // _BEATS)
        began = monotonic()
        for at in range(0, len(events), slice_):
            await asyncio.sleep(max(0.0, began + at / command["rate"] - monotonic()))
            await self._out.publish_all(events[at : at + slice_])
        await self._out.flush()
        return {"began": began}

    async def close(self) -> None:
        await self._opened.aclose()


class WalkedRole:
    """Connected subscribers, each of another class, each of which audits what it is told."""

    def __init__(self, url: str, tolerances: Sequence[int]) -> None:
        self.url = url
        self.tolerances = tolerances
        self._opened = AsyncExitStack()
        self._subscriptions: list[Subscription] = []
        self._told: list[list[tuple[int, int]]] = [[] for _ in tolerances]
        self._tasks: list[asyncio.Task[None]] = []
        self._last = 0.0

    async def open(self) -> None:
        """Nothing yet: to connect many may take longer than a process has to become ready."""

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        """`connect`; `feeds`: what each reads; `judge`: wait for everything, `patience` seconds at most, and say what
        is wrong."""
        if command["do"] == "connect":
            await self._connect()
            return {}
        if command["do"] == "feeds":
            return {"feeds": [subscription.feed for subscription in self._subscriptions]}
        values = walk(command["events"])
        due = [[(int(k), int(values[k])) for k in greedy(values, ticks)] for ticks in self.tolerances]
        await self._wait(due, command["patience"])
        wrong = [ticks for ticks, told, one in zip(self.tolerances, self._told, due, strict=True) if told != one]
        return {"wrong": wrong, "last": self._last, "told": sum(map(len, self._told))}

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._opened.aclose()

    async def _connect(self) -> None:
        for ticks, told in zip(self.tolerances, self._told, strict=True):
            bus = await self._opened.enter_async_context(tw.connect(self.url))
            subscription = bus.subscribe(TOPIC, tolerance=asked(ticks), emit="changes")
            self._subscriptions.append(await self._opened.enter_async_context(subscription))
            self._tasks.append(asyncio.create_task(self._note(self._subscriptions[-1], told)))

    async def _note(self, subscription: Subscription, told: list[tuple[int, int]]) -> None:
        async for batch in subscription.batches():
            told += (((event["time"] - START) // PERIOD, round(event["price"] * TICKS)) for event in batch)
            self._last = monotonic()

    async def _wait(self, due: Sequence[Sequence[Any]], patience: float) -> None:
        deadline = monotonic() + patience
        while monotonic() < deadline and any(len(a) < len(b) for a, b in zip(self._told, due, strict=True)):
            for task in self._tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(_POLL)
        await asyncio.sleep(1.0)  # whatever should not come any more would come now


PATIENCE = 900.0
_POLL_TOLERANCE_GROUPS = 1.0


@dataclass(frozen=True)
class Walked:
    """What came of it.

    registering: seconds until all subscriptions were stored; serving: and then until every class had a channel
    seconds: from the first event published to the last one told; cpu: the translator's processor seconds meanwhile
    memory, registry: resident bytes of translator and registry, the most that was seen
    wrong: tolerances, in ticks, of audited subscribers that were told anything else than `greedy` delivers
    told: events handed to the audited
    """

    subscriptions: int
    classes: int
    events: int
    registering: float
    serving: float
    seconds: float
    cpu: float
    memory: int
    registry: int
    wrong: tuple[int, ...]
    told: int


async def walked(subscriptions: int, audited: int, events: int, rate: int, progress: Callable[[float], None]) -> Walked:
    """Register so many subscriptions, some of them connected, and let the source walk."""
    from thinwire.brokers.embedded import EmbeddedServer
    from thinwire.brokers.nats.broker import connect

    async with AsyncExitStack() as opened:
        folder = opened.enter_context(TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None))
        server = await opened.enter_async_context(EmbeddedServer(directory=Path(folder)))
        broker = await connect(server.url)
        opened.push_async_callback(broker.close)
        where = {"url": server.url}
        registry, translator = (
            WorkerProcess("registry", "registry", where),
            WorkerProcess("translator", "telling translator", where),
        )
        await opened.enter_async_context(ProcessGroup([registry, translator]))
        async with tw.connect(server.url) as bus:  # the log is kept exactly, whoever asks for how little
            await bus.register(walk_schema(), retain=True, default_tolerance=0, mode="hold")
        writers = await opened.enter_async_context(ProcessGroup([WorkerProcess("publisher", "walking", where)]))
        classes = min(WIDEST, subscriptions)
        began = monotonic()
        async with ProcessSampler({"registry": registry.pid, "translator": translator.pid}) as early:
            await _ask_for_all(broker, subscriptions, classes)
            registered = monotonic()
            progress(0.2)
            await _wait_until_served(broker, translator, classes)
        served = monotonic()
        progress(0.4)
        settings = {**where, "tolerances": [ticks for ticks in tolerances(audited) if ticks <= classes]}
        readers = await opened.enter_async_context(ProcessGroup([WorkerProcess("audited", "walked", settings)]))
        await readers.ask("walked", PATIENCE, do="connect")
        await _wait_for_feeds(readers)
        progress(0.5)
        async with ProcessSampler({"registry": registry.pid, "translator": translator.pid}) as sampler:
            (walk,) = await writers.ask("walking", PATIENCE, do="walk", events=events, rate=rate)
            (found,) = await readers.ask("walked", PATIENCE + 60, do="judge", events=events, patience=PATIENCE)
    series = sampler.series["translator"]
    return Walked(
        subscriptions=subscriptions,
        classes=classes,
        events=events,
        registering=registered - began,
        serving=served - registered,
        seconds=found["last"] - walk["began"],
        cpu=series[-1].cpu - series[0].cpu,
        memory=_most("translator", early, sampler),
        registry=_most("registry", early, sampler),
        wrong=tuple(found["wrong"]),
        told=found["told"],
    )


def _most(name: str, *samplers: ProcessSampler) -> int:
    return max(sample.memory for sampler in samplers for sample in sampler.series[name])


async def _ask_for_all(broker: Broker, subscriptions: int, classes: int) -> None:
    """Durable ones, which count without anybody being there."""
    documents = (
        SubscriptionDocument(TOPIC, f"d{n}", asked(1 + n % classes), durable=f"d{n}", emit="changes")
        for n in range(subscriptions)
    )
    await put_subscriptions(await open_registry(broker), documents, walk_schema())


async def _wait_until_served(broker: Broker, translator: WorkerProcess, classes: int) -> None:
    deadline = monotonic() + PATIENCE
    while (await translator.ask(PATIENCE, do="classes", topic=TOPIC))["said"] < classes:
        if monotonic() > deadline:
            raise NotServed(topic=TOPIC, wanted=classes)
        await asyncio.sleep(_POLL_TOLERANCE_GROUPS)


async def _wait_for_feeds(readers: ProcessGroup) -> None:
    """Who reads the log would have its events another way, which is not what is measured."""
    deadline = monotonic() + PATIENCE
    while True:
        (answer,) = await readers.ask("walked", PATIENCE, do="feeds")
        if "log" not in answer["feeds"]:
            return
        if monotonic() > deadline:
            raise NotServed("audited subscribers read the log", topic=TOPIC)
        await asyncio.sleep(_POLL_TOLERANCE_GROUPS)
