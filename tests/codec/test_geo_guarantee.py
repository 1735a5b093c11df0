"""Positions: the integer distance is never below the true one, also at the poles and across the date line."""

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from loopback import Loop

from thinwire.codec import Demand, StreamConfig
from thinwire.codec import geo_distance as geo
from thinwire.schema import Property, Schema

TRACKS = Schema("tracks", [Property("ship", "string", "dimension"), Property("at", "geo")])
A, F = 6_378_137.0, 1 / 298.257223563
B = A * (1 - F)

latitudes = st.one_of(
    st.integers(-900_000_000, 900_000_000), st.integers(899_990_000, 900_000_000), st.integers(-50, 50)
)
longitudes = st.one_of(st.integers(-1_800_000_000, 1_800_000_000), st.sampled_from([1_799_999_999, -1_800_000_000]))
tolerances = st.sampled_from([0, 0.02, 1.0, 25.0, 4_000.0, 300_000.0])


def metres(one, two):
    """Distance on WGS 84 (Vincenty's inverse formula), for points that are not opposite each other."""
    if one == two:
        return 0.0
    u1, u2 = (math.atan((1 - F) * math.tan(math.radians(p[0]))) for p in (one, two))
    across = math.radians((two[1] - one[1] + 540) % 360 - 180)
    turn = across
    for _ in range(200):
        sine = math.hypot(
            math.cos(u2) * math.sin(turn),
            math.cos(u1) * math.sin(u2) - math.sin(u1) * math.cos(u2) * math.cos(turn),
        )
        if sine == 0:
            return 0.0
        cosine = math.sin(u1) * math.sin(u2) + math.cos(u1) * math.cos(u2) * math.cos(turn)
        sigma = math.atan2(sine, cosine)
        alpha = math.cos(u1) * math.cos(u2) * math.sin(turn) / sine
        middle = 0 if alpha**2 == 1 else cosine - 2 * math.sin(u1) * math.sin(u2) / (1 - alpha**2)
        c = F / 16 * (1 - alpha**2) * (4 + F * (4 - 3 * (1 - alpha**2)))
        before, turn = (
            turn,
            across + (1 - c) * F * alpha * (sigma + c * sine * (middle + c * cosine * (2 * middle**2 - 1))),
        )
        if abs(turn - before) < 1e-14:
            break
    k = (1 - alpha**2) * (A**2 - B**2) / B**2
    a = 1 + k / 16384 * (4096 + k * (k * (320 - 175 * k) - 768))
    b = k / 1024 * (256 + k * (k * (74 - 47 * k) - 128))
    bend = b * sine * (middle + b / 4 * (cosine * (2 * middle**2 - 1)))
    return B * a * (sigma - bend)


def test_the_reference_distance_is_correct():
    assert metres([50.0, 8.0], [51.0, 8.0]) == pytest.approx(111_240, abs=5)
    assert metres([0.0, 179.5], [0.0, -179.5]) == pytest.approx(111_319.5, abs=1)


@settings(max_examples=300)
@given(st.tuples(latitudes, longitudes), st.integers(-3_000_000, 3_000_000), st.integers(-30_000_000, 30_000_000))
@example((600_000_000, 0), 5_000_000, 10_000_000)
@example((5, 0), 10, 10_000_000)
def test_positions_within_the_tolerance_are_within_the_true_distance(position, north, east):
    latitude, longitude = position
    other = geo.on_globe(latitude - north, longitude - east)
    apart = geo.distance(latitude - other[0], geo.wrap(longitude - other[1]), latitude)
    true = metres(geo.from_ticks(latitude, longitude), geo.from_ticks(*other))
    assert true <= apart + 1e-3
    assert apart <= true * 1.06 + 0.03 or abs(latitude) > 700_000_000


@pytest.mark.parametrize("predictor", ["last", "linear", "cadence", "smooth"])
@pytest.mark.parametrize("mode", ["predict", "hold"])
@settings(max_examples=25)
@given(
    st.lists(st.tuples(latitudes, longitudes), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(-2000, 2000), st.integers(-2000, 2000)), max_size=10),
    tolerances,
)
def test_a_position_is_never_farther_than_the_tolerance(mode, predictor, jumps, drift, tolerance):
    demand = Demand(tolerance={"at": tolerance}, mode=mode, predictor=predictor)
    loop = Loop(TRACKS, StreamConfig(demand=demand), compiled=False)
    positions = []
    for north, east in jumps:
        positions.append((north, east))
        for up, across in drift:
            positions.append(geo.on_globe(positions[-1][0] + up, positions[-1][1] + across))
    events = [{"ship": "a", "at": geo.from_ticks(*position)} for position in positions]
    for seen, event in zip(loop.run(events), events, strict=True):
        assert seen.bound["at"] <= tolerance
        assert metres(seen["at"], event["at"]) <= seen.bound["at"] + 1e-3
        if not tolerance:
            assert seen["at"] == event["at"]
        assert abs(seen["at"][0]) <= 90
        assert abs(seen["at"][1]) <= 180
    assert loop.differences() == []


def test_longitude_180_is_restored_exactly():
    loop = Loop(TRACKS, compiled=False)
    positions = [[0.0, 180.0], [0.0, 180.0], [0.0, -180.0], [90.0, 180.0], [-90.0, 0.0]]
    assert [event["at"] for event in loop.run([{"ship": "a", "at": position} for position in positions])] == positions


def test_positions_within_the_tolerance_are_suppressed():
    loop = Loop(TRACKS, StreamConfig(demand=Demand(tolerance={"at": 100}, predictor="last")), compiled=False)
    loop.publish({"ship": "a", "at": [49.0, 8.0]})
    assert loop.publish({"ship": "a", "at": [49.0008, 8.0]}) == []
    assert loop.publish({"ship": "a", "at": [49.0, 8.0013]}) == []
    assert loop.publish({"ship": "a", "at": [49.0008, 8.0013]}) != []
