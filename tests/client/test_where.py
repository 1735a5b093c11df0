"""Subscribers that choose events by their values get exactly those, from the log and from a channel."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from channel_setup import Truth, no_loss, read_until, system, until
from client_setup import KINDS, reading, rooms, run, site, take

import thinwire as tw
from thinwire.errors import ConfigError, DemandError, ExpressionError, ExpressionTooLarge
from thinwire.filters.where.where_grammar import parse_where
from thinwire.schema import Event

WARM = "t > 20.5 and room in ('11.1', '11.2')"


@pytest.fixture(scope="module", params=KINDS)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with site(request.param) as where:
        yield where


def matching(truth: Truth, where: str, first: int = 0) -> set[tuple[str, int]]:
    holds = parse_where(where).matches
    numbered = [(room, n, event) for room, events in truth.sent.items() for n, event in enumerate(events)]
    return {(room, n) for room, n, event in numbered if n >= first and holds(event)}


def check(truth: Truth, where: str, seen: list[Event], first: int = 0) -> None:
    """Exactly what matches came, once, in order, as it was."""
    got = [(event["room"], event.ordinal - 1) for event in seen]
    assert len(set(got)) == len(got)
    assert set(got) == matching(truth, where, first)
    for room in truth.sent:
        numbers = [n for of, n in got if of == room]
        assert numbers == sorted(numbers)
    assert all(event["t"] == truth.sent[event["room"]][event.ordinal - 1]["t"] for event in seen)


async def all_of(events: tw.Subscription, truth: Truth, where: str) -> list[Event]:
    """What comes until as many events came as match."""
    seen: list[Event] = []
    return await read_until_count(events, seen, lambda: len(matching(truth, where)))


async def read_until_count(events: tw.Subscription, seen: list[Event], count: object) -> list[Event]:
    async with asyncio.timeout(60):
        while len(seen) < count():  # type: ignore[operator]
            try:
                seen += await take(events, 1, timeout=0.2)
            except TimeoutError:
                continue
    return seen


def test_on_the_log_and_on_a_channel_exactly_what_matches_comes(url: str) -> None:
    async def story() -> None:
        schema, truth = rooms(), Truth()
        async with system(url) as world:
            bus = world.bus
            await bus.register(schema, max_silence=0.3)
            async with (
                bus.publisher(schema.name, name="p1") as out,
                bus.subscribe(schema.name, tolerance={"t": 0.5}),
                bus.subscribe(schema.name, where=WARM, properties=["t"]) as chosen,
            ):
                await until(lambda: out.wanted and out.encoder.config.demand.tolerance.get("t", 0) == 0)
                await read_until(chosen, lambda: chosen.feed == "channel")
                await truth.publish(out, 100)
                seen = await all_of(chosen, truth, WARM)
                assert await read_until(chosen, _after(1.0)) == []
                check(truth, WARM, seen)
                assert all(set(event) == {"time", "room", "t"} for event in seen)
                assert no_loss(chosen)

    run(story)


def _after(seconds: float):  # type: ignore[no-untyped-def]
    until_then = asyncio.get_running_loop().time() + seconds
    return lambda: asyncio.get_running_loop().time() >= until_then


def test_a_translator_is_killed_and_comes_back(url: str) -> None:
    async def story() -> None:
        schema, truth = rooms(), Truth(4)
        async with system(url) as world:
            bus = world.bus
            await bus.register(schema, max_silence=0.3)
            async with (
                bus.publisher(schema.name, name="p1") as out,
                bus.subscribe(schema.name, where=WARM) as chosen,
            ):
                await until(lambda: out.wanted)
                await read_until(chosen, lambda: chosen.feed == "channel")
                seen: list[Event] = []
                for _ in range(3):
                    await truth.publish(out, 20)
                    await world.kill()
                    await truth.publish(out, 20)
                    await world.start()
                    await read_until_count(chosen, seen, lambda: len(matching(truth, WARM)))
                check(truth, WARM, seen)
                assert no_loss(chosen)

    run(story)


def test_a_durable_subscription_resumes_at_its_position(url: str) -> None:
    async def story() -> None:
        schema, truth = rooms(), Truth(5)
        options = {"where": WARM, "durable": "warm"}
        async with system(url) as world:
            bus = world.bus
            await bus.register(schema, max_silence=0.3)
            async with bus.publisher(schema.name, name="p1") as out:
                seen: list[Event] = []
                for part in range(3):
                    async with bus.subscribe(schema.name, **options) as chosen:
                        await until(lambda: out.wanted)
                        await truth.publish(out, 15)
                        await read_until_count(chosen, seen, lambda: len(matching(truth, WARM)))
                        if part == 0:
                            seen += await read_until(chosen, lambda: chosen.feed == "channel")
                            await truth.publish(out, 15)
                            await read_until_count(chosen, seen, lambda: len(matching(truth, WARM)))
                        assert no_loss(chosen)
                    await truth.publish(out, 10)
                async with bus.subscribe(schema.name, **options) as chosen:
                    await read_until_count(chosen, seen, lambda: len(matching(truth, WARM)))
                check(truth, WARM, seen)

    run(story)


def test_a_new_subscription_receives_current_matches_and_earlier_ones_on_request(url: str) -> None:
    async def story() -> None:
        schema = rooms()
        async with system(url) as world:
            bus = world.bus
            await bus.register(schema, retain=True, max_silence=0.3)
            async with bus.publisher(schema.name, name="p1") as out:
                for n, (room, t) in enumerate([("a", 30), ("a", 10), ("b", 10), ("b", 31), ("c", 32)]):
                    await out.publish(reading(n, room, t))
                await out.flush()
                async with bus.subscribe(schema.name, where="t > 20") as now:
                    assert [(event["room"], event["t"]) for event in await take(now, 2)] == [("b", 31), ("c", 32)]
                async with bus.subscribe(schema.name, where="t > 20", start="earliest") as past:
                    assert [event["t"] for event in await take(past, 3)] == [30, 31, 32]

    run(story)


def test_changes_among_the_events_that_match(url: str) -> None:
    async def story() -> None:
        schema, changes = rooms(), {"emit": "changes"}
        async with system(url) as world:
            bus = world.bus
            await bus.register(schema, max_silence=0.3)
            async with (
                bus.publisher(schema.name, name="p1") as out,
                bus.subscribe(schema.name, where="n >= 0", properties=["t"], tolerance={"t": 1}, **changes) as moved,
            ):
                await until(lambda: out.wanted)
                await read_until(moved, lambda: moved.feed == "channel")
                readings = [(0, 20.0), (1, 20.9), (-2, 25.0), (3, 20.5), (4, 22.0), (5, 22.5), (-6, 20.0), (7, 20.0)]
                for n, t in readings:
                    await out.publish({**reading(abs(n), "a", t), "n": n})
                await out.flush()
                seen = await take(moved, 3)
                assert [event.ordinal for event in seen] == [1, 5, 8]
                assert all(abs(event["t"] - readings[event.ordinal - 1][1]) <= 1 for event in seen)

    run(story)


def test_absent_values_quotes_signs_and_another_version() -> None:
    """On a channel, where the projection removes the properties of the condition."""
    condition = "(level < -1.5 or note in ('it''s', '')) and not note starts with 'x'"
    old = tw.Schema(
        "corners",
        [
            tw.Property("who", "string", "dimension"),
            tw.Property("level", "number", step="0.1"),
            tw.Property("note", "string"),
        ],
    )
    new = tw.Schema(old.name, [*old.properties, tw.Property("more", "integer")], version=2)
    values = [(-2, "a"), (-2, None), (None, "it's"), (5, "it's"), (-1.5, "a"), (-9, "xyz"), (None, ""), (-3, None)]

    async def story() -> None:
        async with system("memory://corners") as world:
            bus = world.bus
            await bus.register(old, max_silence=0.3)
            async with (
                bus.publisher(old.name, name="old") as out,
                bus.subscribe(old.name, where=condition, properties=["level"]) as chosen,
            ):
                await until(lambda: out.wanted)
                await read_until(chosen, lambda: chosen.feed == "channel")
                for level, note in values:
                    await out.publish({"who": "a", "level": level, "note": note})
                await out.flush()
                seen = await take(chosen, 4)
                await bus.register(new)
                async with bus.publisher(old.name, name="new") as newer:
                    await until(lambda: newer.wanted)
                    for level in (0, -4):
                        await newer.publish({"who": "b", "level": level, "note": "b", "more": 1})
                    await newer.flush()
                    seen += await take(chosen, 1)
                got = [(event.publisher, event.ordinal, event["level"]) for event in seen]
                assert got == [("old", 1, -2), ("old", 3, None), ("old", 4, 5), ("old", 7, None), ("new", 2, -4)]
                assert all(set(event) == {"who", "level"} for event in seen)
                assert chosen.feed == "channel"

    run(story)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"where": "t >"}, ExpressionError, "a value is expected"),
        ({"where": "x > 3"}, ExpressionError, "no such property"),
        ({"where": "room = 11.1"}, ExpressionError, "compare it with a text"),
        ({"where": "t > 1" + " and n > 1" * 600}, ExpressionTooLarge, "too long"),
        ({"where": "t > 1", "tolerance": {"t": 0.5}}, DemandError, "leave its tolerance out"),
        ({"where": "t > 1", "cadence": "tick"}, ConfigError, "predicted values may not match"),
        ({"where": 3}, ConfigError, "where is a text"),
    ],
)
def test_invalid_predicates_are_rejected(options: dict[str, object], error: type[Exception], message: str) -> None:
    async def story() -> None:
        schema = rooms()
        async with tw.connect("memory://refusing") as bus:
            await bus.register(schema)
            with pytest.raises(error, match=message):
                async with bus.subscribe(schema.name, **options):  # type: ignore[arg-type]
                    pass

    run(story)
