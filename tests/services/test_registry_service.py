"""The registry at a memory broker: documents in, configurations out, and failures in between."""

import asyncio
from contextlib import nullcontext

import pytest
from registry_setup import ROOMS, local, running

from thinwire.brokers.memory import LocalBroker
from thinwire.errors import Conflict, DemandError, RegistryError, ServiceUnavailable, ThinwireError, UnknownTopic
from thinwire.schema import Property, Schema, from_turtle, to_turtle
from thinwire.services.registry.rdf_projection import query_registry
from thinwire.services.registry.registry import load_registry
from thinwire.services.registry.registry_descriptions import (
    describe_document,
    describe_schema,
    describe_topic,
    list_topics,
)
from thinwire.topics.registry_client import (
    find_schema,
    ping,
    put_subscription,
    register_schema,
    remove_subscription,
    topic_document,
)
from thinwire.topics.static_properties import factored
from thinwire.topics.topic_documents import PublisherDocument, SubscriptionDocument, encode
from thinwire.topics.topic_settings import ConfigDocument, Settings


def test_the_configuration_follows_subscriptions():
    async def main():
        async with local() as (_, site, other), running(other, grace=0.2):
            document = await register_schema(site.bucket, ROOMS, Settings(max_silence=5))
            assert await topic_document(site.bucket, ROOMS.name) == document
            assert (await site.configured(None)).max_silence == 5
            await site.subscribe("a", 0.5)
            assert (await site.configured(0.5)).version == 2
            await site.subscribe("b", "0.4%")
            await site.configured(0.2)
            await remove_subscription(site.bucket, ROOMS.name, "b")
            await site.configured(0.5)
            await remove_subscription(site.bucket, ROOMS.name, "a")
            assert (await site.configured(None)).version == 5

    asyncio.run(main())


def test_a_subscription_that_does_not_answer_is_removed_unless_durable():
    async def main():
        async with local() as (_, site, other):
            await register_schema(site.bucket, ROOMS)
            await site.subscribe("a", 0.5)
            await site.subscribe("b", 0.1)
            await site.subscribe("c", 0.3, alive=False, durable="c")
            async with running(other, grace=0.1, probe_every=0.05):
                await site.configured(0.1)
                await site.stop("b")
                await site.configured(0.3)
                kept = [entry.key.rpartition(".")[2] for entry in await site.bucket.entries("subscription.>")]
                assert sorted(kept) == ["a", "c"]

    asyncio.run(main())


def test_several_registries_agree():
    async def main():
        async with local() as (server, site, first), LocalBroker(server) as second, LocalBroker(server) as third:
            await register_schema(site.bucket, ROOMS)
            async with running(first, grace=0.2), running(second, grace=0.25), running(third, grace=0.3):
                for tolerance in (0.5, 0.2, 0.4, 0.1):
                    await site.subscribe("a", tolerance)
                    await site.configured(tolerance)
                await remove_subscription(site.bucket, ROOMS.name, "a")
                last = await site.configured(None)
                await asyncio.sleep(0.8)
                assert await site.config() == last
                assert last.version <= 7

    asyncio.run(main())


def test_a_restarted_registry_writes_no_new_configuration():
    async def main():
        async with local() as (server, site, other):
            await register_schema(site.bucket, ROOMS)
            await site.subscribe("a", 0.5)
            async with running(other, grace=0.1):
                before = await site.configured(0.5)
            revision = (await site.bucket.get("config.building.rooms")).revision
            with pytest.raises(ServiceUnavailable):
                await ping(site.broker)
            for _ in range(2):
                async with LocalBroker(server) as another, running(another, grace=0.1):
                    await asyncio.sleep(0.5)
            entry = await site.bucket.get("config.building.rooms")
            assert (await site.config(), entry.revision) == (before, revision)
            await site.subscribe("b", 0.2)
            async with LocalBroker(server) as another, running(another, grace=0.1):
                await site.configured(0.2)

    asyncio.run(main())


