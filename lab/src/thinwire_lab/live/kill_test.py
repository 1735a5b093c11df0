"""Kill -9, again and again, at moments nobody chose: what do the subscribers have in the end?

Two publishers, two durable subscribers, the registry and the broker; one of them is the victim. It is killed at a
random moment, also while it is still starting, and started again; the others go on.

With classes, the second subscriber asks for less than the first, a third one for changes, and there are two
translators, either of which can be the victim.

With dictionaries, frames are of JSON, every one is packed once there is a dictionary, and there is one service that
looks after them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Literal

import thinwire as tw
from thinwire.brokers.embedded import EmbeddedServer
from thinwire.demo.process_group_processes import START, Crew, Worker
from thinwire_lab.live.delivery_audit_numbered import TOLERANCE, Verdict, judge, numbered_schema
from thinwire_lab.live.kill_test_chaos_roles import read_record

Victim = Literal["broker", "publisher", "subscriber", "registry", "translator", "dictionaries"]

PUBLISHERS = SUBSCRIBERS = TRANSLATORS = 2
SENSORS = 2
FLOWING = 10
"""the number that every source reaches before the first kill"""
RATE = 100.0
"""events a second of a source"""
SOONEST, LATEST = 0.1, 3.0
"""seconds from a start to the next kill"""
LATEST_WITH_CLASSES = 8.0
"""the same where a translator has to notice that another one is gone"""
DOWN = 0.5
"""seconds until it is started again, at most"""
PATIENCE = 60.0


@dataclass(frozen=True)
class Wish:
    """What a subscriber asks for."""

    tolerance: float = TOLERANCE
    emit: Literal["all", "changes"] = "all"


ONE_CLASS = (Wish(),) * SUBSCRIBERS
THREE_CLASSES = (Wish(), Wish(2.0), Wish(1.0, "changes"))
"""numbers differ from event to event, so that whoever asks for changes is told of every event too"""


@dataclass(frozen=True)
class Aftermath:
    """What the subscribers have: one verdict each.

    dictionary: the one that publishers packed with in the end, "" where there was none
    """

    victim: Victim
    kills: int
    verdicts: tuple[Verdict, ...]
    dictionary: str = ""

    @property
    def faults(self) -> int:
        return sum(verdict.faults for verdict in self.verdicts)

    @property
    def events(self) -> int:
        return sum(verdict.events for verdict in self.verdicts)


async def havoc(
    victim: Victim,
    kills: int,
    seed: int,
    progress: Callable[[float], None] = lambda share: None,
    *,
    wishes: Sequence[Wish] = ONE_CLASS,
    dictionaries: bool = False,
) -> Aftermath:
    """Kill the victim so many times while events flow, and judge what every subscriber recorded."""
    with TemporaryDirectory(prefix="thinwire-chaos-") as folder:
        async with AsyncExitStack() as opened:
            server = await opened.enter_async_context(EmbeddedServer())
            crew = await _crew(opened, server.url, Path(folder), wishes, dictionaries)
            await _reach(crew, dict.fromkeys(_sensors(), FLOWING))
            if dictionaries:
                await _packing(crew)
            await _strike(victim, kills, Random(seed), server, crew, progress)
            dictionary = await _packing(crew) if dictionaries else ""
            last = await _finish(crew)
        records = [read_record(_record(Path(folder), k)) for k in range(len(wishes))]
        verdicts = [judge(record, last, wish.tolerance) for record, wish in zip(records, wishes, strict=True)]
    return Aftermath(victim, kills, tuple(verdicts), dictionary)


async def _crew(
    opened: AsyncExitStack, url: str, folder: Path, wishes: Sequence[Wish], dictionaries: bool = False
) -> Crew:
    """The processes, in the order in which they need each other."""
    translators = range(TRANSLATORS if len(set(wishes)) > 1 else 0)
    services = [
        Worker("registry", "registry", {"url": url}),
        *(Worker(f"translator {k}", "translator", {"url": url}) for k in translators),
        *([Worker("dictionaries", "dictionaries", {"url": url})] if dictionaries else []),
    ]
    subscribers = [
        Worker(
            f"subscriber {k}",
            "recording",
            {"url": url, "durable": f"d{k}", "path": str(_record(folder, k)), **asdict(wish)},
        )
        for k, wish in enumerate(wishes)
    ]
    publishers = [
        Worker(
            f"publisher {k}",
            "numbering",
            {"url": url, "name": f"p{k}", "sensors": _sensors(k), "rate": RATE},
        )
        for k in range(PUBLISHERS)
    ]
    await opened.enter_async_context(Crew(services))
    async with tw.connect(url) as bus:
        await bus.register(numbered_schema(), **({"dictionaries": True, "format": "json"} if dictionaries else {}))
    await opened.enter_async_context(Crew(subscribers))
    await opened.enter_async_context(Crew(publishers))
    return Crew([*services, *subscribers, *publishers])


async def _strike(
    victim: Victim, kills: int, chance: Random, server: EmbeddedServer, crew: Crew, progress: Callable[[float], None]
) -> None:
    roles = {"publisher": "numbering", "subscriber": "recording"}
    started: dict[str, Worker] = {}
    classes = bool(crew.of("translator"))
    latest = LATEST_WITH_CLASSES if classes or crew.of("dictionaries") else LATEST
    for number in range(kills):
        await asyncio.sleep(chance.uniform(SOONEST, latest))
        if victim == "broker":
            server.kill()
            await asyncio.sleep(chance.uniform(0.0, DOWN))
            await server.restart()
        else:
            workers = crew.of(roles.get(victim, victim))
            # where subscribers and translators differ, any of them; else always the same one
            worker = chance.choice(workers) if classes else workers[0]
            await worker.kill()
            await asyncio.sleep(chance.uniform(0.0, DOWN))
            await worker.launch()
            started[worker.name] = worker
        progress((number + 1) / kills)
    for worker in started.values():
        await worker.answer(START)
    await asyncio.sleep(1.0)


async def _packing(crew: Crew) -> str:
    """Wait until every publisher packs with a dictionary; the hash of one of them, "" where somebody has none."""
    answers = await crew.ask("numbering", PATIENCE + START, do="pack", patience=PATIENCE)
    return min(str(answer["dictionary"]) for answer in answers)


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
