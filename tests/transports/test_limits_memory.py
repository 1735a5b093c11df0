"""A limited client of a broker in memory: its messages take the time of the line, others do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.clock import VirtualClock
from thinwire.errors import TransportClosed
from thinwire.simulation import FREE, Limit, Limits, read_limits
from thinwire.transports import Faults, LimitedClient, MemoryBroker, MemoryInbox


def _arrivals(clock: VirtualClock, broker: MemoryBroker, inbox: MemoryInbox) -> list[tuple[float, bytes]]:
    """Everything that comes, with its time: the clock goes from one arrival to the next."""
    found = []
    while True:
        found += [(clock.now(), message.payload) for message in inbox]
        due = broker.next_due()
        if due is None:
            return found
        clock.advance(max(0.0, due - clock.now()))
        broker.step(due)


@given(st.lists(st.integers(1, 2_000), min_size=1, max_size=20), st.floats(0, 1), st.floats(0, 1))
def test_both_ways_take_their_time(sizes: list[int], up: float, down: float) -> None:
    clock = VirtualClock()
    broker = MemoryBroker(clock)
    sender = LimitedClient(broker, Limits(up=Limit(1_000, up)))
    reader = LimitedClient(broker, Limits(down=Limit(500, down)))
    inbox = reader.subscribe("rooms.>")
    for number, size in enumerate(sizes):
        assert sender.publish("rooms.a", bytes([number]) * size) is None
    arrived, expected = 0.0, []
    for number, size in enumerate(sizes):
        stored = sum(sizes[: number + 1]) / 1_000 + up
        arrived = max(arrived, stored) + size / 500
        expected.append(arrived + down)
    found = _arrivals(clock, broker, inbox)
    assert [payload[0] for _, payload in found] == list(range(len(sizes)))
    assert [at for at, _ in found] == pytest.approx(expected)


def test_a_slow_client_holds_up_nobody() -> None:
    clock = VirtualClock()
    broker = MemoryBroker(clock)
    slow, quick = LimitedClient(broker, read_limits("up=8kbit")), LimitedClient(broker, FREE)
    inbox = broker.subscribe("rooms.>")
    assert slow.publish("rooms.slow", bytes(500)) is None
    assert quick.publish("rooms.quick", b"now") == 1
    assert [message.subject for message in inbox] == ["rooms.quick"]
    clock.advance(0.5)
    assert [message.subject for message in inbox] == ["rooms.slow"]


def test_faults_reach_limited_clients() -> None:
    clock = VirtualClock()
    broker = MemoryBroker(clock)
    client = LimitedClient(broker, read_limits("delay=1s"))
    inbox = broker.subscribe("rooms")
    broker.inject(Faults(at="publish").drop_exactly(1))
    for payload in (b"lost", b"kept"):
        client.publish("rooms", payload)
    clock.advance(1.0)
    assert [message.payload for message in inbox] == [b"kept"]


def test_closing_a_client_leaves_the_others() -> None:
    broker = MemoryBroker(VirtualClock())
    client, inbox = LimitedClient(broker, FREE), broker.subscribe("rooms")
    mine = client.subscribe("rooms")
    client.close()
    assert client.publish("rooms", b"still there") == 1
    assert (len(list(mine)), len(list(inbox))) == (0, 1)
    assert client.capabilities == broker.capabilities
    broker.close()
    with pytest.raises(TransportClosed):
        client.publish("rooms", b"gone")
