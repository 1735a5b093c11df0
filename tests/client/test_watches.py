"""`bus.watch`: conditions over several topics and publishers."""

from __future__ import annotations

import asyncio
import math
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from itertools import count
from time import time
from typing import Any

import pytest
from client_setup import run

import thinwire as tw
from thinwire.client.local_services import run_service
from thinwire.client.watch_reader import WatchRegistration
from thinwire.errors import ServiceUnavailable
from thinwire.topics.names import WATCHES
from thinwire.topics.watches.watch_documents import MAX_WATCHES, WatchDocument, WatchOptions, watch_key

_numbers = count()


def stocks(name: str = "") -> tw.Schema:
    """A topic with times of its own."""
    return tw.Schema(
        name or f"market{next(_numbers)}",
        [
            tw.Property("time", "timestamp", "header", form="iso:T3Z"),
            tw.Property("symbol", "string", "dimension"),
            tw.Property("price", "number", step="0.01", minimum=0, maximum=1000),
            tw.Property("volume", "integer"),
        ],
    )


def quote(second: float, symbol: str, price: float) -> dict[str, Any]:
    instant = datetime.fromtimestamp(second, UTC).isoformat(timespec="milliseconds")
    return {"time": instant.replace("+00:00", "Z"), "symbol": symbol, "price": price}


async def take(hits: tw.Watch, number: int, timeout: float = 60.0) -> list[tw.Hit]:
    async with asyncio.timeout(timeout):
        return [await anext(hits) for _ in range(number)]


def test_two_sources_move_together_or_one_alone() -> None:
    async def story() -> None:
        schema = stocks()
        topic = schema.name
        async with tw.connect(f"memory://{topic}") as bus:
            await bus.register(schema)
            expression = f"({topic}[AAPL].price +- 0.5 and {topic}[MSFT].price +- 1) or {topic}[VIX].price +- 2"
            async with bus.watch(expression, max_delay=0.1) as hits, bus.publisher(topic, name="feed") as out:
                for event in (
                    quote(0, "AAPL", 100.0),
                    quote(1, "MSFT", 50.0),
                    quote(2, "AAPL", 101.0),
                    quote(3, "VIX", 20.0),
                    quote(4, "MSFT", 51.5),
                    quote(5, "VIX", 21.0),
                    quote(6, "VIX", 22.5),
                ):
                    await out.publish(event)
                await out.flush()
                first, second, third, fourth = await take(hits, 4)
            a, m, v = (f"{topic}[{symbol}].price" for symbol in ("AAPL", "MSFT", "VIX"))
            assert (first, first.conjuncts, first.number) == ({a: 100.0, m: 50.0}, ((a, m),), 1)
            assert (second, second.conjuncts) == ({v: 20.0}, ((v,),))
            assert (third, fourth) == ({a: 101.0, m: 51.5}, {v: 22.5})
            assert first.instant.isoformat() == "1970-01-01T00:00:01+00:00"
            assert [hit.number for hit in (first, second, third, fourth)] == [1, 2, 3, 4]
            assert not any(hit.late or hit.standing for hit in (first, second, third, fourth))

    run(story)


def test_a_watch_needs_the_watch_service() -> None:
    async def story() -> None:
        schema = stocks()
        topic = schema.name
        async with tw.connect(f"memory://{topic}", services=False) as bus:
            await bus.register(schema)
            for durable in (None, "desk"):
                with pytest.raises(ServiceUnavailable, match="watch service"):
                    await bus.watch(f"{topic}[A].price +- 1", durable=durable).open()

    run(story)


def test_inexact_values_are_reported_and_not_evaluated() -> None:
    async def story() -> None:
        schema = stocks()
        topic = schema.name
        async with tw.connect(f"memory://{topic}", services=False) as bus, AsyncExitStack() as stack:
            # Without a registry, the tolerance of the publisher applies.
            await run_service("watches", bus.broker, bus.clock, stack)
            await bus.register(schema, retain=True)
            watch = bus.watch(f"{topic}[A].price +- 1 or {topic}[A].volume +- 1", max_delay=0.1)
            async with watch as hits, bus.publisher(topic, tolerance={"price": 0.5}) as out:
                await out.publish({**quote(0, "A", 10.0), "volume": 100})
                await out.flush()
                [hit] = await take(hits, 1)
                assert hit == {f"{topic}[A].volume": 100}
                assert tw.BoundExceeded(out.name, "price", 0.5, 0.0) in hits.notices

    run(story)


