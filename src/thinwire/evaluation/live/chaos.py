"""Kill -9, again and again, at moments nobody chose: what do the subscribers have in the end?

Two publishers, two durable subscribers, the registry and the broker; one of them is the victim. It is killed at a
random moment, also while it is still starting, and started again; the others go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Literal

import thinwire as tw
from thinwire.evaluation.live.chaos_roles import read_record
from thinwire.evaluation.live.numbered import Verdict, judge, numbered_schema
from thinwire.evaluation.live.processes import START, Crew, Worker
from thinwire.transports.embedded import EmbeddedServer

Victim = Literal["broker", "publisher", "subscriber", "registry"]

PUBLISHERS = SUBSCRIBERS = 2
SENSORS = 2
FLOWING = 10
"""the number that every source reaches before the first kill"""
RATE = 100.0
"""events a second of a source"""
SOONEST, LATEST = 0.1, 3.0
"""seconds from a start to the next kill"""
DOWN = 0.5
"""seconds until it is started again, at most"""
PATIENCE = 60.0


@dataclass(frozen=True)
class Aftermath:
    """What the subscribers have: one verdict each."""

    victim: Victim
    kills: int
    verdicts: tuple[Verdict, ...]

    @property
    def faults(self) -> int:
        return sum(verdict.faults for verdict in self.verdicts)

    @property
    def events(self) -> int:
        return sum(verdict.events for verdict in self.verdicts)


async def havoc(
    victim: Victim, kills: int, seed: int, progress: Callable[[float], None] = lambda share: None
) -> Aftermath:
    """Kill the victim so many times while events flow, and judge what every subscriber recorded."""
    with TemporaryDirectory(prefix="thinwire-chaos-") as folder:
        async with AsyncExitStack() as opened:
            server = await opened.enter_async_context(EmbeddedServer())
            crew = await _crew(opened, server.url, Path(folder))
            await _reach(crew, dict.fromkeys(_sensors(), FLOWING))
            await _strike(victim, kills, Random(seed), server, crew, progress)
            last = await _finish(crew)
        verdicts = [judge(read_record(_record(Path(folder), k)), last) for k in range(SUBSCRIBERS)]
    return Aftermath(victim, kills, tuple(verdicts))


async def _crew(opened: AsyncExitStack, url: str, folder: Path) -> Crew:
    """The processes, in the order in which they need each other."""
    registry = Worker("registry", "registry", {"url": url})
    subscribers = [
        Worker(f"subscriber {k}", "recording", {"url": url, "durable": f"d{k}", "path": str(_record(folder, k))})
        for k in range(SUBSCRIBERS)
    ]
    publishers = [
        Worker(
            f"publisher {k}",
            "numbering",
            {"url": url, "name": f"p{k}", "sensors": _sensors(k), "rate": RATE},
        )
        for k in range(PUBLISHERS)
    ]
    await opened.enter_async_context(Crew([registry]))
    async with tw.connect(url) as bus:
        await bus.register(numbered_schema())
    await opened.enter_async_context(Crew(subscribers))
    await opened.enter_async_context(Crew(publishers))
    return Crew([registry, *subscribers, *publishers])


async def _strike(
    victim: Victim, kills: int, chance: Random, server: EmbeddedServer, crew: Crew, progress: Callable[[float], None]
) -> None:
    roles = {"publisher": "numbering", "subscriber": "recording", "registry": "registry"}
    for number in range(kills):
        await asyncio.sleep(chance.uniform(SOONEST, LATEST))
        if victim == "broker":
            server.kill()
            await asyncio.sleep(chance.uniform(0.0, DOWN))
            await server.restart()
        else:
            worker = crew.of(roles[victim])[0]
            await worker.kill()
            await asyncio.sleep(chance.uniform(0.0, DOWN))
            await worker.launch()
            if number == kills - 1:
                await worker.answer(START)
        progress((number + 1) / kills)
    await asyncio.sleep(1.0)


async def _finish(crew: Crew) -> dict[str, int]:
    """Let publishers come to an end and subscribers catch up; how far each source came."""
    answers = await crew.ask("numbering", PATIENCE, do="finish")
    last = {sensor: number for answer in answers for sensor, number in answer["last"].items()}
    await _reach(crew, last)
    return last


async def _reach(crew: Crew, last: dict[str, int]) -> None:
    """Wait until subscribers have come as far as this; the judge sees where they have not."""
    await crew.ask("recording", PATIENCE + START, do="reach", last=last, patience=PATIENCE)


def _sensors(*publishers: int) -> list[str]:
    """The sources of these publishers; of all by default."""
    return [f"p{k}-s{s}" for k in publishers or range(PUBLISHERS) for s in range(SENSORS)]


def _record(folder: Path, number: int) -> Path:
    return folder / f"subscriber-{number}.jsonl"
