"""Options of a subscription, and its notices."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import datetime

import pytest
from client_setup import bus_on, reading, rooms, run, take

import thinwire as tw
from thinwire.clock import VirtualClock
from thinwire.errors import ConfigError, DemandError
from thinwire.topics.names import log_of
from thinwire.topics.registry_client import open_registry
from thinwire.topics.topic_documents import encode
from thinwire.topics.topic_settings import ConfigDocument


def test_only_selected_sources_and_properties_are_delivered() -> None:
    async def story() -> None:
        schema = rooms()
        async with bus_on("memory://chosen") as bus:
            await bus.register(schema, max_silence=0.5)  # an event whose chosen values are predicted is suppressed
            async with (
                bus.subscribe(schema.name, properties=["t"], sources={"room": ["11.2", "11.3"]}) as events,
                bus.publisher(schema.name) as out,
            ):
                for n in range(5):
                    for room in ("11.1", "11.2", "11.3"):
                        await out.publish(reading(n, room))
                await out.flush()
                seen = await take(events, 10)
        assert {event["room"] for event in seen} == {"11.2", "11.3"}
        assert all(set(event) == {"time", "room", "t"} for event in seen)
        assert all("n" not in event.bound and "t" in event.bound for event in seen)

    run(story)


@pytest.mark.parametrize("mode", ["predict", "hold"])
def test_changes_keep_the_last_value_within_the_tolerance(mode: str) -> None:
    async def story() -> None:
        schema = rooms()
        values = [20.0, 20.3, 20.9, 21.2, 21.3, 23.0, 22.9, 22.8, 20.0, 20.0]
        async with bus_on(f"memory://changes-{mode}") as bus:
            await bus.register(schema, mode=mode)
            async with (
                bus.subscribe(schema.name, tolerance={"t": 1.0}, properties=["t"], emit="changes") as events,
                bus.publisher(schema.name) as out,
            ):
                last = None
                for n, t in enumerate(values):
                    await out.publish(reading(n, t=t))
                    await out.flush()
                    stored = (await bus.broker.span(log_of(schema.name))).last
                    while events.offset is None or events.offset < stored:
                        with suppress(TimeoutError):
                            last = (await take(events, 1, timeout=0.05))[0]
                    assert last is not None
                    assert abs(last["t"] - t) <= 1.0 + 1e-9

    run(story)


def test_exact_overrides_every_tolerance() -> None:
    async def story() -> None:
        schema = rooms()
        async with bus_on("memory://exact") as bus:
            await bus.register(schema)
            async with (
                bus.publisher(schema.name) as out,
                bus.subscribe(schema.name, tolerance={"t": 5}),
                bus.subscribe(schema.name, default_tolerance=5, exact=["t"]) as events,
            ):
                async with asyncio.timeout(30):
                    while out.encoder.config.demand.tolerance.get("t", 0) or not out.wanted:
                        await asyncio.sleep(0.01)
                for n in range(10):
                    await out.publish(reading(n, t=20 + n / 10))
                await out.flush()
                seen = await take(events, 10)
        assert [event["t"] for event in seen] == [20 + n / 10 for n in range(10)]
        assert {event.bound["t"] for event in seen} == {0.0}

    run(story)


def test_a_tick_delivers_provisional_predictions_without_bounds() -> None:
    async def story() -> None:
        schema = rooms()
        async with bus_on("memory://tick") as bus:
            await bus.register(schema, max_silence=60)
            async with (
                bus.subscribe(schema.name, cadence="tick", tick=0.05) as events,
                bus.publisher(schema.name) as out,
            ):
                await out.publish(reading(0))
                await out.flush()
                first, *others = await take(events, 4)
        assert not first.provisional
        assert all(event.provisional and set(event.bound.values()) == {None} for event in others)

    run(story)


def test_static_properties_are_stored_once_and_delivered() -> None:
    async def story() -> None:
        schema = tw.Schema(
            "facts",
            [
                tw.Property("room", "string", "dimension"),
                tw.Property("maker", "string", static=True),
                tw.Property("t", "number", step="0.1"),
            ],
        )
        sent = [{"room": str(n % 3), "maker": f"Acme {n % 2} " * 50, "t": 20.0 + n} for n in range(12)]
        async with bus_on("memory://facts") as bus:
            await bus.register(schema)
            async with bus.subscribe("facts") as events, bus.publisher("facts") as out:
                for event in sent:
                    await out.publish(event)
                await out.flush()
                seen = await take(events, len(sent))
                assert out.counts.frame_bytes < 1000, "the facts travel as a reference"
            facts = await bus.broker.bucket("tw_facts")
            assert len(await facts.entries()) == 2
        assert [dict(event) for event in seen] == sent

    run(story)


def test_an_older_publisher_is_read_as_the_newer_schema() -> None:
    async def story() -> None:
        old = rooms("evolving")
        new = tw.Schema("evolving", [*old.properties, tw.Property("humidity", "number", step="1")], version=2)
        async with bus_on("memory://evolving") as bus:
            await bus.register(old)
            async with bus.publisher("evolving", name="old") as out:
                await bus.register(new)
                async with (
                    bus.subscribe("evolving", schema=new) as events,
                    bus.publisher("evolving", name="new", schema=new) as newer,
                ):
                    await out.publish(reading(1))
                    await newer.publish({**reading(2), "humidity": 40})
                    await out.flush()
                    await newer.flush()
                    seen = {event["n"]: event["humidity"] for event in await take(events, 2)}
        assert seen == {1: None, 2: 40}

    run(story)


def test_direct_mode_needs_no_service(caplog: pytest.LogCaptureFixture) -> None:
    """An unregistered topic works with a declared schema. A larger tolerance is met, with a warning."""

    async def story() -> None:
        schema = rooms()
        async with tw.connect("memory://direct", services=False) as bus:
            assert not await bus.served()
            async with (
                bus.publisher(schema.name, schema=schema, tolerance={"t": 0.2}) as out,
                bus.subscribe(schema.name, schema=schema, tolerance={"t": 2.0}) as events,
            ):
                for n in range(5):
                    await out.publish(reading(n, t=20 + n))
                await out.flush()
                seen = await take(events, 5)
        assert {event.bound["t"] for event in seen} == {0.2}

    with caplog.at_level(logging.WARNING, logger="thinwire.client"):
        run(story)
    assert "no bandwidth is saved" in caplog.text


def test_a_bound_above_the_tolerance_is_reported() -> None:
    async def story() -> None:
        schema = rooms()
        async with (
            tw.connect("memory://coarser", services=False) as bus,
            bus.publisher(schema.name, schema=schema, tolerance={"t": 2.0}) as out,
            bus.subscribe(schema.name, schema=schema, tolerance={"t": 0.5}) as events,
        ):
            await out.publish(reading(0))
            await out.flush()
            (event,) = await take(events, 1)
            assert event.bound["t"] == 2.0
            assert tw.BoundExceeded(out.name, "t", 2.0, 0.5) in events.notices

    run(story)


def test_clock_skew_is_reported() -> None:
    async def story() -> None:
        schema = rooms()
        async with bus_on("memory://skew") as bus, bus_on("memory://skew", clock=VirtualClock(1e6)) as elsewhere:
            await bus.register(schema)
            async with bus.subscribe(schema.name) as events, elsewhere.publisher(schema.name, name="late") as out:
                await out.publish(reading(0))
                await out.publish(reading(1))
                await out.publish(reading(2))
                await out.flush()
                await take(events, 3)
                skewed = [notice for notice in events.notices if isinstance(notice, tw.ClockSkew)]
        assert [notice.publisher for notice in skewed] == ["late"]
        assert skewed[0].seconds < -1e8

    run(story)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"tolerance": {"nonsense": 1}}, "nonsense"),
        ({"tolerance": {"t": -1}}, "zero or more"),
        ({"properties": ["nonsense"]}, "nonsense"),
        ({"sources": {"t": 1}}, "dimensions"),
        ({"exact": ["nonsense"]}, "nonsense"),
        ({"default_tolerance": -1}, "default_tolerance"),
    ],
)
def test_an_invalid_demand_is_rejected_with_the_property(options: dict[str, object], names: str) -> None:
    async def story() -> None:
        schema = rooms()
        async with bus_on("memory://refused") as bus:
            await bus.register(schema)
            with pytest.raises(DemandError, match=names):
                await bus.subscribe(schema.name, **options).open()  # type: ignore[arg-type]

    run(story)


@pytest.mark.parametrize(
    "options",
    [
        {"emit": "some"},
        {"cadence": "now"},
        {"start": "yesterday"},
        {"start": 0},
        {"start": datetime(2026, 1, 1)},
        {"durable": "a b"},
        {"properties": "t"},
        {"tick": 0},
    ],
)
def test_an_invalid_option_is_rejected_before_opening(options: dict[str, object]) -> None:
    async def story() -> None:
        async with bus_on("memory://settings") as bus:
            with pytest.raises(ConfigError):
                bus.subscribe("rooms", **options)  # type: ignore[arg-type]

    run(story)


def test_a_configuration_older_than_retention_does_not_stop_a_publisher() -> None:
    """A publisher opened before the registry has read the latest registration."""

    async def story() -> None:
        async with tw.connect("memory://earlier", services=False) as bus:
            schema = rooms()
            await bus.register(schema)
            registry = await open_registry(bus.broker)
            await registry.put(f"config.{schema.name}", encode(ConfigDocument(schema.name, 1, wanted=False)))
            await bus.register(schema, retain=True)
            async with bus.publisher(schema.name) as out:
                await asyncio.sleep(0.1)  # the configuration is delivered to the publisher again meanwhile
                await out.publish(reading(1))
            async with bus.subscribe(schema.name, start="earliest") as events:
                assert [event["n"] for event in await take(events, 1)] == [1]

    run(story)
