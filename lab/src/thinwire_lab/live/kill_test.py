"""Kill -9, again and again, at moments nobody chose: what do the subscribers have in the end?

Two publishers, two durable subscribers, the registry and the broker; one of them is the victim. It is killed at a
random moment, also while it is still starting, and started again; the others go on.

With classes, the second subscriber asks for less than the first, a third one for changes, and there are two
translators, either of which can be the victim.

With dictionaries, frames are of JSON, every one is packed once there is a dictionary, and there is one service that
looks after them.

Publishers and subscribers that can be killed at any moment and started again.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Literal

import thinwire as tw
from thinwire.brokers.embedded import EmbeddedServer
from thinwire.client import Publisher
from thinwire.demo.process_group import START, ProcessGroup, WorkerProcess
from thinwire.schema import Event
from thinwire_lab.live.delivery_audit import TOLERANCE, TOPIC, Line, Verdict, judge, numbered, numbered_schema

LINGER = 0.005
_POLL = 0.05


class NumberingRole:
    """Publishes numbered events of some sources, and goes on after the last one that its earlier life had told.

    rate: events a second of each source
    """

    def __init__(self, url: str, name: str, sensors: list[str], rate: float) -> None:
        self.url = url
        self.name = name
        self.sensors = sensors
        self.rate = rate
        self._opened = AsyncExitStack()
        self._next: dict[str, int] = {}
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self._out: Publisher | None = None

    async def open(self) -> None:
        bus = await self._opened.enter_async_context(tw.connect(self.url))
        publisher = bus.publisher(TOPIC, name=self.name, linger=LINGER, recover=True)
        self._out = await self._opened.enter_async_context(publisher)
        told = self._out.last_events
        self._next = {s: told[(s,)]["number"] + 1 if (s,) in told else 0 for s in self.sensors}
        self._task = asyncio.create_task(self._count(self._out))

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        """`pack`: wait until there is a dictionary to pack with, and say which.

        `finish`: stop counting, store everything, and say how far each source came.
        """
        assert self._task is not None
        assert self._out is not None
        if command["do"] == "pack":
            return {"dictionary": await _packing(self._out, command["patience"])}
        self._stopping = True
        await self._task
        await self._out.flush()
        return {"last": {sensor: number - 1 for sensor, number in self._next.items()}}

    async def close(self) -> None:
        await self._opened.aclose()

    async def _count(self, out: Publisher) -> None:
        while not self._stopping:
            for sensor in self.sensors:
                await out.publish(numbered(sensor, self._next[sensor]))
                self._next[sensor] += 1
            await asyncio.sleep(1 / self.rate)


async def _packing(out: Publisher, patience: float) -> str:
    """The hash of the dictionary that a publisher packs with; empty where it has none in time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(patience):
            while not out.dictionary:
                await asyncio.sleep(_POLL)
    return out.dictionary.hex()


class RecordingRole:
    """Writes what a durable subscription brings into a file, a line an event, before it asks for more.

    After a restart it is handed again what its earlier life had not acknowledged: of that, what the file has is left
    out, once each; anything else that comes twice is written twice, for the judge to see.
    """

    def __init__(self, url: str, durable: str, path: str, tolerance: float, emit: Literal["all", "changes"]) -> None:
        self.url = url
        self.durable = durable
        self.path = Path(path)
        self.tolerance = tolerance
        self.emit = emit
        self._opened = AsyncExitStack()
        self._last: dict[str, int] = {}
        self._recorded: set[tuple[str, int]] = set()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        _cut_torn_line(self.path)
        for sensor, number, _, _ in read_record(self.path):
            self._recorded.add((sensor, number))
            self._last[sensor] = number
        bus = await self._opened.enter_async_context(tw.connect(self.url))
        asked = bus.subscribe(
            TOPIC, tolerance={"value": self.tolerance}, emit=self.emit, durable=self.durable, start="earliest"
        )
        subscription = await self._opened.enter_async_context(asked)
        self._task = asyncio.create_task(self._record(subscription))

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        """`reach`: wait until every source has come as far as `last` says."""
        complete = await self._wait_for(command["last"], command["patience"])
        return {"complete": complete}

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._opened.aclose()

    async def _wait_for(self, last: Mapping[str, int], patience: float) -> bool:
        assert self._task is not None
        try:
            async with asyncio.timeout(patience):
                while any(self._last.get(sensor, -1) < number for sensor, number in last.items()):
                    if self._task.done():
                        self._task.result()
                    await asyncio.sleep(_POLL)
        except TimeoutError:
            return False
        # whatever should not come any more would come now
        await asyncio.sleep(1.0)
        return True

    async def _record(self, subscription: Any) -> None:
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            async for batch in subscription.batches():
                lines = [_line(event) for event in batch if self._is_new(event)]
                os.write(file, "".join(lines).encode())
        finally:
            os.close(file)

    def _is_new(self, event: Event) -> bool:
        identity = (event["sensor"], event["number"])
        self._last[identity[0]] = max(identity[1], self._last.get(identity[0], -1))
        if identity in self._recorded:
            self._recorded.discard(identity)
            return False
        return True


