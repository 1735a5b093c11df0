"""Write a store with the running version: every log, bucket and document that a broker holds for thinwire.

    python tests/vectors/make_store.py FOLDER        writes FOLDER/store.json and FOLDER/expected.json

`store-0.2/` was written by version 0.2 and is never written again: later versions must open it. Offsets, keys and
payloads are as the memory broker held them. `expected.json` lists the published events and what each durable
subscription and watch had consumed when the store was copied.
"""

from __future__ import annotations

import asyncio
import json
import sys
from base64 import b64encode
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any

import thinwire as tw
from thinwire.brokers.memory import LocalServer
from thinwire.clock import WallClock
from thinwire.dictionaries import Dictionary
from thinwire.edge.edge_documents import (
    ASSIGNMENT,
    EDGE,
    EDGE_POSITIONS,
    EDGE_REPORTS,
    Assignment,
    EdgeHostDocument,
    EdgeReport,
    EdgeTopic,
    TopicMeasurements,
    edge_key,
)
from thinwire.edge.result_log import PositionDocument
from thinwire.errors import ThinwireError
from thinwire.services.dictionary_trainer.dictionary_service import DictionaryService
from thinwire.services.dictionary_trainer.dictionary_upload import upload_dictionary
from thinwire.services.registry.registry_service import RegistryService
from thinwire.services.translator.translator_service import TranslatorService
from thinwire.services.watcher.watch_runner import WatchSettings
from thinwire.services.watcher.watch_service import WatchService
from thinwire.topics.checkpoint_store import CheckpointStore
from thinwire.topics.names import CHECKPOINTS

TOPIC, NOTES = "building.rooms", "building.notes"
ROOMS = ("11.1", "11.2", "11.3")
WATCHED = f"{TOPIC}[11.1].t +- 0.5 and {TOPIC}[11.2].t +- 0.5"
ROUNDS, ROUNDS_AFTER = 75, 30
CONSUMED = {"hvac": 100, "display": 50, "room": 25, "warm": 3, "ledger": 77}


def schema(version: int) -> tw.Schema:
    """Version 2 adds a property."""
    properties = [
        tw.Property("time", "timestamp", "header", form="epoch"),
        tw.Property("room", "string", "dimension"),
        tw.Property("t", "number", step="0.1", minimum=-50, maximum=150),
        tw.Property("n", "integer"),
        tw.Property("make", "string", static=True),
    ]
    added = [tw.Property("open", "boolean")] if version > 1 else []
    return tw.Schema(TOPIC, properties + added, version)


def note(n: int) -> bytes:
    return b'{"sensor": "T%d", "room": "11.%d", "state": "%s"}' % (n % 5, n % 7, b"good" if n % 3 else b"worn out")


class Recorder:
    """Publishes events and records what subscriptions and watches receive."""

    def __init__(self, bus: tw.Bus) -> None:
        self.bus = bus
        self.published: list[dict[str, Any]] = []
        self.notes = 0
        self._random = Random(1)
        self._ticks = dict.fromkeys(ROOMS, 200)

    async def publish(self, out: tw.Publisher, rounds: int, **added: Any) -> None:
        """One message with one event of each room per round."""
        for _ in range(rounds):
            for room in ROOMS:
                self._ticks[room] += self._random.randint(-3, 3)
                n = len(self.published)
                event = {"time": 1000 * n, "room": room, "t": self._ticks[room] / 10, "n": n, "make": f"Acme {room}"}
                self.published.append(event | added)
                await out.publish(event | added)
            await out.flush()

    async def publish_notes(self, out: tw.Publisher, count: int) -> None:
        for _ in range(count):
            await out.publish(note(self.notes))
            self.notes += 1
        await out.flush()


async def take(items: Any, count: int) -> list[Any]:
    async with asyncio.timeout(30):
        return [await anext(items) for _ in range(count)]


async def take_all(items: Any, quiet: float = 2.0) -> list[Any]:
    """Items until none arrives for `quiet` seconds."""
    found = []
    try:
        while True:
            async with asyncio.timeout(quiet):
                found.append(await anext(items))
    except TimeoutError:
        return found


