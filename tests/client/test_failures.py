"""A real broker that dies, stays away, fills up; a registry that dies; a subscriber that sleeps."""

from __future__ import annotations

import asyncio
import logging
import random
from importlib.util import find_spec
from pathlib import Path

import pytest
from client_setup import bus_on, reading, rooms, run, take

import thinwire as tw
from thinwire.errors import BrokerRefused, BrokerUnavailable, PayloadTooLarge

pytestmark = pytest.mark.skipif(find_spec("nats") is None, reason="needs the extra nats")


def test_a_broker_killed_in_mid_stream_loses_and_doubles_nothing() -> None:
    from thinwire.brokers.embedded import EmbeddedServer

    async def story() -> None:
        chance = random.Random(7)
        schema = rooms()
        async with EmbeddedServer() as server, bus_on(server.url) as bus:
            await bus.register(schema)
            async with (
                bus.subscribe(schema.name, tolerance={"t": 0.5}) as events,
                bus.publisher(schema.name, name="p1") as out,
            ):
                reader = asyncio.create_task(take(events, 400, timeout=60))
                for n in range(400):
                    await out.publish(reading(n, t=20 + chance.random() * 5))
                    if n in (100, 200, 300):
                        server.kill()
                        await asyncio.sleep(chance.random() / 5)
                        await server.restart()
                    await asyncio.sleep(0.001)
                await out.flush(30)
                seen = await reader
        assert [event["n"] for event in seen] == list(range(400))
        assert not [notice for notice in events.notices if isinstance(notice, tw.EventsMissed)]

    run(story, timeout=90)


def test_an_unreachable_broker_is_reported_and_pending_events_are_retained() -> None:
    from thinwire.brokers.embedded import EmbeddedServer

    async def story() -> None:
        schema = rooms()
        async with EmbeddedServer() as server, bus_on(server.url) as bus:
            await bus.register(schema, retain=True)
            async with bus.publisher(schema.name, name="p1") as out:
                server.kill()
                for n in range(10):
                    await out.publish(reading(n))
                with pytest.raises(BrokerUnavailable, match=schema.name):
                    await out.flush(0.3)
                await server.restart()
                await out.flush(30)
            async with bus.subscribe(schema.name, start="earliest") as events:
                assert [event["n"] for event in await take(events, 10)] == list(range(10))

    run(story, timeout=60)


def test_a_publisher_waits_where_the_broker_does_not_keep_up() -> None:
    from thinwire.brokers.embedded import EmbeddedServer

    async def story() -> None:
        schema = rooms()
        async with EmbeddedServer() as server, bus_on(server.url) as bus:
            await bus.register(schema, retain=True)
            async with bus.publisher(schema.name, name="p1", max_pending=2000) as out:
                server.kill()
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(_publish_many(out), timeout=2)
                assert out.counts.frame_bytes < 10_000, "memory is bounded"
                await server.restart()
                await out.flush(30)

    run(story, timeout=60)


def test_no_broker_at_all() -> None:
    async def story() -> None:
        with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1:1"):
            async with tw.connect("nats://127.0.0.1:1", connect_timeout=1):
                pass

    run(story)


def test_wrong_credentials_are_refused_and_not_shown() -> None:
    from thinwire.brokers.embedded import EmbeddedServer

    async def story() -> None:
        async with EmbeddedServer(lines=['authorization { token: "s3cret" }']) as server:
            with pytest.raises(BrokerRefused) as refused:
                async with tw.connect(server.url, token="t0ken"):
                    pass
            assert "t0ken" not in str(refused.value)
            async with tw.connect(server.url, token="s3cret") as bus:
                assert "s3cret" not in repr(bus)

    run(story)


def test_a_full_store_is_named_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    from thinwire.brokers.embedded import EmbeddedServer

    async def story() -> None:
        schema = tw.Schema("texts", [tw.Property("n", "integer"), tw.Property("text", "string")])
        small = f'jetstream {{ store_dir: "{tmp_path}", max_file_store: 200000 }}'
        async with EmbeddedServer(lines=[small]) as server, tw.connect(server.url) as bus:
            out = bus.publisher("texts", schema=schema, name="p1", linger=0)
            await out.open()
            stored: list[int] = []
            with pytest.raises(BrokerRefused, match="storage of the broker is full"):
                await _fill(out, stored)
            async with bus.subscribe("texts", schema=schema, start="earliest") as events:
                assert [event["n"] for event in await take(events, len(stored))] == stored
            assert len(stored) > 10
            with pytest.raises(BrokerRefused):
                await out.close(timeout=0.1)

    run(story, timeout=60)


