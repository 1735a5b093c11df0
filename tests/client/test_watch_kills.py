"""Evaluator, broker and client are killed: no notification is lost or repeated."""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import signal
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from client_setup import KINDS, run, site
from watch_setup import Market, collect, stocks, system

import thinwire as tw
from thinwire.topics.names import data_subject, log_of, watch_log_of
from thinwire.topics.watches import watched_topic

SOURCE = str(Path(__file__).parents[2] / "src")
CHANCE = (20.0, 20.5, 21.2, 19.0, 23.0)


async def drive(market: Market, outs: dict[str, tw.Publisher], steps: int, chance: random.Random) -> None:
    """Publish `steps` events, alternating between topics."""
    names = list(outs)
    for step in range(steps):
        topic = names[step % len(names)]
        await market.publish(outs[topic], topic, chance.choice("AB"), chance.choice(CHANCE))


@pytest.mark.parametrize("kind", KINDS)
def test_evaluators_are_killed_while_events_arrive(kind: str) -> None:
    async def story() -> None:
        chance = random.Random(11)
        market = Market([stocks(), stocks()])
        one, two = (schema.name for schema in market.schemas)
        expression = f"({one}[A].price +- 1 and {two}[A].price +- 1) or {two}[B].price +- 2"
        with site(kind) as url:
            async with system(url) as world:
                for schema in market.schemas:
                    await world.bus.register(schema, max_silence=0.3)
                async with world.bus.publisher(one) as near, world.bus.publisher(two) as far:
                    seen: list[tw.Hit] = []
                    async with world.bus.watch(expression, max_delay=float("inf")) as hits:
                        outs = {one: near, two: far}
                        for _ in range(3):
                            await drive(market, outs, 12, chance)
                            await world.kill()
                            await drive(market, outs, 6, chance)
                            await world.start()
                        truth = market.truth(expression)
                        await collect(hits, seen, len(truth))
                    assert [dict(hit) for hit in seen] == truth
                    assert [hit.number for hit in seen] == list(range(1, len(truth) + 1))
                    assert not any(hit.late for hit in seen)
                    assert len(truth) > 8

    run(story, timeout=400)


def test_a_watch_without_readers_ends_and_removes_its_subscription() -> None:
    async def story() -> None:
        market = Market([stocks()])
        topic = market.schemas[0].name
        with site("memory") as url:
            async with system(url) as world:
                await world.bus.register(market.schemas[0])
                registry = await world.bus.broker.bucket("tw_registry")
                async with world.bus.watch(f"{topic}[A].price +- 1") as hits:
                    [subscription] = await registry.entries(f"subscription.{topic}.*")
                    document = json.loads(subscription.value or b"")
                    assert (document["exact"], document["durable"]) == (["price", "time"], document["identity"])
                    watch = hits.watch
                    assert watch_log_of(watch) in await world.bus.broker.logs()
                while watch_log_of(watch) in await world.bus.broker.logs():
                    await asyncio.sleep(0.05)
                while await registry.entries(f"subscription.{topic}.*"):
                    await asyncio.sleep(0.05)
                assert await (await world.bus.broker.bucket("tw_watches")).entries() == []
                assert log_of(topic) in await world.bus.broker.logs()

    run(story)


def test_publishers_that_leave_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_topic, "CHECK_INTERVAL", 0.1)
    monkeypatch.setattr(watched_topic, "UNREGISTERED_DELAY", 0.3)

    async def story() -> None:
        market = Market([stocks(), stocks()])
        one, two = (schema.name for schema in market.schemas)
        with site("memory") as url:
            async with system(url) as world:
                for schema in market.schemas:
                    await world.bus.register(schema, max_silence=0.2)
                stays, leaves = world.bus.publisher(one, name="stays"), world.bus.publisher(two, name="leaves")
                async with stays as out:
                    async with leaves as last:
                        hits = world.bus.watch(f"{one}[A].price +- 1 or {two}[A].price +- 1", max_delay=math.inf)
                        await hits.open()
                        await market.publish(last, two, "A", 5.0)
                        await last.flush()
                    async with hits:
                        await market.publish(out, one, "A", 10.0)
                        seen: list[tw.Hit] = []
                        await collect(hits, seen, 2)
                        assert seen == [{f"{two}[A].price": 5.0}, {f"{one}[A].price": 10.0}]
                        lost = [notice for notice in hits.notices if isinstance(notice, tw.PublisherLost)]
                        assert [(notice.topic, notice.publisher) for notice in lost] == [(two, "leaves")]

    run(story)


