"""Exact values: any value of any lane, with its type."""

import struct

import pytest
from event_strategies import texts
from hypothesis import given
from hypothesis import strategies as st

from thinwire.errors import CorruptFrame
from thinwire.wire import exact_value as exact
from thinwire.wire import varint
from thinwire.wire.exact_value import MAX_EXACT

finite = st.floats(allow_nan=False, allow_infinity=False)
leaves = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | finite | texts | st.binary(max_size=9)
values = leaves | st.lists(leaves | st.lists(leaves | st.lists(leaves, max_size=2), max_size=2), max_size=3)


@given(values, st.binary(max_size=3), st.binary(max_size=3))
def test_a_value_round_trips_with_its_type(value, before, after):
    written = exact.encode(value)
    read, end = exact.decode(before + written + after, len(before))
    assert (read, end) == (value, len(before) + len(written))
    assert repr(read) == repr(value)


@given(values)
def test_a_truncated_value_is_rejected(value):
    written = exact.encode(value)
    for end in range(len(written)):
        with pytest.raises(CorruptFrame):
            exact.decode(written[:end], 0)


@given(st.binary(max_size=30))
def test_any_bytes_are_a_value_or_corrupt(data):
    try:
        value, end = exact.decode(data, 0)
    except CorruptFrame:
        return
    assert exact.encode(value) == data[:end]


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_invalid_numbers_are_rejected(number):
    with pytest.raises(CorruptFrame, match="not finite"):
        exact.decode(b"\x02" + struct.pack(">d", number), 0)


def test_depth_of_lists_and_length_of_texts_are_limited():
    assert exact.decode(exact.encode([[[1]]]), 0)[0] == [[[1]]]
    with pytest.raises(CorruptFrame, match="unknown tag"):
        exact.decode(exact.encode([[[[1]]]]), 0)
    with pytest.raises(CorruptFrame) as caught:
        exact.decode(b"\x03" + varint.write_blob(b"x" * (MAX_EXACT + 1)), 0)
    assert caught.value.limit == MAX_EXACT
    with pytest.raises(CorruptFrame, match="longer than its frame"):
        exact.decode(b"\x05" + varint.write(1 << 40), 0)
    with pytest.raises(CorruptFrame, match="UTF-8"):
        exact.decode(b"\x03\x01\xff", 0)
