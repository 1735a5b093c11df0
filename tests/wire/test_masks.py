"""Masks compared with a reference that builds texts of bits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.wire import compact_body as masks

cases = st.integers(1, 70).flatmap(lambda count: st.tuples(st.just(count), st.integers(0, (1 << count) - 1)))
single = st.integers(0, 1_023).map(lambda index: 1 << index)
sparse = st.tuples(st.just(1_024), single)


def written(mask, count):
    """Return the bits as docs/wire.md specifies them, one letter each."""
    bits = "".join("1" if mask >> index & 1 else "0" for index in range(count))
    if count <= 8:
        return bits
    groups = [bits[at : at + 8] for at in range(0, count, 8)]
    return "".join("1" if "1" in group else "0" for group in groups) + "".join(g for g in groups if "1" in g)


@given(cases | sparse)
def test_bits_are_those_of_the_reference(case):
    count, mask = case
    bits, width = masks.encode_mask(mask, count)
    assert f"{bits:0{width}b}" == written(mask, count)


@given(cases | sparse, st.integers(0, 20), st.data())
def test_a_mask_is_decoded_from_the_top_of_more_bits(case, more, data):
    count, mask = case
    bits, width = masks.encode_mask(mask, count)
    rest = data.draw(st.integers(0, (1 << more) - 1))
    assert masks.decode_mask(bits << more | rest, width + more, count) == (mask, more)


@given(cases)
def test_missing_bits_are_rejected(case):
    count, mask = case
    bits, width = masks.encode_mask(mask, count)
    with pytest.raises(ValueError):
        masks.decode_mask(bits >> 1, width - 1, count)