async def until(condition: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(30):
        while not await condition():
            await asyncio.sleep(0.05)


async def write_edge(bus: tw.Bus) -> None:
    edge = await bus.broker.bucket(EDGE)
    topic = EdgeTopic("region-7.gps", function="regions:count", rate=20, interval=0.027, host="edge-1")
    await edge.put(edge_key("topic", topic.topic), topic.encode())
    await edge.put(edge_key("host", "edge-1"), EdgeHostDocument("edge-1", cores=2, url="nats://edge-1:4222").encode())
    await edge.put(ASSIGNMENT, Assignment({"region-7.gps": "edge-1"}, version=3, epoch=2).encode())
    report = EdgeReport(
        "edge-1", 7, {"region-7.gps": TopicMeasurements(p90=0.05, rate=19.5, interval=0.026, done=100, span=5.0)}
    )
    await (await bus.broker.bucket(EDGE_REPORTS)).put("edge-1", report.encode())
    await (await bus.broker.bucket(EDGE_POSITIONS)).put("region-7.gps", PositionDocument(100, 2).encode())


async def start_services(bus: tw.Bus, stack: AsyncExitStack) -> None:
    clock = WallClock()
    services = (
        RegistryService(bus.broker, clock, grace=0.3),
        TranslatorService(bus.broker, clock, name="t1", lease=0.5, grace=3600, checkpoint_messages=25),
        DictionaryService(bus.broker, clock, name="d1", lease=0.5),
        WatchService(bus.broker, clock, name="w1", lease=0.5, settings=WatchSettings(grace=3600, state_records=8)),
    )
    for service in services:
        task = asyncio.create_task(service.run())
        stack.callback(task.cancel)
        await service.ready()


async def record() -> tuple[dict[str, Any], dict[str, Any]]:
    async with (
        tw.connect("memory://store", services=False) as services,
        tw.connect("memory://store", services=False, name="client") as bus,
        AsyncExitStack() as stack,
    ):
        await start_services(services, stack)
        expected = await fill(bus, stack)
        await write_edge(bus)
        return copy(LocalServer.named("store")), expected


async def fill(bus: tw.Bus, stack: AsyncExitStack) -> dict[str, Any]:
    """Publish, consume a part, publish the rest. Publishers stay open, as in a broker that is copied while in use."""
    recorder = Recorder(bus)
    await bus.register(schema(1), retain=True, tolerance={"t": 0.1})
    durable: dict[str, dict[str, Any]] = {
        "hvac": {"tolerance": {"t": 2.0}},
        "display": {"tolerance": {"t": 0.2}, "properties": ["t"]},
        "room": {"tolerance": {"t": 0.5}, "sources": {"room": "11.2"}},
        "warm": {"where": "t > 20", "emit": "changes"},
        "ledger": {"tolerance": {"t": 0.1}, "exact": ["n"]},
    }
    opened = {name: bus.subscribe(TOPIC, durable=name, start="earliest", **demand) for name, demand in durable.items()}
    for subscription in opened.values():
        await subscription.open()
    watches = [bus.watch(WATCHED, durable=name, start="earliest", max_delay=0.2) for name in ("alarm", "history")]
    for watch in watches:
        await watch.open()
    out = await stack.enter_async_context(bus.publisher(TOPIC, name="p1"))
    await recorder.publish(out, ROUNDS)
    delivered = {}
    for name, subscription in opened.items():
        # display and ledger stop in the log, the others after the switch to their channel
        events = await take(subscription, CONSUMED[name])
        while name not in ("display", "ledger") and subscription.feed == "log":
            await recorder.publish(out, 1)
            events += await take_all(subscription, quiet=0.1)
        delivered[name] = {"feed": subscription.feed, "times": [event["time"] for event in events]}
        await subscription.close()
    hits = await take(watches[0], 2)
    await watches[0].close()
    await bus.register(schema(2))
    await out.close()
    out = await stack.enter_async_context(bus.publisher(TOPIC, name="p1", schema=schema(2)))
    await recorder.publish(out, ROUNDS_AFTER, open=True)
    with suppress(ThinwireError):
        await out.publish({"time": 0, "room": "11.1", "t": "warm", "n": 0, "make": "Acme 11.1", "open": True})
    all_hits = await take_all(watches[1])
    await write_notes(bus, recorder, stack)
    store = CheckpointStore(await bus.broker.bucket(CHECKPOINTS))
    await until(lambda: store.read_all(TOPIC))
    await asyncio.sleep(1.5)
    return {
        "published": recorder.published,
        "notes": recorder.notes,
        "demands": durable,
        "delivered": delivered,
        "watch": {"expression": WATCHED, "delivered": len(hits), "hits": [shown(hit) for hit in all_hits]},
    }


async def write_notes(bus: tw.Bus, recorder: Recorder, stack: AsyncExitStack) -> None:
    """A topic without a schema whose messages are packed with a dictionary."""
    await bus.register(tw.opaque(NOTES), retain=True, dictionaries=True)
    dictionary = Dictionary(b"".join(note(n) for n in range(30)), "zstd", level=3, largest=512)
    await upload_dictionary(bus.broker, NOTES, dictionary, now=bus.clock.now(), seconds=86_400, by="test")
    out = await stack.enter_async_context(bus.publisher(NOTES, name="p2", dictionaries=True))
    async with asyncio.timeout(10):
        while not out.dictionary:
            await asyncio.sleep(0.05)
    await recorder.publish_notes(out, 40)


def shown(hit: tw.Hit) -> dict[str, float]:
    return {str(name): float(value) for name, value in hit.items()}


def copy(server: LocalServer) -> dict[str, Any]:
    """The logs from their first offset, and the present entries of each bucket in the order of their revisions."""
    return {
        "logs": {
            name: {
                "subjects": list(log.patterns),
                "messages": [
                    [message.subject, b64encode(message.payload).decode(), message.time]
                    for offset in range(1, log.span().last + 1)
                    if (message := log.next(offset, lambda subject: True)) is not None
                ],
            }
            for name, log in sorted(server.logs.items())
        },
        "buckets": {
            name: [[e.key, b64encode(e.value or b"").decode()] for e in bucket.entries(">")]
            for name, bucket in sorted(server.buckets.items())
        },
    }


def main(folder: Path) -> None:
    store, expected = asyncio.run(record())
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("store", store), ("expected", expected)):
        (folder / f"{name}.json").write_text(json.dumps(content, indent=0, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
