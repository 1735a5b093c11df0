"""Limits a client knows before it does harm, and what it says when things do not go on."""

from __future__ import annotations

import pytest
from client_setup import bus_on, run, take

import thinwire as tw
from thinwire.client.event_rejection import SizeLimit
from thinwire.client.subscription_monitor import OutageMonitor
from thinwire.errors import BrokerRefused, PayloadTooLarge
from thinwire.topics.names import FACTS

NOTES = tw.Schema(
    "notes",
    [
        tw.Property("n", "integer"),
        tw.Property("head", "string"),
        tw.Property("body.text", "string"),
        tw.Property("scan", "array", step="0.1", length=20_000),
    ],
)


def note(head: int = 0, text: int = 0, scan: int = 0, letter: str = "x") -> dict[str, object]:
    return {"n": 1, "head": letter * head, "body": {"text": letter * text}, "scan": [0.5] * scan}


@pytest.mark.parametrize(
    ("event", "fits"),
    [
        (note(1000, 1000, 100), True),
        (note(120_000), True),
        (note(140_000), False),
        (note(70_000, 70_000), False),
        (note(0, 140_000), False),
        (note(0, 0, 20_000), False),
        (note(40_000, letter="ü"), False),
    ],
)
def test_the_values_of_an_event_count_together(event: dict[str, object], fits: bool) -> None:
    limit = SizeLimit(NOTES, max_payload=200_000)
    if fits:
        limit.check(event)
    else:
        with pytest.raises(PayloadTooLarge) as refused:
            limit.check(event)
        assert refused.value.size > refused.value.limit


def test_a_broker_whose_messages_are_too_small_is_refused_at_the_start() -> None:
    with pytest.raises(BrokerRefused, match="max_payload"):
        SizeLimit(NOTES, max_payload=4096)


def test_a_broker_that_is_away_is_told_after_a_while_and_again() -> None:
    told: list[tw.BrokerUnreachable] = []
    absence = OutageMonitor("nats://a:4222", told.append)  # type: ignore[arg-type]
    for second in range(100):
        absence.update(connected=second in (0, 50), now=1000.0 + second)
    assert [notice.seconds for notice in told] == [5.0, 35.0, 5.0, 35.0]


def test_facts_that_are_gone_are_told_and_the_stream_goes_on() -> None:
    async def story() -> None:
        schema = tw.Schema(
            "gone",
            [
                tw.Property("room", "string", "dimension"),
                tw.Property("maker", "string", static=True),
                tw.Property("t", "number", step="0.1"),
            ],
        )
        async with bus_on("memory://gone") as bus:
            await bus.register(schema, retain=True)
            async with bus.publisher("gone") as out:
                await out.publish({"room": "a", "maker": "Acme", "t": 1.0})
                await out.publish({"room": "b", "maker": "Ember", "t": 2.0})
                await out.flush()
                facts = await bus.broker.bucket(FACTS)
                await facts.delete((await facts.entries())[0].key)
                async with bus.subscribe("gone", start="earliest") as events:
                    (event,) = await take(events, 1)
        assert event["maker"] == "Ember"
        assert [type(notice) for notice in events.notices] == [tw.MessageUnreadable]

    run(story)


def test_many_events_at_once_are_published_like_one_by_one() -> None:
    async def story() -> None:
        schema = tw.Schema("many", [tw.Property("n", "integer"), tw.Property("text", "string")])
        events = [{"n": n, "text": "x"} if n % 7 else {"n": "none", "text": "x"} for n in range(1000)]
        async with bus_on("memory://many") as bus:
            await bus.register(schema)
            async with bus.subscribe("many") as seen, bus.publisher("many", max_pending=500) as out:
                assert await out.publish_all(events) == sum(n % 7 > 0 for n in range(1000))
                await out.flush()
                taken = await take(seen, sum(n % 7 > 0 for n in range(1000)))
            dead = await bus.broker.span("tw_dead")
        assert [event["n"] for event in taken] == [n for n in range(1000) if n % 7]
        assert dead.messages == sum(n % 7 == 0 for n in range(1000))

    run(story)
