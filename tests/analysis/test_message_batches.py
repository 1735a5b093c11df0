"""A dry run joins frames into messages as a live outbox does: here the outbox itself is asked, in time of its own."""

import asyncio
import selectors
from itertools import accumulate, groupby
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinwire.analysis.message_batches import Joiner
from thinwire.analysis.socket_bytes import FENCE_AFTER, Sockets
from thinwire.client.outbox import Outbox
from thinwire.codec import StreamEncoder
from thinwire.errors import ConfigError
from thinwire.schema import Property, Schema
from thinwire.wire import split

ROOMS = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
KEY = StreamEncoder(ROOMS, compiled=False).start(0.0)[0]
ROUND_TRIP = 0.0071
GAPS = st.sampled_from([0.0, 0.01, 0.02, 0.13])


class Hasty(selectors.DefaultSelector):
    """Never waits: what it would have waited for has passed."""

    now = 0.0

    def select(self, timeout=None):
        self.now += timeout or 0.0
        return super().select(0)


class Store:
    """A broker that takes a while to store a message."""

    capabilities = SimpleNamespace(max_payload=1 << 20)

    def __init__(self):
        self.payloads = []

    async def append(self, log, subject, payload, **options):
        self.payloads.append(payload)
        await asyncio.sleep(ROUND_TRIP)
        return len(self.payloads)


async def outbox_messages(frames, linger, max_batch):
    loop, store = asyncio.get_running_loop(), Store()
    outbox = Outbox(store, "rooms", "p", last=0, linger=linger, max_batch=max_batch, max_pending=1 << 30)
    outbox.start()
    begin = loop.time()
    for time, together in groupby(frames, key=lambda pair: pair[0]):
        await asyncio.sleep(max(0.0, begin + time - loop.time()))
        outbox.put([frame for _, frame in together])
    await asyncio.sleep(1000)
    await outbox.close()
    return store.payloads


def told_by_outbox(frames, linger, max_batch):
    selector = Hasty()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.now
    try:
        return loop.run_until_complete(outbox_messages(frames, linger, max_batch))
    finally:
        loop.close()


def frame_of(size):
    return KEY if size == 0 else b"\x01" + bytes(size - 1)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(GAPS, st.sampled_from([0, 3, 4, 130, 400])), min_size=1, max_size=40),
    st.sampled_from([0.0, 0.0333, 0.2347]),
    st.sampled_from([300, 1000, 65_536]),
)
def test_messages_are_those_of_the_outbox(steps, linger, max_batch):
    times = list(accumulate(gap for gap, _ in steps))
    frames = [frame_of(size) for _, size in steps]
    payloads = told_by_outbox(list(zip(times, frames, strict=True)), linger, max_batch)
    joiner = Joiner(linger, max_batch, round_trip=ROUND_TRIP)
    messages = []
    for place, (time, frame) in enumerate(zip(times, frames, strict=True)):
        joiner.put([time], [len(frame)], [0] if frame is KEY else [])
        # what leaves now may still wait for a frame of the same instant
        if place + 1 < len(times) and times[place + 1] > time:
            messages += joiner.advance(time)
    messages += joiner.close()
    assert [message.size for message in messages] == [len(payload) for payload in payloads]
    assert [message.frames for message in messages] == [len(split(payload)) for payload in payloads]
    assert [message.alone for message in messages] == [payload == KEY for payload in payloads]


def test_a_message_says_how_long_nothing_was_acknowledged():
    joiner = Joiner(0.5, round_trip=0.25)
    joiner.put([0.0, 10.0], [5, 5])
    first, second = joiner.close()
    assert (first.time, second.time, second.idle) == (0.5, 10.5, 9.75)


@pytest.mark.parametrize("linger", [-1.0, float("inf")])
def test_a_linger_that_cannot_be_is_refused(linger):
    with pytest.raises(ConfigError, match="linger"):
        Joiner(linger)


def test_pauses_cost_headers_and_the_broker_s_own_words():
    swift, slow, silent = (Sockets.of_topic("rooms") for _ in range(3))
    plain = swift.message(100)
    assert slow.message(100, idle=FENCE_AFTER) > plain
    assert silent.message(100, idle=12.0) > slow.message(100, idle=FENCE_AFTER)
    assert Sockets.of_json("rooms").message(100, idle=FENCE_AFTER) == Sockets.of_json("rooms").message(100)


def test_a_payload_travels_twice():
    one, other = Sockets.of_topic("rooms"), Sockets.of_topic("rooms")
    assert other.message(150) - one.message(120) == 60
