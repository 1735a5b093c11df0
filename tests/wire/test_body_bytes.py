"""The byte part of a compact body."""

import zlib

import pytest
from event_strategies import texts
from hypothesis import given
from hypothesis import strategies as st

from thinwire.errors import CorruptFrame
from thinwire.schema.property import MAX_ARRAY
from thinwire.wire import compact_body as tails
from thinwire.wire import varint
from thinwire.wire.exact_value import MAX_EXACT

residuals = st.integers(0, 2**64 - 1)
indexes = st.lists(st.integers(0, MAX_ARRAY - 1), min_size=1, max_size=6, unique=True).map(sorted)
patches = indexes.flatmap(lambda found: st.tuples(*(st.tuples(st.just(at), residuals) for at in found)).map(list))
complete = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=6)
arrays = st.tuples(st.just(False), patches) | st.tuples(st.just(True), complete)


@given(texts | texts.map(lambda text: text * 30), st.binary(max_size=3))
def test_a_text_round_trips_and_repetition_is_cheap(text, after):
    written = tails.write_text(text)
    assert tails.read_text(written + after, 0) == (text, len(written))
    plain = text.encode()
    assert len(written) <= len(plain) + len(varint.write(2 * len(plain)))


@given(arrays, st.binary(max_size=3))
def test_an_array_round_trips(code, after):
    written = tails.write_array(code)
    assert tails.read_array(written + after, 0) == (code, len(written))


@given(arrays)
def test_a_truncated_array_is_rejected(code):
    written = tails.write_array(code)
    for end in range(len(written)):
        with pytest.raises(CorruptFrame):
            tails.read_array(written[:end], 0)


@given(st.binary(max_size=30))
def test_any_bytes_are_a_valid_part_or_corrupt(data):
    for read in (tails.read_text, tails.read_array):
        try:
            _, end = read(data, 0)
        except CorruptFrame:
            continue
        assert 0 < end <= len(data)


def test_a_text_has_limits():
    bomb = zlib.compress(b"x" * (MAX_EXACT + 1), 9, wbits=-15)
    for data in (varint.write(len(bomb) << 1 | 1) + bomb, b"\x08abc", b"\x02\xff", b"\x03\x00"):
        with pytest.raises(CorruptFrame):
            tails.read_text(data, 0)


def test_the_length_of_an_array_is_checked_before_it_is_read():
    data = varint.write(MAX_ARRAY + 1) + bytes(2 * MAX_ARRAY + 2)
    with pytest.raises(CorruptFrame) as caught:
        tails.read_array(data, 0)
    assert caught.value.limit == MAX_ARRAY