def test_equal_watches_share_an_evaluator_and_a_later_one_receives_the_current_state() -> None:
    async def story() -> None:
        schema = stocks()
        topic = schema.name
        async with tw.connect(f"memory://{topic}") as bus, tw.connect(f"memory://{topic}", services=False) as other:
            await bus.register(schema)
            one = bus.watch(f"{topic}[A].price +- 1 or {topic}[B].price +- 1", max_delay=0.1)
            async with one, bus.publisher(topic) as out:
                for event in (quote(0, "A", 10.0), quote(1, "B", 5.0), quote(2, "A", 12.0)):
                    await out.publish(event)
                await out.flush()
                await take(one, 3)
                # an equivalent expression
                two = other.watch(f"{topic}[B].price ± 1.00 or ({topic}[symbol=A].price +- 1)", max_delay=0.1)
                async with two:
                    [standing] = await take(two, 1)
                    assert standing == {f"{topic}[A].price": 12.0, f"{topic}[B].price": 5.0}
                    assert (standing.standing, standing.number) == (True, 3)
                    await out.publish(quote(3, "B", 7.0))
                    await out.flush()
                    for hits in (one, two):
                        [hit] = await take(hits, 1)
                        assert (hit.number, hit, hit.standing) == (4, {f"{topic}[B].price": 7.0}, False)
                bucket = await bus.broker.bucket("tw_watches")
                assert len(await bucket.entries("watch.*")) == 1

    run(story)


def test_a_durable_watch_resumes_after_the_last_acknowledged_notification() -> None:
    async def story() -> None:
        schema = stocks()
        topic = schema.name
        async with tw.connect(f"memory://{topic}") as bus:
            await bus.register(schema)
            expression = f"{topic}[A].price +- 1"
            async with bus.watch(expression, durable="desk", max_delay=0.1) as hits, bus.publisher(topic) as out:
                for second in range(6):
                    await out.publish(quote(second, "A", 10.0 + 2 * second))
                await out.flush()
                assert [hit.number for hit in await take(hits, 2)] == [1, 2]
            with pytest.raises(ZeroDivisionError):
                await fail_on(bus.watch(expression, durable="desk", max_delay=0.1), 4)
            async with bus.watch(expression, durable="desk", max_delay=0.1) as hits:
                again = await take(hits, 3)
            assert [(hit.number, hit[f"{topic}[A].price"]) for hit in again] == [(4, 16.0), (5, 18.0), (6, 20.0)]
            with pytest.raises(tw.ThinwireError, match="belongs to another watch"):
                await bus.watch(expression, durable="desk", max_delay=5.0).open()
            await bus.forget_watch("desk")
            bucket = await bus.broker.bucket("tw_watches")
            assert await bucket.entries("watcher.>") == []

    run(story)


async def fail_on(watch: tw.Watch, number: int) -> None:
    async with watch as hits:
        async for hit in hits:
            if hit.number == number:
                raise ZeroDivisionError


def test_events_of_two_publishers_are_evaluated_in_time_order() -> None:
    async def story() -> None:
        near, far = stocks(), stocks()
        a, b = f"{near.name}[A].price", f"{far.name}[B].price"
        async with tw.connect(f"memory://{near.name}") as bus:
            for schema in (near, far):
                await bus.register(schema, max_silence=0.2)
            async with (
                bus.publisher(near.name, name="n") as one,
                bus.publisher(far.name, name="f") as two,
                bus.watch(f"{a} +- 1 and {b} +- 1", max_delay=math.inf) as hits,
            ):
                now = time()
                for step, price in ((0, 10.0), (2, 20.0), (4, 30.0)):
                    await one.publish(quote(now + step / 1000, "A", price))
                await one.flush()
                for step, price in ((1, 1.0), (3, 3.0), (5, 5.0)):
                    await two.publish(quote(now + step / 1000, "B", price))
                found = await take(hits, 3)  # heartbeats show that nothing is missing
            assert [dict(hit) for hit in found] == [{a: 10.0, b: 1.0}, {a: 20.0, b: 3.0}, {a: 30.0, b: 5.0}]
            assert [hit.late for hit in found] == [False, False, False]

    run(story)


