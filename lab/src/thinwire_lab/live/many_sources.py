"""A thousand subscribers in ten classes on a hundred thousand sources: what does their translator do, and need?"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import thinwire as tw
from thinwire.brokers.protocol_broker import Broker
from thinwire.demo.process_group_processes import Crew, Worker
from thinwire.topics.registry_client import open_registry, put_subscription
from thinwire.topics.topic_documents import SubscriptionDocument
from thinwire_lab.live.delivery_audit import Findings
from thinwire_lab.live.load_chain import IN_MEMORY
from thinwire_lab.live.many_sources_class_sweep import TOLERANCES, TOPIC, findings_in, sweep_schema
from thinwire_lab.live.process_measurement_sampling import Sampler
from thinwire_lab.live.service_roles import wait_for_channels

PUBLISHERS = 4
PATIENCE = 900.0


@dataclass(frozen=True)
class Crowd:
    """What came of it.

    events: that the translator has read; encodings: how often it has encoded one
    memory: resident bytes of its process, the most that was seen; before, after: the first and the last that were seen
    findings: what is wrong with what the connected subscriber of each class was handed
    """

    subscriptions: int
    sources: int
    events: int
    encodings: int
    before: int
    memory: int
    after: int
    findings: tuple[Findings, ...]

    @property
    def faults(self) -> int:
        return sum(found.faults for found in self.findings)


async def crowd(subscriptions: int, sources: int, progress: Callable[[float], None]) -> Crowd:
    """Register so many subscriptions, one of each class connected, and sweep over the sources."""
    from thinwire.brokers.embedded import EmbeddedServer
    from thinwire.brokers.nats.broker import connect

    async with AsyncExitStack() as opened:
        folder = opened.enter_context(TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None))
        server = await opened.enter_async_context(EmbeddedServer(directory=Path(folder)))
        broker = await connect(server.url)
        opened.push_async_callback(broker.close)
        settings = {"url": server.url}
        await opened.enter_async_context(Crew([Worker("registry", "registry", settings)]))
        async with tw.connect(server.url) as bus:
            await bus.register(sweep_schema(), mode="hold")
        await _ask_for_all(broker, subscriptions - len(TOLERANCES))
        translator = Worker("translator", "telling translator", settings)
        await opened.enter_async_context(Crew([translator]))
        size = {**settings, "sources": sources, "publishers": PUBLISHERS}
        readers = await opened.enter_async_context(Crew([Worker("subscribers", "swept", size)]))
        writers = [Worker(f"publisher {k}", "sweeping", {**size, "number": k}) for k in range(PUBLISHERS)]
        publishers = await opened.enter_async_context(Crew(writers))
        await wait_for_channels(broker, TOPIC, len(TOLERANCES))
        progress(0.2)
        async with Sampler({"translator": translator.pid}) as sampler:
            await publishers.ask("sweeping", PATIENCE, do="sweep")
            progress(0.5)
            (answer,) = await readers.ask("swept", PATIENCE + 60, do="judge", patience=PATIENCE)
        says = await translator.ask(PATIENCE, do="counts", topic=TOPIC)
    return _told(subscriptions, sources, says, sampler, findings_in(answer))


def _told(subscriptions: int, sources: int, says: dict[str, Any], sampler: Sampler, findings: list[Findings]) -> Crowd:
    memory = [sample.memory for sample in sampler.series["translator"]]
    return Crowd(
        subscriptions=subscriptions,
        sources=sources,
        events=says["events"],
        encodings=says["encodings"],
        before=memory[0],
        memory=max(memory),
        after=memory[-1],
        findings=tuple(findings),
    )


async def _ask_for_all(broker: Broker, subscriptions: int) -> None:
    """Durable ones, which count without anybody being there."""
    bucket = await open_registry(broker)
    for number in range(subscriptions):
        tolerance = TOLERANCES[number % len(TOLERANCES)]
        document = SubscriptionDocument(
            TOPIC, f"d{number}", default_tolerance=tolerance, durable=f"d{number}", emit="changes"
        )
        await put_subscription(bucket, document, sweep_schema())
