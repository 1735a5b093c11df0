"""The delivery contract of docs/delivery.md, on the broker in memory and on a real nats-server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from client_setup import KINDS, bus_on, reading, rooms, run, site, take

import thinwire as tw
from thinwire.errors import EventRejected, NameInUse, UnknownTopic
from thinwire.topics.names import DEAD_LOG, log_of


@pytest.fixture(scope="module", params=KINDS)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with site(request.param) as where:
        yield where


def test_events_are_delivered_once_in_order_and_within_their_bound(url: str) -> None:
    async def story() -> None:
        schema = rooms()
        async with bus_on(url) as bus:
            await bus.register(schema)
            async with (
                bus.subscribe(schema.name, tolerance={"t": 0.5}) as events,
                bus.publisher(schema.name, name="p1") as out,
            ):
                sent = [reading(n, room, 20 + 0.2 * n) for n in range(100) for room in ("11.1", "11.2")]
                for event in sent:
                    await out.publish(event)
                await out.flush()
                seen = await take(events, len(sent))
        for room in ("11.1", "11.2"):
            truth = [event for event in sent if event["room"] == room]
            got = [event for event in seen if event["room"] == room]
            assert [event["n"] for event in got] == [event["n"] for event in truth]
            assert [event.ordinal for event in got] == list(range(1, 101))
            assert all(abs(g["t"] - t["t"]) <= g.bound["t"] + 1e-9 for g, t in zip(got, truth, strict=True))
        assert {event.bound["t"] for event in seen} == {0.5}
        assert len({event.identity for event in seen}) == len(seen)

    run(story)


def test_a_late_reader_starts_at_the_beginning_an_offset_or_a_time(url: str) -> None:
    async def story() -> None:
        schema = rooms()
        async with bus_on(url) as bus:
            await bus.register(schema, retain=True)
            async with bus.publisher(schema.name, name="p1", linger=0) as out:
                for n in range(10):
                    await out.publish(reading(n))
                    await out.flush()
                await asyncio.sleep(0.05)
                middle = datetime.now(UTC)
                await asyncio.sleep(0.05)
                for n in range(10, 20):
                    await out.publish(reading(n))
                    await out.flush()
            for start, first in (("earliest", 0), (middle, 10)):
                async with bus.subscribe(schema.name, start=start) as events:
                    assert [event["n"] for event in await take(events, 20 - first)] == list(range(first, 20))
            span = await bus.broker.span(log_of(schema.name))
            async with bus.subscribe(schema.name, start=span.last - 4) as events:
                (event,) = await take(events, 1)
                assert 10 < event["n"] < 20

    run(story)


def test_a_durable_subscription_resumes_after_the_last_acknowledged_event(url: str) -> None:
    async def story() -> None:
        schema = rooms()
        async with bus_on(url) as bus:
            await bus.register(schema)
            async with bus.publisher(schema.name, name="p1") as out:
                async with bus.subscribe(schema.name, durable="hvac") as events:
                    await _until(lambda: out.wanted)
                    for n in range(30):
                        await out.publish(reading(n))
                    await out.flush()
                    assert [event["n"] for event in await take(events, 12)] == list(range(12))
                for n in range(30, 40):
                    await out.publish(reading(n))
                await out.flush()
                async with bus.subscribe(schema.name, durable="hvac") as events:
                    assert [event["n"] for event in await take(events, 28)] == list(range(12, 40))

    run(story)


def test_a_forgotten_durable_starts_over(url: str) -> None:
    async def story() -> None:
        schema = rooms()
        async with bus_on(url) as bus:
            await bus.register(schema, retain=True)
            async with bus.publisher(schema.name, name="p1") as out:
                for n in range(10):
                    await out.publish(reading(n))
                await out.flush()
                for again in (False, True):
                    async with bus.subscribe(schema.name, durable="hvac", start="earliest") as events:
                        assert [event["n"] for event in await take(events, 10)] == list(range(10)), again
                    await bus.forget(schema.name, "hvac")

    run(story)


def test_an_event_whose_loop_body_failed_is_delivered_again(url: str) -> None:
    async def story() -> None:
        schema = rooms()
        async with bus_on(url) as bus:
            await bus.register(schema)
            async with bus.publisher(schema.name, name="p1") as out:
                with pytest.raises(ZeroDivisionError):
                    await _fail_at(5, bus.subscribe(schema.name, durable="hvac"), out)
                async with bus.subscribe(schema.name, durable="hvac") as events:
                    assert [event["n"] for event in await take(events, 5)] == list(range(5, 10))

    run(story)


def test_unacknowledged_events_are_delivered_again_after_a_crash(url: str) -> None:
    async def story() -> None:
        schema = rooms()
        async with bus_on(url) as bus:
            await bus.register(schema)
            async with bus.publisher(schema.name, name="p1", linger=0) as out:
                crashed = bus.subscribe(schema.name, durable="hvac", ack_every=0)
                await crashed.open()
                await _until(lambda: out.wanted)
                for n in range(20):
                    await out.publish(reading(n))
                    await out.flush()
                first = await take(crashed, 7)
                async with bus.subscribe(schema.name, durable="hvac") as events:  # the crashed one was never closed
                    again = await take(events, 20 - first[-1]["n"])
                seen = {event.identity for event in first + again}
                assert again[0]["n"] <= first[-1]["n"], "the last event was not acknowledged"
                assert len(seen) == 20
                with pytest.raises(NameInUse):
                    await crashed.close()

    run(story)


def test_two_readers_of_one_durable_name(url: str) -> None:
    async def story() -> None:
        schema = rooms()
        async with bus_on(url) as bus:
            await bus.register(schema)
            async with bus.publisher(schema.name, name="p1") as out:
                older = bus.subscribe(schema.name, durable="hvac", ack_every=0)
                await older.open()
                await _until(lambda: out.wanted)
                await out.publish(reading(0))
                await out.flush()
                await take(older, 1)
                async with bus.subscribe(schema.name, durable="hvac", ack_every=0):
                    with pytest.raises(NameInUse):
                        await take(older, 1)
                older._cursor_store = None  # it must not save its cursor on close

    run(story)


def test_a_restarted_publisher_has_a_new_incarnation_and_recovers_its_last_events(url: str) -> None:
    async def story() -> None:
        schema = rooms()
        async with bus_on(url) as bus:
            await bus.register(schema)
            async with bus.subscribe(schema.name) as events:
                async with bus.publisher(schema.name, name="p1") as out:
                    await out.publish(reading(0))
                    await out.publish(reading(1))
                async with bus.publisher(schema.name, name="p1", recover=True) as out:
                    assert {source: event["n"] for source, event in out.last_events.items()} == {("11.1",): 1}
                    await out.publish(reading(2))
                    await out.flush()
                    seen = await take(events, 3)
        assert [event["n"] for event in seen] == [0, 1, 2]
        assert [event.incarnation for event in seen] == [1, 1, 2]

    run(story)


def test_recovery_skips_other_publishers_and_incarnations_without_events(url: str) -> None:
    async def story() -> None:
        schema = rooms()
        async with bus_on(url) as bus:
            await bus.register(schema, retain=True)
            async with bus.publisher(schema.name, name="p1") as out, bus.publisher(schema.name, name="p2") as other:
                for n in range(5):
                    await out.publish(reading(n, "11.1"))
                    await out.flush()
                    await other.publish(reading(n, "11.9"))
                    await other.flush()
                await out.publish(reading(0, "11.2"))
            async with bus.publisher(schema.name, name="p1") as out:
                await out.publish(reading(7, "11.2"))
            for _ in range(3):  # incarnations that ended without an event
                async with bus.publisher(schema.name, name="p1"):
                    pass
            async with bus.publisher(schema.name, name="p1", recover=True) as out:
                last_events = {source: event["n"] for source, event in out.last_events.items()}
        assert last_events == {("11.1",): 4, ("11.2",): 7}

    run(story)


def test_a_name_belongs_to_one_publisher(url: str) -> None:
    async def story() -> None:
        schema = rooms()
        async with bus_on(url) as bus:
            await bus.register(schema, retain=True)
            async with bus.publisher(schema.name, name="p1") as out:
                with pytest.raises(NameInUse, match="p1"):
                    await bus.publisher(schema.name, name="p1").open()
                await out.publish(reading(0))
                await out.flush()

    run(story)


def test_a_suspended_publisher_is_fenced_by_its_successor(url: str) -> None:
    async def story() -> None:
        schema = rooms()
        async with bus_on(url) as bus:
            await bus.register(schema, retain=True)
            suspended = bus.publisher(schema.name, name="p1")
            await suspended.open()
            await suspended.publish(reading(0))
            await suspended.flush()
            for listener in suspended.session.listeners:  # it does not receive the claim
                await listener.close()
            await asyncio.sleep(1.1)
            async with bus.publisher(schema.name, name="p1") as successor:
                await successor.publish(reading(1))
                await successor.flush()
                await suspended.publish(reading(2))
                with pytest.raises(NameInUse, match="p1"):
                    await suspended.flush()
            async with bus.subscribe(schema.name, start="earliest") as events:
                assert [event["n"] for event in await take(events, 2)] == [0, 1]

    run(story)


def test_a_rejected_event_becomes_a_dead_letter_with_the_reason(url: str) -> None:
    async def story() -> None:
        schema = rooms()
        async with bus_on(url) as bus:
            await bus.register(schema, retain=True)
            async with bus.publisher(schema.name, name="p1") as out:
                with pytest.raises(EventRejected, match="t"):
                    await out.publish(reading(0, t=float("nan")))
                await out.publish(reading(1))
            letter = await bus.broker.last(DEAD_LOG, f"tw.dead.{schema.name}")
            assert letter is not None
            assert b"finite" in letter.payload
            async with bus.subscribe(schema.name, start="earliest") as events:
                assert (await take(events, 1))[0]["n"] == 1

    run(story)


def test_an_unknown_topic_is_rejected(url: str) -> None:
    async def story() -> None:
        async with bus_on(url) as bus:
            with pytest.raises(UnknownTopic, match=r"no\.such\.topic"):
                await bus.subscribe("no.such.topic").open()

    run(story)


def test_nothing_is_stored_without_a_subscription(url: str) -> None:
    async def story() -> None:
        schema = rooms()
        async with bus_on(url) as bus:
            await bus.register(schema)
            async with bus.publisher(schema.name, name="p1") as out:
                await _until(lambda: not out.wanted)
                await out.flush()  # frames from before it received the demand
                before = (await bus.broker.span(log_of(schema.name))).last
                for n in range(50):
                    await out.publish(reading(n))
                await out.flush()
                assert (await bus.broker.span(log_of(schema.name))).last == before
                async with bus.subscribe(schema.name) as events:
                    assert (await take(events, 1))[0]["n"] == 49, "the current state of the source"
                    await out.publish(reading(50))
                    await out.flush()
                    assert (await take(events, 1))[0]["n"] == 50

    run(story)


def test_a_stricter_subscriber_is_served_without_a_gap(url: str) -> None:
    async def story() -> None:
        schema = rooms()
        async with bus_on(url) as bus:
            await bus.register(schema)
            async with (
                bus.publisher(schema.name, name="p1") as out,
                bus.subscribe(schema.name, tolerance={"t": 1.0}) as coarse,
            ):
                await _until(lambda: out.encoder.config.demand.tolerance.get("t") == 1)
                for n in range(20):
                    await out.publish(reading(n, t=20 + 0.3 * n))
                await out.flush()
                async with bus.subscribe(schema.name, tolerance={"t": 0.1}) as strict:
                    await _until(lambda: out.encoder.config.demand.tolerance.get("t") == 0.1)
                    for n in range(20, 40):
                        await out.publish(reading(n, t=20 + 0.3 * n))
                    await out.flush()
                    last = (await take(strict, 21))[1:]
                    seen = await take(coarse, 40)
        assert [event["n"] for event in seen] == list(range(40))
        assert {event.bound["t"] for event in seen[:20]} == {1.0}
        assert {event.bound["t"] for event in last} == {0.1}
        assert all(abs(event["t"] - (20 + 0.3 * event["n"])) <= event.bound["t"] + 1e-9 for event in seen + last)

    run(story)


async def _fail_at(bad: int, subscription: tw.Subscription, out: tw.Publisher) -> None:
    async with subscription as events:
        await _until(lambda: out.wanted)
        for n in range(10):
            await out.publish(reading(n))
        await out.flush()
        async for event in events:
            assert event["n"] < bad or 1 / 0


async def _until(condition, timeout: float = 30.0) -> None:  # type: ignore[no-untyped-def]
    async with asyncio.timeout(timeout):
        while not condition():
            await asyncio.sleep(0.01)


def test_top_level_names() -> None:
    assert tw.connect.__module__ == "thinwire.client.bus"