def test_events_after_the_delay_are_flagged_or_dropped() -> None:
    async def story() -> None:
        near, far = stocks(), stocks()
        a, b = f"{near.name}[A].price", f"{far.name}[B].price"
        async with tw.connect(f"memory://{near.name}") as bus:
            for schema in (near, far):
                await bus.register(schema)
            either = f"{a} +- 1 or {b} +- 1"
            async with (
                bus.watch(either, max_delay=0) as flagged,
                bus.watch(either, max_delay=0, late_policy="drop") as dropped,
                bus.publisher(near.name) as one,
                bus.publisher(far.name) as two,
            ):
                await one.publish(quote(10, "A", 10.0))
                await one.flush()
                assert [dict(hit) for hit in await take(flagged, 1)] == [{a: 10.0}]
                assert [dict(hit) for hit in await take(dropped, 1)] == [{a: 10.0}]
                await two.publish(quote(5, "B", 1.0))
                await two.publish(quote(15, "B", 7.0))
                await two.flush()
                late, then = await take(flagged, 2)
                assert ((late, late.late), (then, then.late)) == (({b: 1.0}, True), ({b: 7.0}, False))
                assert [dict(hit) for hit in await take(dropped, 1)] == [{b: 7.0}]

    run(story)


def test_the_number_of_watches_is_limited() -> None:
    async def story() -> None:
        schema = stocks()
        topic = schema.name
        async with tw.connect(f"memory://{topic}", services=False) as bus:
            bucket = await bus.broker.bucket(WATCHES)
            for number in range(MAX_WATCHES):
                await bucket.put(watch_key(f"{number:016x}"), b"{}")
            document = WatchDocument.of("a", "0" * 16, WatchOptions())
            registration = WatchRegistration(bus.broker, bus.clock, document, "one-more", durable=False)
            with pytest.raises(tw.ThinwireError, match=f"limit={MAX_WATCHES}"):
                await registration.open()
            await registration.close()
            assert await bucket.entries("watcher.>") == []

    run(story)


def test_invalid_watches_are_rejected() -> None:
    async def story() -> None:
        schema = stocks()
        topic = schema.name
        async with tw.connect(f"memory://{topic}") as bus:
            await bus.register(schema)
            for expression, options, complaint in (
                (f"{topic}[A].price +- ", {}, r"a number is expected"),
                (f"{topic}[A].price +- -1", {}, "above zero"),
                (f"{topic}[A].price +- nan", {}, "finite"),
                (" and ".join([f"{topic}[A].price +- 1"] * 10_000), {}, "above the limit"),
                (f"{topic}[A].price +- 1", {"max_delay": -1}, "max_delay"),
                (f"{topic}[A].price +- 1", {"max_delay": math.nan}, "max_delay"),
                (f"{topic}[A].price +- 1", {"late_policy": "perhaps"}, "late_policy"),
                (f"{topic}[A].price +- 1", {"start": 7}, "start is"),
                (f"{topic}[A].price +- 1", {"durable": "a b"}, "letters"),
            ):
                with pytest.raises(tw.ThinwireError, match=complaint):
                    bus.watch(expression, **options)
            for expression, complaint in (
                ("marke[A].price +- 1", f"no such topic.*{topic}"),
                (f"{topic}[A].prise +- 1", "no such property.*price"),
                (f"{topic}.price +- 1", "source is incomplete"),
                (f"{topic}[A].price +- 0.001", "below one step"),
                (f"{topic}[A].time +- 1", "cannot be watched"),
            ):
                with pytest.raises(tw.ThinwireError, match=complaint) as refused:
                    await bus.watch(expression).open()
                assert str(refused.value).splitlines()[-1].strip() == "^"

    run(story)