def read_record(path: Path) -> list[Line]:
    """The lines of a record; a subscriber that was never handed anything has none."""
    if not path.exists():
        return []
    return [tuple(json.loads(line)) for line in path.read_text().splitlines()]


def _line(event: Event) -> str:
    return json.dumps([event["sensor"], event["number"], event["value"], event.bound["value"]]) + "\n"


def _cut_torn_line(path: Path) -> None:
    if path.exists():
        text = path.read_bytes()
        os.truncate(path, text.rfind(b"\n") + 1)


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
                await _packing_kill_test(crew)
            await _strike(victim, kills, Random(seed), server, crew, progress)
            dictionary = await _packing_kill_test(crew) if dictionaries else ""
            last = await _finish(crew)
        records = [read_record(_record(Path(folder), k)) for k in range(len(wishes))]
        verdicts = [judge(record, last, wish.tolerance) for record, wish in zip(records, wishes, strict=True)]
    return Aftermath(victim, kills, tuple(verdicts), dictionary)


async def _crew(
    opened: AsyncExitStack, url: str, folder: Path, wishes: Sequence[Wish], dictionaries: bool = False
) -> ProcessGroup:
    """The processes, in the order in which they need each other."""
    translators = range(TRANSLATORS if len(set(wishes)) > 1 else 0)
    services = [
        WorkerProcess("registry", "registry", {"url": url}),
        *(WorkerProcess(f"translator {k}", "translator", {"url": url}) for k in translators),
        *([WorkerProcess("dictionaries", "dictionaries", {"url": url})] if dictionaries else []),
    ]
    subscribers = [
        WorkerProcess(
            f"subscriber {k}",
            "recording",
            {"url": url, "durable": f"d{k}", "path": str(_record(folder, k)), **asdict(wish)},
        )
        for k, wish in enumerate(wishes)
    ]
    publishers = [
        WorkerProcess(
            f"publisher {k}",
            "numbering",
            {"url": url, "name": f"p{k}", "sensors": _sensors(k), "rate": RATE},
        )
        for k in range(PUBLISHERS)
    ]
    await opened.enter_async_context(ProcessGroup(services))
    async with tw.connect(url) as bus:
        await bus.register(numbered_schema(), **({"dictionaries": True, "format": "json"} if dictionaries else {}))
    await opened.enter_async_context(ProcessGroup(subscribers))
    await opened.enter_async_context(ProcessGroup(publishers))
    return ProcessGroup([*services, *subscribers, *publishers])


async def _strike(
    victim: Victim,
    kills: int,
    chance: Random,
    server: EmbeddedServer,
    crew: ProcessGroup,
    progress: Callable[[float], None],
) -> None:
    roles = {"publisher": "numbering", "subscriber": "recording"}
    started: dict[str, WorkerProcess] = {}
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


async def _packing_kill_test(crew: ProcessGroup) -> str:
    """Wait until every publisher packs with a dictionary; the hash of one of them, "" where somebody has none."""
    answers = await crew.ask("numbering", PATIENCE + START, do="pack", patience=PATIENCE)
    return min(str(answer["dictionary"]) for answer in answers)


async def _finish(crew: ProcessGroup) -> dict[str, int]:
    """Let publishers come to an end and subscribers catch up; how far each source came."""
    answers = await crew.ask("numbering", PATIENCE, do="finish")
    last = {sensor: number for answer in answers for sensor, number in answer["last"].items()}
    await _reach(crew, last)
    return last


async def _reach(crew: ProcessGroup, last: dict[str, int]) -> None:
    """Wait until subscribers have come as far as this; the judge sees where they have not."""
    await crew.ask("recording", PATIENCE + START, do="reach", last=last, patience=PATIENCE)


def _sensors(*publishers: int) -> list[str]:
    """The sources of these publishers; of all by default."""
    return [f"p{k}-s{s}" for k in publishers or range(PUBLISHERS) for s in range(SENSORS)]


def _record(folder: Path, number: int) -> Path:
    return folder / f"subscriber-{number}.jsonl"
