"""Subscriptions switch between the log and their channel without loss or duplicates."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest
from channel_setup import ROOMS, Truth, no_loss, read_until, system, until, wait_for_channels
from client_setup import KINDS, rooms, run, site, take

import thinwire as tw
from thinwire.client import channel_status
from thinwire.errors import NameInUse
from thinwire.topics.names import CURSORS, channel_log_of, log_of


@pytest.fixture(scope="module", params=KINDS)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with site(request.param) as where:
        yield where


def test_feed_switches_when_a_stricter_subscription_opens_and_closes(url: str) -> None:
    async def story() -> None:
        schema, truth = rooms(), Truth(1)
        async with system(url) as world:
            bus = world.bus
            await bus.register(schema, max_silence=0.3)
            async with (
                bus.publisher(schema.name, name="p1") as out,
                bus.subscribe(schema.name, tolerance={"t": 0.5}) as events,
            ):
                assert events.feed == "log"
                await until(lambda: out.wanted)
                await truth.publish(out, 20)
                seen = await take(events, 60)
                async with bus.subscribe(schema.name):
                    publishing = asyncio.create_task(truth.publish(out, 100, pause=0.01))
                    seen += await read_until(events, lambda: events.feed == "channel")
                    await publishing
                    await truth.publish(out, 20)
                    seen += await take(events, truth.count - len(seen))
                publishing = asyncio.create_task(truth.publish(out, 100, pause=0.01))
                seen += await read_until(events, lambda: events.feed == "log")
                await publishing
                await truth.publish(out, 20)
                seen += await take(events, truth.count - len(seen))
                truth.check(seen, 0.5)
                assert no_loss(events)

    run(story)


def test_a_translator_is_killed_and_restarted(url: str) -> None:
    async def story() -> None:
        schema, truth = rooms(), Truth(2)
        async with system(url) as world:
            bus = world.bus
            await bus.register(schema, max_silence=0.3)
            async with (
                bus.subscribe(schema.name, tolerance={"t": 0.1}),
                bus.subscribe(schema.name, tolerance={"t": 1.0}) as events,
                bus.publisher(schema.name, name="p1") as out,
            ):
                assert not await wait_for_channels(events)
                await until(lambda: out.wanted)
                reader = asyncio.create_task(take(events, 3 * 180, timeout=60))
                for _ in range(3):
                    publishing = asyncio.create_task(truth.publish(out, 60, pause=0.005))
                    await asyncio.sleep(0.15)
                    await world.kill()
                    await publishing
                    await world.start()
                truth.check(await reader, 1.0)
                assert not await wait_for_channels(events)
                assert no_loss(events)

    run(story)


def test_a_missing_translator_costs_bandwidth_but_no_event(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_status, "GIVE_UP_AFTER", 1.0)

    async def story() -> None:
        schema, truth = rooms(), Truth(3)
        async with system(url) as world:
            bus = world.bus
            await bus.register(schema, max_silence=0.3)
            async with (
                bus.subscribe(schema.name, tolerance={"t": 0.1}),
                bus.subscribe(schema.name, tolerance={"t": 1.0}) as events,
                bus.publisher(schema.name, name="p1") as out,
                bus.publisher(schema.name, name="p2") as quiet,
            ):
                assert not await wait_for_channels(events)
                other = Truth(4, rooms=("12.1",))
                await until(lambda: out.wanted and quiet.wanted)
                await other.publish(quiet, 10)
                await truth.publish(out, 20)
                seen = await take(events, 70)
                await world.kill()
                await truth.publish(out, 20)
                seen += await read_until(events, lambda: events.feed == "log")
                assert [type(notice) for notice in events.notices] == [tw.NoTranslator]
                seen += await take(events, 130 - len(seen))
                publishing = asyncio.create_task(truth.publish(out, 100, pause=0.01))
                await world.start()
                seen += await read_until(events, lambda: events.feed == "channel")
                await publishing
                await truth.publish(out, 10)
                await other.publish(quiet, 10)
                seen += await take(events, truth.count + other.count - len(seen))
                truth.check([event for event in seen if event.publisher == "p1"], 1.0)
                other.check([event for event in seen if event.publisher == "p2"], 1.0)
                assert no_loss(events)

    run(story)


def test_suppressed_events_of_a_channel_are_not_lost_when_switching_to_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing reported the suppressed events before the translator was killed: no heartbeat, no flush."""
    monkeypatch.setattr(channel_status, "GIVE_UP_AFTER", 0.5)

    async def story() -> None:
        schema = rooms()
        async with system("memory://silence") as world:
            bus = world.bus
            await bus.register(schema, max_silence=600)
            async with (
                bus.subscribe(schema.name, tolerance={"t": 0.0}) as strict,
                bus.subscribe(schema.name, tolerance={"t": 2.0}, properties=["t"]) as events,
                bus.publisher(schema.name, name="p1", linger=0) as out,
            ):
                await until(lambda: out.wanted)
                values = [20.0, 20.3, 19.8, 20.4, 20.1, 19.7, 20.2, 20.0, 20.5]
                for n, t in enumerate(values):
                    await out.publish({"time": 1000 * n, "room": "11.1", "t": t, "n": n})
                await out.publish({"time": 0, "room": "11.2", "t": 1.0, "n": 0})  # sent, with all earlier events
                await take(strict, len(values) + 1)
                delivered: list[tw.Event] = []
                while not delivered or delivered[-1]["room"] == "11.1":
                    delivered += await take(events, 1)
                assert len(delivered) < len(values), "the rest was suppressed"
                await world.kill()
                rest = await read_until(events, lambda: events.feed == "log")
                rest += await take(events, len(values) + 1 - len(delivered) - len(rest))
                await out.publish({"time": 9000, "room": "11.1", "t": 25.0, "n": 9})
                await out.flush()
                (last,) = await take(events, 1)
        first = [event for event in delivered + rest if event["room"] == "11.1"]
        assert [event.ordinal for event in [*first, last]] == list(range(1, 11))
        assert [event.bound["t"] for event in [*first, last]] == [2.0] * 9 + [0.0]
        assert all(abs(event["t"] - t) <= 2.0 for event, t in zip(first, values, strict=True))
        assert no_loss(events)

    run(story)


