"""Senders and receivers over limited links take the computed time and lose nothing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinwire.errors import ConfigError
from thinwire_lab.live.link_limits import FREE, Limit, Limits
from thinwire_lab.overlay_sim.discrete_events import EventScheduler
from thinwire_lab.reproduce.dictionaries.link_parties import LinkReceiver, LinkSender, MessageOverhead, Relay

COUNTS = st.integers(1, 40)
SIZES = st.integers(1, 3_000)
RATES = st.sampled_from([1_000.0, 7_000.0, 125_000.0])


def _run(
    limits: Limits,
    sizes: list[int],
    weights: MessageOverhead | None = None,
    senders: int = 1,
    receivers: int = 1,
    **how: float,
) -> tuple[list[LinkSender], list[LinkReceiver]]:
    scheduler = EventScheduler()
    relay = Relay(scheduler, weights)
    window, ahead, pace = int(how.get("window", 1)), int(how.get("ahead", 256)), how.get("pace", 0.0)
    sending = [LinkSender(scheduler, relay, limits, sizes, window=window, pace=pace, seed=k) for k in range(senders)]
    receiving = [LinkReceiver(scheduler, relay, limits, window=ahead, seed=100 + k) for k in range(receivers)]
    for sender in sending:
        sender.begin()
    scheduler.run()
    return sending, receiving


@given(COUNTS, SIZES, RATES, st.floats(0, 0.3))
def test_one_at_a_time_takes_a_round_trip_each(count: int, size: int, rate: float, delay: float) -> None:
    weights = MessageOverhead(publish_bytes=40, store_ack_bytes=60, deliver_bytes=80)
    (sender,), (receiver,) = _run(Limits.both(Limit(rate, delay)), [size] * count, weights)
    trip = (size + 40) / rate + delay + 60 / rate + delay
    assert sender.finished == pytest.approx(count * trip)
    assert sender.latencies == pytest.approx([trip] * count)
    arrival = (size + 40) / rate + (size + 80) / rate + 2 * delay
    # on the way down a message may meet the one before it: the larger of the two intervals is what lasts
    lag = max(trip, (size + 80) / rate)
    assert receiver.finished == pytest.approx((count - 1) * lag + arrival)


@given(COUNTS, SIZES, RATES, st.floats(0, 0.3))
def test_a_batch_without_waiting_is_limited_by_its_bytes(count: int, size: int, rate: float, delay: float) -> None:
    (sender,), (receiver,) = _run(Limits(up=Limit(rate, delay)), [size] * count, window=count, ahead=count)
    assert sender.finished == pytest.approx(count * size / rate + delay)
    assert receiver.latencies == pytest.approx([k * size / rate + delay for k in range(1, count + 1)])


@given(COUNTS, st.integers(1, 8), st.integers(1, 5), st.floats(0.001, 0.01), st.floats(0.001, 0.01))
def test_the_slowest_station_sets_the_pace(count: int, window: int, senders: int, pack: float, store: float) -> None:
    weights = MessageOverhead(pack_seconds=pack, store_seconds=store)
    sending, (receiver,) = _run(FREE, [100] * count, weights, senders=senders, window=window + 1)
    total = count * senders
    lower = max(total * store + pack, count * pack + store)
    assert receiver.finished >= lower - 1e-9
    assert receiver.finished <= total * store + count * pack + 1e-9
    assert max(sender.finished for sender in sending) == pytest.approx(receiver.finished)


@settings(max_examples=40)
@given(
    st.lists(SIZES, min_size=1, max_size=30),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 9),
    st.integers(1, 9),
    st.sampled_from([0.0, 0.01, 0.05]),
    st.sampled_from([0.0, 0.01]),
)
def test_nothing_is_lost(
    sizes: list[int], senders: int, receivers: int, window: int, ahead: int, jitter: float, pace: float
) -> None:
    limits = Limits.both(Limit(7_000, 0.05, jitter))
    weights = MessageOverhead(store_ack_bytes=60, receive_ack_bytes=50, unpack_seconds=0.001)
    how = {"window": window, "ahead": ahead, "pace": pace}
    sending, receiving = _run(limits, sizes, weights, senders, receivers, **how)
    assert [len(sender.latencies) for sender in sending] == [len(sizes)] * senders
    assert [len(receiver.latencies) for receiver in receiving] == [len(sizes) * senders] * receivers
    least = 2 * (0.05 - jitter) + 2 * min(sizes) / 7_000
    assert min(min(receiver.latencies) for receiver in receiving) >= least
    again = _run(limits, sizes, weights, senders, receivers, **how)
    assert [r.latencies for r in receiving] == [r.latencies for r in again[1]]


def test_a_paced_sender_counts_from_when_a_message_was_due() -> None:
    """Ten messages a second on a line that takes one a second: each waits longer by what the line is too slow."""
    (sender,), _ = _run(Limits(up=Limit(100.0)), [100] * 5, pace=0.1)
    assert sender.latencies == pytest.approx([1.0, 1.9, 2.8, 3.7, 4.6])


def test_a_receiver_that_is_not_acknowledged_in_time_waits() -> None:
    """Four messages ahead, an acknowledgement each: after four, one message a round trip of half a second."""
    weights = MessageOverhead(receive_ack_bytes=10)
    _, (receiver,) = _run(Limits(down=Limit(delay=0.5)), [10] * 8, weights, window=8, ahead=4)
    assert receiver.finished == pytest.approx(1.0)


def test_a_window_has_room_for_a_message() -> None:
    with pytest.raises(ConfigError, match="window"):
        LinkSender(EventScheduler(), Relay(EventScheduler()), FREE, [1], window=0)
