"""A dictionary arrives as it was, small, or not at all."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinwire.dictionaries import Dictionary, Facts, train
from thinwire.dictionaries import dictionary_transfer as travelling
from thinwire.errors import CorruptDictionary, PeerFault, UnknownDictionary

ROOMS = [b'{"sensor":"T%d","room":"11.%d","temperature":%d.5}' % (n % 17, n * 7 % 13, n * n % 31) for n in range(900)]

SMALL = Dictionary(b"temperature;humidity;" * 9, "zstd", 3, 512, facts=Facts(10, 1000, 50.0))
SENT = travelling.pack(SMALL).body


def _trained(first: int, last: int, codec: str = "zstd") -> Dictionary:
    trained = train(ROOMS[first:last], 2048, codec=codec)
    assert trained is not None
    return trained


@pytest.mark.parametrize("codec", ["zlib", "zstd"])
def test_it_arrives_with_its_facts(codec: str) -> None:
    trained = _trained(0, 600, codec)
    sent = travelling.pack(trained)
    assert sent.parent == b""
    assert travelling.unpack(sent.body, trained.hash) == trained


def test_it_travels_packed_and_shorter_as_a_change_of_its_parent() -> None:
    parent, trained = _trained(0, 600), _trained(100, 700)
    alone, changed = travelling.pack(trained), travelling.pack(trained, parent)
    assert len(changed.body) < len(alone.body) < len(trained.content)
    assert changed.parent == parent.hash == travelling.parent_of(changed.body)
    assert travelling.cost(trained, parent) == len(changed.body)
    assert travelling.unpack(changed.body, trained.hash, parent) == replace(trained, parent=parent.hash)


def test_a_parent_without_benefit_is_not_used() -> None:
    trained = _trained(0, 600)
    stranger = Dictionary(bytes(range(256)) * 4, "zlib", 6, 100)
    assert travelling.pack(trained, stranger).parent == b""


def test_without_the_right_parent_it_is_named() -> None:
    parent, trained = _trained(0, 600), _trained(100, 700)
    sent = travelling.pack(trained, parent)
    for given_ in (None, trained):
        with pytest.raises(UnknownDictionary, match=parent.hash.hex()):
            travelling.unpack(sent.body, trained.hash, given_)


def test_another_dictionary_under_this_hash_is_refused() -> None:
    trained, other = _trained(0, 600), _trained(100, 700)
    with pytest.raises(CorruptDictionary, match="not the requested one"):
        travelling.unpack(travelling.pack(other).body, trained.hash)


def test_more_than_the_limit_is_refused_before_it_is_made() -> None:
    bomb = Dictionary(bytes(1 << 20), "zlib", 6, 100)
    sent = travelling.pack(bomb)
    assert len(sent.body) < 2000
    with pytest.raises(CorruptDictionary):
        travelling.unpack(sent.body, bomb.hash, limit=1000)


@given(st.binary(max_size=300))
@settings(max_examples=100, deadline=None)
def test_garbage_is_refused_by_name(garbage: bytes) -> None:
    with pytest.raises(PeerFault):
        travelling.unpack(garbage, b"x" * 16)
    with pytest.raises(CorruptDictionary):
        Dictionary.decode(garbage + b"\xff", 1000)


@given(position=st.integers(0, 10_000), bits=st.integers(1, 255))
@settings(max_examples=60, deadline=None)
def test_a_changed_byte_never_gives_another_content(position: int, bits: int) -> None:
    body = bytearray(SENT)
    body[position % len(body)] ^= bits
    with suppress(PeerFault):
        assert travelling.unpack(bytes(body), SMALL.hash).content == SMALL.content


def test_the_hash_names_what_matters_for_reading_and_nothing_else() -> None:
    one = Dictionary(b"abc" * 100, "zstd", 3, 512)
    same = replace(one, level=19, facts=Facts(1, 2, 3.0), parent=b"p" * 16)
    assert same.hash == one.hash
    others = [replace(one, content=b"abd" * 100), replace(one, codec="zlib"), replace(one, largest=513)]
    assert len({one.hash, *(other.hash for other in others)}) == 4


@pytest.mark.parametrize("field", [{"codec": "lz4"}, {"largest": -1}, {"level": 0}, {"parent": b"short"}])
def test_a_bad_field_is_named(field: dict[str, object]) -> None:
    with pytest.raises(CorruptDictionary, match=next(iter(field))):
        replace(Dictionary(b"abc" * 100, "zstd", 3, 512), **field)  # type: ignore[arg-type]