def test_unreadable_messages_are_reported_and_a_new_watch_log_is_joined() -> None:
    async def story() -> None:
        market = Market([stocks()])
        topic = market.schemas[0].name
        with site("memory") as url:
            async with system(url) as world:
                await world.bus.register(market.schemas[0])
                broker = world.bus.broker
                watch = world.bus.watch(f"{topic}[A].price +- 1", max_delay=0)
                async with world.bus.publisher(topic) as out, watch as hits:
                    async with world.bus.publisher(topic, name="noisy") as noisy:
                        await market.publish(noisy, topic, "B", 1.0)
                    await broker.append(log_of(topic), data_subject(topic, "noisy"), b"\xff\xff\xff")
                    await market.publish(out, topic, "A", 5.0)
                    seen: list[tw.Hit] = []
                    await collect(hits, seen, 1)
                    kinds = {type(notice) for notice in hits.notices if getattr(notice, "publisher", "") == "noisy"}
                    assert kinds & {tw.MessageUnreadable, tw.EventsMissed}
                    # as if the reader had been suspended and removed
                    await (await broker.bucket("tw_watches")).delete(f"watcher.{hits.watch}.{hits.identity}")
                    while watch_log_of(hits.watch) in await broker.logs():
                        await asyncio.sleep(0.05)
                    await collect(hits, seen, 2)
                    assert (seen[1], seen[1].number) == ({f"{topic}[A].price": 5.0}, 1)
                    assert tw.EventsMissed("", None, None, None, "retention") in hits.notices

    run(story)


def test_a_watch_reads_the_log_and_gets_no_channel() -> None:
    async def story() -> None:
        market = Market([stocks()])
        topic = market.schemas[0].name
        async with tw.connect(f"memory://{topic}") as bus:
            await bus.register(market.schemas[0])
            async with bus.subscribe(topic, tolerance={"price": 5}), bus.watch(f"{topic}[A].price +- 1") as hits:
                async with bus.publisher(topic) as out:
                    await market.publish(out, topic, "A", 5.0)
                    await out.flush()
                    await collect(hits, [], 1)
                channels = await (await bus.broker.bucket("tw_channels")).entries(f"{topic}.*")
                assert len(channels) <= 1  # the subscriber's

    run(story)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("nats") is None, reason="needs the extra nats")
def test_broker_service_and_client_are_killed_with_sigkill() -> None:
    from thinwire.brokers.embedded import EmbeddedServer

    async def story() -> None:
        chance = random.Random(5)
        market = Market([stocks()])
        [topic] = (schema.name for schema in market.schemas)
        expression = f"{topic}[A].price +- 1 or {topic}[B].price +- 1"
        async with EmbeddedServer() as server:
            registry = await verb("up", "--to", server.url, "--only", "registry", "--json")
            service = await verb("up", "--to", server.url, "--only", "watches", "--json")
            await line(registry), await line(service)
            client = None
            try:
                async with tw.connect(server.url) as bus:
                    await bus.register(market.schemas[0], max_silence=0.3, retain=True)
                    async with bus.publisher(topic) as out:
                        where = ("--to", server.url, "--start", "earliest")
                        watching = ("watch", expression, *where, "--durable", "d", "--json")
                        client = await verb(*watching)
                        await drive(market, {topic: out}, 10, chance)
                        seen = {}
                        note(seen, json.loads(await line(client)))
                        service.kill()
                        await service.wait()
                        await drive(market, {topic: out}, 10, chance)
                        service = await verb("up", "--to", server.url, "--only", "watches", "--json")
                        await line(service)
                        note(seen, json.loads(await line(client)))
                        client.kill()
                        printed = await client.stdout.read()
                        for one in printed.splitlines():  # acknowledged, so they do not come again
                            note(seen, json.loads(one))
                        await client.wait()
                        server.kill()
                        await server.restart()
                        await drive(market, {topic: out}, 10, chance)
                        await out.flush(60)
                        client = await verb(*watching)
                        truth = market.truth(expression)
                        while len(seen) < len(truth):
                            note(seen, json.loads(await line(client)))
                        assert [seen[number] for number in sorted(seen)] == truth
            finally:
                for process in filter(None, (client, service, registry)):
                    if process.returncode is None:
                        process.send_signal(signal.SIGKILL)
                    await process.wait()

    run(story, timeout=600)


def note(seen: dict[int, object], hit: dict[str, object]) -> None:
    """Record a hit. A repeated hit after a crash has the same values under the same number."""
    number = hit["number"]
    assert isinstance(number, int)
    assert seen.setdefault(number, hit["values"]) == hit["values"]


async def verb(*args: str) -> asyncio.subprocess.Process:
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "thinwire", *args, stdout=asyncio.subprocess.PIPE, env=environment
    )


async def line(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None
    found = await process.stdout.readline()
    assert found, await process.wait()
    return found