def test_earlier_events_are_read_from_the_log_and_later_ones_from_the_channel(url: str) -> None:
    async def story() -> None:
        schema, truth = rooms(), Truth(5)
        async with system(url) as world:
            bus = world.bus
            await bus.register(schema, retain=True, max_silence=0.3)
            async with bus.publisher(schema.name, name="p1", linger=0) as out:
                await truth.publish(out, 100)
                async with bus.subscribe(schema.name, properties=["t"], start="earliest") as events:
                    assert events.feed == "log"
                    seen = await take(events, 300)
                    publishing = asyncio.create_task(truth.publish(out, 100, pause=0.01))
                    seen += await read_until(events, lambda: events.feed == "channel")
                    await publishing
                    seen += await take(events, truth.count - len(seen))
                    truth.check(seen, 0)
                    assert no_loss(events)

    run(story)


def test_a_durable_subscription_resumes_in_the_middle_of_a_message(url: str) -> None:
    async def story() -> None:
        schema, truth = rooms(), Truth(6)
        async with system(url) as world:
            bus = world.bus
            await bus.register(schema, max_silence=0.3)
            async with bus.publisher(schema.name, name="p1") as out, bus.subscribe(schema.name):
                seen: list[tw.Event] = []
                for part in (7, 31, 50, 1):
                    async with bus.subscribe(schema.name, tolerance={"t": 0.3}, durable="hvac") as events:
                        earlier = await wait_for_channels(events)
                        assert len(earlier) <= part
                        await until(lambda: out.wanted)
                        if not seen:
                            await truth.publish(out, 40)
                        seen += earlier + await take(events, part - len(earlier))
                await truth.publish(out, 10)
                async with bus.subscribe(schema.name, tolerance={"t": 0.3}, durable="hvac") as events:
                    seen += await take(events, truth.count - len(seen))
                    assert no_loss(events)
                truth.check(seen, 0.3)

    run(story)


def test_unacknowledged_events_are_delivered_again_after_a_crash(url: str) -> None:
    async def story() -> None:
        schema, truth = rooms(), Truth(7)
        async with system(url) as world:
            bus = world.bus
            await bus.register(schema, max_silence=0.3)
            async with bus.publisher(schema.name, name="p1", linger=0) as out, bus.subscribe(schema.name):
                crashed = bus.subscribe(schema.name, tolerance={"t": 0.3}, durable="hvac", ack_every=0)
                await crashed.open()
                assert not await wait_for_channels(crashed)
                await until(lambda: out.wanted)
                for _ in range(20):
                    await truth.publish(out, 1)
                first = await take(crashed, 20)
                async with bus.subscribe(schema.name, tolerance={"t": 0.3}, durable="hvac") as events:
                    redelivered: list[tw.Event] = []
                    while len({event.identity for event in first + redelivered}) < 60:
                        redelivered += await take(events, 1)
                    assert len({event.identity for event in redelivered}) == len(redelivered)
                    assert len(redelivered) < 60, "acknowledged events are not delivered again"
                    assert no_loss(events)
                with pytest.raises(NameInUse):
                    await crashed.close()

    run(story)


