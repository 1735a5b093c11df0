"""The messages of an analysis are those of the client's outbox, here in virtual time."""

import asyncio
import selectors
from itertools import accumulate, groupby
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinwire.analysis import message_batches
from thinwire.analysis.message_batches import FENCE_AFTER, MessageBatcher, SocketByteCounter
from thinwire.client.outbox import Outbox
from thinwire.codec import StreamEncoder
from thinwire.errors import ConfigError
from thinwire.schema import Property, Schema
from thinwire.wire import split

ROOMS = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
KEY = StreamEncoder(ROOMS, compiled=False).start(0.0)[0]
ROUND_TRIP = 0.0071
"""seconds; no sum of gaps and lingers is a multiple of it, so no two events of the simulation are at one instant"""
GAPS = st.sampled_from([0.0, 0.01, 0.02, 0.13])


class VirtualTimeSelector(selectors.DefaultSelector):
    """Advances the time instead of waiting."""

    now = 0.0

    def select(self, timeout=None):
        self.now += timeout or 0.0
        return super().select(0)


class Store:
    """A broker that stores a message after the round trip time."""

    max_payload = 1 << 20

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


def run_outbox(frames, linger, max_batch):
    selector = VirtualTimeSelector()
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
    payloads = run_outbox(list(zip(times, frames, strict=True)), linger, max_batch)
    with patch.object(message_batches, "ROUND_TRIP", ROUND_TRIP):
        messages = simulate(times, frames, linger, max_batch)
    assert [message.size for message in messages] == [len(payload) for payload in payloads]
    assert [message.frames for message in messages] == [len(split(payload)) for payload in payloads]
    assert [message.starts_round for message in messages] == [payload == KEY for payload in payloads]


def simulate(times, frames, linger, max_batch):
    batcher = MessageBatcher(linger, max_batch)
    messages = []
    for index, (time, frame) in enumerate(zip(times, frames, strict=True)):
        batcher.put([time], [len(frame)], [0] if frame is KEY else [])
        # a message of this instant may still get a frame of the same instant
        if index + 1 < len(times) and times[index + 1] > time:
            messages += batcher.advance(time)
    return messages + batcher.advance()


def test_a_message_has_the_time_since_the_last_acknowledgement():
    batcher = MessageBatcher(0.5)
    batcher.put([0.0, 10.0], [5, 5])
    first, second = batcher.advance()
    assert (first.time, second.time) == (0.5, 10.5)
    assert second.idle == pytest.approx(10.0 - message_batches.ROUND_TRIP)


@pytest.mark.parametrize("linger", [-1.0, float("inf")])
def test_invalid_lingers_are_rejected(linger):
    with pytest.raises(ConfigError, match="linger"):
        MessageBatcher(linger)


def test_pauses_cost_headers_and_heartbeats_of_the_broker():
    swift, slow, silent = (SocketByteCounter.for_topic("rooms") for _ in range(3))
    plain = swift.count_message(100)
    assert slow.count_message(100, idle=FENCE_AFTER) > plain
    assert silent.count_message(100, idle=12.0) > slow.count_message(100, idle=FENCE_AFTER)
    assert SocketByteCounter.for_json("rooms").count_message(100, idle=FENCE_AFTER) == SocketByteCounter.for_json(
        "rooms"
    ).count_message(100)


def test_a_payload_is_counted_twice():
    one, other = SocketByteCounter.for_topic("rooms"), SocketByteCounter.for_topic("rooms")
    assert other.count_message(150) - one.count_message(120) == 60
