"""Dictionaries in the running system: trained by the service, used by publishers until they expire."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count

import pytest
from client_setup import KINDS, run, take

import thinwire as tw
from thinwire.dictionaries import Dictionary
from thinwire.errors import BrokerUnavailable
from thinwire.schema import opaque
from thinwire.topics.dictionary_documents import ActiveDictionaries, DictionaryReference, active_dictionaries_key
from thinwire.topics.dictionary_store import DictionaryStore
from thinwire.topics.names import DICTIONARIES, dictionary_subject

_numbers = count()
FAR = 1 << 33


def note(n: int) -> bytes:
    state = "as it should be" if n % 3 else "somewhat above what was asked for"
    return b'{"sensor": "T%d", "room": "11.%d", "temperature": %d.5, "state": "%s"}' % (
        n % 5,
        n % 7,
        n % 31,
        state.encode(),
    )


def topic() -> str:
    return f"notes{next(_numbers)}"


async def until(condition: Callable[[], object] | Callable[[], Awaitable[object]], timeout: float = 60.0) -> None:
    async with asyncio.timeout(timeout):
        while True:
            found = condition()
            if await found if isinstance(found, Awaitable) else found:
                return
            await asyncio.sleep(0.02)


async def publish_notes(out: tw.Publisher, numbers: range) -> int:
    """Publish notes and return the bytes of their frames."""
    before = out.counts.data_bytes
    for n in numbers:
        await out.publish(note(n))
    await out.flush()
    return out.counts.data_bytes - before


@pytest.mark.parametrize("kind", KINDS)
def test_found_by_the_service_and_read_by_everybody(kind: str) -> None:
    async def story() -> None:
        name = topic()
        url = url_of(name) if kind == "memory" else "embedded://"
        async with tw.connect(url) as bus:
            async with bus.publisher(name, name="p1", dictionaries=True) as out, bus.subscribe(name) as live:
                before = await publish_notes(out, range(200))
                await until(lambda: out.dictionary)
                after = await publish_notes(out, range(200, 400))
                assert after < before / 2
                assert [event["payload"] for event in await take(live, 400)] == [note(n) for n in range(400)]
                assert out.dictionary_bytes > 100, "it costs its receivers something"
            async with bus.subscribe(name, start="earliest") as late:
                assert [event["payload"] for event in await take(late, 400)] == [note(n) for n in range(400)]
            async with bus.publisher(name, name="p2") as second:
                await until(lambda: second.dictionary)
                assert await publish_notes(second, range(50)) < before / 8

    run(story)


def url_of(name: str) -> str:
    return f"memory://{name}"


def test_without_a_registry_a_publisher_uses_no_dictionaries() -> None:
    async def story() -> None:
        name = topic()
        async with tw.connect(url_of(name), services=False) as bus, bus.publisher(name, dictionaries=True) as out:
            await publish_notes(out, range(200))
            assert out.session.dictionaries.slots is None
            assert not await (await bus.broker.bucket(DICTIONARIES)).entries()

    run(story)


def test_a_topic_without_them_has_none() -> None:
    async def story() -> None:
        name = topic()
        async with tw.connect(url_of(name)) as bus, bus.publisher(name) as out:
            await publish_notes(out, range(200))
            assert out.session.dictionaries.slots is None
            assert not await (await bus.broker.bucket(DICTIONARIES)).entries()

    run(story)


def test_the_owner_may_change_his_mind() -> None:
    async def story() -> None:
        name = topic()
        async with tw.connect(url_of(name)) as bus:
            await bus.register(opaque(name), retain=True, dictionaries=True)
            async with bus.publisher(name) as out, bus.publisher(name, name="never", dictionaries=False) as never:
                await publish_notes(out, range(100))
                await until(lambda: out.dictionary)
                assert never.session.dictionaries.slots is None
                await bus.register(opaque(name), retain=True)
                await until(lambda: out.session.dictionaries.slots is None)
                plain = await publish_notes(never, range(20))
                assert await publish_notes(out, range(20)) == plain
                await bus.register(opaque(name), retain=True, dictionaries=True)
                await until(lambda: out.dictionary)

    run(story)


async def spread(bus: tw.Bus, name: str, dictionary: Dictionary, version: int, expires: int = FAR) -> None:
    """As a service does it: store, write, announce."""
    bucket = await bus.broker.bucket(DICTIONARIES)
    await DictionaryStore(bucket).put(dictionary)
    document = ActiveDictionaries(
        name, version, (DictionaryReference(dictionary.hash.hex(), expires),) if expires else ()
    )
    await bucket.put(active_dictionaries_key(name), document.encode())
    await bus.broker.send(dictionary_subject(name), document.encode())


def shared(n: int) -> Dictionary:
    return Dictionary(note(n) * 3 + b"%d" % n, ("zlib", "zstd")[n % 2], level=6, largest=256)


def test_new_ones_take_new_slots_and_old_ones_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        name = topic()
        async with tw.connect(url_of(name), services=False) as bus:
            await bus.register(opaque(name), retain=True, dictionaries=True)
            async with bus.publisher(name) as out, bus.subscribe(name) as live:
                for n in range(4):
                    await spread(bus, name, shared(n), version=n + 1)
                    await until(lambda n=n: out.dictionary == shared(n).hash)  # type: ignore[misc]
                    assert out.session.dictionaries.slots is not None
                    assert out.session.dictionaries.slots.slot == n + 1
                    assert await publish_notes(out, range(10)) < 10 * 40
                await spread(bus, name, shared(9), version=2)  # one that was on its way for long
                await spread(bus, name, shared(3), version=5, expires=FAR + 9)
                await until(
                    lambda: (
                        out.session.dictionaries.slots is not None and out.session.dictionaries.slots.expires == FAR + 9
                    )
                )
                assert out.session.dictionaries.slots is not None
                assert out.session.dictionaries.slots.slot == 4, "prolonged where it is"
                await spread(bus, name, shared(3), version=6, expires=0)
                await until(lambda: not out.dictionary)
                await publish_notes(out, range(10))
                seen = [event["payload"] for event in await take(live, 50)]
                assert seen == [note(n) for n in range(10)] * 5

    run(story)


def test_none_is_used_after_its_time() -> None:
    async def story() -> None:
        name = topic()
        async with tw.connect(url_of(name), services=False) as bus:
            await bus.register(opaque(name), retain=True, dictionaries=True)
            async with bus.publisher(name) as out, bus.subscribe(name) as live:
                plain = await publish_notes(out, range(10))
                await spread(bus, name, shared(1), version=1, expires=int(bus.clock.now()) + 3)
                await until(lambda: out.dictionary)
                await until(lambda: not out.dictionary)
                assert await publish_notes(out, range(10)) == plain
                assert [event["payload"] for event in await take(live, 20)] == [note(n) for n in range(10)] * 2

    run(story)


def test_a_store_that_fails_or_lies_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        name = topic()
        async with tw.connect(url_of(name), services=False) as bus:
            await bus.register(opaque(name), retain=True, dictionaries=True)
            bucket = await bus.broker.bucket(DICTIONARIES)
            async with bus.publisher(name) as out, bus.subscribe(name) as live:
                plain = await publish_notes(out, range(10))
                get = DictionaryStore.get

                async def unreachable(*_: object) -> None:
                    raise BrokerUnavailable(url="nats://nowhere")

                monkeypatch.setattr(DictionaryStore, "get", unreachable)
                await spread(bus, name, shared(1), version=1)
                for harm in (b"\xff\xfe", b"{}", b'{"topic": "t", "dictionaries": [{"hash": "x"}]}'):
                    await bus.broker.send(dictionary_subject(name), harm)
                assert await publish_notes(out, range(10)) == plain
                monkeypatch.setattr(DictionaryStore, "get", get)
                await spread(bus, name, shared(2), version=2)
                entry = await bucket.get(shared(1).hash.hex())
                assert entry is not None
                assert entry.value is not None
                await until(lambda: out.dictionary)
                await bucket.put(shared(3).hash.hex(), entry.value)
                document = ActiveDictionaries(name, 3, (DictionaryReference(shared(3).hash.hex(), FAR + 1),))
                await bus.broker.send(dictionary_subject(name), document.encode())
                await publish_notes(out, range(10))
                assert out.dictionary == shared(2).hash
                assert [event["payload"] for event in await take(live, 30)] == [note(n) for n in range(10)] * 3

    run(story)


def test_what_is_confidential_never_gets_into_a_dictionary() -> None:
    async def story() -> None:
        name = topic()
        schema = tw.Schema(
            name,
            [
                tw.Property("room", "string", "dimension"),
                tw.Property("said", "string"),
                tw.Property("secret", "string", confidential=True),
            ],
        )
        async with tw.connect(url_of(name)) as bus:
            await bus.register(schema, retain=True, dictionaries=True, format="json")
            async with bus.publisher(name) as out:
                for n in range(200):
                    said = f"the door was opened by somebody, {n * 7919} times so far"
                    await out.publish({"room": "11.1", "said": said, "secret": f"the code is {n % 3} sesame"})
                await out.flush()
                await until(lambda: out.dictionary)
                found = await DictionaryStore(await bus.broker.bucket(DICTIONARIES)).get(out.dictionary)
                assert found is not None
                assert b"somebody" in found.content
                assert b"sesame" not in found.content

    run(story)
