"""Repeated kill -9 of one part of a system at random moments, and an audit of the delivered events.

The system is a broker, the registry, two publishers and two durable subscribers. The victim is killed at random
moments, also while it starts, and started again; the others continue. Events are numbered and their values follow from
the number, so an audit needs no information from publishers.

With classes, the second subscriber has a wider tolerance, a third one subscribes to changes, and there are two
translators, either of which can be the victim. With dictionaries, frames are JSON and packed, and there is one
dictionary trainer.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np

from thinwire import Subscription
from thinwire.demo.process_group import START_TIMEOUT, WorkerProcess
from thinwire.schema import Event, Property, Schema
from thinwire_lab.live.base_roles import BusRole
from thinwire_lab.live.delivery_audit import AuditedResult, AuditResult, DeliveryRecord, audit_guarantee
from thinwire_lab.live.live_feed import GroundTruth, stream_schema
from thinwire_lab.live.live_system import LiveSystem, merge_last

TOPIC = "chaos.numbers"
TOLERANCE = 0.5
LINGER = 0.005
PERIOD = 20
"""milliseconds between the timestamps of two events of a source"""
_EPOCH = 1_700_000_000_000
_CYCLE = 303
"""numbers after which the values are repeated"""

RecordLine = tuple[str, int, float, float]
"""sensor, number, value and bound of a delivered event"""


def numbered_schema() -> Schema:
    return stream_schema(TOPIC, "sensor", Property("number", "integer"), Property("value", "number", step="0.1"))


def numbered_value(number: int) -> float:
    """Return the value of an event: a new level with every third number, changes below the tolerance in between.

    >>> [numbered_value(number) for number in range(5)]
    [10.0, 10.1, 10.2, 17.4, 17.5]
    """
    return (100 + number // 3 * 37 % 101 * 2 + number % 3) / 10


def numbered_event(sensor: str, number: int) -> dict[str, Any]:
    return {"time": _EPOCH + number * PERIOD, "sensor": sensor, "number": number, "value": numbered_value(number)}


def audit_numbers(lines: Sequence[RecordLine], last: Mapping[str, int], tolerance: float = TOLERANCE) -> AuditResult:
    """Audit a record that must contain the numbers of each source from 0 to `last`.

    >>> lines = [("a", 0, 10.0, 0.5), ("a", 2, 10.2, 0.5), ("a", 2, 11.2, 0.5)]
    >>> audit_numbers(lines, {"a": 3})
    AuditResult(events=3, missing=2, extra=1, disordered=0, beyond=0)
    """
    cycle = [[[round(10 * numbered_value(number))] for number in range(_CYCLE)]] * len(last)
    truth = GroundTruth(
        readings=("value",),
        names=list(last),
        counts=np.array(list(last.values())) + 1,
        offsets=np.zeros(len(last), dtype=np.int64),
        period=1,
        cycle=np.array(cycle),
    )
    record = DeliveryRecord(truth, source="sensor", stamp="number")
    for sensor, number, value, bound in lines:
        values = {"sensor": sensor, "number": number, "value": value}
        record.add([Event(values, bound={"value": bound}, source=(sensor,), ordinal=number + 1)])
    return audit_guarantee(record, truth, 0, tolerance, "all")


class NumberedPublisherRole(BusRole):
    """Publishes numbered events of some sources. After a restart it continues after the last stored event.

    rate: events per second of each source
    """

    def __init__(self, url: str, name: str, sensors: list[str], rate: float) -> None:
        super().__init__(url)
        self.name = name
        self.sensors = sensors
        self.rate = rate
        self._stopping = False

    async def open(self) -> None:
        self._publisher = await self.open_publisher(TOPIC, name=self.name, linger=LINGER, recover=True)
        last = self._publisher.last_events
        self._next = {s: last[(s,)]["number"] + 1 if (s,) in last else 0 for s in self.sensors}
        self.start_task(self._publish_numbers())

    async def do_wait_for_dictionary(self, max_wait: float) -> dict[str, Any]:
        """Wait until a dictionary is in use and return its hash, empty if there is none in time."""
        await self.wait_until(lambda: bool(self._publisher.dictionary), max_wait, settle=0.0)
        return {"dictionary": self._publisher.dictionary.hex()}

    async def do_finish(self) -> dict[str, Any]:
        """Stop, wait until everything is stored, and return the last number of each source."""
        self._stopping = True
        await asyncio.gather(*self.tasks)
        await self._publisher.flush()
        return {"last": {sensor: number - 1 for sensor, number in self._next.items()}}

    async def _publish_numbers(self) -> None:
        while not self._stopping:
            for sensor in self.sensors:
                await self._publisher.publish(numbered_event(sensor, self._next[sensor]))
                self._next[sensor] += 1
            await asyncio.sleep(1 / self.rate)


class DurableSubscriberRole(BusRole):
    """Appends the events of a durable subscription to a file, one line for each, before it requests more.

    After a restart, events that were not acknowledged are delivered again. The first repetition of an event that the
    file contained at the start is skipped. Any other repeated event is written again, so that the audit finds it.
    """

    def __init__(self, url: str, durable: str, path: str, tolerance: float, emit: Literal["all", "changes"]) -> None:
        super().__init__(url)
        self.durable = durable
        self.path = Path(path)
        self.tolerance = tolerance
        self.emit = emit
        self._last: dict[str, int] = {}
        self._recorded: set[tuple[str, int]] = set()

    async def open(self) -> None:
        _remove_incomplete_line(self.path)
        for sensor, number, _, _ in read_record(self.path):
            self._recorded.add((sensor, number))
            self._last[sensor] = number
        request = {"tolerance": {"value": self.tolerance}, "emit": self.emit}
        subscription = await self.subscribe(TOPIC, **request, durable=self.durable, start="earliest")
        self.start_task(self._write_events(subscription))

    async def do_wait_for_last(self, last: dict[str, int], max_wait: float) -> None:
        """Wait until every source has reached its number in `last`."""
        await self.wait_until(lambda: all(self._last.get(s, -1) >= number for s, number in last.items()), max_wait)

    async def _write_events(self, subscription: Subscription) -> None:
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            async for batch in subscription.batches():
                lines = [_format_line(event) for event in batch if self._is_new(event)]
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


def read_record(path: Path) -> list[RecordLine]:
    """Read the lines of a record. There is no file if nothing was delivered."""
    if not path.exists():
        return []
    return [tuple(json.loads(line)) for line in path.read_text().splitlines()]


def _format_line(event: Event) -> str:
    return json.dumps([event["sensor"], event["number"], event["value"], event.bound["value"]]) + "\n"


def _remove_incomplete_line(path: Path) -> None:
    if path.exists():
        text = path.read_bytes()
        os.truncate(path, text.rfind(b"\n") + 1)


Victim = Literal["broker", "publisher", "subscriber", "registry", "translator", "dictionaries"]
_ROLES: dict[str, str] = {"publisher": "numbered publisher", "subscriber": "durable subscriber"}

PUBLISHERS = SUBSCRIBERS = TRANSLATORS = 2
SENSORS = 2
FLOWING = 10
"""number of the event of every source that is delivered before the first kill"""
RATE = 100.0
"""events per second of a source"""
MIN_INTERVAL, MAX_INTERVAL = 0.1, 3.0
"""seconds from a start to the next kill"""
MAX_TAKEOVER_INTERVAL = 8.0
"""the longest interval if another process has to detect the failure and take over"""
MAX_DOWN = 0.5
"""seconds until the victim is started again"""
TIMEOUT = 60.0


@dataclass(frozen=True)
class SubscriberDemand:
    """Tolerance and emit of a subscriber."""

    tolerance: float = TOLERANCE
    emit: Literal["all", "changes"] = "all"


ONE_CLASS = (SubscriberDemand(),) * SUBSCRIBERS
THREE_CLASSES = (SubscriberDemand(), SubscriberDemand(2.0), SubscriberDemand(1.0, "changes"))
"""a subscription to changes receives every event, too, because the number changes with every event"""


@dataclass(frozen=True)
class KillTestResult(AuditedResult):
    """The result of a kill test.

    dictionary: the hash of one that publishers used in the end, empty if a publisher used none
    """

    kills: int
    dictionary: str = ""


class KillTestSystem(LiveSystem):
    """The processes of a kill test.

    folder: of the records of subscribers
    """

    def __init__(self, folder: Path, demands: Sequence[SubscriberDemand], dictionaries: bool) -> None:
        super().__init__(in_memory=False)
        self.folder = folder
        self.demands = demands
        self.dictionaries = dictionaries

    async def set_up(self) -> None:
        translators = range(TRANSLATORS if len(set(self.demands)) > 1 else 0)
        await self.start(
            self.make_worker("registry"),
            *(self.make_worker("translator", f"translator {k}") for k in translators),
            *([self.make_worker("dictionaries")] if self.dictionaries else []),
        )
        settings = {"dictionaries": True, "format": "json"} if self.dictionaries else {}
        await self.register(numbered_schema(), **settings)
        await self.start(*(self._subscriber(k, demand) for k, demand in enumerate(self.demands)))
        await self.start(*(self._publisher(k) for k in range(PUBLISHERS)))

    def record_path(self, number: int) -> Path:
        return self.folder / f"subscriber-{number}.jsonl"

    def _subscriber(self, number: int, demand: SubscriberDemand) -> WorkerProcess:
        settings = {"durable": f"d{number}", "path": str(self.record_path(number)), **asdict(demand)}
        return self.make_worker(_ROLES["subscriber"], f"subscriber {number}", **settings)

    def _publisher(self, number: int) -> WorkerProcess:
        settings = {"name": f"p{number}", "sensors": _sensors(number), "rate": RATE}
        return self.make_worker(_ROLES["publisher"], f"publisher {number}", **settings)

    async def wait_for_dictionary(self) -> str:
        """Wait until every publisher uses a dictionary. Return the hash of one, empty if a publisher has none."""
        results = await self.run(_ROLES["publisher"], "wait_for_dictionary", TIMEOUT + START_TIMEOUT, max_wait=TIMEOUT)
        return min(str(result["dictionary"]) for result in results)

    async def wait_for_last(self, last: dict[str, int]) -> None:
        """Wait until subscribers have received these numbers. The audit reports those that have not."""
        await self.run(_ROLES["subscriber"], "wait_for_last", TIMEOUT + START_TIMEOUT, last=last, max_wait=TIMEOUT)

    async def kill(self, victim: Victim, kills: int, random: Random, progress: Callable[[float], None]) -> None:
        """Kill the victim `kills` times and start it again each time."""
        has_classes = bool(self.of_role("translator"))
        longest = MAX_TAKEOVER_INTERVAL if has_classes or self.dictionaries else MAX_INTERVAL
        restarted: dict[str, WorkerProcess] = {}
        for number in range(kills):
            await asyncio.sleep(random.uniform(MIN_INTERVAL, longest))
            if victim == "broker":
                self.server.kill()
                await asyncio.sleep(random.uniform(0.0, MAX_DOWN))
                await self.server.restart()
            else:
                workers = self.of_role(_ROLES.get(victim, victim))
                # with classes the subscribers have different demands, so any of them can be the victim
                worker = random.choice(workers) if has_classes else workers[0]
                await worker.kill()
                await asyncio.sleep(random.uniform(0.0, MAX_DOWN))
                await worker.launch()
                restarted[worker.name] = worker
            progress((number + 1) / kills)
        for worker in restarted.values():
            await worker.read_answer(START_TIMEOUT)
        await asyncio.sleep(1.0)

    async def finish(self) -> dict[str, int]:
        """Stop the publishers, let subscribers catch up, and return the last number of each source."""
        last = merge_last(await self.run(_ROLES["publisher"], "finish", TIMEOUT))
        await self.wait_for_last(last)
        return last


async def run_kill_test(
    victim: Victim,
    kills: int,
    seed: int,
    progress: Callable[[float], None] = lambda share: None,
    *,
    demands: Sequence[SubscriberDemand] = ONE_CLASS,
    dictionaries: bool = False,
) -> KillTestResult:
    """Kill the victim repeatedly while events flow, and audit the record of every subscriber."""
    with TemporaryDirectory(prefix="thinwire-chaos-") as folder:
        async with KillTestSystem(Path(folder), demands, dictionaries) as system:
            await system.wait_for_last(dict.fromkeys(_sensors(*range(PUBLISHERS)), FLOWING))
            if dictionaries:
                await system.wait_for_dictionary()
            await system.kill(victim, kills, Random(seed), progress)
            dictionary = await system.wait_for_dictionary() if dictionaries else ""
            last = await system.finish()
        records = [read_record(system.record_path(number)) for number in range(len(demands))]
        audits = [audit_numbers(lines, last, demand.tolerance) for lines, demand in zip(records, demands, strict=True)]
    return KillTestResult(tuple(audits), kills, dictionary)


def _sensors(*publishers: int) -> list[str]:
    return [f"p{publisher}-s{number}" for publisher in publishers for number in range(SENSORS)]
