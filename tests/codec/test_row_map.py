"""Reducers that share a row map give the same results as separate ones, in any order of sources."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.codec import Demand, Introduction, Reducer, resolve
from thinwire.codec.row_map import RowMap
from thinwire.errors import TooManySources
from thinwire.schema import Event, Property, Schema

ROOMS = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
RULES = resolve(ROOMS, Demand({"t": 0.5}, mode="hold"))
WALKS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from("abcde"), st.integers(0, 40)), max_size=60)


def decoded_event(room, ticks):
    return Event({"room": room, "t": ticks / 10}, bound={}, source=(room,), ordinal=7)


def validated(row_map=None, **limits):
    return Reducer(RULES, validated=True, row_map=row_map, **limits)


@given(WALKS)
def test_a_shared_row_map_changes_no_result(walk):
    row_map = RowMap()
    together, alone = [validated(row_map) for _ in range(3)], [validated() for _ in range(3)]
    for which, room, ticks in walk:
        event = decoded_event(room, ticks)
        assert together[which].reduce(event) == alone[which].reduce(event)
    for one, other in zip(together, alone, strict=True):
        assert one.keys == other.keys
        assert [one.row_of((room,)) for room in "abcdef"] == [other.row_of((room,)) for room in "abcdef"]
        assert [one.source_state(row).dimensions for row in range(len(one.keys))] == [
            f'["{key}"]'.encode() for (key,) in other.keys
        ]


def test_equal_sources_keep_the_shared_row_map():
    row_map = RowMap()
    first, second = validated(row_map), validated(row_map)
    for reducer in (first, second):
        for room in "abc":
            assert isinstance(reducer.reduce(decoded_event(room, 200)), Introduction)
    assert first.row_map is second.row_map is row_map
    first.reduce(decoded_event("d", 200))
    assert (first.row_of(("d",)), second.row_of(("d",))) == (3, None)


def test_another_source_replaces_the_row_map_of_one_reducer():
    row_map = RowMap()
    first, second = validated(row_map), validated(row_map)
    for reducer, rooms in ((first, "abc"), (second, "acb")):
        for room in rooms:
            reducer.reduce(decoded_event(room, 200))
    assert first.row_map is row_map
    assert (first.keys, second.keys) == ([("a",), ("b",), ("c",)], [("a",), ("c",), ("b",)])


def test_sources_of_other_reducers_do_not_count():
    row_map = RowMap()
    wide, narrow = validated(row_map), validated(row_map, max_sources=1)
    for room in "abc":
        wide.reduce(decoded_event(room, 200))
    narrow.reduce(decoded_event("a", 200))
    with pytest.raises(TooManySources):
        narrow.reduce(decoded_event("b", 200))
    assert narrow.keys == [("a",)]
