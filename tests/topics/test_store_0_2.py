"""A store written by version 0.2 opens: services continue it, readers read it, documents keep their form.

`tests/vectors/make_store.py` wrote the store. The published events and what was consumed are in `expected.json`.
"""

from __future__ import annotations

import asyncio
import json
import time
from base64 import b64decode
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import thinwire as tw
from thinwire.brokers.memory import LocalBroker, LocalServer
from thinwire.client.cursor import CursorDocument
from thinwire.client.notices import Notice
from thinwire.edge.edge_documents import ASSIGNMENT, Assignment, EdgeHostDocument, EdgeReport, EdgeTopic
from thinwire.edge.result_log import PositionDocument
from thinwire.services.registry.registry_service import RegistryService
from thinwire.services.translator.translator_service import TranslatorService
from thinwire.services.watcher.watch_service import WatchService
from thinwire.topics import topic_documents
from thinwire.topics.channel_documents import ChannelDocument
from thinwire.topics.checkpoint_store import CheckpointIndex
from thinwire.topics.dictionary_documents import ActiveDictionaries, StoredDictionaries
from thinwire.topics.document import encode_object
from thinwire.topics.leases import LeaseDocument
from thinwire.topics.names import CHECKPOINTS, CURSORS, REGISTRY, log_of
from thinwire.topics.watches.watch_documents import WatchDocument, WatcherDocument

FOLDER = Path(__file__).parents[1] / "vectors" / "store-0.2"
TOPIC, NOTES = "building.rooms", "building.notes"
_numbers = count()


