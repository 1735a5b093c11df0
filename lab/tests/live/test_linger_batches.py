"""Batches instead of dictionaries, at a real broker: all bytes are counted, and every message is compared."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncGenerator, Sequence

import pytest

import thinwire as tw
from thinwire.errors import GuaranteeViolated
from thinwire_lab.live.linger_batches import (
    BatchStream,
    StreamRun,
    find_break_even,
    join_messages,
    measure_log,
    open_packed,
    run_methods,
    send_all,
)
from thinwire_lab.streams.named_streams import NamedStream

needs_a_broker = pytest.mark.skipif(importlib.util.find_spec("nats") is None, reason="needs the extra nats")
MESSAGES = list(NamedStream("taxi-json").messages(200))


def make_run(method: str, joined: int, each: int, sockets: int, delay: float = 0.001) -> StreamRun:
    return StreamRun(method, 0.0, 100 * joined, 100, 100 * joined * each, 0, 100 * joined * sockets, [delay] * joined)


def test_the_break_even_is_where_both_cost_the_same() -> None:
    eight, two, one = (make_run("deflate", *f) for f in ((8, 40, 100, 0.021), (2, 60, 250, 0.011), (1, 90, 480)))
    found = find_break_even([make_run("dictionary", 1, 50, 450), make_run("dictionary", 21, 10, 60), eight, two, one])
    assert found.joined == pytest.approx(4.0), "halfway between two and eight"
    assert found.later == pytest.approx(15.0)
    assert found.on_sockets == pytest.approx(2 ** (30 / 230))
    never = find_break_even([make_run("dictionary", 1, 30, 10), eight, two, one])
    assert (never.joined, never.later, never.on_sockets) == (None, None, None)
    counted = StreamRun("dictionary", 0.0, messages=10, stored=5, frames=80, dictionaries=20, sockets=900, delays=[0.1])
    assert (counted.joined, counted.each, counted.on_sockets) == (2, 10, 90)


@needs_a_broker
def test_what_is_joined_is_deflated_join_messages() -> None:
    found = asyncio.run(run_methods(MESSAGES, (1, 21)))
    single, several = found[2:]
    assert [len(one.delays) for one in found] == [200] * 4
    each = sum(len(join_messages([message])) for message in MESSAGES)
    assert len(join_messages(MESSAGES)) < several.frames < 0.7 * each
    assert several.frames < single.frames <= each, "less where the machine is too busy to send each by itself"
    assert several.joined > 2
    assert single.dictionaries == several.dictionaries == 0
    assert all(one.sockets > 2 * one.frames for one in found), "to the broker and from it"


@needs_a_broker
def test_a_dictionary_comes_into_use_and_counts() -> None:
    async def story() -> None:
        async with tw.connect("embedded://") as home, open_packed(home.broker.url, "rides", 0.0) as stream:
            weight = rounds = 0
            async with asyncio.timeout(60):
                while not weight or weight > 0.5 * len(join_messages(MESSAGES[:1])) * len(MESSAGES):
                    before = (await measure_log(home.broker, stream.log)).size if weight else 0
                    for message in MESSAGES:
                        await stream.publish(message)
                    await stream.flush()
                    weight = (await measure_log(home.broker, stream.log)).size - before
                    rounds += 1
            assert stream.dictionary_bytes() > 100
            come: list[bytes] = []
            async for some in stream.deliveries:
                come += some
                if len(come) >= rounds * len(MESSAGES):
                    break
            assert come == MESSAGES * rounds

    asyncio.run(story())


@pytest.mark.parametrize("harm", [[b"2", b"1"], [b"1", b"1"], [b"1", b"3"], [b"1", b"2", b"3"]])
def test_a_message_that_differs_is_reported(harm: list[bytes]) -> None:
    async def coming() -> AsyncGenerator[Sequence[bytes], None]:
        yield harm[:1]
        yield harm[1:]

    async def nothing(*_: object) -> None: ...

    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(send_all(BatchStream(nothing, nothing, coming(), "log"), [b"1", b"2"], rate=1e6))
    assert raised.group_contains(GuaranteeViolated)