def test_the_registry_resumes_after_an_outage_of_its_connection():
    async def main():
        async with local() as (server, site, other), running(other, grace=0.1, probe_every=0.05):
            await register_schema(site.bucket, ROOMS)
            await site.subscribe("a", 0.5)
            await site.configured(0.5)
            server.cut(other)
            await site.subscribe("b", 0.2)
            await asyncio.sleep(1.5)  # longer than the timeout of its connection
            assert (await site.config()).demand.tolerance == {"t": 0.5}
            server.restore(other)
            await site.configured(0.2)
            kept = [entry.key for entry in await site.bucket.entries("subscription.>")]
            assert len(kept) == 2, "an outage does not remove subscriptions"

    asyncio.run(main())


def test_invalid_documents_are_reported_and_ignored(caplog):
    async def main():
        async with local() as (_, site, other), running(other, grace=0.1):
            await register_schema(site.bucket, ROOMS)
            await site.bucket.put(
                "subscription.building.rooms.bad", b'{"topic":"building.rooms","identity":"bad","exact":5}'
            )
            await site.bucket.put("garbage", b"\xff")
            await site.subscribe("a", 0.5)
            await site.configured(0.5)
            problems = list_topics(await load_registry(site.bucket))["problems"]
            assert set(problems) == {"subscription.building.rooms.bad", "garbage"}
            assert "exact must be" in problems["subscription.building.rooms.bad"]
            assert (await ping(site.broker))["problems"] == 2

    asyncio.run(main())
    reported = [record.message for record in caplog.records if "subscription.building.rooms.bad" in record.message]
    assert len(reported) == 1, "reported once"


def test_documents_are_listed_described_and_queried_without_a_service():
    async def main():
        async with local() as (_, site, other):
            await register_schema(site.bucket, ROOMS, Settings(retain=True))
            publisher = PublisherDocument(ROOMS.name, "p1", 1, 5.0, ROOMS.fingerprint.hex())
            await site.bucket.put(publisher.key, encode(publisher))
            await site.subscribe("a", 0.5)
            async with running(other):
                await site.configured(0.5)
                assert await ping(site.broker) == {"topics": 1, "subscriptions": 1, "publishers": 1, "problems": 0}
            registry = await load_registry(site.bucket)
            [line] = list_topics(registry)["topics"]
            assert (line["topic"], line["version"], line["subscriptions"], line["wanted"]) == (ROOMS.name, 1, 1, True)
            topic = describe_topic(registry, ROOMS.name)
            assert Schema.from_document(topic["schema"]) == ROOMS
            assert topic["settings"]["retain"]
            assert topic["config"]["demand"]["tolerance"] == {"t": 0.5}
            assert [publisher["name"] for publisher in topic["publishers"]] == ["p1"]
            assert from_turtle(describe_schema(registry, ROOMS.name, version=1)["turtle"]) == ROOMS
            assert describe_document(registry, "publisher.building.rooms.p1")["document"]["incarnation"] == 1
            query = "SELECT ?n { ?p a tw:Publisher ; tw:name ?n ; tw:topic/tw:name 'building.rooms' }"
            assert (await query_registry(site.bucket, query))["rows"] == [["p1"]]
            await site.bucket.delete(publisher.key)
            assert (await query_registry(site.bucket, query))["rows"] == []

    asyncio.run(main())


@pytest.mark.parametrize(
    ("describe", "arguments", "reason"),
    [
        (describe_topic, ("no topic",), "a topic is"),
        (describe_topic, ("nothing",), "unknown topic"),
        (describe_document, ("topic.nothing",), "no document"),
        (describe_document, ("garbage",), "not a key"),
        (describe_document, ("subscription.building.rooms.bad",), "exact must be"),
        (describe_schema, ("building.rooms", 7), "no such schema"),
    ],
)
def test_errors_state_why_nothing_is_described(describe, arguments, reason):
    async def main():
        async with local() as (_, site, _):
            await register_schema(site.bucket, ROOMS)
            await site.bucket.put("garbage", b"{}")
            await site.bucket.put(
                "subscription.building.rooms.bad", b'{"topic":"building.rooms","identity":"bad","exact":5}'
            )
            with pytest.raises(ThinwireError, match=reason):
                describe(await load_registry(site.bucket), *arguments)

    asyncio.run(main())


