"""Size limits that a client checks before sending, and notices about outages and missing data."""

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
def test_the_sizes_of_all_values_are_added(event: dict[str, object], fits: bool) -> None:
    limit = SizeLimit(NOTES, max_payload=200_000)
    if fits:
        limit.check(event)
    else:
        with pytest.raises(PayloadTooLarge) as refused:
            limit.check(event)
        assert refused.value.size > refused.value.limit


def test_a_broker_with_a_too_small_message_limit_is_rejected() -> None:
    with pytest.raises(BrokerRefused, match="max_payload"):
        SizeLimit(NOTES, max_payload=4096)


def test_an_unreachable_broker_is_reported_after_a_delay_and_again() -> None:
    notices: list[tw.BrokerUnreachable] = []
    monitor = OutageMonitor("nats://a:4222", notices.append)  # type: ignore[arg-type]
    for second in range(100):
        monitor.update(connected=second in (0, 50), now=1000.0 + second)
    assert [notice.seconds for notice in notices] == [5.0, 35.0, 5.0, 35.0]


def test_missing_static_properties_are_reported_and_the_stream_continues() -> None:
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


def test_a_batch_of_events_is_published_like_single_events() -> None:
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