def test_a_durable_subscription_whose_channel_was_deleted_resumes_in_the_log(url: str) -> None:
    async def story() -> None:
        schema, truth = rooms(), Truth(8)
        async with system(url) as world:
            bus = world.bus
            await bus.register(schema, max_silence=0.3)
            async with bus.publisher(schema.name, name="p1") as out, bus.subscribe(schema.name):
                async with bus.subscribe(schema.name, tolerance={"t": 0.3}, durable="hvac") as events:
                    assert not await wait_for_channels(events)
                    await until(lambda: out.wanted)
                    await truth.publish(out, 20)
                    seen = await take(events, 60)
                cursors = await bus.broker.bucket(CURSORS)
                entry = await cursors.get(f"{schema.name}.hvac")
                assert entry is not None
                assert entry.value is not None
                assert json.loads(entry.value)["channel"]["offset"] > 0
                await world.kill()
                await truth.publish(out, 20)
                await bus.broker.delete_log(channel_log_of(schema.name))
                async with bus.subscribe(schema.name, tolerance={"t": 0.3}, durable="hvac") as events:
                    assert events.feed == "log"
                    seen += await take(events, 60)
                    truth.check(seen, 0.3)

    run(story)


def test_several_publishers_are_each_complete(url: str) -> None:
    """The feed is switched back and forth while two publishers send and one is idle."""

    async def story() -> None:
        schema = rooms()
        truths = {name: Truth(n, rooms=(f"{n}.1", f"{n}.2")) for n, name in enumerate(("a", "b", "c"))}
        async with system(url) as world:
            bus = world.bus
            await bus.register(schema, max_silence=0.3)
            async with (
                bus.subscribe(schema.name, tolerance={"t": 0.5}) as events,
                bus.publisher(schema.name, name="a") as a,
                bus.publisher(schema.name, name="b") as b,
                bus.publisher(schema.name, name="c") as c,
            ):
                await until(lambda: a.wanted and b.wanted and c.wanted)
                await truths["b"].publish(b, 5)
                seen: list[tw.Event] = []
                for _ in range(2):
                    async with bus.subscribe(schema.name):
                        both = asyncio.gather(truths["a"].publish(a, 60, 0.01), truths["c"].publish(c, 40, 0.015))
                        seen += await read_until(events, lambda: events.feed == "channel")
                        await both
                    both = asyncio.gather(truths["a"].publish(a, 60, 0.01), truths["c"].publish(c, 40, 0.015))
                    seen += await read_until(events, lambda: events.feed == "log")
                    await both
                await truths["b"].publish(b, 5)
                seen += await take(events, sum(truth.count for truth in truths.values()) - len(seen))
                for name, truth in truths.items():
                    truth.check([event for event in seen if event.publisher == name], 0.5)
                assert no_loss(events)

    run(story)


@pytest.mark.parametrize("mode", ["hold", "predict"])
def test_changes_keep_their_bound_across_feed_switches(url: str, mode: str) -> None:
    """Log and channel measure changes from different values. A feed switch must use the right ones."""

    async def story() -> None:
        schema, chance = rooms(), random.Random(9)
        ticks = dict.fromkeys(ROOMS, 200)
        last: dict[str, tw.Event] = {}
        async with system(url, linger=0.2) as world:  # keeps the channel a little behind the log
            bus = world.bus
            await bus.register(schema, mode=mode, max_silence=0.3)
            async with (
                bus.publisher(schema.name, name="p1") as out,
                bus.subscribe(schema.name, tolerance={"t": 1.0}, emit="changes") as events,
                AsyncExitStack() as strict,
            ):
                feeds = [events.feed]
                await until(lambda: out.wanted)
                for step in range(24):
                    if step in (6, 18):
                        await strict.enter_async_context(bus.subscribe(schema.name, tolerance={"t": 0.1}))
                    if step == 12:
                        await strict.aclose()
                    for room in ticks:
                        ticks[room] += chance.choice((-6, -4, 0, 4, 6))
                        await out.publish({"time": 1000 * step, "room": room, "t": ticks[room] / 10, "n": 0})
                    await out.flush()
                    stored = (await bus.broker.span(log_of(schema.name))).last
                    seen = await read_until(events, lambda end=stored: (events.offset or 0) >= end)
                    last |= {event["room"]: event for event in seen + list(events._ready)}
                    assert all(abs(last[room]["t"] - at / 10) <= 1.0 + 1e-9 for room, at in ticks.items()), step
                    if step in (11, 23):  # a stricter subscription is open, so there is a channel
                        seen = await read_until(events, lambda: events.feed == "channel")
                        last |= {event["room"]: event for event in seen}
                    feeds.append(events.feed)
                assert {"log", "channel"} == set(feeds)
                assert no_loss(events)

    run(story)