async def _publish_many(out: tw.Publisher) -> None:
    for n in range(100_000):
        await out.publish(reading(n, t=20 + n % 7))


async def _fill(out: tw.Publisher, stored: list[int]) -> None:
    """Publish until it goes wrong, and note what was acknowledged."""
    for n in range(1000):
        await out.publish({"n": n, "text": random.Random(n).randbytes(4000).hex()})
        await out.flush(4)
        stored.append(n)


def test_a_value_no_message_can_hold_is_refused_before_it_does_harm() -> None:
    async def story() -> None:
        schema = tw.Schema("texts", [tw.Property("n", "integer"), tw.Property("text", "string")])
        async with tw.connect("memory://large") as bus:
            await bus.register(schema)
            async with bus.subscribe("texts") as events, bus.publisher("texts") as out:
                with pytest.raises(PayloadTooLarge, match="text"):
                    await out.publish({"n": 0, "text": "x" * (1 << 20)})
                await out.publish({"n": 1, "text": "short"})
                await out.flush()
                assert (await take(events, 1))[0]["n"] == 1

    run(story)


def test_data_flows_while_the_registry_is_down() -> None:
    from thinwire.brokers.embedded import EmbeddedServer

    async def story() -> None:
        schema = rooms()
        async with EmbeddedServer() as server, tw.connect(server.url) as bus:
            async with bus_on(server.url) as served:
                await served.register(schema, retain=True, tolerance={"t": 2.0})
            assert not await bus.served()
            async with (
                bus.publisher(schema.name, name="p1") as out,
                bus.subscribe(schema.name, tolerance={"t": 0.5}) as events,
            ):
                await out.publish(reading(0))
                await out.flush()
                assert (await take(events, 1))[0]["n"] == 0
                async with bus_on(server.url), asyncio.timeout(30):  # the registry comes back and sees to the demand
                    while out.encoder.config.demand.tolerance.get("t") != 0.5:
                        await asyncio.sleep(0.05)
                await out.publish(reading(1, t=21.0))
                await out.flush()
                assert (await take(events, 1))[0].bound["t"] == 0.5

    run(story, timeout=60)


def test_a_slow_subscriber_costs_bounded_memory_and_gets_everything(caplog: pytest.LogCaptureFixture) -> None:
    from thinwire.brokers.embedded import EmbeddedServer

    async def story() -> None:
        schema = rooms()
        async with EmbeddedServer() as server, bus_on(server.url) as bus:
            await bus.register(schema)
            async with (
                bus.subscribe(schema.name, limit=16) as events,
                bus.publisher(schema.name, name="p1", linger=0) as out,
            ):
                (await out.publish(reading(0)), await out.flush())
                await take(events, 1)
                for n in range(1, 500):
                    await out.publish(reading(n, t=20 + n % 9))
                    if n % 5 == 0:
                        await out.flush()
                await out.flush()
                await asyncio.sleep(0.3)
                assert [event["n"] for event in await take(events, 499)] == list(range(1, 500))

    with caplog.at_level(logging.WARNING):
        run(story, timeout=60)
    assert "slow consumer" not in caplog.text


def test_a_publisher_opened_before_the_registry_uses_the_topic_settings() -> None:
    from thinwire.brokers.embedded import EmbeddedServer

    async def story() -> None:
        schema = rooms()
        async with EmbeddedServer() as server, bus_on(server.url, registry=False) as bus:
            await bus.register(schema, retain=True, tolerance={"t": 0.5}, audit_every=4)
            async with bus.publisher(schema.name, name="p1") as out:
                config = out.encoder.config
        assert (config.audit_every, config.demand.tolerance["t"]) == (4, 0.5)
        assert config.demand.tolerance.get("n", config.demand.default_tolerance) == 0

    run(story)
