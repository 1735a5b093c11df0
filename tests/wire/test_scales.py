"""Scales: the mean follows the codes, and one byte of it is enough to continue."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.wire.stream_state import CEILING, MAX_LEVEL, adapt, from_byte, to_byte

levels = st.integers(0, MAX_LEVEL)
NEVER_WRITTEN = 2


def order(level):
    """Return the order of the next Exp-Golomb code."""
    return (level >> 5).bit_length()


@pytest.mark.parametrize("byte", [b for b in range(to_byte(MAX_LEVEL) + 1) if b != NEVER_WRITTEN])
def test_a_byte_round_trips(byte):
    assert to_byte(from_byte(byte)) == byte


@given(levels)
def test_a_level_round_trips_approximately(level):
    near = from_byte(to_byte(level))
    assert near <= level < 1.5 * near or level == near
    assert order(near) == order(level)
    assert to_byte(level) != NEVER_WRITTEN


@given(levels, levels)
def test_bytes_are_in_order(one, other):
    low, high = sorted((one, other))
    assert to_byte(low) <= to_byte(high)


@given(levels, st.integers(0, 2**70))
def test_a_level_moves_towards_the_code_and_stays_in_its_range(level, code):
    after = adapt(level, code)
    target = 16 * min(code, CEILING)
    assert 0 <= after <= MAX_LEVEL
    assert min(level, target) <= after <= max(level, target)


ROUNDED = [(0, 1, 1), (8, 0, 8), (9, 0, 8), (25, 2, 25), (24, 2, 25), (25, 9, 32)]


@pytest.mark.parametrize(("level", "code", "after"), ROUNDED)
def test_the_mean_is_rounded_to_the_nearest_sixteenth(level, code, after):
    assert adapt(level, code) == after


@given(levels, st.integers(0, CEILING))
def test_a_steady_code_is_reached(level, code):
    for _ in range(600):
        level = adapt(level, code)
    assert abs(level - 16 * code) <= 8


@given(st.integers(0, 1 << 30))
def test_a_code_at_its_scale_takes_few_more_bits_than_it_has(code):
    k = order(16 * code)
    width = 2 * (code + (1 << k)).bit_length() - 1 - k
    assert width <= code.bit_length() + 3
