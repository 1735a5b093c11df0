"""The registry at a broker in memory: what clients write, what it makes of that, and what it survives."""

import asyncio
import json
from contextlib import nullcontext

import pytest
from registry_sites import ROOMS, Site, local, running, until

from thinwire.brokers.memory import LocalBroker
from thinwire.errors import Conflict, DemandError, NobodyAnswers, RegistryError, UnknownTopic
from thinwire.schema import Property, Schema, from_turtle, to_turtle
from thinwire.topics.registry_client import (
    ask,
    find_schema,
    open_registry,
    ping,
    put_publisher,
    put_subscription,
    register_schema,
    register_turtle,
    remove_publisher,
    remove_subscription,
    topic_document,
)
from thinwire.topics.static_properties import factored
from thinwire.topics.topic_documents import PublisherDocument, SubscriptionDocument, encode
from thinwire.topics.topic_settings import ConfigDocument, Settings


def test_a_topic_from_its_registration_to_its_configuration():
    async def story():
        async with local() as (_, site, other), running(other, grace=0.2):
            document = await register_schema(site.bucket, ROOMS, Settings(max_silence=5))
            assert await topic_document(site.bucket, ROOMS.name) == document
            assert (await site.told(None)).max_silence == 5
            await site.subscribe("a", 0.5)
            assert (await site.told(0.5)).version == 2
            await site.subscribe("b", "0.4%")
            await site.told(0.2)
            await remove_subscription(site.bucket, ROOMS.name, "b")
            await site.told(0.5)
            await remove_subscription(site.bucket, ROOMS.name, "a")
            assert (await site.told(None)).version == 5

    asyncio.run(story())


def test_who_does_not_answer_is_removed_unless_durable():
    async def story():
        async with local() as (_, site, other):
            await register_schema(site.bucket, ROOMS)
            await site.subscribe("a", 0.5)
            await site.subscribe("b", 0.1)
            await site.subscribe("c", 0.3, alive=False, durable="c")
            async with running(other, grace=0.1, probe_every=0.05):
                await site.told(0.1)
                await site.die("b")
                await site.told(0.3)
                kept = [entry.key.rpartition(".")[2] for entry in await site.bucket.entries("subscription.>")]
                assert sorted(kept) == ["a", "c"]

    asyncio.run(story())


def test_several_registries_at_once_agree():
    async def story():
        async with local() as (server, site, first), LocalBroker(server) as second, LocalBroker(server) as third:
            await register_schema(site.bucket, ROOMS)
            async with running(first, grace=0.2), running(second, grace=0.25), running(third, grace=0.3):
                for tolerance in (0.5, 0.2, 0.4, 0.1):
                    await site.subscribe("a", tolerance)
                    await site.told(tolerance)
                await remove_subscription(site.bucket, ROOMS.name, "a")
                last = await site.told(None)
                await asyncio.sleep(0.8)
                assert await site.config() == last
                assert last.version <= 7

    asyncio.run(story())


def test_killed_and_started_again_it_writes_nothing_new():
    async def story():
        async with local() as (server, site, other):
            await register_schema(site.bucket, ROOMS)
            await site.subscribe("a", 0.5)
            async with running(other, grace=0.1):
                before = await site.told(0.5)
            revision = (await site.bucket.get("config.building.rooms")).revision
            with pytest.raises(NobodyAnswers):
                await ping(site.broker)
            for _ in range(2):
                async with LocalBroker(server) as another, running(another, grace=0.1):
                    await asyncio.sleep(0.5)
            entry = await site.bucket.get("config.building.rooms")
            assert (await site.config(), entry.revision) == (before, revision)
            await site.subscribe("b", 0.2)
            async with LocalBroker(server) as another, running(another, grace=0.1):
                await site.told(0.2)

    asyncio.run(story())


def test_it_survives_the_loss_of_its_broker():
    async def story():
        async with local() as (server, site, other), running(other, grace=0.1, probe_every=0.05):
            await register_schema(site.bucket, ROOMS)
            await site.subscribe("a", 0.5)
            await site.told(0.5)
            server.cut(other)
            await site.subscribe("b", 0.2)
            await asyncio.sleep(1.5)  # longer than its connection has patience
            assert (await site.config()).demand.tolerance == {"t": 0.5}
            server.restore(other)
            await site.told(0.2)
            kept = [entry.key for entry in await site.bucket.entries("subscription.>")]
            assert len(kept) == 2, "nobody is removed because the registry could not ask"

    asyncio.run(story())


