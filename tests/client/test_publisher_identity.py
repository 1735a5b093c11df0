"""The incarnation of a publisher increases with every start, also when its messages are not in the log any more."""

import asyncio

import pytest

import thinwire as tw
from thinwire.brokers.memory import LocalServer
from thinwire.brokers.protocol import Retention
from thinwire.testing import run
from thinwire.topics.names import key_subject, log_of

ROOMS = tw.Schema("rooms", [tw.Property("room", "string", "dimension"), tw.Property("t", "number", step="0.1")])


def truncate(log):
    log.retention = Retention(max_messages=0)
    assert log.span().messages == 0
    log.retention = Retention()


def damage_key_frames(log):
    for offset, stored in log._messages.items():
        if stored.subject == key_subject("rooms", "p"):
            log._messages[offset] = stored._replace(payload=b"damaged")


@pytest.mark.parametrize("lose", [truncate, damage_key_frames])
def test_an_incarnation_is_not_repeated_after_its_key_frames_are_lost(lose):
    async def start_three_times():
        incarnations = []
        async with tw.connect("memory://identity", services=False) as bus:
            await bus.register(ROOMS, retain=True)
            for t in range(3):
                async with bus.publisher("rooms", name="p") as out:
                    await out.publish({"room": "a", "t": float(t)})
                    incarnations.append(out.encoder.incarnation)
                lose(LocalServer.named("identity").logs[log_of("rooms")])
                await asyncio.sleep(1)
        return incarnations

    first, second, third = run(start_three_times())
    assert 1 == first < second < third


def test_the_first_incarnation_of_a_new_name_is_1_in_a_complete_log():
    async def start_two_names():
        async with tw.connect("memory://identity", services=False) as bus:
            await bus.register(ROOMS, retain=True)
            async with bus.publisher("rooms", name="p") as first, bus.publisher("rooms", name="q") as second:
                return first.encoder.incarnation, second.encoder.incarnation

    assert run(start_two_names()) == (1, 1)
