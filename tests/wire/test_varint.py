"""Integers: one encoding of each, and no other bytes are accepted."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from thinwire.errors import CorruptFrame
from thinwire.wire import varint

numbers = st.one_of(st.integers(0, 300), st.integers(0, varint.MAX_VALUE))
signed = st.integers(-(2**63), 2**63 - 1)


@given(numbers, st.binary(max_size=3), st.binary(max_size=3))
@example(varint.MAX_VALUE, b"", b"")
def test_a_number_round_trips_at_any_position(number, before, after):
    written = varint.write(number)
    assert varint.read(before + written + after, len(before)) == (number, len(before) + len(written))
    assert len(written) == max(1, -(-number.bit_length() // 7))


@given(signed)
@example(-(2**63))
def test_a_signed_number_round_trips(number):
    assert varint.unzigzag(varint.zigzag(number)) == number
    assert varint.read_signed(varint.write_signed(number), 0)[0] == number


@given(numbers, st.integers(1, 4))
def test_a_padded_number_is_rejected(number, zeros):
    written = varint.write(number)
    padded = bytes((*written[:-1], written[-1] | 0x80)) + b"\x80" * (zeros - 1) + b"\x00"
    with pytest.raises(CorruptFrame, match="padded"):
        varint.read(padded, 0)


@given(st.integers(varint.MAX_VALUE + 1, 1 << 77))
def test_more_than_64_bits_are_rejected_by_writer_and_reader(number):
    with pytest.raises(ValueError, match="64-bit"):
        varint.write(number)
    digits = []
    while number >= 0x80:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    with pytest.raises(CorruptFrame):
        varint.read(bytes((*digits, number)), 0)


@given(numbers)
def test_a_truncated_number_is_rejected(number):
    with pytest.raises(CorruptFrame):
        varint.read(varint.write(number)[:-1], 0)


@given(st.binary(max_size=12))
def test_a_number_that_is_read_has_the_canonical_encoding(data):
    try:
        number, end = varint.read(data, 0)
    except CorruptFrame:
        return
    assert varint.write(number) == data[:end]


@given(st.binary(max_size=300), st.binary(max_size=3))
def test_a_blob_round_trips(blob, after):
    written = varint.write_blob(blob)
    assert varint.read_blob(written + after, 0, 300) == (blob, len(written))


@pytest.mark.parametrize("data", [b"\x05four", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x07seventh"])
def test_a_blob_beyond_its_frame_or_limit_is_rejected(data):
    with pytest.raises(CorruptFrame, match="longer") as caught:
        varint.read_blob(data, 0, 6)
    assert caught.value.limit == 6