def test_bad_documents_are_named_and_skipped(caplog):
    async def story():
        async with local() as (_, site, other), running(other, grace=0.1):
            await register_schema(site.bucket, ROOMS)
            await site.bucket.put(
                "subscription.building.rooms.bad", b'{"topic":"building.rooms","identity":"bad","exact":5}'
            )
            await site.bucket.put("garbage", b"\xff")
            await site.subscribe("a", 0.5)
            await site.told(0.5)
            problems = (await ask(site.broker, "list"))["problems"]
            assert set(problems) == {"subscription.building.rooms.bad", "garbage"}
            assert "exact must be" in problems["subscription.building.rooms.bad"]
            assert (await ping(site.broker))["problems"] == 2

    asyncio.run(story())
    named = [record.message for record in caplog.records if "subscription.building.rooms.bad" in record.message]
    assert len(named) == 1, "said once"


def test_what_it_answers():
    async def story():
        async with local() as (_, site, other), running(other):
            await register_schema(site.bucket, ROOMS, Settings(retain=True))
            await put_publisher(site.bucket, PublisherDocument(ROOMS.name, "p1", 1, 5.0, ROOMS.fingerprint.hex()))
            await site.subscribe("a", 0.5)
            await site.told(0.5)
            assert await ping(site.broker) == {"topics": 1, "subscriptions": 1, "publishers": 1, "problems": 0}
            [line] = (await ask(site.broker, "list"))["topics"]
            assert (line["topic"], line["version"], line["subscriptions"], line["wanted"]) == (ROOMS.name, 1, 1, True)
            topic = await ask(site.broker, "get", {"topic": ROOMS.name})
            assert Schema.from_document(topic["schema"]) == ROOMS
            assert topic["settings"]["retain"]
            assert topic["config"]["demand"]["tolerance"] == {"t": 0.5}
            assert [one["name"] for one in topic["publishers"]] == ["p1"]
            turtle = await ask(site.broker, "get", {"topic": ROOMS.name, "as": "turtle", "version": 1})
            assert from_turtle(turtle["turtle"]) == ROOMS
            document = await ask(site.broker, "get", {"key": "publisher.building.rooms.p1"})
            assert document["document"]["incarnation"] == 1
            query = "SELECT ?n { ?p a tw:Publisher ; tw:name ?n ; tw:topic/tw:name 'building.rooms' }"
            assert (await ask(site.broker, "query", {"query": query}))["rows"] == [["p1"]]
            await remove_publisher(site.bucket, ROOMS.name, "p1")
            await until(lambda: _is_empty(site, query))

    async def _is_empty(site, query):
        return (await ask(site.broker, "query", {"query": query}))["rows"] == []

    asyncio.run(story())


@pytest.mark.parametrize(
    ("verb", "payload", "why"),
    [
        ("get", b"{}", "topic"),
        ("get", b'{"topic": "nothing"}', "unknown topic"),
        ("get", b'{"topic": 5}', "topic"),
        ("get", b'{"key": "topic.nothing"}', "no document"),
        ("get", b'{"key": ["a"]}', "key"),
        ("get", b'{"topic": "building.rooms", "as": "xml"}', "turtle"),
        ("get", b'{"topic": "building.rooms", "as": "turtle", "version": 7}', "no such schema"),
        ("list", b'{"limit": "many"}', "limit"),
        ("list", b"[", "not JSON"),
        ("query", b"{}", "query must be"),
        ("query", b'{"query": "DROP ALL"}', "not a SPARQL query"),
        ("query", b"\xff", "not JSON"),
    ],
)
def test_a_bad_question_gets_a_sentence(verb, payload, why):
    async def story():
        async with local() as (_, site, other), running(other):
            await register_schema(site.bucket, ROOMS)
            await site.told(None)
            answer = json.loads(await site.broker.request(f"tw.registry.{verb}", payload, timeout=10))
            assert why in answer["error"]
            assert await ping(site.broker)

    asyncio.run(story())


def test_topics_are_listed_in_portions():
    async def story():
        async with local() as (_, site, other), running(other):
            for name in "abcde":
                await register_schema(site.bucket, Schema(name, [Property("t", "integer")]))
            await until(lambda: _all_there(site))
            first = await ask(site.broker, "list", {"limit": 3})
            rest = await ask(site.broker, "list", {"limit": 3, "after": first["topics"][-1]["topic"]})
            assert [line["topic"] for line in first["topics"] + rest["topics"]] == list("abcde")
            assert (first["complete"], rest["complete"]) == (False, True)

    async def _all_there(site):
        return (await ping(site.broker))["topics"] == 5

    asyncio.run(story())


