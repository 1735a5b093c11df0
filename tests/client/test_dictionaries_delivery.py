"""Dictionaries between publishers and subscribers: fetched once, checked, and reported if unavailable."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest
from client_setup import run, take, use_dictionary

import thinwire as tw
from thinwire.codec import EventsMissed
from thinwire.dictionaries import Dictionary
from thinwire.topics.dictionary_store import DictionaryStore
from thinwire.topics.names import DICTIONARIES

_numbers = count()
SAID = "the door of the cold store was opened by somebody who left it open for an hour"
FIRST = Dictionary(SAID.encode(), "zstd", level=3, largest=256)
SECOND = Dictionary(SAID.encode()[::-1], "zlib", level=6, largest=256)


def notes() -> tw.Schema:
    name = f"notes{next(_numbers)}"
    return tw.Schema(
        name, [tw.Property("room", "string", "dimension"), tw.Property("said", "string"), tw.Property("n", "integer")]
    )


def note(n: int) -> dict[str, object]:
    return {"room": "11.1", "said": f"{SAID} and {n} minutes", "n": n}


async def publish(out: tw.Publisher, numbers: range) -> None:
    for n in numbers:
        await out.publish(note(n))
    await out.flush()


def reasons(events: tw.Subscription) -> str:
    return "; ".join(one.reason for one in events.notices if isinstance(one, tw.MessageUnreadable | EventsMissed))


@pytest.mark.parametrize("form", ["compact", "json"])
def test_slots_are_rebound_while_subscriptions_read(form: str) -> None:
    async def story() -> None:
        schema = notes()
        async with tw.connect(f"memory://{schema.name}") as bus:
            await bus.register(schema, retain=True, format=form)
            async with bus.publisher(schema.name, name="p1") as out, bus.subscribe(schema.name) as live:
                for n in range(6):
                    await use_dictionary(out, (FIRST, SECOND)[n % 2], 7)
                    await publish(out, range(10 * n, 10 * n + 10))
                assert [event["n"] for event in await take(live, 60)][-60:] == list(range(60))
                assert not live.notices
            for start in ("earliest", (await bus.broker.span(f"tw_log_{schema.name}")).last - 1):
                async with bus.subscribe(schema.name, start=start) as late:  # type: ignore[arg-type]
                    event = (await take(late, 1))[0]
                    assert dict(event) == note(event["n"])

    run(story)


def test_a_missing_dictionary_is_reported_and_key_frames_restore_the_stream() -> None:
    async def story() -> None:
        schema = notes()
        async with tw.connect(f"memory://{schema.name}") as bus:
            await bus.register(schema, retain=True)
            async with bus.publisher(schema.name, name="p1") as out, bus.subscribe(schema.name) as events:
                await publish(out, range(3))
                assert [event["n"] for event in await take(events, 3)] == [0, 1, 2]
                await use_dictionary(out, FIRST, 7)
                await (await bus.broker.bucket(DICTIONARIES)).delete(FIRST.hash.hex())
                await publish(out, range(3, 5))
                out.encoder.drop(7)
                seen = await take(events, 1)
                assert seen[0]["n"] == 4, "the current state, from the requested key frame"
                assert "unknown dictionary" in reasons(events)
                assert FIRST.hash.hex() in reasons(events)
                await publish(out, range(5, 7))
                assert [event["n"] for event in await take(events, 2)] == [5, 6]

    run(story)


def test_a_wrong_stored_dictionary_is_detected() -> None:
    async def story() -> None:
        schema = notes()
        async with tw.connect(f"memory://{schema.name}") as bus:
            await bus.register(schema, retain=True)
            async with bus.publisher(schema.name, name="p1") as out, bus.subscribe(schema.name) as events:
                await publish(out, range(2))
                await take(events, 2)
                bucket = await bus.broker.bucket(DICTIONARIES)
                await use_dictionary(out, FIRST, 7)
                await DictionaryStore(bucket).put(SECOND)
                entry = await bucket.get(SECOND.hash.hex())
                assert entry is not None
                assert entry.value is not None
                await bucket.put(FIRST.hash.hex(), entry.value)
                await publish(out, range(2, 4))
                out.encoder.drop(7)
                assert (await take(events, 1))[0]["n"] == 3
                assert "not the requested one" in reasons(events)

    run(story)


def test_cancelling_while_a_dictionary_is_fetched_loses_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        schema = notes()
        async with tw.connect(f"memory://{schema.name}") as bus:
            await bus.register(schema, retain=True)
            async with bus.publisher(schema.name, name="p1") as out, bus.subscribe(schema.name) as events:
                await publish(out, range(2))
                await take(events, 2)
                await use_dictionary(out, FIRST, 7)
                get, requested = DictionaryStore.get, asyncio.Event()

                async def slow(store: DictionaryStore, hash: bytes, known: object = None) -> Dictionary | None:
                    requested.set()
                    await asyncio.sleep(3600)
                    return None

                monkeypatch.setattr(DictionaryStore, "get", slow)
                await publish(out, range(2, 5))
                waiting = asyncio.ensure_future(anext(events))
                await requested.wait()
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
                monkeypatch.setattr(DictionaryStore, "get", get)
                assert [event["n"] for event in await take(events, 3)] == [2, 3, 4]
                assert not events.notices

    run(story)


def test_a_translator_reads_packed_frames() -> None:
    async def story() -> None:
        schema = notes()
        async with tw.connect(f"memory://{schema.name}") as bus:
            await bus.register(schema, retain=True)
            async with (
                bus.publisher(schema.name, name="p1") as out,
                bus.subscribe(schema.name, properties=["n"]) as events,
            ):
                await use_dictionary(out, FIRST, 7)
                await publish(out, range(5))
                seen = await take(events, 5)
                assert [event["n"] for event in seen] == list(range(5))
                assert "said" not in seen[0]

    run(story)
