"""The traffic shaper: bandwidth within the token bucket, order preserved, no early arrival."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire_lab.live.link_limits import Limit, Limits, TrafficShaper, shapers

RATES = st.sampled_from([1.0, 7_000.0, 125_000.0, 1e9])
SENT = st.lists(st.tuples(st.floats(0, 2), st.integers(0, 40_000)), min_size=1, max_size=30)


def _arrivals(lane: TrafficShaper, sent: list[tuple[float, int]]) -> list[tuple[float, float, int]]:
    """When each was sent, when it arrived, and its size."""
    now, found = 0.0, []
    for pause, size in sent:
        now += pause
        found.append((now, lane.send(size, now), size))
    return found


@given(RATES, st.floats(0, 1), st.integers(1, 50), st.integers(1, 5_000))
def test_a_batch_passes_at_the_bandwidth(rate: float, delay: float, count: int, size: int) -> None:
    lane = TrafficShaper(Limit(rate, delay))
    found = [lane.send(size, 3.0) for _ in range(count)]
    assert found == pytest.approx([3.0 + delay + k * size / rate for k in range(1, count + 1)])


@given(st.floats(0, 1), SENT)
def test_without_a_bandwidth_only_the_delay_is_left(delay: float, sent: list[tuple[float, int]]) -> None:
    for now, due, _ in _arrivals(TrafficShaper(Limit(delay=delay)), sent):
        assert due == now + delay


@given(RATES, st.integers(0, 20_000), SENT)
def test_no_stretch_of_time_lets_more_through_than_bucket_and_bandwidth(
    rate: float, burst: int, sent: list[tuple[float, int]]
) -> None:
    found = _arrivals(TrafficShaper(Limit(rate, burst=burst)), sent)
    for first in range(len(found)):
        passed = 0
        for _, due, size in found[first:]:
            passed += size
            begun = found[first][1] - found[first][2] / rate
            # what a packet larger than the bucket has waited for belongs to the stretch
            assert passed <= burst + rate * (due - begun) + 1e-6 * (1 + passed)


@given(st.integers(1, 20_000), st.integers(1, 20))
def test_a_burst_passes_at_once_after_a_pause(burst: int, parts: int) -> None:
    lane = TrafficShaper(Limit(1_000.0, burst=burst))
    for now in (0.0, 1e6):
        sizes = [burst // parts] * parts
        assert [lane.send(size, now) for size in sizes] == pytest.approx([now] * parts, abs=1e-6)


@given(RATES, st.floats(0, 0.2), SENT, st.integers(0, 99))
def test_jitter_keeps_the_order_and_its_bounds(
    rate: float, jitter: float, sent: list[tuple[float, int]], seed: int
) -> None:
    limit = Limit(rate, 0.2, jitter)
    found = _arrivals(TrafficShaper(limit, np.random.default_rng(seed)), sent)
    steady = _arrivals(TrafficShaper(Limit(rate, 0.2)), sent)
    dues = [due for _, due, _ in found]
    assert dues == sorted(dues)
    for due, (_, expected, _) in zip(dues, steady, strict=True):
        # bytes may wait for earlier ones that were slower, so only the upper bound is that of the packet itself
        assert expected - jitter - 1e-9 <= due <= expected + jitter + 1e-9
    assert found == _arrivals(TrafficShaper(limit, np.random.default_rng(seed)), sent)


def test_a_message_in_packets_is_the_message() -> None:
    limit = Limit(125_000, 0.05, 0.02)
    complete, apart = (TrafficShaper(limit, np.random.default_rng(5)) for _ in range(2))
    for size in (10, 10_000, 625, 626, 0):
        packets = [apart.packet_size] * ((max(size, 1) - 1) // apart.packet_size)
        dues = [apart.send(part, 1.0) for part in [*packets, size - sum(packets)]]
        assert complete.send(size, 1.0) == dues[-1]


def test_directions_have_independent_jitter() -> None:
    up, down = shapers(Limits.both(Limit(delay=0.1, jitter=0.1)), seed=4)
    assert [up.send(1, n) for n in range(5)] != [down.send(1, n) for n in range(5)]


def test_a_cleared_lane_is_free() -> None:
    lane = TrafficShaper(Limit(10.0))
    assert lane.send(100, 0.0) == 10.0
    lane.clear()
    assert lane.send(100, 1.0) == 11.0


def test_jitter_without_a_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="seeded"):
        TrafficShaper(Limit(delay=1, jitter=1))
