"""Shapes are told apart by their fields, and get dictionaries of their own only where that pays."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from thinwire.dictionaries import codec_of
from thinwire.dictionaries.shapes import MOST, per_shape, shape_of


def _mixed(count: int) -> list[bytes]:
    """Two kinds of messages with nothing in common."""
    rooms = (
        b'{"sensor":"T%d","room":"11.%d","temperature":%d.5,"humidity":%d,"status":"operating normally"}'
        % (n % 17, n * 7 % 13, n * n % 31, n * 11 % 97)
        for n in range(count)
    )
    trades = (
        b'{"symbol":"%s","exchange":"NASDAQ","price":"%d.%02d","size":%d,"condition":"regular sale"}'
        % ((b"AAPL", b"MSFT", b"IBM")[n % 3], n * 3 % 199, n * 7 % 100, n * 13 % 1000)
        for n in range(count)
    )
    return [message for pair in zip(rooms, trades, strict=True) for message in pair]


def test_fields_make_the_shape_values_do_not() -> None:
    assert shape_of(b'{"a":1,"b":{"c":[2]}}') == shape_of(b'{"b":{"c":[]},"a":"x"}')
    assert shape_of(b'{"a":1}') != shape_of(b'{"b":1}')
    assert shape_of(b'{"list":[{"x":1},{"x":2}]}') == shape_of(b'{"list":[{"x":1}]}')


@given(st.binary(max_size=200))
def test_any_bytes_have_a_shape(message: bytes) -> None:
    assert 0 <= shape_of(message) < 1 << 32


def test_they_pay_over_a_long_life_and_not_over_a_short_one() -> None:
    messages = _mixed(1000)
    assert per_shape(messages, 512, life=100, receivers=50) == {}
    found = per_shape(messages, 512, life=1_000_000)
    assert set(found) == {shape_of(messages[0]), shape_of(messages[1])}
    for message in messages[:2]:
        codec = codec_of(found[shape_of(message)])
        assert codec.unpack(codec.pack(message), 200) == message


def test_one_shape_needs_no_dictionary_of_its_own() -> None:
    assert per_shape(_mixed(800)[::2], 512, life=1_000_000) == {}


def test_too_few_messages_make_none() -> None:
    assert per_shape(_mixed(3), 512, life=1_000_000) == {}


def test_the_number_of_dictionaries_is_bounded() -> None:
    many = [b'{"field%d":%d,"and":"something longer that repeats"}' % (n % 40, n) for n in range(4000)]
    assert len(per_shape(many, 512, life=10_000_000)) <= MOST
