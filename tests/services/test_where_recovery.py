"""A channel of chosen events outlives its translator: it goes on from a checkpoint, and tells exactly what matches."""

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
    """Room and number of the events that match, in the order in which they were published."""
    holds, counts = parse_where(WHERE).matches, dict.fromkeys(("r0", "r1", "r2"), 0)
    for event in building.truth:
        counts[event["room"]] += 1
        if holds(event):
            yield event["room"], counts[event["room"]], event["t"]


async def ask(building):
    asked = SubscriptionDocument(building.topic, "a", where=WHERE, durable="a")
    await put_subscription(building.bucket, asked, building.schema)
    return DemandClass.of(asked)


@pytest.mark.parametrize("kind", KINDS)
def test_killed_behind_a_checkpoint_it_goes_on_from_there(kind, caplog):
    caplog.set_level(logging.INFO, "thinwire.translator")

    async def tell():
        with site(kind) as connect:
            broker = await connect()
            building = await Building.build(broker)
            asked = await ask(building)
            store = CheckpointStore(await broker.bucket(CHECKPOINTS))
            hearer = building.hear(asked)
            hearer._link.include_suppressed = False  # what is not told of did not match
            own = await connect()
            task = asyncio.create_task(TranslatorService(own, lease=TERM, linger=0.001, checkpoint_messages=30).run())
            await building.opened(asked)
            await building.publish(80)

            async def written():
                return [one for one in await store.read_all(building.topic) if f"class/{asked.id}/p1" in one.parts]

            await until(written)
            await building.publish(15)
            await hearer.hear(len(list(matching(building))) - 5)
            await own.close()  # no farewell
            await task
            await building.publish(30)
            checkpoints = [checkpoint.offset for checkpoint in await written()]
            caplog.clear()
            last = await connect()
            async with running(last):
                await building.opened(asked, epoch=2)
                await building.publish(40)
                await building.heartbeat()
                await hearer.hear(len(list(matching(building))))
            told = [(event["room"], event.ordinal, event["t"]) for event in hearer.events]
            assert told == list(matching(building))
            assert not [thing for thing in hearer.others if isinstance(thing, EventsMissed)]
            [message] = [record.getMessage() for record in caplog.records if "decoders" in record.getMessage()]
            resumed, used = map(int, re.search(r"at offset (\d+) .* the checkpoint at (\d+)", message).groups())
            # A checkpoint may be newer than the last message of the channel; it cannot be used then.
            assert used == max(offset for offset in checkpoints if offset < resumed)
            for each in (last, broker):
                await each.close()

    asyncio.run(tell())
