"""A channel with a predicate after a crash: it resumes from a checkpoint and has exactly the matching events."""

import asyncio
import logging
import re

import pytest
from registry_setup import until
from translator_setup import KINDS, TERM, Building, running, site

from thinwire.codec import EventsMissed
from thinwire.filters.where.where_grammar import parse_where
from thinwire.services.translator.translator_service import TranslatorService
from thinwire.topics.checkpoint_store import CheckpointStore
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.names import CHECKPOINTS
from thinwire.topics.registry_client import put_subscription
from thinwire.topics.topic_documents import SubscriptionDocument

WHERE = "t > 21.2 and room != 'r1'"


def matching(building):
    """Yield room, ordinal and value of the matching events, in the order of publication."""
    holds, counts = parse_where(WHERE).matches, dict.fromkeys(("r0", "r1", "r2"), 0)
    for event in building.truth:
        counts[event["room"]] += 1
        if holds(event):
            yield event["room"], counts[event["room"]], event["t"]


async def subscribe(building):
    document = SubscriptionDocument(building.topic, "a", where=WHERE, durable="a")
    await put_subscription(building.bucket, document, building.schema)
    return DemandClass.of(document)


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_crash_a_channel_resumes_from_the_checkpoint(kind, caplog):
    caplog.set_level(logging.INFO, "thinwire.translator")

    async def main():
        with site(kind) as connect:
            broker = await connect()
            building = await Building.build(broker)
            demand = await subscribe(building)
            store = CheckpointStore(await broker.bucket(CHECKPOINTS))
            subscriber = building.subscriber(demand)
            subscriber.decoder.include_suppressed = False  # suppressed events did not match
            own = await connect()
            task = asyncio.create_task(TranslatorService(own, lease=TERM, linger=0.001, checkpoint_messages=30).run())
            await building.wait_open(demand)
            await building.publish(80)

            async def written():
                return [one for one in await store.read_all(building.topic) if f"class/{demand.id}/p1" in one.parts]

            await until(written)
            await building.publish(15)
            await subscriber.receive(len(list(matching(building))) - 5)
            await own.close()  # the lease is not released
            await task
            await building.publish(30)
            checkpoints = [checkpoint.offset for checkpoint in await written()]
            caplog.clear()
            last = await connect()
            async with running(last):
                await building.wait_open(demand, epoch=2)
                await building.publish(40)
                await building.heartbeat()
                await subscriber.receive(len(list(matching(building))))
            delivered = [(event["room"], event.ordinal, event["t"]) for event in subscriber.events]
            assert delivered == list(matching(building))
            assert not [delivery for delivery in subscriber.others if isinstance(delivery, EventsMissed)]
            [message] = [record.getMessage() for record in caplog.records if "decoders" in record.getMessage()]
            resumed, used = map(int, re.search(r"at offset (\d+) .* the checkpoint at (\d+)", message).groups())
            # A checkpoint may be newer than the last message of the channel; it cannot be used then.
            assert used == max(offset for offset in checkpoints if offset < resumed)
            for connection in (last, broker):
                await connection.close()

    asyncio.run(main())