def test_compatible_versions_of_a_schema_are_registered():
    finer = Schema(ROOMS.name, [ROOMS["room"], Property("t", "number", step="0.05")], version=2)
    other = Schema(ROOMS.name, [ROOMS["room"], Property("t", "string")], version=3)
    unnumbered = Schema(ROOMS.name, [*finer, Property("h", "integer")], version=2)

    async def main():
        async with local() as (_, site, _):
            await register_schema(site.bucket, ROOMS, Settings(max_silence=5))
            assert await register_schema(site.bucket, ROOMS) == await topic_document(site.bucket, ROOMS.name)
            newer = await register_schema(site.bucket, from_turtle(to_turtle(finer)))
            assert (newer.fingerprint, newer.settings.max_silence) == (finer.fingerprint.hex(), 5)
            with pytest.raises(RegistryError, match="another topic") as refused:
                await register_schema(site.bucket, other)
            assert refused.value.property == "t"
            with pytest.raises(RegistryError, match="higher version"):
                await register_schema(site.bucket, unnumbered)
            assert await register_schema(site.bucket, ROOMS) == newer, (
                "an older version does not replace the current one"
            )
            assert await find_schema(site.bucket, ROOMS.name, ROOMS.fingerprint) == ROOMS
            assert await find_schema(site.bucket, ROOMS.name, other.fingerprint) is None, (
                "a refused schema is not stored"
            )

    asyncio.run(main())


def test_concurrent_registrations_keep_the_newest_version():
    versions = [
        Schema(ROOMS.name, [*ROOMS, *(Property(f"p{i}", "integer") for i in range(count))], version=count + 1)
        for count in range(8)
    ]

    async def main():
        async with local() as (_, site, _):
            await asyncio.gather(*(register_schema(site.bucket, schema) for schema in versions))
            current = await topic_document(site.bucket, ROOMS.name)
            assert current.fingerprint == versions[-1].fingerprint.hex()
            for schema in versions:
                assert await find_schema(site.bucket, ROOMS.name, schema.fingerprint.hex()) == schema

    asyncio.run(main())


def test_a_schema_is_found_by_its_factored_fingerprint():
    schema = Schema("plant", [Property("id", "string", "dimension"), Property("make", "string", static=True)])

    async def main():
        async with local() as (_, site, _):
            await register_schema(site.bucket, schema)
            assert await find_schema(site.bucket, "plant", factored(schema).fingerprint) == schema
            for name, known in (("make", True), ("unknown", False)):
                settings = Settings(retain=True, tolerance={name: 0})
                with nullcontext() if known else pytest.raises(DemandError, match="is not sent"):
                    await register_schema(site.bucket, schema, settings)

    asyncio.run(main())


def test_a_subscription_is_checked_before_it_is_stored():
    async def main():
        async with local() as (_, site, _):
            with pytest.raises(UnknownTopic):
                await put_subscription(site.bucket, SubscriptionDocument(ROOMS.name, "a"))
            await register_schema(site.bucket, ROOMS)
            with pytest.raises(DemandError, match="no such property"):
                await put_subscription(site.bucket, SubscriptionDocument(ROOMS.name, "a", {"x": 1}))
            assert await site.bucket.entries("subscription.>") == []

    asyncio.run(main())


def test_the_service_ends_when_its_connection_is_closed():
    async def main():
        async with local() as (_, site, other):
            async with running(other) as service:
                await other.close()
            with pytest.raises(ServiceUnavailable):
                await ping(site.broker)
            await service.ready()

    asyncio.run(main())


def test_a_foreign_configuration_is_replaced():
    async def main():
        async with local() as (_, site, other), running(other):
            await register_schema(site.bucket, ROOMS)
            await site.subscribe("a", 0.5)
            await site.configured(0.5)
            await site.bucket.put("config.building.rooms", encode(ConfigDocument(ROOMS.name, 9)))
            assert (await site.configured(0.5)).version == 10
            with pytest.raises(Conflict):
                await site.bucket.put("config.building.rooms", b"", revision=1)

    asyncio.run(main())
