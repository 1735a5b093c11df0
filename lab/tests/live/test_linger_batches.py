"""Batches instead of dictionaries, at a real broker: all bytes are counted, and every message is compared."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncGenerator, Sequence

import pytest

import thinwire as tw
from thinwire.errors import GuaranteeViolated
from thinwire_lab.live.linger_batches import Line, StreamRun, balance, courses, packed, sent, together, weigh
from thinwire_lab.streams.named_streams import NamedStream

needs_a_broker = pytest.mark.skipif(importlib.util.find_spec("nats") is None, reason="needs the extra nats")
MESSAGES = list(NamedStream("taxi-json").messages(200))


def course(way: str, joined: int, each: int, sockets: int, delay: float = 0.001) -> StreamRun:
    return StreamRun(way, 0.0, 100 * joined, 100, 100 * joined * each, 0, 100 * joined * sockets, [delay] * joined)


def test_the_balance_lies_where_both_cost_the_same() -> None:
    eight, two, one = (course("deflate", *f) for f in ((8, 40, 100, 0.021), (2, 60, 250, 0.011), (1, 90, 480)))
    found = balance([course("dictionary", 1, 50, 450), course("dictionary", 21, 10, 60), eight, two, one])
    assert found.joined == pytest.approx(4.0), "halfway between two and eight"
    assert found.later == pytest.approx(15.0)
    assert found.on_sockets == pytest.approx(2 ** (30 / 230))
    never = balance([course("dictionary", 1, 30, 10), eight, two, one])
    assert (never.joined, never.later, never.on_sockets) == (None, None, None)
    counted = StreamRun("dictionary", 0.0, messages=10, stored=5, frames=80, dictionaries=20, sockets=900, delays=[0.1])
    assert (counted.joined, counted.each, counted.on_sockets) == (2, 10, 90)


@needs_a_broker
def test_what_is_joined_is_deflated_together() -> None:
    found = asyncio.run(courses(MESSAGES, (1, 21)))
    single, several = found[2:]
    assert [len(one.delays) for one in found] == [200] * 4
    each = sum(len(together([message])) for message in MESSAGES)
    assert len(together(MESSAGES)) < several.frames < 0.7 * each
    assert several.frames < single.frames <= each, "less where the machine is too busy to send each by itself"
    assert several.joined > 2
    assert single.dictionaries == several.dictionaries == 0
    assert all(one.sockets > 2 * one.frames for one in found), "to the broker and from it"


@needs_a_broker
def test_a_dictionary_comes_into_use_and_counts() -> None:
    async def story() -> None:
        async with tw.connect("embedded://") as home, packed(home.broker.url, "rides", 0.0) as line:
            weight = rounds = 0
            async with asyncio.timeout(60):
                while not weight or weight > 0.5 * len(together(MESSAGES[:1])) * len(MESSAGES):
                    before = (await weigh(home.broker, line.log)).size if weight else 0
                    for message in MESSAGES:
                        await line.publish(message)
                    await line.flush()
                    weight = (await weigh(home.broker, line.log)).size - before
                    rounds += 1
            assert line.dictionary_bytes() > 100
            come: list[bytes] = []
            async for some in line.arriving:
                come += some
                if len(come) >= rounds * len(MESSAGES):
                    break
            assert come == MESSAGES * rounds

    asyncio.run(story())


@pytest.mark.parametrize("harm", [[b"2", b"1"], [b"1", b"1"], [b"1", b"3"], [b"1", b"2", b"3"]])
def test_a_message_that_is_not_as_published_is_noticed(harm: list[bytes]) -> None:
    async def coming() -> AsyncGenerator[Sequence[bytes], None]:
        yield harm[:1]
        yield harm[1:]

    async def nothing(*_: object) -> None: ...

    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(sent(Line(nothing, nothing, coming(), "log"), [b"1", b"2"], rate=1e6))
    assert raised.group_contains(GuaranteeViolated)