@cache
def load(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return loaded


def stored_documents(bucket: str) -> dict[str, bytes]:
    return {key: b64decode(value) for key, value in load("store")["buckets"][bucket]}


class StoreClock:
    """Continues from the time at which the store was written, so that nothing in it has expired."""

    def __init__(self) -> None:
        self.stopped_at = 0.0
        self._started: float | None = None

    def start(self) -> None:
        self._started = time.monotonic()

    def now(self) -> float:
        return self.stopped_at + (time.monotonic() - self._started if self._started is not None else 0.0)


class OpenedStore:
    """A memory broker that holds the store."""

    def __init__(self, url: str, clock: StoreClock, broker: LocalBroker) -> None:
        self.url = url
        self.clock = clock
        self.broker = broker
        self._stack = AsyncExitStack()

    async def start(self, *kinds: Any, **options: Any) -> None:
        """Run services at the store until it is closed."""
        for kind in kinds:
            bus = await self._stack.enter_async_context(self.connect())
            service = kind(bus.broker, self.clock, **options)
            task = asyncio.create_task(service.run())
            self._stack.push_async_callback(_end, task)
            await service.ready()

    def connect(self) -> tw.Bus:
        return tw.connect(self.url, services=False, clock=self.clock)

    async def document(self, bucket: str, key: str) -> bytes | None:
        entry = await (await self.broker.bucket(bucket)).get(key)
        return entry.value if entry is not None else None

    async def close(self) -> None:
        await self._stack.aclose()


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def open_store(damaged: int = 0) -> AsyncIterator[OpenedStore]:
    """The store at a memory broker; the first `damaged` messages of the topic's log are replaced."""
    name, clock = f"store{next(_numbers)}", StoreClock()
    server = LocalServer.named(name)
    server.clock = clock
    async with LocalBroker(server) as broker:
        for log, content in load("store")["logs"].items():
            await broker.ensure_log(log, content["subjects"])
            for offset, (subject, payload, stored) in enumerate(content["messages"], 1):
                clock.stopped_at = stored  # exact: a checkpoint is valid up to the time of its message
                intact = log != log_of(TOPIC) or offset > damaged
                await broker.append(log, subject, b64decode(payload) if intact else b"damaged")
        for bucket, entries in load("store")["buckets"].items():
            documents = await broker.bucket(bucket)
            for key, value in entries:
                await documents.put(key, b64decode(value))
        clock.stopped_at = max(message[2] for log in load("store")["logs"].values() for message in log["messages"])
        clock.start()
        opened = OpenedStore(server.url, clock, broker)
        try:
            yield opened
        finally:
            await opened.close()


async def take_all(items: Any, least: int, quiet: float = 0.5) -> list[Any]:
    """At least `least` items, and those that follow without a pause of `quiet` seconds."""
    found: list[Any] = []
    try:
        while True:
            async with asyncio.timeout(30 if len(found) < least else quiet):
                found.append(await anext(items))
    except TimeoutError:
        return found


def selected(name: str) -> list[dict[str, Any]]:
    """The published events that a durable subscription of the store selects."""
    demand = load("expected")["demands"][name]
    rooms = [demand["sources"]["room"]] if "sources" in demand else ["11.1", "11.2", "11.3"]
    least = 20.0 if "where" in demand else -50.0
    return [event for event in load("expected")["published"] if event["room"] in rooms and event["t"] > least]


def check_events(events: list[tw.Event], published: list[dict[str, Any]], tolerance: float) -> None:
    """Each published event once, with values within the bound and a bound within the tolerance."""
    by_time = {event["time"]: event for event in published}
    assert sorted(event["time"] for event in events) == sorted(by_time)
    for event in events:
        bound, truth = event.bound["t"], by_time[event["time"]]
        assert bound is not None
        assert bound <= tolerance + 1e-9
        assert abs(event["t"] - truth["t"]) <= bound + 1e-9
        assert all(event[name] == truth[name] for name in ("n", "make", "open") if name in event and name in truth)


def losses(notices: Iterable[Notice]) -> list[Notice]:
    """Notices of lost events, except that the publisher restarted."""
    found = [notice for notice in notices if isinstance(notice, tw.EventsMissed | tw.MessageUnreadable)]
    return [notice for notice in found if getattr(notice, "reason", "") != "restart"]


def test_the_registry_keeps_the_configurations() -> None:
    async def main() -> None:
        async with open_store() as store:
            await store.start(RegistryService, grace=0.2)
            await asyncio.sleep(1.0)
            for key, value in stored_documents(REGISTRY).items():
                assert await store.document(REGISTRY, key) == value, key

    asyncio.run(main())


@pytest.mark.parametrize("translator", [False, True], ids=["log", "channel"])
@pytest.mark.parametrize("name", ["hvac", "display", "room", "warm", "ledger"])
def test_a_durable_subscription_resumes_at_its_cursor(name: str, translator: bool) -> None:
    async def main() -> None:
        demand, consumed = load("expected")["demands"][name], set(load("expected")["delivered"][name]["times"])
        remaining = [event for event in selected(name) if event["time"] not in consumed]
        async with open_store() as store:
            await store.start(RegistryService)
            if translator:
                await store.start(TranslatorService, lease=0.5)
            async with store.connect() as bus, bus.subscribe(TOPIC, durable=name, **demand) as events:
                received = await take_all(events, len(remaining))
                check_events(received, remaining, demand.get("tolerance", {}).get("t", 0.0))
                assert not losses(events.notices)

    asyncio.run(main())


def test_a_late_reader_reads_the_log_from_the_start() -> None:
    async def main() -> None:
        published, notes = load("expected")["published"], load("expected")["notes"]
        async with open_store() as store, store.connect() as bus:
            async with bus.subscribe(TOPIC, start="earliest", tolerance={"t": 0.1}) as events:
                check_events(await take_all(events, len(published)), published, 0.1)
            async with bus.subscribe(NOTES, start="earliest") as events:
                payloads = [event["payload"] for event in await take_all(events, notes)]
            assert len(payloads) == notes
            assert all(json.loads(payload)["sensor"] == f"T{n % 5}" for n, payload in enumerate(payloads))

    asyncio.run(main())


def test_a_reader_starts_at_a_checkpoint() -> None:
    async def main() -> None:
        index = json.loads(stored_documents(CHECKPOINTS)[f"index.{TOPIC}"])["checkpoints"]
        offset = index[1]["offset"]
        # damaged messages up to the checkpoint: a reader that decoded them could not deliver what follows
        async with open_store(damaged=offset) as store, store.connect() as bus:
            async with bus.subscribe(TOPIC, start=offset + 10, tolerance={"t": 0.1}) as events:
                received = await take_all(events, 1)
                assert not losses(events.notices)
            published = load("expected")["published"]
            first = min(event["time"] for event in received)
            assert published[60]["time"] < first < published[-90]["time"]
            check_events(received, [event for event in published if event["time"] >= first], 0.1)

    asyncio.run(main())


def test_a_durable_watch_resumes() -> None:
    async def main() -> None:
        expected = load("expected")["watch"]
        async with open_store() as store:
            await store.start(RegistryService)
            await store.start(WatchService, lease=0.5)
            async with (
                store.connect() as bus,
                bus.watch(expected["expression"], durable="alarm", start="earliest", max_delay=0.2) as hits,
            ):
                remaining = expected["hits"][expected["delivered"] :]
                received = await take_all(hits, len(remaining), quiet=1.5)
                assert [dict(hit) for hit in received] == remaining

    asyncio.run(main())


DOCUMENTS: dict[str, dict[str, Any]] = {
    "tw_channels": {"": ChannelDocument},
    "tw_dictionaries": {"topic.": ActiveDictionaries, "kept.": StoredDictionaries},
    "tw_edge": {"topic.": EdgeTopic, "host.": EdgeHostDocument, ASSIGNMENT: Assignment},
    "tw_edge_positions": {"": PositionDocument},
    "tw_edge_reports": {"": EdgeReport},
    "tw_leases": {"": LeaseDocument},
    "tw_samplers": {"": LeaseDocument},
    "tw_watch_leases": {"": LeaseDocument},
    "tw_watches": {"watch.": WatchDocument, "watcher.": WatcherDocument},
}
CASES = [
    (bucket, key, kind)
    for bucket, kinds in DOCUMENTS.items()
    for key in stored_documents(bucket)
    for prefix, kind in kinds.items()
    if key.startswith(prefix)
]


NEWER = {"colour": "green", "nested": {"list": [1]}}
"""fields that a later version might add"""
ADDED: dict[str, dict[str, Any]] = {}
"""fields of registry documents added after 0.2, with defaults: {"subscription": {"priority": 0}}"""


def added_fields(key: str) -> dict[str, Any]:
    return ADDED.get(key.partition(".")[0], {})


@pytest.mark.parametrize(("bucket", "key", "kind"), CASES)
def test_a_document_is_written_back_byte_for_byte(bucket: str, key: str, kind: Any) -> None:
    value = stored_documents(bucket)[key]
    assert kind.decode(value).encode() == value


@pytest.mark.parametrize("key", stored_documents(REGISTRY))
def test_a_registry_document_is_written_back_byte_for_byte(key: str) -> None:
    value, added = stored_documents(REGISTRY)[key], added_fields(key)
    expected = encode_object(json.loads(value) | added) if added else value
    assert topic_documents.encode(topic_documents.decode(key, value)) == expected


@pytest.mark.parametrize(("bucket", "key", "kind"), CASES)
def test_unknown_fields_are_written_back(bucket: str, key: str, kind: Any) -> None:
    document = json.loads(stored_documents(bucket)[key]) | NEWER
    assert json.loads(kind.decode(json.dumps(document).encode()).encode()) == document


@pytest.mark.parametrize("key", [key for key in stored_documents(REGISTRY) if not key.startswith("schema.")])
def test_unknown_fields_of_registry_documents_are_written_back(key: str) -> None:
    document = json.loads(stored_documents(REGISTRY)[key]) | NEWER
    if "settings" in document:
        document["settings"] |= NEWER
    decoded = topic_documents.decode(key, json.dumps(document).encode())
    assert json.loads(topic_documents.encode(decoded)) == document | added_fields(key)


@pytest.mark.parametrize("key", [key for key in stored_documents(CURSORS) if key.startswith(TOPIC)])
def test_a_cursor_is_written_back_with_unknown_fields(key: str) -> None:
    document = json.loads(stored_documents(CURSORS)[key]) | NEWER
    stored = CursorDocument.decode(json.dumps(document).encode())
    assert json.loads(CursorDocument.of(stored.cursor(), stored.unknown).encode()) == document


def test_a_checkpoint_index_is_written_back_with_unknown_fields() -> None:
    document = json.loads(stored_documents(CHECKPOINTS)[f"index.{TOPIC}"]) | NEWER
    for checkpoint in document["checkpoints"]:
        checkpoint.update(NEWER)
        for part in checkpoint["parts"].values():
            part.update(NEWER)
    assert CheckpointIndex.decode(json.dumps(document).encode()).to_document() == document
