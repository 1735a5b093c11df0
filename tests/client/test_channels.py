"""Subscriptions with a larger tolerance read their own channel. Apart from fewer bytes, nothing changes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import pytest
from channel_setup import ROOMS, Truth, no_loss, system, until, wait_for_channels
from client_setup import KINDS, reading, rooms, run, site, take

import thinwire as tw
from thinwire.codec import Audit


@pytest.fixture(scope="module", params=KINDS)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with site(request.param) as where:
        yield where


def test_each_tolerance_gets_every_event_once_within_its_bound(url: str) -> None:
    async def story() -> None:
        schema, truth = rooms(), Truth()
        async with system(url) as world:
            bus = world.bus
            await bus.register(schema, max_silence=0.3)
            async with (
                bus.publisher(schema.name, name="p1") as out,
                bus.subscribe(schema.name) as strict,
                bus.subscribe(schema.name, tolerance={"t": 0.5}) as half,
                bus.subscribe(schema.name, tolerance={"t": 1.0}) as one,
                bus.subscribe(schema.name, tolerance={"t": 1.0}) as other,
            ):
                assert not await wait_for_channels(half, one, other)
                assert strict.feed == "log"
                await until(lambda: out.wanted and not out.encoder.config.demand.tolerance.get("t"))
                readers = [asyncio.create_task(take(sub, 3 * 100)) for sub in (strict, half, one, other)]
                await truth.publish(out, 100)
                seen = await asyncio.gather(*readers)
                for events, tolerance in zip(seen, (0, 0.5, 1.0, 1.0), strict=True):
                    truth.check(events, tolerance)
                assert [event.identity for event in seen[2]] == [event.identity for event in seen[3]]
                sizes = [sum(c.frame_bytes for c in sub.counts.values()) for sub in (strict, half, one)]
                assert sizes == sorted(sizes, reverse=True)
                assert no_loss(strict, half, one, other)

    run(story)


def test_only_what_was_chosen_travels(url: str) -> None:
    async def story() -> None:
        schema, truth = rooms(), Truth(2)
        async with system(url) as world:
            bus = world.bus
            await bus.register(schema, max_silence=0.3)
            async with (
                bus.publisher(schema.name, name="p1") as out,
                bus.subscribe(schema.name, tolerance={"t": 0.2}) as complete,
                bus.subscribe(schema.name, properties=["t"], tolerance={"t": 0.2}, sources={"room": "11.2"}) as part,
            ):
                assert not await wait_for_channels(part)
                assert complete.feed == "log"
                await until(lambda: out.wanted)
                readers = asyncio.create_task(take(complete, 90)), asyncio.create_task(take(part, 30))
                await truth.publish(out, 30)
                everything, chosen = [await reader for reader in readers]
                truth.check(everything, 0.2)
                assert [event["t"] for event in chosen] == [e["t"] for e in everything if e["room"] == "11.2"]
                assert all(set(event) == {"time", "room", "t"} for event in chosen)
                assert [set(event.bound) for event in chosen] == [{"time", "room", "t"} & set(chosen[0].bound)] * 30

    run(story)


def test_a_new_subscription_receives_the_current_state(url: str) -> None:
    async def story() -> None:
        schema, truth = rooms(), Truth(3)
        async with system(url) as world:
            bus = world.bus
            await bus.register(schema, retain=True, max_silence=0.3)
            async with (
                bus.publisher(schema.name, name="p1") as out,
                bus.subscribe(schema.name, properties=["t"]) as sub,
            ):
                await truth.publish(out, 20)
                await take(sub, 60)
                async with bus.subscribe(schema.name, properties=["t"]) as late:
                    present = await wait_for_channels(late)
                    present += await take(late, 3 - len(present))
                    assert {event["room"] for event in present} == set(ROOMS)
                    assert {event.ordinal for event in present} == {20}
                    await truth.publish(out, 5)
                    truth.check(present[:0] + await take(late, 15), 0, first=20)

    run(story)


@pytest.mark.parametrize("mode", ["predict", "hold"])
def test_changes_keep_the_last_value_within_the_tolerance(url: str, mode: str) -> None:
    async def story() -> None:
        schema = rooms()
        walk = [20.0, 20.4, 20.9, 21.3, 21.3, 23.0, 22.9, 22.8, 20.0, 20.0, 20.5, 21.1, 21.2, 21.2]
        async with system(url) as world:
            bus = world.bus
            await bus.register(schema, mode=mode, max_silence=0.3)
            async with (
                bus.subscribe(schema.name, tolerance={"t": 0.2}),
                bus.subscribe(schema.name, tolerance={"t": 1.0}, properties=["t"], emit="changes") as events,
                bus.publisher(schema.name, name="p1") as out,
            ):
                assert not await wait_for_channels(events)
                last, received = None, 0
                for n, t in enumerate(walk):
                    await out.publish(reading(n, t=t))
                    await out.flush()
                    while last is None or abs(last["t"] - t) > 1.0 + 1e-9:
                        (last,) = await take(events, 1)
                        received += 1
                with suppress(TimeoutError):  # further events that the tolerance did not require
                    while True:
                        (last,) = await take(events, 1, timeout=0.25)
                        received += 1
                assert abs(last["t"] - walk[-1]) <= 1.0 + 1e-9
                assert received < len(walk) / 2

    run(story)


def test_static_facts_come_back_from_a_channel(url: str) -> None:
    async def story() -> None:
        schema = tw.Schema(
            rooms().name,
            [
                tw.Property("room", "string", "dimension"),
                tw.Property("maker", "string", static=True),
                tw.Property("t", "number", step="0.1"),
                tw.Property("n", "integer"),
            ],
        )
        sent = [{"room": str(n % 3), "maker": f"Acme {n % 2}", "t": 20.0 + n, "n": n} for n in range(12)]
        async with system(url) as world:
            bus = world.bus
            await bus.register(schema, max_silence=0.3)
            async with (
                bus.subscribe(schema.name, properties=["t", "maker"]) as events,
                bus.subscribe(schema.name, properties=["t"]) as bare,
                bus.publisher(schema.name, name="p1") as out,
            ):
                assert not await wait_for_channels(events, bare)
                await until(lambda: out.wanted)
                for event in sent:
                    await out.publish(event)
                await out.flush()
                seen, less = await take(events, len(sent)), await take(bare, len(sent))
        assert [dict(event) for event in seen] == [{k: e[k] for k in ("room", "maker", "t")} for e in sent]
        assert [dict(event) for event in less] == [{k: e[k] for k in ("room", "t")} for e in sent]

    run(story)


def test_a_channel_follows_a_schema_that_evolves(url: str) -> None:
    async def story() -> None:
        old = rooms()
        new = tw.Schema(old.name, [*old.properties, tw.Property("humidity", "number", step="1")], version=2)
        async with system(url) as world:
            bus = world.bus
            await bus.register(old)
            async with bus.subscribe(old.name, properties=["t"]) as events:
                assert not await wait_for_channels(events)
                async with bus.publisher(old.name, name="old") as out:
                    await until(lambda: out.wanted)
                    await out.publish(reading(1))
                    await out.flush()
                    assert (await take(events, 1))[0].publisher == "old"
                    await bus.register(new)
                    async with bus.publisher(old.name, name="new") as newer:
                        await until(lambda: newer.wanted)
                        await newer.publish({**reading(2), "humidity": 40})
                        await newer.flush()
                        (event,) = await take(events, 1)
                        assert (event.publisher, set(event)) == ("new", {"time", "room", "t"})
                assert not [notice for notice in events.notices if isinstance(notice, tw.MessageUnreadable)]

    run(story)


def test_audits_measure_the_promise_of_a_channel(url: str) -> None:
    async def story() -> None:
        schema, truth = rooms(), Truth(5)
        async with system(url) as world:
            bus = world.bus
            await bus.register(schema, audit_every=5, max_silence=0.3)
            async with (
                bus.subscribe(schema.name, tolerance={"t": 0.1}),
                bus.subscribe(schema.name, tolerance={"t": 1.0}) as events,
                bus.publisher(schema.name, name="p1") as out,
            ):
                assert not await wait_for_channels(events)
                await until(lambda: out.wanted)
                reader = asyncio.create_task(take(events, 300))
                await truth.publish(out, 100)
                await reader
                audits = [notice for notice in events.notices if isinstance(notice, Audit)]
        assert len(audits) > 20
        for audit in audits:
            sent = truth.sent[audit.source[0]][audit.ordinal - 1]
            assert audit.bound["t"] == 1.0
            assert audit.errors["t"] <= 1.0
            assert audit.exacts["t"] == round(sent["t"] * 10)
        assert max(audit.errors["t"] for audit in audits) > 0.1, "the class uses its share of the tolerance"

    run(story)


def test_an_explicit_schema_of_another_version_reads_the_log() -> None:
    async def story() -> None:
        old = rooms()
        new = tw.Schema(old.name, [*old.properties, tw.Property("humidity", "number", step="1")], version=2)
        async with system("memory://versions") as world:
            await world.bus.register(old)
            async with world.bus.subscribe(old.name, schema=old, properties=["t"]) as same:
                assert not await wait_for_channels(same)
                await world.bus.register(new)
                async with world.bus.subscribe(old.name, schema=old, properties=["t"]) as older:
                    assert older.feed == "log"

    run(story)


def test_without_a_translator_nothing_is_different() -> None:
    async def story() -> None:
        schema, truth = rooms(), Truth(6)
        async with system("memory://alone", translator=False) as world:
            bus = world.bus
            await bus.register(schema, max_silence=0.3)
            async with (
                bus.subscribe(schema.name, tolerance={"t": 0.1}) as strict,
                bus.subscribe(schema.name, tolerance={"t": 1.0}, properties=["t"]) as coarse,
                bus.publisher(schema.name, name="p1") as out,
            ):
                assert (strict.feed, coarse.feed) == ("log", "log")
                await until(lambda: out.wanted)
                await truth.publish(out, 10)
                truth.check(await take(coarse, 30), 1.0)

    run(story)
