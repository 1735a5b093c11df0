"""A hundred thousand subscriptions of a thousand tolerances on one source: what does their translator do, and need?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

import thinwire as tw
from thinwire.brokers.protocol_broker import Broker
from thinwire.demo.process_group_processes import Crew, Worker
from thinwire.topics.registry_client import open_registry, put_subscriptions
from thinwire.topics.topic_documents import SubscriptionDocument
from thinwire_lab.live.load_chain import IN_MEMORY
from thinwire_lab.live.process_measurement_sampling import Sampler
from thinwire_lab.live.service_roles import NotServed
from thinwire_lab.live.tolerance_groups_conformance_walk import TOPIC, WIDEST, asked, tolerances, walk_schema

PATIENCE = 900.0
_POLL = 1.0


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
        registry, translator = Worker("registry", "registry", where), Worker("translator", "telling translator", where)
        await opened.enter_async_context(Crew([registry, translator]))
        async with tw.connect(server.url) as bus:  # the log is kept exactly, whoever asks for how little
            await bus.register(walk_schema(), retain=True, default_tolerance=0, mode="hold")
        writers = await opened.enter_async_context(Crew([Worker("publisher", "walking", where)]))
        classes = min(WIDEST, subscriptions)
        began = monotonic()
        async with Sampler({"registry": registry.pid, "translator": translator.pid}) as early:
            await _ask_for_all(broker, subscriptions, classes)
            registered = monotonic()
            progress(0.2)
            await _wait_until_served(broker, translator, classes)
        served = monotonic()
        progress(0.4)
        settings = {**where, "tolerances": [ticks for ticks in tolerances(audited) if ticks <= classes]}
        readers = await opened.enter_async_context(Crew([Worker("audited", "walked", settings)]))
        await readers.ask("walked", PATIENCE, do="connect")
        await _wait_for_feeds(readers)
        progress(0.5)
        async with Sampler({"registry": registry.pid, "translator": translator.pid}) as sampler:
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


def _most(name: str, *samplers: Sampler) -> int:
    return max(sample.memory for sampler in samplers for sample in sampler.series[name])


async def _ask_for_all(broker: Broker, subscriptions: int, classes: int) -> None:
    """Durable ones, which count without anybody being there."""
    documents = (
        SubscriptionDocument(TOPIC, f"d{n}", asked(1 + n % classes), durable=f"d{n}", emit="changes")
        for n in range(subscriptions)
    )
    await put_subscriptions(await open_registry(broker), documents, walk_schema())


async def _wait_until_served(broker: Broker, translator: Worker, classes: int) -> None:
    deadline = monotonic() + PATIENCE
    while (await translator.ask(PATIENCE, do="classes", topic=TOPIC))["said"] < classes:
        if monotonic() > deadline:
            raise NotServed(topic=TOPIC, wanted=classes)
        await asyncio.sleep(_POLL)


async def _wait_for_feeds(readers: Crew) -> None:
    """Who reads the log would have its events another way, which is not what is measured."""
    deadline = monotonic() + PATIENCE
    while True:
        (answer,) = await readers.ask("walked", PATIENCE, do="feeds")
        if "log" not in answer["feeds"]:
            return
        if monotonic() > deadline:
            raise NotServed("audited subscribers read the log", topic=TOPIC)
        await asyncio.sleep(_POLL)
