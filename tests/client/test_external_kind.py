"""A property kind that an application defines: published, delivered and recovered in its own values."""

import asyncio
from datetime import timedelta

import pytest
from duration_kind import register_duration

import thinwire as tw
from thinwire.errors import WrongType
from thinwire.schema import custom_kind


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    register_duration(monkeypatch)


def rides():
    return tw.Schema(
        "rides",
        [
            tw.Property("car", "string", "dimension"),
            tw.Property("trip.time", "duration"),
            tw.Property("trip.seats", "integer"),
        ],
    )


def ride(seconds, seats=1):
    return {"car": "a", "trip": {"time": timedelta(seconds=seconds), "seats": seats}}


async def received(events, count):
    return [await asyncio.wait_for(anext(events), 30) for _ in range(count)]


async def deliver(events, bus, **options):
    """Publish events and return what a subscription delivers."""
    subscription = bus.subscribe("rides", tolerance={"trip.time": 2.0}, **options)
    async with subscription, bus.publisher("rides", name="p") as out:
        for event in events:
            await out.publish(event)
        await out.flush()
        return await received(subscription, len(events))


def run(body):
    async def main():
        async with tw.connect("memory://custom-kinds") as bus:
            await bus.register(rides())
            return await body(bus)

    return asyncio.run(main())


def test_values_of_the_kind_are_delivered_within_the_tolerance():
    sent = [ride(10), ride(11), ride(14.3), ride(14.2, seats=2)]
    found = run(lambda bus: deliver(sent, bus))
    for published, event in zip(sent, found, strict=True):
        error = abs(published["trip"]["time"] - event["trip"]["time"])
        assert error <= timedelta(seconds=event.bound["trip.time"]) <= timedelta(seconds=2)
    assert [event["trip"]["seats"] for event in found] == [1, 1, 1, 2]
    assert found[1].virtual


def test_an_absent_value_and_selected_properties():
    absent = {"car": "a", "trip": {"time": None, "seats": 1}}
    found = run(lambda bus: deliver([ride(10), absent], bus, properties=["trip.time"]))
    assert [event["trip"]["time"] for event in found] == [timedelta(seconds=10), None]


def test_a_value_of_another_kind_is_rejected_by_name():
    async def body(bus):
        async with bus.publisher("rides", name="p") as out:
            with pytest.raises(WrongType, match=r"trip\.time"):
                await out.publish({"car": "a", "trip": {"time": "soon", "seats": 1}})
            return await out.publish_all([ride(1), {"car": "a", "trip": {"time": 7, "seats": 1}}, ride(9)])

    assert run(body) == 2


def test_a_restarted_publisher_recovers_values_of_the_kind():
    async def body(bus):
        await deliver([ride(10), ride(20)], bus)
        async with bus.publisher("rides", name="p", recover=True) as out:
            return out.last_events

    (last,) = run(body).values()
    assert abs(last["trip"]["time"] - timedelta(seconds=20)) <= timedelta(seconds=2)


def test_a_process_without_the_kind_receives_base_values(monkeypatch):
    async def body(bus):
        async with bus.subscribe("rides") as subscription, bus.publisher("rides", name="p") as out:
            await out.publish(ride(10))
            await out.flush()
            monkeypatch.setattr(custom_kind, "_REGISTERED", {})
            return await received(subscription, 1)

    (event,) = run(body)
    assert event["trip"]["time"] == 10.0