def test_versions_of_a_schema():
    finer = Schema(ROOMS.name, [ROOMS["room"], Property("t", "number", step="0.05")], version=2)
    other = Schema(ROOMS.name, [ROOMS["room"], Property("t", "string")], version=3)
    unnumbered = Schema(ROOMS.name, [*finer, Property("h", "integer")], version=2)

    async def story():
        async with local() as (_, site, _):
            await register_schema(site.bucket, ROOMS, Settings(max_silence=5))
            assert await register_schema(site.bucket, ROOMS) == await topic_document(site.bucket, ROOMS.name)
            newer = await register_turtle(site.bucket, to_turtle(finer))
            assert (newer.fingerprint, newer.settings.max_silence) == (finer.fingerprint.hex(), 5)
            with pytest.raises(RegistryError, match="another topic") as refused:
                await register_schema(site.bucket, other)
            assert refused.value.property == "t"
            with pytest.raises(RegistryError, match="higher version"):
                await register_schema(site.bucket, unnumbered)
            assert await register_schema(site.bucket, ROOMS) == newer, "an older version is still understood"
            assert await find_schema(site.bucket, ROOMS.name, ROOMS.fingerprint) == ROOMS
            assert await find_schema(site.bucket, ROOMS.name, other.fingerprint) is None, (
                "what is refused is not stored"
            )

    asyncio.run(story())


def test_many_register_at_once():
    versions = [
        Schema(ROOMS.name, [*ROOMS, *(Property(f"p{i}", "integer") for i in range(count))], version=count + 1)
        for count in range(8)
    ]

    async def story():
        async with local() as (_, site, _):
            await asyncio.gather(*(register_schema(site.bucket, schema) for schema in versions))
            current = await topic_document(site.bucket, ROOMS.name)
            assert current.fingerprint == versions[-1].fingerprint.hex()
            for schema in versions:
                assert await find_schema(site.bucket, ROOMS.name, schema.fingerprint.hex()) == schema

    asyncio.run(story())


def test_a_schema_is_found_by_what_travels_of_it():
    schema = Schema("plant", [Property("id", "string", "dimension"), Property("make", "string", static=True)])

    async def story():
        async with local() as (_, site, _):
            await register_schema(site.bucket, schema)
            assert await find_schema(site.bucket, "plant", factored(schema).fingerprint) == schema
            for name, known in (("make", True), ("nobody", False)):
                settings = Settings(retain=True, tolerance={name: 0})
                with nullcontext() if known else pytest.raises(DemandError, match="does not travel"):
                    await register_schema(site.bucket, schema, settings)

    asyncio.run(story())


def test_a_subscription_is_checked_before_it_is_written():
    async def story():
        async with local() as (_, site, _):
            with pytest.raises(UnknownTopic):
                await put_subscription(site.bucket, SubscriptionDocument(ROOMS.name, "a"))
            await register_schema(site.bucket, ROOMS)
            with pytest.raises(DemandError, match="does not exist"):
                await put_subscription(site.bucket, SubscriptionDocument(ROOMS.name, "a", {"x": 1}))
            assert await site.bucket.entries("subscription.>") == []

    asyncio.run(story())


def test_it_ends_when_its_connection_is_closed():
    async def story():
        async with local() as (_, site, other):
            async with running(other) as service:
                await other.close()
            with pytest.raises(NobodyAnswers):
                await ping(site.broker)
            await service.ready()

    asyncio.run(story())


def test_a_configuration_of_its_own_is_put_right():
    async def story():
        async with local() as (_, site, other), running(other):
            await register_schema(site.bucket, ROOMS)
            await site.subscribe("a", 0.5)
            await site.told(0.5)
            await site.bucket.put("config.building.rooms", encode(ConfigDocument(ROOMS.name, 9)))
            assert (await site.told(0.5)).version == 10
            with pytest.raises(Conflict):
                await site.bucket.put("config.building.rooms", b"", revision=1)

    asyncio.run(story())


def test_a_site_is_what_the_registry_sees():
    async def story():
        async with local() as (server, site, _), LocalBroker(server) as other:
            same = Site(other, await open_registry(other))
            await register_schema(site.bucket, ROOMS)
            assert await topic_document(same.bucket, ROOMS.name) == await topic_document(site.bucket, ROOMS.name)

    asyncio.run(story())
