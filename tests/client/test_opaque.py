"""Opaque topics on the memory broker and on a real nats-server: any bytes, each once, in order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count

import pytest
from client_setup import KINDS, bus_on, rooms, run, site, take, use_dictionary

import thinwire as tw
from thinwire.codec import EventsMissed
from thinwire.dictionaries import Dictionary
from thinwire.errors import PayloadTooLarge, UnknownTopic, WrongType
from thinwire.topics.names import DEAD_LOG

_numbers = count()
SAID = b'{"sensor": "T1", "temperature": 20.5, "humidity": 40, "state": "running"}'
SHARED = Dictionary(SAID * 2, "zstd", level=3, largest=256)


@pytest.fixture(scope="module", params=KINDS)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with site(request.param) as where:
        yield where


def fresh() -> str:
    return f"machine.raw{next(_numbers)}"


def machine_reading(n: int) -> bytes:
    return SAID.replace(b"20.5", b"%d.%d" % (n % 40, n % 10)).replace(b"T1", b"T%d" % (n % 9))


async def payloads(events: tw.Subscription, number: int) -> list[bytes]:
    return [event["payload"] for event in await take(events, number)]


def test_any_bytes_are_delivered_once_in_order(url: str) -> None:
    async def story() -> None:
        topic = fresh()
        sent = [b"", b"\xff\xfe\x00", b"twice", b"twice", os.urandom(200_000), *(machine_reading(n) for n in range(50))]
        async with bus_on(url) as bus, bus.publisher(topic, name="p1") as out:
            async with bus.subscribe(topic, start="earliest") as events:
                for payload in sent[:5]:
                    await out.publish(payload)
                assert await out.publish_all(sent[5:]) == 50
                assert await payloads(events, len(sent)) == sent
                assert not events.notices
            async with bus.subscribe(topic, start="earliest") as events:
                assert await payloads(events, len(sent)) == sent, "and again from the log"

    run(story)


def test_without_any_registry(url: str) -> None:
    async def story() -> None:
        topic = fresh()
        async with tw.connect(url, services=False) as bus, bus.publisher(topic, name="p1") as out:
            await out.publish(b"first")
            await out.flush()
            async with bus.subscribe(topic, start="earliest") as events:
                assert await payloads(events, 1) == [b"first"]
                await out.publish(bytearray(b"second"))
                assert await payloads(events, 1) == [b"second"]
            with pytest.raises(UnknownTopic):
                await bus.subscribe(fresh()).open()
            early = fresh()
            async with bus.subscribe(early, schema=tw.opaque(early)) as events, bus.publisher(early) as other:
                await other.publish(b"early")
                assert await payloads(events, 1) == [b"early"]

    run(story)


def test_a_durable_subscription_resumes_after_the_last_payload(url: str) -> None:
    async def story() -> None:
        topic = fresh()
        async with bus_on(url) as bus, bus.publisher(topic, name="p1", linger=0) as out:
            async with bus.subscribe(topic, durable="d", start="earliest") as events:
                for n in range(6):
                    await out.publish(b"%d" % n)
                assert await payloads(events, 4) == [b"0", b"1", b"2", b"3"]
            async with bus.subscribe(topic, durable="d") as events:
                assert await payloads(events, 2) == [b"4", b"5"]

    run(story)


def test_a_restarted_publisher_continues_the_stream(url: str) -> None:
    async def story() -> None:
        topic = fresh()
        async with bus_on(url) as bus:
            async with bus.publisher(topic, name="p1") as out:
                await out.publish(b"before")
            async with bus.publisher(topic, name="p1") as out, bus.subscribe(topic, start="earliest") as events:
                await out.publish(b"after")
                seen = await take(events, 2)
                assert [(event["payload"], event.incarnation) for event in seen] == [(b"before", 1), (b"after", 2)]
                assert not [notice for notice in events.notices if isinstance(notice, EventsMissed) and notice.first]

    run(story)


def test_a_rejected_payload_does_not_interrupt_the_stream(url: str) -> None:
    async def story() -> None:
        topic = fresh()
        async with bus_on(url) as bus, bus.publisher(topic, name="p1") as out:
            async with bus.subscribe(topic, start="earliest") as events:
                limit = bus.broker.max_payload
                with pytest.raises(PayloadTooLarge, match="limit=") as caught:
                    await out.publish(bytes(10_000_000))
                assert limit - 2_048 < caught.value.limit < limit
                for odd in ({"room": "11.1"}, "text", 5):
                    with pytest.raises(WrongType, match="takes bytes"):
                        await out.publish(odd)  # type: ignore[arg-type]
                largest = os.urandom(caught.value.limit)
                await out.publish(largest)
                await out.publish(b"small")
                assert await payloads(events, 2) == [largest, b"small"]
            letter = await bus.broker.last(DEAD_LOG, f"tw.dead.{topic}")
            assert letter is not None
            assert b"takes bytes" in letter.payload

    run(story)


def test_a_registered_topic_accepts_only_its_events(url: str) -> None:
    async def story() -> None:
        schema = rooms()
        async with bus_on(url) as bus:
            await bus.register(schema, retain=True)
            async with bus.publisher(schema.name, name="p1") as out:
                with pytest.raises(tw.ThinwireError):
                    await out.publish(b"bytes")
                await out.publish({"time": 0, "room": "11.1", "t": 20.0, "n": 1})
            async with bus.subscribe(schema.name, start="earliest") as events:
                assert (await take(events, 1))[0]["n"] == 1

    run(story)


def test_dictionaries_shorten_messages(url: str) -> None:
    async def story() -> None:
        topic = fresh()
        async with (
            bus_on(url) as bus,
            bus.publisher(topic, name="p1") as out,
            bus.subscribe(topic, start="earliest") as events,
        ):
            for n in range(40):
                await out.publish(machine_reading(n))
            plain = out.counts.data_bytes
            await use_dictionary(out, SHARED, 1)
            for n in range(40, 80):
                await out.publish(machine_reading(n))
            assert out.counts.data_bytes - plain < plain / 2
            assert await payloads(events, 80) == [machine_reading(n) for n in range(80)]
            assert not events.notices

    run(story)
